//! The layer of an experiment file.
//!
//! An experiment file says much that is not ours; only its field `backend_config` is looked at. If
//! that is there but empty, the experiment wants no external workspace, whatever the environment
//! says.

use std::collections::BTreeMap;
use std::path::Path;

use config::{Value, ValueKind};
use serde::{Deserialize, Deserializer};

use crate::{ConfigError, fields};

/// An experiment file, as far as it concerns us.
#[derive(Deserialize)]
struct Experiment {
    /// Absent, or there and empty, or a table of fields.
    #[serde(default, deserialize_with = "present")]
    backend_config: Option<Option<BTreeMap<String, Value>>>,
}

/// Tells a field that is there but empty from one that is not there.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// The fields that the file sets, with the file as their origin.
pub(crate) fn layer(path: &Path) -> Result<Vec<(&'static str, Value)>, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    let malformed = |reason: String| ConfigError::Malformed {
        path: path.to_owned(),
        reason: one_line(&reason),
    };
    let extension = path.extension().and_then(|extension| extension.to_str());
    let experiment: Experiment = match extension {
        Some("yaml" | "yml") => {
            // An empty file is an experiment that says nothing.
            let parsed: Option<Experiment> =
                serde_saphyr::from_str(&text).map_err(|error| malformed(error.to_string()))?;
            parsed.unwrap_or(Experiment {
                backend_config: None,
            })
        }
        Some("toml") => toml::from_str(&text).map_err(|error| {
            let place = error
                .span()
                .map(|span| {
                    let line = text[..span.start.min(text.len())].lines().count().max(1);
                    format!("line {line}: ")
                })
                .unwrap_or_default();
            malformed(format!("{place}{}", error.message()))
        })?,
        _ => {
            return Err(ConfigError::Unreadable {
                path: path.to_owned(),
                reason: "its name must end in .yaml, .yml or .toml".into(),
            });
        }
    };
    let origin = format!("{} (backend_config)", path.display());
    let Some(section) = experiment.backend_config else {
        return Ok(Vec::new());
    };
    let section = section.unwrap_or_default();
    if section.is_empty() {
        let none = Value::new(Some(&format!("{origin}, which is empty")), ValueKind::Nil);
        return Ok(vec![(fields::WORKSPACE_SIZE, none)]);
    }
    section
        .into_iter()
        .map(|(name, value)| {
            let field = fields::find(&name, &origin)?;
            Ok((field, Value::new(Some(&origin), value.kind)))
        })
        .collect()
}

/// A parser's message without its picture of the text.
fn one_line(message: &str) -> String {
    message
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or("it cannot be parsed")
        .to_owned()
}
