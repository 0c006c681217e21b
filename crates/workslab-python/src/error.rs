//! Errors as Python has them.

use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTimeoutError, PyValueError};
use workslab::{ConfigError, Error, OpenError};

/// `ValueError` for what the caller gave, `MemoryError` for what there is too little of, `TimeoutError`,
/// and `RuntimeError` for what happened.
pub(crate) fn of(error: &Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::ZeroSize
        | Error::NoSize
        | Error::SizeMismatch { .. }
        | Error::GrowthMismatch { .. }
        | Error::ModeMismatch { .. }
        | Error::NoSuchDevice { .. }
        | Error::WrongDevice { .. }
        | Error::SizeOverflow { .. }
        | Error::BadAlignment { .. }
        | Error::ReservationMismatch { .. }
        | Error::OutOfBounds { .. }
        | Error::LengthMismatch { .. }
        | Error::Plan(_) => PyValueError::new_err(text),
        Error::OutOfMemory { .. } | Error::Exhausted { .. } | Error::CapReached { .. } => {
            PyMemoryError::new_err(text)
        }
        Error::LeaseTimeout { .. } => PyTimeoutError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

pub(crate) fn of_config(error: &ConfigError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

pub(crate) fn of_open(error: &OpenError) -> PyErr {
    match error {
        OpenError::Unknown { .. } => PyValueError::new_err(error.to_string()),
        _ => PyRuntimeError::new_err(error.to_string()),
    }
}
