//! The driver's functions, looked up when the program runs.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};

use hip_sys::hiprt::{hipEvent_t, hipStream_t};
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
    platform NAME, needs "HIP 5.0";
    fn hipRuntimeGetVersion(version: *mut c_int) -> Code;
    fn hipGetErrorName(code: Code) -> *const c_char;
    fn hipGetDeviceCount(count: *mut c_int) -> Code;
    fn hipGetDevice(device: *mut c_int) -> Code;
    fn hipSetDevice(device: c_int) -> Code;
    fn hipDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> Code;
    fn hipDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: c_int) -> Code;
    fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int) -> Code;
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> Code;
    fn hipMalloc(pointer: *mut *mut c_void, size: usize) -> Code;
    fn hipFree(pointer: *mut c_void) -> Code;
    fn hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) -> Code;
    fn hipStreamDestroy(stream: hipStream_t) -> Code;
    fn hipStreamSynchronize(stream: hipStream_t) -> Code;
    fn hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) -> Code;
    fn hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) -> Code;
    fn hipEventDestroy(event: hipEvent_t) -> Code;
    fn hipEventRecord(event: hipEvent_t, stream: hipStream_t) -> Code;
    fn hipMemcpyAsync(to: *mut c_void, from: *const c_void, size: usize, kind: c_uint, stream: hipStream_t) -> Code;
    fn hipMemsetD8Async(to: *mut c_void, value: u8, count: usize, stream: hipStream_t) -> Code;
    fn hipMemsetD16Async(to: *mut c_void, value: u16, count: usize, stream: hipStream_t) -> Code;
    fn hipMemsetD32Async(to: *mut c_void, value: c_int, count: usize, stream: hipStream_t) -> Code;
    optional;
    fn hipStreamBeginCapture(stream: hipStream_t, mode: c_uint) -> Code;
    fn hipStreamEndCapture(stream: hipStream_t, graph: *mut Handle) -> Code;
    fn hipStreamGetCaptureInfo(stream: hipStream_t, status: *mut c_uint, id: *mut u64) -> Code;
    fn hipGraphInstantiate(executable: *mut Handle, graph: Handle, bad: *mut Handle, log: *mut c_char, len: usize) -> Code;
    fn hipGraphLaunch(executable: Handle, stream: hipStream_t) -> Code;
    fn hipGraphExecDestroy(executable: Handle) -> Code;
    fn hipGraphDestroy(graph: Handle) -> Code;
    fn hipUserObjectCreate(object: *mut Handle, value: *mut c_void, destroy: Destroy, references: c_uint, flags: c_uint) -> Code;
    fn hipUserObjectRelease(object: Handle, count: c_uint) -> Code;
    fn hipGraphRetainUserObject(graph: Handle, object: Handle, count: c_uint, flags: c_uint) -> Code;
    fn hipMemGetAllocationGranularity(granularity: *mut usize, properties: *const AllocationProperties, option: c_uint) -> Code;
    fn hipMemAddressReserve(pointer: *mut u64, size: usize, alignment: usize, wanted: u64, flags: u64) -> Code;
    fn hipMemAddressFree(pointer: u64, size: usize) -> Code;
    fn hipMemCreate(piece: *mut u64, size: usize, properties: *const AllocationProperties, flags: u64) -> Code;
    fn hipMemRelease(piece: u64) -> Code;
    fn hipMemMap(pointer: u64, size: usize, offset: usize, piece: u64, flags: u64) -> Code;
    fn hipMemUnmap(pointer: u64, size: usize) -> Code;
    fn hipMemSetAccess(pointer: u64, size: usize, who: *const AccessDescription, count: usize) -> Code;
}

impl Functions {
    /// The functions for virtual memory, if the driver has them.
    pub(crate) fn virtual_memory(&self) -> Option<MemoryFunctions> {
        Some(MemoryFunctions {
            granularity: Named {
                name: "hipMemGetAllocationGranularity",
                call: self.hipMemGetAllocationGranularity?,
            },
            reserve: Named {
                name: "hipMemAddressReserve",
                call: self.hipMemAddressReserve?,
            },
            free: Named {
                name: "hipMemAddressFree",
                call: self.hipMemAddressFree?,
            },
            create: Named {
                name: "hipMemCreate",
                call: self.hipMemCreate?,
            },
            release: Named {
                name: "hipMemRelease",
                call: self.hipMemRelease?,
            },
            map: Named {
                name: "hipMemMap",
                call: self.hipMemMap?,
            },
            unmap: Named {
                name: "hipMemUnmap",
                call: self.hipMemUnmap?,
            },
            set_access: Named {
                name: "hipMemSetAccess",
                call: self.hipMemSetAccess?,
            },
        })
    }
}

/// The driver of this process, loaded when it is first asked for. A failure is not kept.
pub(crate) fn functions() -> Result<&'static Functions, Error> {
    static FUNCTIONS: OnceCell<Functions> = OnceCell::new();
    FUNCTIONS.get_or_try_init(|| Functions::find(search().open()?))
}

/// The driver in this file, and no other. It stays loaded.
pub(crate) fn functions_of(library: &Path) -> Result<&'static Functions, Error> {
    let functions = Functions::find(search().open_file(library)?)?;
    Ok(Box::leak(Box::new(functions)))
}

fn search() -> Search {
    Search {
        platform: NAME,
        what: "HIP library",
        variable: "WORKSLAB_HIP_LIBRARY",
        // The one without a version is the installed toolkit's own.
        names: &[
            "libamdhip64.so",
            "libamdhip64.so.10",
            "libamdhip64.so.7",
            "libamdhip64.so.6",
            "libamdhip64.so.5",
        ],
        folders: ["ROCM_PATH", "HIP_PATH"]
            .into_iter()
            .filter_map(std::env::var_os)
            .map(PathBuf::from)
            .chain([PathBuf::from("/opt/rocm")])
            .map(|root| root.join("lib"))
            .collect(),
        advice: "install ROCm",
    }
}

#[cfg(test)]
mod tests {
    /// The functions and their prototypes are written down twice: here, and in C for the compiler to
    /// hold against HIP's own headers. This keeps the two lists the same.
    #[test]
    fn every_function_is_checked_against_the_headers() {
        let here = include_str!("sys.rs");
        let check = include_str!("../check/hip_abi.c");
        let functions: Vec<&str> = here
            .lines()
            .filter_map(|line| line.strip_prefix("    fn hip")?.split_once('('))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(functions.len(), 40);
        for function in functions {
            assert!(
                check.contains(&format!("= hip{function};")),
                "hip{function}"
            );
        }
    }

    #[test]
    fn the_bindings_have_the_values_that_the_headers_have() {
        use hip_sys::hiprt::{hipDeviceAttribute_t, hipMemcpyKind};
        assert_eq!(
            hipDeviceAttribute_t::hipDeviceAttributeIntegrated as u32,
            16
        );
        assert_eq!(hipMemcpyKind::hipMemcpyHostToDevice as u32, 1);
        assert_eq!(hipMemcpyKind::hipMemcpyDeviceToHost as u32, 2);
        assert_eq!(hipMemcpyKind::hipMemcpyDeviceToDevice as u32, 3);
    }
}
