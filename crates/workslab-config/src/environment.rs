//! The layer of environment variables.

use std::collections::BTreeMap;
use std::ffi::OsString;

use config::Value;

use crate::{ConfigError, ICON4PY_SIZE_VARIABLE, SIZE_VARIABLE, fields, size};

/// The variables other than the two for the size.
const VARIABLES: [(&str, &str); 7] = [
    ("WORKSLAB_SIZE_CHECK", fields::SIZE_CHECK),
    ("WORKSLAB_WORKSPACE_CAP", fields::WORKSPACE_CAP),
    ("WORKSLAB_GUARD", fields::GUARD),
    ("WORKSLAB_PREFAULT", fields::PREFAULT),
    ("WORKSLAB_LOCK", fields::LOCK),
    ("WORKSLAB_PLATFORM", fields::PLATFORM),
    ("WORKSLAB_DEVICE", fields::DEVICE),
];

/// A snapshot of the variables that are text. Ours must be; others may be anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
    not_text: Vec<String>,
}

impl Environment {
    pub(crate) fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut environment = Self::default();
        for (name, value) in variables {
            let Ok(name) = name.into_string() else {
                continue;
            };
            match value.into_string() {
                Ok(value) => {
                    environment.variables.insert(name, value);
                }
                Err(_) => environment.not_text.push(name),
            }
        }
        environment
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// The fields that are set, with the variable's name as their origin.
    pub(crate) fn layer(&self) -> Result<Vec<(&'static str, Value)>, ConfigError> {
        let mut layer = Vec::new();
        if let Some((variable, value)) = self.size()? {
            layer.push((fields::WORKSPACE_SIZE, value_from(variable, value)));
        }
        for (variable, field) in VARIABLES {
            self.check_text(variable, field)?;
            if let Some(value) = self.get(variable) {
                layer.push((field, value_from(variable, value)));
            }
        }
        Ok(layer)
    }

    /// The size, from whichever of the two variables has it. Both may be set if they agree.
    fn size(&self) -> Result<Option<(&'static str, &str)>, ConfigError> {
        self.check_text(ICON4PY_SIZE_VARIABLE, fields::WORKSPACE_SIZE)?;
        self.check_text(SIZE_VARIABLE, fields::WORKSPACE_SIZE)?;
        let icon4py = self.get(ICON4PY_SIZE_VARIABLE);
        let own = self.get(SIZE_VARIABLE);
        match (icon4py, own) {
            (Some(first), Some(second)) => {
                // `1GiB` and `1073741824` agree; what cannot be read agrees only with itself.
                let agree = match (size::parse_size(first), size::parse_size(second)) {
                    (Ok(first), Ok(second)) => first == second,
                    _ => first == second,
                };
                if agree {
                    Ok(Some((SIZE_VARIABLE, second)))
                } else {
                    Err(ConfigError::Conflict {
                        first: ICON4PY_SIZE_VARIABLE.into(),
                        first_value: first.into(),
                        second: SIZE_VARIABLE.into(),
                        second_value: second.into(),
                    })
                }
            }
            (Some(value), None) => Ok(Some((ICON4PY_SIZE_VARIABLE, value))),
            (None, Some(value)) => Ok(Some((SIZE_VARIABLE, value))),
            (None, None) => Ok(None),
        }
    }

    fn check_text(&self, variable: &str, field: &'static str) -> Result<(), ConfigError> {
        if self.not_text.iter().any(|name| name == variable) {
            return Err(ConfigError::InvalidValue {
                field,
                value: "(not UTF-8)".into(),
                origin: variable.into(),
                reason: "it must be text".into(),
            });
        }
        Ok(())
    }
}

fn value_from(variable: &str, value: &str) -> Value {
    Value::new(Some(&variable.to_owned()), value)
}
