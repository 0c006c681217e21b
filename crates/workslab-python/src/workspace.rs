//! The workspace of a device.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use workslab::Statistics;

use crate::lease::Lease;
use crate::memory::{Memory, cannot_pickle};
use crate::platform::{AnyStream, AnyWorkspace};
use crate::reservation::Reservation;
use crate::stream::{self, Given};
use crate::{dlpack, error};

/// The workspace of a device; from `ExternalWorkspaceAllocator.allocate`.
#[pyclass(frozen, weakref, module = "workslab", name = "Workspace")]
pub(crate) struct Workspace {
    pub(crate) inner: Arc<dyn AnyWorkspace>,
    /// How many bytes were handed out as one array, from the first on. Reservations keep out of it.
    exported: AtomicUsize,
    /// The thread that holds a lease, if one does.
    holder: Mutex<Option<ThreadId>>,
}

impl Workspace {
    pub(crate) fn new(inner: Arc<dyn AnyWorkspace>) -> Self {
        Self {
            inner,
            exported: AtomicUsize::new(0),
            holder: Mutex::new(None),
        }
    }

    /// Refuses in a child of `fork`: the memory is its parent's.
    pub(crate) fn check_process(&self) -> PyResult<()> {
        self.inner
            .check_process()
            .map_err(|error| error::of(&error))
    }

    /// All that leases have.
    pub(crate) fn whole(&self) -> Memory {
        Memory {
            platform: self.inner.platform(),
            device: self.inner.device(),
            base: self.inner.base(),
            nbytes: self.leased_bytes(),
        }
    }

    fn leased_bytes(&self) -> usize {
        self.inner.size() - self.inner.reserved()
    }

    pub(crate) fn note_holder(&self, holder: Option<ThreadId>) {
        *self.holder.lock().unwrap_or_else(PoisonError::into_inner) = holder;
    }

    fn export(&self) -> PyResult<Memory> {
        self.check_process()?;
        let memory = self.whole();
        self.exported.fetch_max(memory.nbytes, Ordering::Relaxed);
        Ok(memory)
    }

    fn stream_of(&self, given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<AnyStream>> {
        let Some(given) = given.filter(|given| !given.is_none()) else {
            return Ok(None);
        };
        match stream::read(given)? {
            Given::Own(stream) => Ok(Some(stream)),
            Given::Raw(0) => Ok(None),
            Given::Raw(raw) if self.inner.platform() == "host" => Err(PyValueError::new_err(
                format!("the host has no stream {raw:#x}; its streams are made by create_stream"),
            )),
            // SAFETY: whoever passes a stream promises that it is one, as with every such interface.
            Given::Raw(raw) => match unsafe { self.inner.lent_stream(raw) } {
                Ok(stream) => Ok(Some(stream)),
                Err(error) => Err(error::of(&error)),
            },
        }
    }
}

#[pymethods]
impl Workspace {
    /// The platform's name: `rocm`, `cuda` or `host`.
    #[getter]
    fn platform(&self) -> &'static str {
        self.inner.platform()
    }

    /// The device's number.
    #[getter]
    fn device(&self) -> u32 {
        self.inner.device()
    }

    /// Bytes that leases have: the size less what is reserved.
    #[getter]
    fn nbytes(&self) -> usize {
        self.leased_bytes()
    }

    /// The slab's size in bytes.
    #[getter]
    fn size(&self) -> usize {
        self.inner.size()
    }

    /// How far it may grow, or None if it does not.
    #[getter]
    fn cap(&self) -> Option<usize> {
        self.inner.cap()
    }

    /// Address of the slab's first byte.
    #[getter]
    fn ptr(&self) -> PyResult<usize> {
        self.check_process()?;
        Ok(self.inner.base())
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.export()?.array_interface(py)
    }

    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.export()?.cuda_array_interface(py)
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        slf: &Bound<'_, Self>,
        stream: Option<Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        drop(stream); // a lease orders streams, and there is nothing yet to wait for
        let owner = slf.clone().into_any().unbind();
        dlpack::capsule(
            slf.py(),
            &slf.get().export()?,
            owner,
            max_version,
            copy,
            dl_device,
        )
    }

    fn __dlpack_device__(&self) -> (i32, u32) {
        self.whole().dlpack_device()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let memory = slf.get().export()?;
        // SAFETY: Python's own view.
        unsafe { memory.fill(view, flags, slf.into_any()) }
    }

    /// The exclusive right to use it, taken when the `with` block begins.
    #[pyo3(signature = (stream=None, *, timeout=None, program=None))]
    fn lease(
        slf: &Bound<'_, Self>,
        stream: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
        program: Option<String>,
    ) -> PyResult<Lease> {
        let timeout = match timeout {
            None => None,
            Some(seconds) => Some(Duration::try_from_secs_f64(seconds).map_err(|_| {
                PyValueError::new_err(format!(
                    "timeout is {seconds}; it must be seconds from 0 on"
                ))
            })?),
        };
        let stream = slf.get().stream_of(stream)?;
        Ok(Lease::new(slf.clone().unbind(), stream, timeout, program))
    }

    /// Sets bytes aside under a name, for as long as the object lives.
    fn reserve(slf: &Bound<'_, Self>, name: &str, size: usize) -> PyResult<Reservation> {
        let own = slf.get();
        own.check_process()?;
        if own.cap().is_none() && own.exported.load(Ordering::Relaxed) > 0 {
            return Err(PyRuntimeError::new_err(format!(
                "reservation '{name}' would take bytes that were handed out as an array; reserve before the \
                 workspace is used as one"
            )));
        }
        let reservation = slf
            .py()
            .detach(|| own.inner.reserve(name, size))
            .map_err(|error| error::of(&error))?;
        Ok(Reservation::new(
            reservation,
            slf.clone().unbind(),
            name.to_owned(),
        ))
    }

    /// Sees to it that leases have so many bytes; only with size_check "grow".
    fn grow(&self, py: Python<'_>, size: usize) -> PyResult<()> {
        self.check_process()?;
        py.detach(|| self.inner.grow(size))
            .map_err(|error| error::of(&error))
    }

    /// Whether the calling thread holds a lease of it.
    #[getter]
    fn leased_here(&self) -> bool {
        let holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        *holder == Some(std::thread::current().id())
    }

    /// The counts so far.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        statistics(py, &self.inner.statistics())
    }

    fn __len__(&self) -> usize {
        self.leased_bytes()
    }

    fn __reduce__<'py>(&self, _py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        cannot_pickle("a workspace")
    }

    fn __repr__(&self) -> String {
        format!(
            "<workslab.Workspace of {} bytes on {} device {}>",
            self.inner.size(),
            self.inner.platform(),
            self.inner.device()
        )
    }
}

pub(crate) fn statistics<'py>(
    py: Python<'py>,
    counts: &Statistics,
) -> PyResult<Bound<'py, PyDict>> {
    let programs = counts
        .programs
        .iter()
        .map(|program| {
            let dict = PyDict::new(py);
            dict.set_item("name", &program.name)?;
            dict.set_item("leases", program.leases)?;
            dict.set_item("high_water", program.high_water)?;
            Ok(dict)
        })
        .collect::<PyResult<Vec<_>>>()?;
    let dict = PyDict::new(py);
    dict.set_item("platform", counts.platform)?;
    dict.set_item("device", counts.device.ordinal())?;
    dict.set_item("size", counts.size)?;
    dict.set_item("cap", counts.cap)?;
    dict.set_item("growths", counts.growths)?;
    dict.set_item("reserved", counts.reserved)?;
    dict.set_item("hits", counts.hits)?;
    dict.set_item("misses", counts.misses)?;
    dict.set_item("leases", counts.leases)?;
    dict.set_item("high_water", counts.high_water)?;
    dict.set_item("cross_stream_waits", counts.cross_stream_waits)?;
    dict.set_item("waits", counts.waits)?;
    dict.set_item("waited", counts.waited.as_secs_f64())?;
    dict.set_item("guard_violations", counts.guard_violations)?;
    dict.set_item("programs", programs)?;
    Ok(dict)
}
