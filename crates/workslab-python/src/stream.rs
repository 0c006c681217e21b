//! Streams: workslab's own, and those of other libraries.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::error;
use crate::platform::AnyStream;

/// A stream of a device; from `ExternalWorkspaceAllocator.create_stream`.
#[pyclass(frozen, module = "workslab", name = "Stream")]
pub(crate) struct Stream {
    pub(crate) stream: AnyStream,
}

#[pymethods]
impl Stream {
    /// The platform's name.
    #[getter]
    fn platform(&self) -> &'static str {
        self.stream.platform()
    }

    /// The device's number.
    #[getter]
    fn device(&self) -> u32 {
        self.stream.device()
    }

    /// The driver's handle as a number; 0 on the host.
    #[getter]
    fn ptr(&self) -> usize {
        self.stream.raw()
    }

    /// Blocks until all that was enqueued is done.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.stream.synchronize())
            .map_err(|error| error::of(&error))
    }

    fn __repr__(&self) -> String {
        format!(
            "<workslab.Stream of {} device {}, {:#x}>",
            self.stream.platform(),
            self.stream.device(),
            self.stream.raw()
        )
    }
}

/// What was given as a stream.
pub(crate) enum Given {
    Own(AnyStream),
    /// A driver's handle.
    Raw(usize),
}

/// Reads a stream of workslab's, of CuPy's (`ptr`), of PyTorch's (`cuda_stream`), of any library with
/// `__cuda_stream__`, or a number.
pub(crate) fn read(given: &Bound<'_, PyAny>) -> PyResult<Given> {
    if let Ok(stream) = given.cast::<Stream>() {
        return Ok(Given::Own(stream.get().stream.clone()));
    }
    if given.is_instance_of::<PyInt>() {
        return Ok(Given::Raw(given.extract()?));
    }
    if let Some(protocol) = given.getattr_opt("__cuda_stream__")? {
        let answer = if protocol.is_callable() {
            protocol.call0()?
        } else {
            protocol
        };
        let (_version, raw): (u32, usize) = answer.extract()?;
        return Ok(Given::Raw(raw));
    }
    for name in ["ptr", "cuda_stream"] {
        if let Some(raw) = given.getattr_opt(name)? {
            return Ok(Given::Raw(raw.extract()?));
        }
    }
    Err(PyTypeError::new_err(format!(
        "{} is no stream: give a workslab.Stream, one of CuPy's or PyTorch's, or the driver's handle as a number",
        given.get_type()
    )))
}
