//! The process's allocator of a platform.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyWeakrefMethods, PyWeakrefReference};
use workslab::{SizeCheck, SlabRequest, SlabSize};

use crate::config::{self, BackendConfig};
use crate::error;
use crate::platform::{self, AnyAllocator};
use crate::stream::Stream;
use crate::workspace::{Workspace, statistics};

/// Gives each device of a platform one workspace, for the whole process: all allocators of a platform share
/// them.
#[pyclass(frozen, module = "workslab", name = "ExternalWorkspaceAllocator")]
pub(crate) struct ExternalWorkspaceAllocator {
    allocator: Arc<dyn AnyAllocator>,
}

/// The objects that stand for workspaces, by platform and device: the same workspace is the same object.
static OBJECTS: Mutex<Option<Objects>> = Mutex::new(None);
type Objects = HashMap<(&'static str, u32), Py<Workspace>>;

fn with_objects<T>(work: impl FnOnce(&mut Objects) -> T) -> T {
    let mut objects = OBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
    work(objects.get_or_insert_default())
}

impl ExternalWorkspaceAllocator {
    fn allocate_one(
        &self,
        py: Python<'_>,
        device: u32,
        request: &SlabRequest<'_>,
    ) -> PyResult<Py<Workspace>> {
        let key = (self.allocator.platform(), device);
        let hit = self.allocator.hit(device, request);
        if hit.map_err(|error| error::of(&error))?
            && let Some(object) =
                with_objects(|all| all.get(&key).map(|object| object.clone_ref(py)))
        {
            return Ok(object);
        }
        let inner = py
            .detach(|| self.allocator.allocate(device, request))
            .map_err(|error| error::of(&error))?;
        let made = Py::new(py, Workspace::new(inner))?;
        // Another thread may have been here in the meantime; the first object stays.
        Ok(with_objects(|all| {
            all.entry(key).or_insert(made).clone_ref(py)
        }))
    }
}

#[pymethods]
impl ExternalWorkspaceAllocator {
    /// For `platform`, or the first of rocm, cuda and host that has a device.
    #[new]
    #[pyo3(signature = (platform=None))]
    fn new(py: Python<'_>, platform: Option<&str>) -> PyResult<Self> {
        let allocator = py
            .detach(|| platform::open(platform))
            .map_err(|error| error::of_open(&error))?;
        Ok(Self { allocator })
    }

    /// The platform's name.
    #[getter]
    fn platform(&self) -> &'static str {
        self.allocator.platform()
    }

    /// How many devices there are.
    #[getter]
    fn device_count(&self, py: Python<'_>) -> PyResult<u32> {
        py.detach(|| self.allocator.device_count())
            .map_err(|error| error::of(&error))
    }

    /// The device's workspace, made at the first request and checked against the size at every other. For
    /// several devices, a list of theirs.
    #[pyo3(signature = (device, size, *, size_check=None, cap=None))]
    fn allocate(
        &self,
        py: Python<'_>,
        device: &Bound<'_, PyAny>,
        size: &Bound<'_, PyAny>,
        size_check: Option<&str>,
        cap: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let config;
        let request = if let Ok(given) = size.cast::<BackendConfig>() {
            if size_check.is_some() || cap.is_some() {
                return Err(PyTypeError::new_err(
                    "size_check and cap are the configuration's, if there is one",
                ));
            }
            config = given.get();
            config.config.request().ok_or_else(|| {
                PyValueError::new_err(
                    "the configuration has no workspace_size; set ICON4PY_BACKEND_WORKSPACE_SIZE, or give a size",
                )
            })?
        } else {
            let mut request = SlabRequest::exact(size_of(size)?);
            match size_check {
                None | Some("exact") => {}
                Some("at-least") => request.check = SizeCheck::AtLeast,
                Some("grow") => request.check = SizeCheck::Grow,
                Some(other) => {
                    return Err(PyValueError::new_err(format!(
                        "size_check is {other:?}; it must be 'exact', 'at-least' or 'grow'"
                    )));
                }
            }
            if let Some(cap) = cap {
                if request.check != SizeCheck::Grow {
                    return Err(PyValueError::new_err("a cap needs size_check='grow'"));
                }
                request.cap = Some(size_of(cap)?);
            }
            request
        };
        if let Ok(device) = device.extract::<u32>() {
            return Ok(self.allocate_one(py, device, &request)?.into_any());
        }
        let devices: Vec<u32> = device.extract().map_err(|_| {
            PyTypeError::new_err("device must be a number from 0 on, or a list of such")
        })?;
        let workspaces = devices
            .into_iter()
            .map(|device| self.allocate_one(py, device, &request))
            .collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, workspaces)?.into_any().unbind())
    }

    /// Frees the device's slab, once its last work is done. An error while anybody has the workspace.
    fn release(&self, py: Python<'_>, device: u32) -> PyResult<()> {
        let key = (self.allocator.platform(), device);
        let object = with_objects(|all| all.remove(&key));
        let weak = match object {
            Some(object) => Some(PyWeakrefReference::new(object.bind(py))?.unbind()),
            None => None,
        };
        let released = py.detach(|| self.allocator.release(device));
        // Whoever still has the object goes on to get the same one.
        if released.is_err()
            && let Some(weak) = weak
            && let Some(object) = weak.bind(py).upgrade()
        {
            let object = object.cast_into::<Workspace>()?.unbind();
            with_objects(|all| all.entry(key).or_insert(object).clone_ref(py));
        }
        released.map_err(|error| error::of(&error))
    }

    /// A stream of the device's own.
    fn create_stream(&self, py: Python<'_>, device: u32) -> PyResult<Stream> {
        let stream = py
            .detach(|| self.allocator.create_stream(device))
            .map_err(|error| error::of(&error))?;
        Ok(Stream { stream })
    }

    /// The counts of every workspace.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let counts = py.detach(|| self.allocator.statistics());
        counts.iter().map(|counts| statistics(py, counts)).collect()
    }

    fn __repr__(&self) -> String {
        format!("workslab.ExternalWorkspaceAllocator({:?})", self.platform())
    }
}

/// A number of bytes, or text with a unit.
fn size_of(given: &Bound<'_, PyAny>) -> PyResult<SlabSize> {
    let bytes =
        if given.is_instance_of::<PyString>() {
            config::parse_size(given.extract()?)?
        } else {
            given.extract::<usize>().map_err(|_| {
            let shown = given.repr().map_or_else(|_| "?".into(), |text| text.to_string());
            PyValueError::new_err(format!(
                "size is {shown}; it must be a positive number of bytes, or text such as '512MiB'"
            ))
        })?
        };
    SlabSize::new(bytes).map_err(|error| error::of(&error))
}
