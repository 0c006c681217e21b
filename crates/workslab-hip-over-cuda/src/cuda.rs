//! CUDA's driver.

use std::ffi::{c_char, c_int, c_uint, c_void};

use once_cell::sync::OnceCell;
use workslab_driver::{AccessDescription, AllocationProperties, Search, driver_functions};

/// A code of either driver: where both have one for something, it is the same number.
pub(crate) type Code = c_uint;
/// A context, a stream, an event, a graph or another thing that is only handed on.
pub(crate) type Handle = *mut c_void;
/// What the driver calls when nobody needs an object any more.
pub(crate) type Destroy = unsafe extern "C" fn(*mut c_void);

driver_functions! {
    platform "rocm", needs "CUDA 11.3";
    fn cuInit(flags: c_uint) -> Code;
    fn cuDeviceGetCount(count: *mut c_int) -> Code;
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Code;
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> Code;
    fn cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: c_int) -> Code;
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int) -> Code;
    fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> Code;
    fn cuCtxSetCurrent(context: Handle) -> Code;
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Code;
    fn cuMemAlloc_v2(pointer: *mut u64, size: usize) -> Code;
    fn cuMemFree_v2(pointer: u64) -> Code;
    fn cuStreamCreate(stream: *mut Handle, flags: c_uint) -> Code;
    fn cuStreamDestroy_v2(stream: Handle) -> Code;
    fn cuStreamSynchronize(stream: Handle) -> Code;
    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) -> Code;
    fn cuEventCreate(event: *mut Handle, flags: c_uint) -> Code;
    fn cuEventDestroy_v2(event: Handle) -> Code;
    fn cuEventRecord(event: Handle, stream: Handle) -> Code;
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, size: usize, stream: Handle) -> Code;
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, size: usize, stream: Handle) -> Code;
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, size: usize, stream: Handle) -> Code;
    fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: Handle) -> Code;
    fn cuMemsetD16Async(to: u64, value: u16, count: usize, stream: Handle) -> Code;
    fn cuMemsetD32Async(to: u64, value: c_uint, count: usize, stream: Handle) -> Code;
    fn cuStreamBeginCapture_v2(stream: Handle, mode: c_uint) -> Code;
    fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) -> Code;
    fn cuStreamGetCaptureInfo_v2(stream: Handle, status: *mut c_uint, id: *mut u64, graph: *mut Handle, nodes: *mut *const Handle, count: *mut usize) -> Code;
    fn cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, flags: u64) -> Code;
    fn cuGraphLaunch(executable: Handle, stream: Handle) -> Code;
    fn cuGraphExecDestroy(executable: Handle) -> Code;
    fn cuGraphDestroy(graph: Handle) -> Code;
    fn cuUserObjectCreate(object: *mut Handle, value: *mut c_void, destroy: Destroy, references: c_uint, flags: c_uint) -> Code;
    fn cuUserObjectRelease(object: Handle, count: c_uint) -> Code;
    fn cuGraphRetainUserObject(graph: Handle, object: Handle, count: c_uint, flags: c_uint) -> Code;
    optional;
    fn cuMemGetAllocationGranularity(granularity: *mut usize, properties: *const AllocationProperties, option: c_uint) -> Code;
    fn cuMemAddressReserve(address: *mut u64, size: usize, alignment: usize, wanted: u64, flags: u64) -> Code;
    fn cuMemAddressFree(address: u64, size: usize) -> Code;
    fn cuMemCreate(piece: *mut u64, size: usize, properties: *const AllocationProperties, flags: u64) -> Code;
    fn cuMemRelease(piece: u64) -> Code;
    fn cuMemMap(address: u64, size: usize, offset: usize, piece: u64, flags: u64) -> Code;
    fn cuMemUnmap(address: u64, size: usize) -> Code;
    fn cuMemSetAccess(address: u64, size: usize, who: *const AccessDescription, count: usize) -> Code;
}

/// The driver, loaded and started when it is first asked for. `None` if there is none.
pub(crate) fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: OnceCell<Functions> = OnceCell::new();
    let found = FUNCTIONS.get_or_try_init(|| {
        let functions = Functions::find(Search::cuda("rocm").open()?)?;
        // SAFETY: the call has no condition.
        match unsafe { (functions.cuInit)(0) } {
            0 => Ok(functions),
            code => Err(workslab_core::Error::Unavailable {
                platform: "rocm",
                reason: format!("cuInit of {} gives code {code}", functions.library),
            }),
        }
    });
    match found {
        Ok(functions) => Some(functions),
        Err(error) => {
            // HIP's interface has only codes for answers.
            eprintln!("libamdhip64 over libcuda: {error}");
            None
        }
    }
}
