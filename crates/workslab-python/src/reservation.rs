//! A named, permanent part of a workspace.

use std::ffi::c_int;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::dlpack;
use crate::memory::{Memory, cannot_pickle};
use crate::platform::AnyReservation;
use crate::workspace::Workspace;

/// A named part of a workspace that no lease covers, for as long as the object lives.
#[pyclass(frozen, weakref, module = "workslab", name = "Reservation")]
pub(crate) struct Reservation {
    reservation: Box<dyn AnyReservation>,
    workspace: Py<Workspace>,
    name: String,
}

impl Reservation {
    pub(crate) fn new(
        reservation: Box<dyn AnyReservation>,
        workspace: Py<Workspace>,
        name: String,
    ) -> Self {
        Self {
            reservation,
            workspace,
            name,
        }
    }

    fn memory(&self) -> PyResult<Memory> {
        let workspace = self.workspace.get();
        workspace.check_process()?;
        Ok(Memory {
            base: self.reservation.base(),
            nbytes: self.reservation.size(),
            ..workspace.whole()
        })
    }
}

#[pymethods]
impl Reservation {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Its size in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.reservation.size()
    }

    /// Address of its first byte.
    #[getter]
    fn ptr(&self) -> PyResult<usize> {
        Ok(self.memory()?.base)
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
        drop(stream);
        let owner = slf.clone().into_any().unbind();
        dlpack::capsule(
            slf.py(),
            &slf.get().memory()?,
            owner,
            max_version,
            copy,
            dl_device,
        )
    }

    fn __dlpack_device__(&self) -> PyResult<(i32, u32)> {
        Ok(self.memory()?.dlpack_device())
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let memory = slf.get().memory()?;
        // SAFETY: Python's own view.
        unsafe { memory.fill(view, flags, slf.into_any()) }
    }

    fn __reduce__<'py>(&self, _py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        cannot_pickle("a reservation")
    }

    fn __repr__(&self) -> String {
        format!(
            "<workslab.Reservation '{}' of {} bytes>",
            self.name,
            self.nbytes()
        )
    }
}
