//! workslab's configuration: which workspace a process wants, and who said so.
//!
//! A [`BackendConfig`] is resolved from layers. A value given in code goes before an override
//! (`--set`), that before the experiment file, that before the environment, that before the
//! default. Every value remembers where it came from, for messages and for `workslab config`.
//!
//! No size means: no external workspace, and programs keep their own allocation.

mod backend;
mod environment;
mod error;
mod fields;
mod file;
mod rank;
mod size;

pub use backend::{BackendConfig, Builder, DeviceChoice, Entry};
pub use error::ConfigError;
pub use rank::LocalRank;
pub use size::parse_size;

/// The environment variable that icon4py reads the size from.
pub const ICON4PY_SIZE_VARIABLE: &str = "ICON4PY_BACKEND_WORKSPACE_SIZE";
/// The environment variable with workslab's own name for the size.
pub const SIZE_VARIABLE: &str = "WORKSLAB_WORKSPACE_SIZE";
