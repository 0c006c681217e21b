//! HIP's functions for virtual memory.

/// Counts the call, which may always go on.
#[expect(
    clippy::unnecessary_wraps,
    reason = "the macro asks for a code, which CUDA has"
)]
fn begin() -> Result<(), c_int> {
    workslab_emulator::process::count_call();
    Ok(())
}

workslab_emulator::export_virtual_memory! {
    begin: begin,
    code: crate::error::code,
    granularity: hipMemGetAllocationGranularity,
    reserve: hipMemAddressReserve,
    free: hipMemAddressFree,
    create: hipMemCreate,
    release: hipMemRelease,
    map: hipMemMap,
    unmap: hipMemUnmap,
    set_access: hipMemSetAccess,
}
