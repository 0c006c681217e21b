//! The extension module of the Python package `workslab`.
//!
//! Python's classes know no type parameters, so the platform is chosen when the program runs, in
//! `platform.rs`; all else is the facade's.
//!
//! Whatever may block or log gives up Python's lock first: records go to Python's `logging`, which takes
//! that lock, and a thread that held it and waited for a log record's writer would wait for itself.

mod allocator;
mod config;
mod dlpack;
mod error;
mod lease;
mod memory;
mod plan;
mod platform;
mod reservation;
mod stream;
mod workspace;

use pyo3::prelude::*;

/// One preallocated workspace per device, shared safely by every program in the process.
#[pymodule]
mod _workslab {
    #[pymodule_export]
    use crate::allocator::ExternalWorkspaceAllocator;
    #[pymodule_export]
    use crate::config::{BackendConfig, backend_config_from_env, parse_size};
    #[pymodule_export]
    use crate::lease::Lease;
    #[pymodule_export]
    use crate::plan::plan;
    #[pymodule_export]
    use crate::reservation::Reservation;
    #[pymodule_export]
    use crate::stream::Stream;
    #[pymodule_export]
    use crate::workspace::Workspace;

    use pyo3::prelude::*;
    use pyo3_log::{Caching, Logger};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // Levels are asked of Python each time, so that a program may change them: records are rare.
        // Only the first module of a process may say where they go; a second has its own way.
        let _ = Logger::new(module.py(), Caching::Loggers)?.install();
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("ALIGNMENT", workslab::ARRAY_ALIGNMENT)
    }
}
