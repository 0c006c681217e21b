//! The choice of a platform when the program runs. It happens here and nowhere else.

use enum_dispatch::enum_dispatch;
use thiserror::Error;
use workslab_core::{
    DeviceId, DeviceInfo, Error, ExternalWorkspaceAllocator, Platform, Statistics,
};

use crate::PLATFORMS;
#[cfg(feature = "cuda")]
use crate::cuda::Cuda;
#[cfg(feature = "host")]
use crate::host::Host;
#[cfg(feature = "rocm")]
use crate::rocm::Rocm;

/// What can be asked of an allocator without knowing its platform.
#[enum_dispatch]
pub trait Allocator {
    /// The platform's name.
    fn platform_name(&self) -> &'static str;

    /// How many devices there are.
    ///
    /// # Errors
    /// The platform's.
    fn device_count(&self) -> Result<u32, Error>;

    /// A device's name and memory, as they are now.
    ///
    /// # Errors
    /// The platform's.
    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo, Error>;

    /// The counts of every workspace that is cached.
    fn statistics(&self) -> Vec<Statistics>;

    /// Frees the device's slab.
    ///
    /// # Errors
    /// As [`ExternalWorkspaceAllocator::release`].
    fn release(&mut self, device: DeviceId) -> Result<(), Error>;

    /// Frees the slabs of all devices.
    ///
    /// # Errors
    /// As [`ExternalWorkspaceAllocator::reset`].
    fn reset(&mut self) -> Result<(), Error>;
}

impl<P: Platform> Allocator for ExternalWorkspaceAllocator<P> {
    fn platform_name(&self) -> &'static str {
        P::NAME
    }

    fn device_count(&self) -> Result<u32, Error> {
        self.platform().device_count()
    }

    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo, Error> {
        self.platform().device_info(device)
    }

    fn statistics(&self) -> Vec<Statistics> {
        ExternalWorkspaceAllocator::statistics(self)
    }

    fn release(&mut self, device: DeviceId) -> Result<(), Error> {
        ExternalWorkspaceAllocator::release(self, device)
    }

    fn reset(&mut self) -> Result<(), Error> {
        ExternalWorkspaceAllocator::reset(self)
    }
}

/// The allocator of the host.
#[cfg(feature = "host")]
pub type HostAllocator = ExternalWorkspaceAllocator<Host>;

/// The allocator of NVIDIA GPUs.
#[cfg(feature = "cuda")]
pub type CudaAllocator = ExternalWorkspaceAllocator<Cuda>;

/// The allocator of AMD GPUs.
#[cfg(feature = "rocm")]
pub type RocmAllocator = ExternalWorkspaceAllocator<Rocm>;

/// An allocator of whichever platform was chosen when the program ran.
#[enum_dispatch(Allocator)]
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyAllocator {
    /// The host's.
    #[cfg(feature = "host")]
    Host(HostAllocator),
    /// That of AMD GPUs.
    #[cfg(feature = "rocm")]
    Rocm(RocmAllocator),
    /// That of NVIDIA GPUs.
    #[cfg(feature = "cuda")]
    Cuda(CudaAllocator),
}

/// Work that is written once for all platforms; see [`AnyAllocator::with`].
pub trait OnPlatform {
    /// What the work results in.
    type Output;

    /// Does it.
    fn run<P: Platform>(self, allocator: &ExternalWorkspaceAllocator<P>) -> Self::Output;
}

/// Why no platform could be chosen.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no platform of this name.
    #[error("unknown platform {name:?}; the platforms are {}", PLATFORMS.join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// The platform was not compiled in.
    #[error("platform {name} is not in this build; build with `--features {name}`, or choose one of: {}", COMPILED.join(", "))]
    NotCompiled {
        /// The name.
        name: &'static str,
    },
    /// The platform cannot be used.
    #[error(transparent)]
    Platform(#[from] Error),
    /// None of the platforms that were tried has a device.
    #[error("no platform has a device: {reasons}")]
    None {
        /// What each of them said.
        reasons: String,
    },
}

impl AnyAllocator {
    /// The named platform's allocator, or, for `None`, that of the first platform that has a
    /// device: `rocm`, then `cuda`, then `host`.
    ///
    /// # Errors
    /// [`OpenError`], which says what was tried.
    pub fn open(platform: Option<&str>) -> Result<Self, OpenError> {
        match platform {
            Some(name) => Self::open_named(name),
            None => Self::open_first(),
        }
    }

    fn open_named(name: &str) -> Result<Self, OpenError> {
        let name = PLATFORMS
            .into_iter()
            .find(|platform| *platform == name)
            .ok_or_else(|| OpenError::Unknown { name: name.into() })?;
        match name {
            #[cfg(feature = "host")]
            "host" => Ok(ExternalWorkspaceAllocator::new(Host::from_env()?).into()),
            #[cfg(feature = "rocm")]
            "rocm" => Ok(ExternalWorkspaceAllocator::new(Rocm::open()?).into()),
            #[cfg(feature = "cuda")]
            "cuda" => Ok(ExternalWorkspaceAllocator::new(Cuda::open()?).into()),
            _ => Err(OpenError::NotCompiled { name }),
        }
    }

    fn open_first() -> Result<Self, OpenError> {
        let mut reasons = Vec::new();
        for &name in COMPILED {
            let outcome = Self::open_named(name).and_then(|allocator| {
                let count = allocator.device_count()?;
                Ok((allocator, count))
            });
            match outcome {
                Ok((_, 0)) => reasons.push(format!("{name} has none")),
                Ok((allocator, _)) => return Ok(allocator),
                Err(error) => reasons.push(format!("{name}: {error}")),
            }
        }
        Err(OpenError::None {
            reasons: reasons.join("; "),
        })
    }

    /// Does `work` on the platform that was chosen.
    pub fn with<W: OnPlatform>(&self, work: W) -> W::Output {
        match self {
            #[cfg(feature = "host")]
            Self::Host(allocator) => work.run(allocator),
            #[cfg(feature = "rocm")]
            Self::Rocm(allocator) => work.run(allocator),
            #[cfg(feature = "cuda")]
            Self::Cuda(allocator) => work.run(allocator),
        }
    }
}

/// The platforms in this build, in the order in which they are tried.
const COMPILED: &[&str] = &[
    #[cfg(feature = "rocm")]
    "rocm",
    #[cfg(feature = "cuda")]
    "cuda",
    #[cfg(feature = "host")]
    "host",
];

// The tests need a platform that has a device wherever they run.
#[cfg(all(test, feature = "host"))]
mod tests {
    use super::*;

    #[test]
    fn without_a_name_the_first_platform_with_a_device_is_chosen() {
        let allocator = AnyAllocator::open(None).expect("the host has a device");
        let has_devices = |name| {
            AnyAllocator::open(Some(name)).is_ok_and(|allocator| allocator.device_count().is_ok())
        };
        let first = COMPILED.iter().copied().find(|name| has_devices(name));
        assert_eq!(Some(allocator.platform_name()), first);
    }

    #[test]
    fn a_platform_that_is_not_in_the_build_says_how_to_get_it() {
        let missing = PLATFORMS
            .into_iter()
            .filter(|name| !COMPILED.contains(name));
        for name in missing {
            let error = AnyAllocator::open(Some(name)).expect_err("not compiled in");
            assert!(
                error.to_string().contains(&format!("--features {name}")),
                "{error}"
            );
        }
        let error = OpenError::NotCompiled { name: "cuda" };
        assert!(error.to_string().contains("--features cuda"), "{error}");
    }

    #[test]
    fn an_unknown_platform_is_answered_with_those_that_there_are() {
        let error = AnyAllocator::open(Some("vulkan")).expect_err("unknown");
        assert!(error.to_string().contains("rocm, cuda, host"), "{error}");
    }

    #[test]
    fn work_written_for_all_platforms_runs_on_the_chosen_one() {
        struct Name;
        impl OnPlatform for Name {
            type Output = &'static str;
            fn run<P: Platform>(self, _: &ExternalWorkspaceAllocator<P>) -> &'static str {
                P::NAME
            }
        }
        let allocator = AnyAllocator::open(Some("host")).expect("the host");
        assert_eq!(allocator.with(Name), "host");
    }
}
