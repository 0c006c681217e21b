//! From a configuration to a program that is ready to start: the steps that icon4py's driver takes, each a
//! function without state.

use std::fmt;
use std::path::Path;

use workslab_config::BackendConfig;
use workslab_core::SlabSize;

use crate::{CompiledProgram, Error};

/// How a program gets the memory of its transients; GT4Py's `TransientMemoryMode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransientMemoryMode {
    /// Allocated when a scope begins, freed when it ends.
    #[default]
    Scoped,
    /// Allocated when the program starts, freed when it ends.
    Persistent,
    /// From the device's pool.
    Pool,
    /// From whoever calls the program.
    External,
}

impl fmt::Display for TransientMemoryMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scoped => "scoped",
            Self::Persistent => "persistent",
            Self::Pool => "pool",
            Self::External => "external",
        })
    }
}

/// What a backend compiles for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// The host.
    Cpu,
    /// NVIDIA GPUs.
    Cuda,
    /// AMD GPUs.
    Rocm,
}

impl DeviceKind {
    /// The platform of a workspace for it.
    #[must_use]
    pub fn platform(self) -> &'static str {
        match self {
            Self::Cpu => "host",
            Self::Cuda => "cuda",
            Self::Rocm => "rocm",
        }
    }
}

/// A backend as it is described before it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendDescriptor {
    /// Its name, for messages.
    pub name: String,
    /// What it compiles for.
    pub device: DeviceKind,
    /// How transients get their memory, if that was asked for.
    pub mode: Option<TransientMemoryMode>,
    /// The size of the external workspace, if there is one.
    pub workspace: Option<SlabSize>,
}

impl BackendDescriptor {
    /// A backend for a device, and nothing asked for.
    #[must_use]
    pub fn new(name: &str, device: DeviceKind) -> Self {
        Self {
            name: name.to_owned(),
            device,
            mode: None,
            workspace: None,
        }
    }
}

/// What the configuration adds to a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DaceOptions {
    /// The mode, if one is forced.
    pub mode: Option<TransientMemoryMode>,
    /// The workspace, if one is wanted.
    pub workspace: Option<SlabSize>,
}

/// The options of a program: with a workspace configured the mode is forced to be external; without one there
/// are none, and nothing changes for the caller.
///
/// # Errors
/// [`Error::Contradiction`] if the configuration is for another platform than the device's.
pub fn dace_options(
    program: &str,
    device: DeviceKind,
    config: Option<&BackendConfig>,
) -> Result<DaceOptions, Error> {
    let Some(config) = config else {
        return Ok(DaceOptions::default());
    };
    let Some(size) = config.workspace_size else {
        return Ok(DaceOptions::default());
    };
    if let Some(platform) = &config.platform
        && platform != device.platform()
    {
        return Err(Error::Contradiction(format!(
            "program '{program}' is compiled for {}, but the configuration's platform is {platform}; leave one out",
            device.platform()
        )));
    }
    Ok(DaceOptions {
        mode: Some(TransientMemoryMode::External),
        workspace: Some(size),
    })
}

/// The descriptor with the program's options, before a backend is made of it.
///
/// # Errors
/// [`Error::Contradiction`] for a workspace with a mode other than external, or external without a workspace;
/// and [`dace_options`]'.
pub fn customize_backend(
    mut descriptor: BackendDescriptor,
    program: &str,
    config: Option<&BackendConfig>,
) -> Result<BackendDescriptor, Error> {
    let options = dace_options(program, descriptor.device, config)?;
    let workspace = options.workspace.or(descriptor.workspace);
    match (descriptor.mode, workspace) {
        (Some(TransientMemoryMode::External), None) => {
            return Err(Error::Contradiction(format!(
                "backend '{}' for program '{program}' takes external transients, but there is no workspace: set \
                 ICON4PY_BACKEND_WORKSPACE_SIZE or workspace_size, or leave the mode out",
                descriptor.name
            )));
        }
        (Some(mode), Some(size)) if mode != TransientMemoryMode::External => {
            return Err(Error::Contradiction(format!(
                "backend '{}' for program '{program}' takes {mode} transients, but a workspace of {} bytes was configured, \
                 which takes external ones; leave the mode out, or the workspace",
                descriptor.name,
                size.bytes()
            )));
        }
        _ => {}
    }
    descriptor.mode = options
        .mode
        .or(descriptor.mode)
        .or(workspace.map(|_| TransientMemoryMode::External));
    descriptor.workspace = workspace;
    Ok(descriptor)
}

/// Loads a program for a descriptor that [`customize_backend`] gave.
///
/// # Errors
/// [`CompiledProgram::load`]'s; [`Error::Contradiction`] if the program was compiled for external transients and
/// the descriptor has no workspace.
///
/// # Safety
/// As [`CompiledProgram::load`].
pub unsafe fn setup_program(
    descriptor: &BackendDescriptor,
    library: impl AsRef<Path>,
) -> Result<CompiledProgram, Error> {
    // SAFETY: the caller's.
    let program = unsafe { CompiledProgram::load(library)? };
    if descriptor.workspace.is_none()
        && let Some(storage) = program.storages().next()
    {
        return Err(Error::Contradiction(format!(
            "program '{}' was compiled for external memory of {storage}, but backend '{}' has no workspace: set \
             ICON4PY_BACKEND_WORKSPACE_SIZE or workspace_size",
            program.name(),
            descriptor.name
        )));
    }
    Ok(program)
}

/// What a driver of programs is configured by.
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// The workspace, or nothing for none. By default what the environment says.
    pub backend_config: Option<BackendConfig>,
}

impl DriverConfig {
    /// By the environment, or by overrides (`workspace_size=2GiB`) that go before it.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub fn from_env<'o>(overrides: impl IntoIterator<Item = &'o str>) -> Result<Self, Error> {
        let mut builder = BackendConfig::builder().process_environment();
        for assignment in overrides {
            builder = builder.set(assignment, "an override");
        }
        let config = builder.resolve()?;
        Ok(Self {
            backend_config: config.workspace_size.is_some().then_some(config),
        })
    }

    /// A descriptor customized by this configuration; see [`customize_backend`].
    ///
    /// # Errors
    /// As there.
    pub fn customize(
        &self,
        descriptor: BackendDescriptor,
        program: &str,
    ) -> Result<BackendDescriptor, Error> {
        customize_backend(descriptor, program, self.backend_config.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(values: &[&str]) -> BackendConfig {
        let mut builder = BackendConfig::builder();
        for value in values {
            builder = builder.set(*value, "a test");
        }
        builder.resolve().expect("valid")
    }

    fn descriptor(mode: Option<TransientMemoryMode>) -> BackendDescriptor {
        BackendDescriptor {
            mode,
            ..BackendDescriptor::new("gtfn", DeviceKind::Rocm)
        }
    }

    #[test]
    fn without_a_configuration_nothing_changes() {
        for mode in [None, Some(TransientMemoryMode::Pool)] {
            let same = customize_backend(descriptor(mode), "x", None).expect("as it was");
            assert_eq!(same, descriptor(mode));
            let empty = config(&[]);
            let same = customize_backend(descriptor(mode), "x", Some(&empty)).expect("as it was");
            assert_eq!(same, descriptor(mode));
        }
    }

    #[test]
    fn with_a_workspace_the_mode_is_external() {
        let config = config(&["workspace_size=1MiB"]);
        for mode in [None, Some(TransientMemoryMode::External)] {
            let made = customize_backend(descriptor(mode), "x", Some(&config)).expect("agrees");
            assert_eq!(made.mode, Some(TransientMemoryMode::External));
            assert_eq!(made.workspace.map(SlabSize::bytes), Some(1 << 20));
        }
    }

    #[test]
    fn what_contradicts_is_refused() {
        let one = config(&["workspace_size=1MiB"]);
        for mode in [
            TransientMemoryMode::Scoped,
            TransientMemoryMode::Persistent,
            TransientMemoryMode::Pool,
        ] {
            let error =
                customize_backend(descriptor(Some(mode)), "x", Some(&one)).expect_err("two modes");
            assert!(error.to_string().contains(&mode.to_string()), "{error}");
        }
        let external = descriptor(Some(TransientMemoryMode::External));
        let error = customize_backend(external, "x", None).expect_err("no workspace");
        assert!(
            error.to_string().contains("ICON4PY_BACKEND_WORKSPACE_SIZE"),
            "{error}"
        );
        let other = config(&["workspace_size=1MiB", "platform=cuda"]);
        let error = dace_options("x", DeviceKind::Rocm, Some(&other)).expect_err("two platforms");
        assert!(error.to_string().contains("cuda"), "{error}");
    }

    #[test]
    fn overrides_go_before_the_environment() {
        let driver = DriverConfig::from_env(["workspace_size=3MiB"]).expect("valid");
        let made = driver.customize(descriptor(None), "x").expect("agrees");
        assert_eq!(made.workspace.map(SlabSize::bytes), Some(3 << 20));
        assert!(DriverConfig::from_env(["workspace_sise=1"]).is_err());
    }
}
