//! The fields of a configuration, and what their values may be.

use config::{Value, ValueKind};
use workslab_core::{SizeCheck, SlabSize};

use crate::size::parse_size;
use crate::{ConfigError, DeviceChoice};

pub(crate) const WORKSPACE_SIZE: &str = "workspace_size";
pub(crate) const SIZE_CHECK: &str = "size_check";
pub(crate) const WORKSPACE_CAP: &str = "workspace_cap";
pub(crate) const GUARD: &str = "guard";
pub(crate) const PREFAULT: &str = "prefault";
pub(crate) const LOCK: &str = "lock";
pub(crate) const PLATFORM: &str = "platform";
pub(crate) const DEVICE: &str = "device";

/// All fields, in the order in which they are shown.
pub(crate) const ALL: [&str; 8] = [
    WORKSPACE_SIZE,
    SIZE_CHECK,
    WORKSPACE_CAP,
    GUARD,
    PREFAULT,
    LOCK,
    PLATFORM,
    DEVICE,
];

/// The field of this name.
pub(crate) fn find(name: &str, origin: &str) -> Result<&'static str, ConfigError> {
    ALL.into_iter()
        .find(|field| *field == name)
        .ok_or_else(|| ConfigError::UnknownField {
            field: name.to_owned(),
            origin: origin.to_owned(),
            known: ALL.join(", "),
        })
}

/// A value with its field and origin, to be turned into what the field holds.
pub(crate) struct Given<'a> {
    field: &'static str,
    origin: &'a str,
    text: String,
}

impl<'a> Given<'a> {
    /// `None` for a value that says "none".
    pub(crate) fn new(field: &'static str, value: &'a Value) -> Result<Option<Self>, ConfigError> {
        let origin = value.origin().unwrap_or("code");
        let text = match &value.kind {
            ValueKind::Nil => return Ok(None),
            ValueKind::Table(_) | ValueKind::Array(_) => {
                return Err(ConfigError::InvalidValue {
                    field,
                    value: value.to_string(),
                    origin: origin.to_owned(),
                    reason: "it must be a single value".into(),
                });
            }
            scalar => scalar.to_string(),
        };
        Ok(Some(Self {
            field,
            origin,
            text,
        }))
    }

    pub(crate) fn text(&self) -> &str {
        self.text.trim()
    }

    pub(crate) fn size(&self) -> Result<SlabSize, ConfigError> {
        let bytes = parse_size(&self.text).map_err(|reason| self.invalid(reason))?;
        SlabSize::new(bytes).map_err(|_| {
            self.invalid("a workspace has at least 1 byte; to have none, do not set it".into())
        })
    }

    pub(crate) fn check(&self) -> Result<SizeCheck, ConfigError> {
        match self.text() {
            "exact" => Ok(SizeCheck::Exact),
            "at-least" | "at_least" => Ok(SizeCheck::AtLeast),
            "grow" => Ok(SizeCheck::Grow),
            _ => Err(self.invalid("it must be exact, at-least or grow".into())),
        }
    }

    pub(crate) fn flag(&self) -> Result<bool, ConfigError> {
        match self.text().to_ascii_lowercase().as_str() {
            "true" | "1" | "on" | "yes" => Ok(true),
            "false" | "0" | "off" | "no" => Ok(false),
            _ => Err(self.invalid("it must be true or false".into())),
        }
    }

    pub(crate) fn device(&self) -> Result<DeviceChoice, ConfigError> {
        if self.text() == "local-rank" {
            return Ok(DeviceChoice::LocalRank);
        }
        self.text()
            .parse()
            .map(DeviceChoice::Ordinal)
            .map_err(|_| self.invalid("it must be a device's number, from 0, or local-rank".into()))
    }

    pub(crate) fn invalid(&self, reason: String) -> ConfigError {
        ConfigError::InvalidValue {
            field: self.field,
            value: self.text.clone(),
            origin: self.origin.to_owned(),
            reason,
        }
    }
}
