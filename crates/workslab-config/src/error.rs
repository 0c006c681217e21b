//! What can be wrong with a configuration. Each message says what, where from, and what to do.

use std::path::PathBuf;

use thiserror::Error;

/// An error in the configuration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value cannot be used.
    #[error("{field} = {value:?} from {origin} is not valid: {reason}")]
    InvalidValue {
        /// The field.
        field: &'static str,
        /// The value as it was given.
        value: String,
        /// Where it was given.
        origin: String,
        /// Why it is not valid, and what would be.
        reason: String,
    },

    /// There is no such field.
    #[error("unknown field {field:?} in {origin}; the fields are {known}")]
    UnknownField {
        /// The field.
        field: String,
        /// Where it was given.
        origin: String,
        /// The fields that there are.
        known: String,
    },

    /// Two sources of equal rank disagree.
    #[error(
        "{first} = {first_value:?} and {second} = {second_value:?} disagree; set only one, or both to the same"
    )]
    Conflict {
        /// The first source.
        first: String,
        /// What it says.
        first_value: String,
        /// The second source.
        second: String,
        /// What it says.
        second_value: String,
    },

    /// An override is not `field=value`.
    #[error("override {text:?} from {origin} is not of the form field=value")]
    BadOverride {
        /// The override.
        text: String,
        /// Where it was given.
        origin: String,
    },

    /// The experiment file cannot be read.
    #[error("cannot read experiment file {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },

    /// The experiment file is not what its name says.
    #[error("experiment file {} is malformed: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Why, and where.
        reason: String,
    },

    /// The layers could not be merged.
    #[error("the configuration cannot be merged: {0}")]
    Layers(String),
}
