//! The configuration.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error;

/// How the workspace is made: its size and the rest.
#[pyclass(frozen, module = "workslab", name = "BackendConfig")]
pub(crate) struct BackendConfig {
    pub(crate) config: workslab::BackendConfig,
}

#[pymethods]
impl BackendConfig {
    /// From values by name, above those of an experiment file, above those of the environment.
    #[new]
    #[pyo3(signature = (*, config_file=None, environment=false, **values))]
    fn new(
        config_file: Option<std::path::PathBuf>,
        environment: bool,
        values: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut builder = workslab::BackendConfig::builder();
        if environment {
            builder = builder.process_environment();
        }
        if let Some(file) = config_file {
            builder = builder.experiment_file(file);
        }
        for (field, value) in values.into_iter().flatten() {
            let field: String = field.extract()?;
            if value.is_none() {
                continue;
            }
            let text = if let Ok(flag) = value.extract::<bool>() {
                flag.to_string()
            } else if let Ok(number) = value.extract::<i128>() {
                number.to_string()
            } else {
                value.extract::<String>().map_err(|_| {
                    PyTypeError::new_err(format!("{field} must be a number, text or a flag"))
                })?
            };
            builder = builder.explicit(field, text, "BackendConfig()");
        }
        let config = builder
            .resolve()
            .map_err(|error| error::of_config(&error))?;
        Ok(Self { config })
    }

    /// Bytes, or None if no external workspace is wanted.
    #[getter]
    fn workspace_size(&self) -> Option<usize> {
        self.config.workspace_size.map(workslab::SlabSize::bytes)
    }

    /// The platform's name, or None for the first that has a device.
    #[getter]
    fn platform(&self) -> Option<&str> {
        self.config.platform.as_deref()
    }

    /// The device for this process on a platform with `count` devices.
    fn device_for(&self, count: u32) -> PyResult<u32> {
        self.config
            .device_for(count)
            .map(workslab::DeviceId::ordinal)
            .map_err(|error| error::of_config(&error))
    }

    /// Every field with its value and where that came from, as text.
    fn entries(&self) -> Vec<(&'static str, String, String)> {
        let entries = self.config.entries().into_iter();
        entries
            .map(|entry| (entry.field, entry.value, entry.origin))
            .collect()
    }

    /// The values that were given, so that another process can have the same.
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyDict>,))> {
        let py = slf.py();
        let state = PyDict::new(py);
        let config = &slf.get().config;
        for (field, value, origin) in slf.get().entries() {
            let bytes = match field {
                "workspace_size" => config.workspace_size,
                "workspace_cap" => config.workspace_cap,
                _ => None,
            };
            match bytes {
                _ if origin == "default" => {}
                Some(size) => state.set_item(field, size.bytes())?,
                None => state.set_item(field, value)?,
            }
        }
        let make = py.import("workslab")?.getattr("_unpickle_config")?;
        Ok((make, (state,)))
    }

    fn __eq__(&self, other: &Self) -> bool {
        let values = |config: &Self| {
            let entries = config.config.entries().into_iter();
            entries
                .map(|entry| (entry.field, entry.value))
                .collect::<Vec<_>>()
        };
        values(self) == values(other)
    }

    fn __repr__(&self) -> String {
        let fields = self.entries().into_iter();
        let given = fields
            .filter(|(_, _, origin)| origin != "default")
            .map(|(field, value, _)| format!("{field}={value:?}"));
        format!(
            "workslab.BackendConfig({})",
            given.collect::<Vec<_>>().join(", ")
        )
    }
}

/// What the environment says, or None if it names no size.
#[pyfunction]
pub(crate) fn backend_config_from_env() -> PyResult<Option<BackendConfig>> {
    let config = workslab::BackendConfig::from_env().map_err(|error| error::of_config(&error))?;
    Ok(config
        .workspace_size
        .is_some()
        .then_some(BackendConfig { config }))
}

/// A number of bytes from text such as '512MiB'.
#[pyfunction]
pub(crate) fn parse_size(text: &str) -> PyResult<usize> {
    workslab::parse_size(text).map_err(PyValueError::new_err)
}
