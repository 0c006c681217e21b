//! The planner.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use workslab::plan::{Buffer, Effort, Instance, Planner};

/// Offsets for buffers of these sizes, each alive from its first step until before its end, of which only
/// those share bytes that never live at once. Also the bytes that the offsets take, and a lower bound.
#[pyfunction]
#[pyo3(signature = (buffers, alignment=workslab::ARRAY_ALIGNMENT as u64))]
pub(crate) fn plan(
    py: Python<'_>,
    buffers: Vec<(u64, u64, u64)>,
    alignment: u64,
) -> PyResult<(Vec<u64>, u64, u64)> {
    let bad = |error: workslab::plan::PlanError| PyValueError::new_err(error.to_string());
    if let Some((_, first, end)) = buffers.iter().find(|(_, first, end)| first >= end) {
        return Err(PyValueError::new_err(format!(
            "a buffer lives from {first} until before {end}, which is never"
        )));
    }
    py.detach(|| {
        let buffers = buffers
            .into_iter()
            .enumerate()
            .map(|(index, (size, first, end))| {
                Buffer::new(index.to_string(), size, first..end).aligned(alignment)
            });
        let instance = Instance::new(buffers.collect());
        let planned = Planner::new()
            .plan(&instance, Effort::Balanced)
            .map_err(bad)?;
        let plan = planned.plan;
        Ok((plan.offsets, plan.makespan, plan.lower_bound))
    })
}
