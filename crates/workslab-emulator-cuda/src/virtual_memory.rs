//! CUDA's functions for virtual memory.

use crate::error::{INVALID_CONTEXT, NOT_INITIALIZED};
use crate::state::{current_device, is_started};

/// Counts the call, which may go on if the driver was started and a context is current.
fn begin() -> Result<(), c_int> {
    workslab_emulator::process::count_call();
    if !is_started() {
        return Err(NOT_INITIALIZED);
    }
    current_device().map(|_| ()).ok_or(INVALID_CONTEXT)
}

workslab_emulator::export_virtual_memory! {
    begin: begin,
    code: crate::error::code,
    granularity: cuMemGetAllocationGranularity,
    reserve: cuMemAddressReserve,
    free: cuMemAddressFree,
    create: cuMemCreate,
    release: cuMemRelease,
    map: cuMemMap,
    unmap: cuMemUnmap,
    set_access: cuMemSetAccess,
}
