//! The driver's functions, looked up when the program runs.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;

use cust::sys::{CUcontext, CUdevice, CUdeviceptr, CUevent, CUstream};
use once_cell::sync::OnceCell;
use workslab_core::Error;
use workslab_driver::{
    AccessDescription, AllocationProperties, MemoryFunctions, Named, Search, driver_functions,
};

use crate::NAME;

/// A code as the driver returns it: an integer, whatever it is.
pub(crate) type Code = c_uint;

/// A graph, one that can be launched, or an object that a graph keeps alive.
pub(crate) type Handle = *mut c_void;

/// What the driver calls when nobody needs an object any more.
pub(crate) type Destroy = unsafe extern "C" fn(*mut c_void);

driver_functions! {
    platform NAME, needs "CUDA 11.0";
    fn cuInit(flags: c_uint) -> Code;
    fn cuDriverGetVersion(version: *mut c_int) -> Code;
    fn cuGetErrorName(code: Code, name: *mut *const c_char) -> Code;
    fn cuDeviceGetCount(count: *mut c_int) -> Code;
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> Code;
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice) -> Code;
    fn cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: CUdevice) -> Code;
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice) -> Code;
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> Code;
    fn cuCtxGetCurrent(context: *mut CUcontext) -> Code;
    fn cuCtxSetCurrent(context: CUcontext) -> Code;
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Code;
    fn cuMemAlloc_v2(pointer: *mut CUdeviceptr, size: usize) -> Code;
    fn cuMemFree_v2(pointer: CUdeviceptr) -> Code;
    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) -> Code;
    fn cuStreamDestroy_v2(stream: CUstream) -> Code;
    fn cuStreamSynchronize(stream: CUstream) -> Code;
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) -> Code;
    fn cuEventCreate(event: *mut CUevent, flags: c_uint) -> Code;
    fn cuEventDestroy_v2(event: CUevent) -> Code;
    fn cuEventRecord(event: CUevent, stream: CUstream) -> Code;
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, size: usize, stream: CUstream) -> Code;
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, size: usize, stream: CUstream) -> Code;
    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, size: usize, stream: CUstream) -> Code;
    fn cuMemsetD8Async(to: CUdeviceptr, value: u8, count: usize, stream: CUstream) -> Code;
    fn cuMemsetD16Async(to: CUdeviceptr, value: u16, count: usize, stream: CUstream) -> Code;
    fn cuMemsetD32Async(to: CUdeviceptr, value: c_uint, count: usize, stream: CUstream) -> Code;
    optional;
    fn cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint) -> Code;
    fn cuStreamEndCapture(stream: CUstream, graph: *mut Handle) -> Code;
    fn cuStreamGetCaptureInfo_v2(stream: CUstream, status: *mut c_uint, id: *mut u64, graph: *mut Handle, nodes: *mut *const Handle, count: *mut usize) -> Code;
    fn cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, flags: u64) -> Code;
    fn cuGraphLaunch(executable: Handle, stream: CUstream) -> Code;
    fn cuGraphExecDestroy(executable: Handle) -> Code;
    fn cuGraphDestroy(graph: Handle) -> Code;
    fn cuUserObjectCreate(object: *mut Handle, value: *mut c_void, destroy: Destroy, references: c_uint, flags: c_uint) -> Code;
    fn cuUserObjectRelease(object: Handle, count: c_uint) -> Code;
    fn cuGraphRetainUserObject(graph: Handle, object: Handle, count: c_uint, flags: c_uint) -> Code;
    fn cuMemGetAllocationGranularity(granularity: *mut usize, properties: *const AllocationProperties, option: c_uint) -> Code;
    fn cuMemAddressReserve(pointer: *mut CUdeviceptr, size: usize, alignment: usize, wanted: CUdeviceptr, flags: u64) -> Code;
    fn cuMemAddressFree(pointer: CUdeviceptr, size: usize) -> Code;
    fn cuMemCreate(piece: *mut u64, size: usize, properties: *const AllocationProperties, flags: u64) -> Code;
    fn cuMemRelease(piece: u64) -> Code;
    fn cuMemMap(pointer: CUdeviceptr, size: usize, offset: usize, piece: u64, flags: u64) -> Code;
    fn cuMemUnmap(pointer: CUdeviceptr, size: usize) -> Code;
    fn cuMemSetAccess(pointer: CUdeviceptr, size: usize, who: *const AccessDescription, count: usize) -> Code;
}

impl Functions {
    /// The functions for virtual memory, if the driver has them.
    pub(crate) fn virtual_memory(&self) -> Option<MemoryFunctions> {
        Some(MemoryFunctions {
            granularity: Named {
                name: "cuMemGetAllocationGranularity",
                call: self.cuMemGetAllocationGranularity?,
            },
            reserve: Named {
                name: "cuMemAddressReserve",
                call: self.cuMemAddressReserve?,
            },
            free: Named {
                name: "cuMemAddressFree",
                call: self.cuMemAddressFree?,
            },
            create: Named {
                name: "cuMemCreate",
                call: self.cuMemCreate?,
            },
            release: Named {
                name: "cuMemRelease",
                call: self.cuMemRelease?,
            },
            map: Named {
                name: "cuMemMap",
                call: self.cuMemMap?,
            },
            unmap: Named {
                name: "cuMemUnmap",
                call: self.cuMemUnmap?,
            },
            set_access: Named {
                name: "cuMemSetAccess",
                call: self.cuMemSetAccess?,
            },
        })
    }
}

/// The driver of this process, loaded when it is first asked for. A failure is not kept.
pub(crate) fn functions() -> Result<&'static Functions, Error> {
    static FUNCTIONS: OnceCell<Functions> = OnceCell::new();
    FUNCTIONS.get_or_try_init(|| start(Search::cuda(NAME).open()?))
}

/// The driver in this file, and no other. It stays loaded.
pub(crate) fn functions_of(library: &Path) -> Result<&'static Functions, Error> {
    let functions = start(Search::cuda(NAME).open_file(library)?)?;
    Ok(Box::leak(Box::new(functions)))
}

/// Looks the functions up and starts the driver, which may be done any number of times.
fn start(library: (workslab_driver::Library, String)) -> Result<Functions, Error> {
    let functions = Functions::find(library)?;
    // SAFETY: the flags must be 0, and are.
    let code = unsafe { (functions.cuInit)(0) };
    if code == 0 {
        return Ok(functions);
    }
    Err(Error::Unavailable {
        platform: NAME,
        reason: format!(
            "{} does not start: cuInit gives {} ({code})",
            functions.library,
            functions.name_of(code)
        ),
    })
}

#[cfg(test)]
mod tests {
    /// The functions and their prototypes are written down twice: here, and in C for the compiler to
    /// hold against CUDA's own header. This keeps the two lists the same.
    #[test]
    fn every_function_is_checked_against_the_header() {
        let here = include_str!("sys.rs");
        let check = include_str!("../check/cuda_abi.c");
        let functions: Vec<&str> = here
            .lines()
            .filter_map(|line| line.strip_prefix("    fn cu")?.split_once('('))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(functions.len(), 45);
        for function in functions {
            assert!(check.contains(&format!("= cu{function};")), "cu{function}");
        }
    }

    #[test]
    fn the_bindings_have_the_values_that_the_header_has() {
        use cust::sys::CUdevice_attribute;
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED;
        assert_eq!(attribute as u32, 18);
        let attribute =
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED;
        assert_eq!(attribute as u32, 102);
    }
}
