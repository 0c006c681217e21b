//! The right to use a workspace, as a context manager.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use send_wrapper::SendWrapper;
use workslab::Error;

use crate::memory::{Memory, cannot_pickle};
use crate::platform::{AnyLease, AnyStream, Patience};
use crate::workspace::Workspace;
use crate::{dlpack, error};

/// How long a thread waits before it looks whether Python wants to interrupt it.
const TURN: Duration = Duration::from_millis(200);

/// The exclusive right to use a workspace, ordered on a stream, while the `with` block lasts.
#[pyclass(unsendable, module = "workslab", name = "Lease")]
pub(crate) struct Lease {
    workspace: Py<Workspace>,
    stream: Option<AnyStream>,
    timeout: Option<Duration>,
    program: Option<String>,
    open: Option<Box<dyn AnyLease>>,
}

impl Lease {
    pub(crate) fn new(
        workspace: Py<Workspace>,
        stream: Option<AnyStream>,
        timeout: Option<Duration>,
        program: Option<String>,
    ) -> Self {
        Self {
            workspace,
            stream,
            timeout,
            program,
            open: None,
        }
    }

    fn opened(&self) -> PyResult<&dyn AnyLease> {
        self.open.as_deref().ok_or_else(|| {
            PyRuntimeError::new_err(
                "the lease is not held: use it as `with workspace.lease() as lease:`",
            )
        })
    }

    fn memory(&self) -> PyResult<Memory> {
        let open = self.opened()?;
        let workspace = self.workspace.get();
        workspace.check_process()?;
        Ok(Memory {
            base: open.base(),
            nbytes: open.size(),
            ..workspace.whole()
        })
    }

    /// Takes the lease; while somebody else has it, waits without Python's lock.
    fn take(&self, py: Python<'_>) -> PyResult<Box<dyn AnyLease>> {
        let inner = &self.workspace.get().inner;
        let (stream, program) = (self.stream.as_ref(), self.program.as_deref());
        let taken = inner.lease(stream, program, Patience::None);
        let error = match taken {
            Err(error @ Error::Busy { .. }) if self.timeout != Some(Duration::ZERO) => error,
            other => return other.map_err(|error| error::of(&error)),
        };
        drop(error);
        let began = Instant::now();
        loop {
            let left = match self.timeout {
                Some(timeout) => timeout.saturating_sub(began.elapsed()),
                None => TURN,
            };
            let patience = Patience::For(left.min(TURN));
            // A lease stays on its thread, and the closure runs on this one.
            let taken = py.detach(|| SendWrapper::new(inner.lease(stream, program, patience)));
            match taken.take() {
                Err(Error::LeaseTimeout { .. }) if left > TURN || self.timeout.is_none() => {
                    py.check_signals()?;
                }
                other => return other.map_err(|error| error::of(&error)),
            }
        }
    }
}

#[pymethods]
impl Lease {
    fn __enter__<'py>(
        mut slf: PyRefMut<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<PyRefMut<'py, Self>> {
        if slf.open.is_some() {
            return Err(PyRuntimeError::new_err("the lease is held already"));
        }
        slf.open = Some(slf.take(py)?);
        let workspace = slf.workspace.get();
        workspace.note_holder(Some(std::thread::current().id()));
        Ok(slf)
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&mut self, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        match self.open.take() {
            Some(open) => {
                self.workspace.get().note_holder(None);
                open.finish().map_err(|error| error::of(&error))
            }
            None => Ok(()),
        }
    }

    /// Bytes that the lease has.
    #[getter]
    fn nbytes(&self) -> PyResult<usize> {
        Ok(self.memory()?.nbytes)
    }

    /// Address of its first byte.
    #[getter]
    fn ptr(&self) -> PyResult<usize> {
        Ok(self.memory()?.base)
    }

    /// The driver's handle of its stream as a number; 0 on the host and for the default stream.
    #[getter]
    fn stream(&self) -> PyResult<usize> {
        Ok(self.opened()?.raw_stream())
    }

    /// Whether it is held.
    #[getter]
    fn held(&self) -> bool {
        self.open.is_some()
    }

    /// Blocks until all that was enqueued on its stream is done.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        let open = SendWrapper::new(self.opened()?);
        py.detach(|| open.synchronize())
            .map_err(|error| error::of(&error))
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.memory()?.array_interface(py)
    }

    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.memory()?.cuda_array_interface(py)
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        slf: &Bound<'_, Self>,
        stream: Option<Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        drop(stream); // a consumer's work is ordered by the lease's stream
        let memory = slf.borrow().memory()?;
        let owner = slf.borrow().workspace.clone_ref(slf.py()).into_any();
        dlpack::capsule(slf.py(), &memory, owner, max_version, copy, dl_device)
    }

    fn __dlpack_device__(&self) -> PyResult<(i32, u32)> {
        Ok(self.memory()?.dlpack_device())
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let memory = slf.borrow().memory()?;
        // SAFETY: Python's own view.
        unsafe { memory.fill(view, flags, slf.into_any()) }
    }

    fn __reduce__<'py>(&self, _py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        cannot_pickle("a lease")
    }

    fn __repr__(&self) -> String {
        let workspace = self.workspace.get();
        let held = if self.open.is_some() {
            "held"
        } else {
            "not held"
        };
        format!(
            "<workslab.Lease on {} device {}, {held}>",
            workspace.inner.platform(),
            workspace.inner.device()
        )
    }
}
