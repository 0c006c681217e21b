//! The configuration of a process's workspace.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use config::{Config, Map, Source, Value, ValueKind};
use workslab_core::{DeviceId, Error, Request, SizeCheck, SlabOptions, SlabRequest, SlabSize};

use crate::environment::Environment;
use crate::fields::Given;
use crate::{ConfigError, LocalRank, fields, file};

/// Which workspace a process wants.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BackendConfig {
    /// The size; none means: no external workspace, programs keep their own allocation.
    pub workspace_size: Option<SlabSize>,
    /// How the size is compared with a cached slab's.
    pub size_check: SizeCheck,
    /// With [`SizeCheck::Grow`], how far the workspace may grow; none means: as far as the device has
    /// memory.
    pub workspace_cap: Option<SlabSize>,
    /// Whether arrays get red zones and a poison pattern.
    pub guard: bool,
    /// Whether every page is touched when the slab is allocated.
    pub prefault: bool,
    /// Whether the pages are kept in memory.
    pub lock: bool,
    /// The platform by name; none means: the first that has a device.
    pub platform: Option<String>,
    /// The device.
    pub device: DeviceChoice,
    local_rank: Option<LocalRank>,
    origins: BTreeMap<&'static str, String>,
}

/// How the device is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceChoice {
    /// By the launcher's local rank if a launcher has set one, and otherwise device 0.
    #[default]
    Automatic,
    /// By the launcher's local rank; it is an error if there is none.
    LocalRank,
    /// This one.
    Ordinal(u32),
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Automatic => f.write_str("automatic"),
            Self::LocalRank => f.write_str("local-rank"),
            Self::Ordinal(ordinal) => ordinal.fmt(f),
        }
    }
}

/// A field with its value and where that came from.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Entry {
    /// The field.
    pub field: &'static str,
    /// Its value; `none` where it has none.
    pub value: String,
    /// Where the value came from; `default` if nobody set it.
    pub origin: String,
}

impl Default for BackendConfig {
    /// No workspace, and everything else at its default.
    fn default() -> Self {
        Self {
            workspace_size: None,
            size_check: SizeCheck::Exact,
            workspace_cap: None,
            guard: false,
            prefault: false,
            lock: false,
            platform: None,
            device: DeviceChoice::Automatic,
            local_rank: None,
            origins: BTreeMap::new(),
        }
    }
}

impl BackendConfig {
    /// What this process's environment says.
    ///
    /// # Errors
    /// As [`Builder::resolve`].
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::builder().process_environment().resolve()
    }

    /// A configuration to be resolved from layers.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The workspace that is asked for, if any.
    #[must_use]
    pub fn request(&self) -> Option<SlabRequest<'_>> {
        let size = self.workspace_size?;
        let mut options = SlabOptions::default();
        options.prefault = self.prefault;
        options.lock = self.lock;
        Some(SlabRequest {
            size,
            check: self.size_check,
            cap: self.workspace_cap,
            guard: self.guard,
            options,
            origin: self.origin(fields::WORKSPACE_SIZE),
        })
    }

    /// The device for this process on a platform that has `count` of them. Several ranks share a
    /// device where there are more ranks than devices: rank r uses device r modulo `count`.
    ///
    /// # Errors
    /// [`ConfigError::InvalidValue`] if the local rank is asked for and no launcher has set one. An
    /// ordinal is passed on as it is: the platform knows its devices.
    pub fn device_for(&self, count: u32) -> Result<DeviceId, ConfigError> {
        let by_rank = |rank: &LocalRank| DeviceId::new(rank.rank % count.max(1));
        match self.device {
            DeviceChoice::Ordinal(ordinal) => Ok(DeviceId::new(ordinal)),
            DeviceChoice::Automatic => Ok(self
                .local_rank
                .as_ref()
                .map_or(DeviceId::new(0), by_rank)),
            DeviceChoice::LocalRank => match &self.local_rank {
                Some(rank) => Ok(by_rank(rank)),
                None => Err(ConfigError::InvalidValue {
                    field: fields::DEVICE,
                    value: "local-rank".into(),
                    origin: self.origin(fields::DEVICE).unwrap_or("code").to_owned(),
                    reason: "no launcher has set a local rank (Slurm, Open MPI, MPICH, Flux or PMIx would); give a device's number".into(),
                }),
            },
        }
    }

    /// The local rank, if a launcher has set one.
    #[must_use]
    pub fn local_rank(&self) -> Option<&LocalRank> {
        self.local_rank.as_ref()
    }

    /// Where a field's value came from; `None` for a default, or for one set in code.
    #[must_use]
    pub fn origin(&self, field: &str) -> Option<&str> {
        self.origins.get(field).map(String::as_str)
    }

    /// Whether the cap agrees with the size and with how the size is compared.
    fn check_cap(&self, cap: &Given<'_>) -> Result<(), ConfigError> {
        if self.size_check != SizeCheck::Grow {
            return Err(cap.invalid("only a workspace with size_check = grow has a cap".into()));
        }
        match (self.workspace_size, self.workspace_cap) {
            (Some(size), Some(limit)) if limit < size => Err(cap.invalid(format!(
                "the workspace_size, {size}, is more; set the cap to at least that"
            ))),
            _ => Ok(()),
        }
    }

    /// Every field, its value and where that came from.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let value = |field| match field {
            fields::WORKSPACE_SIZE => self
                .workspace_size
                .map_or("none".into(), |size| size.to_string()),
            fields::SIZE_CHECK => self.size_check.to_string(),
            fields::WORKSPACE_CAP => self
                .workspace_cap
                .map_or("none".into(), |size| size.to_string()),
            fields::GUARD => self.guard.to_string(),
            fields::PREFAULT => self.prefault.to_string(),
            fields::LOCK => self.lock.to_string(),
            fields::PLATFORM => self.platform.clone().unwrap_or("automatic".into()),
            _ => match (&self.local_rank, self.device) {
                (Some(rank), DeviceChoice::Automatic | DeviceChoice::LocalRank) => {
                    format!("local rank {}", rank.rank)
                }
                (_, device) => device.to_string(),
            },
        };
        fields::ALL
            .into_iter()
            .map(|field| Entry {
                field,
                value: value(field),
                origin: match (self.origin(field), &self.local_rank) {
                    (Some(origin), _) => origin.to_owned(),
                    (None, Some(rank)) if field == fields::DEVICE => rank.variable.to_owned(),
                    (None, _) => "default".to_owned(),
                },
            })
            .collect()
    }
}

impl Request for BackendConfig {
    fn slab_request(&self) -> Result<SlabRequest<'_>, Error> {
        self.request().ok_or(Error::NoSize)
    }
}

/// The layers of a [`BackendConfig`], in any order of calls; from [`BackendConfig::builder`].
#[derive(Clone, Debug, Default)]
pub struct Builder {
    environment: Option<Environment>,
    file: Option<PathBuf>,
    overrides: Vec<(String, String)>,
    explicit: Vec<(String, String, String)>,
}

impl Builder {
    /// Reads this process's environment.
    #[must_use]
    pub fn process_environment(self) -> Self {
        self.environment(std::env::vars_os())
    }

    /// Reads these variables instead of the process's.
    #[must_use]
    pub fn environment(
        mut self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        self.environment = Some(Environment::new(variables));
        self
    }

    /// Reads the field `backend_config` of an experiment file, YAML or TOML by its name.
    #[must_use]
    pub fn experiment_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Adds an override, `field=value`; `origin` says where it was given (`--set`). Of two for one
    /// field the later wins.
    #[must_use]
    pub fn set(mut self, text: impl Into<String>, origin: impl Into<String>) -> Self {
        self.overrides.push((text.into(), origin.into()));
        self
    }

    /// Sets a field, above all other layers.
    #[must_use]
    pub fn explicit(
        mut self,
        field: impl Into<String>,
        value: impl Into<String>,
        origin: impl Into<String>,
    ) -> Self {
        self.explicit
            .push((field.into(), value.into(), origin.into()));
        self
    }

    /// Merges the layers and reads the values.
    ///
    /// # Errors
    /// [`ConfigError`], which names the value, where it was given and what to do.
    pub fn resolve(&self) -> Result<BackendConfig, ConfigError> {
        let mut layers: Vec<Vec<(&'static str, Value)>> = Vec::new();
        if let Some(environment) = &self.environment {
            layers.push(environment.layer()?);
        }
        if let Some(path) = &self.file {
            layers.push(file::layer(path)?);
        }
        layers.push(self.override_layer()?);
        layers.push(self.explicit_layer()?);

        let mut builder = Config::builder();
        for layer in layers {
            builder = builder.add_source(Layer(layer));
        }
        let merged = builder
            .build()
            .map_err(|error| ConfigError::Layers(error.to_string()))?;
        let ValueKind::Table(values) = merged.cache.kind else {
            return Err(ConfigError::Layers("the result is no table".into()));
        };
        self.read(&values)
    }

    fn override_layer(&self) -> Result<Vec<(&'static str, Value)>, ConfigError> {
        self.overrides
            .iter()
            .map(|(text, origin)| {
                let (field, value) =
                    text.split_once('=')
                        .ok_or_else(|| ConfigError::BadOverride {
                            text: text.clone(),
                            origin: origin.clone(),
                        })?;
                let field = fields::find(field.trim(), origin)?;
                Ok((field, Value::new(Some(origin), value)))
            })
            .collect()
    }

    fn explicit_layer(&self) -> Result<Vec<(&'static str, Value)>, ConfigError> {
        self.explicit
            .iter()
            .map(|(field, value, origin)| {
                let field = fields::find(field, origin)?;
                Ok((field, Value::new(Some(origin), value.as_str())))
            })
            .collect()
    }

    fn read(&self, values: &Map<String, Value>) -> Result<BackendConfig, ConfigError> {
        let mut config = BackendConfig::default();
        let mut cap = None;
        for field in fields::ALL {
            let Some(value) = values.get(field) else {
                continue;
            };
            if let Some(origin) = value.origin() {
                config.origins.insert(field, origin.to_owned());
            }
            let Some(given) = Given::new(field, value)? else {
                continue;
            };
            match field {
                fields::WORKSPACE_SIZE => config.workspace_size = Some(given.size()?),
                fields::SIZE_CHECK => config.size_check = given.check()?,
                fields::WORKSPACE_CAP => {
                    config.workspace_cap = Some(given.size()?);
                    cap = Some(given);
                }
                fields::GUARD => config.guard = given.flag()?,
                fields::PREFAULT => config.prefault = given.flag()?,
                fields::LOCK => config.lock = given.flag()?,
                fields::PLATFORM => {
                    if given.text().is_empty() {
                        return Err(given.invalid("it must be a platform's name".into()));
                    }
                    config.platform = Some(given.text().to_owned());
                }
                _ => config.device = given.device()?,
            }
        }
        if let Some(given) = cap {
            config.check_cap(&given)?;
        }
        if let Some(environment) = &self.environment {
            config.local_rank = LocalRank::detect(|name| environment.get(name))?;
        }
        Ok(config)
    }
}

/// A layer as the merging library takes it.
#[derive(Clone, Debug)]
struct Layer(Vec<(&'static str, Value)>);

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, config::ConfigError> {
        Ok(self
            .0
            .iter()
            .map(|(field, value)| ((*field).to_owned(), value.clone()))
            .collect())
    }
}
