//! A device's memory as Python's libraries want to see it: one row of bytes.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// A range of a device's memory.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) platform: &'static str,
    pub(crate) device: u32,
    pub(crate) base: usize,
    pub(crate) nbytes: usize,
}

/// One byte, unsigned.
const BYTE: &str = "|u1";

impl Memory {
    fn is_host(&self) -> bool {
        self.platform == "host"
    }

    /// NumPy's: <https://numpy.org/doc/stable/reference/arrays.interface.html>.
    pub(crate) fn array_interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if !self.is_host() {
            let text = format!(
                "memory of {} has no __array_interface__, but a __cuda_array_interface__",
                self.platform
            );
            return Err(PyAttributeError::new_err(text));
        }
        self.interface(py)
    }

    /// Numba's, version 3, which CuPy and DaCe use on ROCm too:
    /// <https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html>. The stream 1 is the
    /// default stream: a consumer is to order its work after that, or to use the stream of its lease.
    pub(crate) fn cuda_array_interface<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Bound<'py, PyDict>> {
        if self.is_host() {
            let text =
                "memory of the host has no __cuda_array_interface__, but an __array_interface__";
            return Err(PyAttributeError::new_err(text));
        }
        let interface = self.interface(py)?;
        interface.set_item("stream", py.None())?;
        Ok(interface)
    }

    fn interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("shape", (self.nbytes,))?;
        interface.set_item("typestr", BYTE)?;
        interface.set_item("data", (self.base, false))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }

    /// `kDLCPU`, `kDLCUDA` or `kDLROCM`, and the device.
    pub(crate) fn dlpack_device(&self) -> (i32, u32) {
        let kind = match self.platform {
            "cuda" => 2,
            "rocm" => 10,
            _ => 1,
        };
        (kind, if self.is_host() { 0 } else { self.device })
    }

    /// Fills in a buffer view, whose owner is kept alive by it.
    ///
    /// # Safety
    /// `view` is one that Python asks to be filled in.
    pub(crate) unsafe fn fill(
        &self,
        view: *mut ffi::Py_buffer,
        flags: c_int,
        owner: Bound<'_, PyAny>,
    ) -> PyResult<()> {
        const FORMAT: &CStr = c"B";
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to fill in"));
        }
        // SAFETY: the caller's, and it is not null; no owner means that there is nothing to give back.
        unsafe { (*view).obj = ptr::null_mut() };
        if !self.is_host() {
            let text = format!("memory of {} is not the host's", self.platform);
            return Err(PyBufferError::new_err(text));
        }
        let len = isize::try_from(self.nbytes)
            .map_err(|_| PyBufferError::new_err("too long for Python"))?;
        // SAFETY: the view is Python's to lend; the owner keeps the memory. The shape is the view's own
        // length, and the strides its item size, as in PyBuffer_FillInfo.
        unsafe {
            (*view).buf = ptr::with_exposed_provenance_mut::<c_void>(self.base);
            (*view).len = len;
            (*view).itemsize = 1;
            (*view).readonly = 0;
            (*view).ndim = 1;
            (*view).format = if flags & ffi::PyBUF_FORMAT == 0 {
                ptr::null_mut()
            } else {
                FORMAT.as_ptr().cast_mut()
            };
            (*view).shape = if flags & ffi::PyBUF_ND == 0 {
                ptr::null_mut()
            } else {
                &raw mut (*view).len
            };
            (*view).strides = if flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES {
                &raw mut (*view).itemsize
            } else {
                ptr::null_mut()
            };
            (*view).suboffsets = ptr::null_mut();
            (*view).internal = ptr::null_mut();
            (*view).obj = owner.into_ptr();
        }
        Ok(())
    }
}

/// Refuses to pickle.
pub(crate) fn cannot_pickle<'py>(what: &str) -> PyResult<Bound<'py, PyTuple>> {
    Err(PyTypeError::new_err(format!(
        "{what} is memory of this process and cannot be pickled; pass the BackendConfig on and allocate in \
         the other process"
    )))
}
