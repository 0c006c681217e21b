//! HIP's functions, each handed on to its twin.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use workslab_driver::{AccessDescription, AllocationProperties};
use workslab_emulator::abi::{INVALID_VALUE, hip_error_name};

use crate::cuda::{Code, Destroy, Functions, Handle, functions};
use crate::device::{NO_DEVICE, current, enter, handle, set_current};

const SUCCESS: Code = 0;
const BAD_VALUE: Code = INVALID_VALUE as Code;
/// `hipMemcpyKind`.
const HOST_TO_DEVICE: c_uint = 1;
const DEVICE_TO_HOST: c_uint = 2;
const DEVICE_TO_DEVICE: c_uint = 3;
/// `hipDeviceAttributeIntegrated`, and what CUDA has for it.
const HIP_INTEGRATED: c_uint = 16;
const CUDA_INTEGRATED: c_uint = 18;
/// `hipDeviceAttributeVirtualMemoryManagementSupported`, and what CUDA has for it.
const HIP_VIRTUAL_MEMORY: c_uint = 89;
const CUDA_VIRTUAL_MEMORY: c_uint = 102;
/// `hipErrorNotSupported`.
const NOT_SUPPORTED: Code = 801;

/// Calls CUDA with the current device's context current.
fn call(work: impl FnOnce(&'static Functions) -> Code) -> Code {
    enter().map_or_else(|code| code, work)
}

/// Calls CUDA about a device, current or not.
fn about(ordinal: c_int, work: impl FnOnce(&'static Functions, c_int) -> Code) -> Code {
    let Some(functions) = functions() else {
        return NO_DEVICE;
    };
    handle(functions, ordinal).map_or_else(|code| code, |device| work(functions, device))
}

fn address(pointer: *const c_void) -> u64 {
    pointer.expose_provenance() as u64
}

/// Functions whose twin takes the same, with the same flags and modes.
macro_rules! forward {
    ($($hip:ident($($name:ident: $type:ty),*) => $cuda:ident($($argument:expr),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $hip($($name: $type),*) -> Code {
            // SAFETY: what the caller hands to HIP is handed to CUDA, which asks the same of it.
            call(|cuda| unsafe { (cuda.$cuda)($($argument),*) })
        }
    )*};
}

forward! {
    hipMemGetInfo(free: *mut usize, total: *mut usize) => cuMemGetInfo_v2(free, total);
    hipFree(pointer: *mut c_void) => cuMemFree_v2(address(pointer));
    hipStreamCreateWithFlags(stream: *mut Handle, flags: c_uint) => cuStreamCreate(stream, flags);
    hipStreamDestroy(stream: Handle) => cuStreamDestroy_v2(stream);
    hipStreamSynchronize(stream: Handle) => cuStreamSynchronize(stream);
    hipStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) => cuStreamWaitEvent(stream, event, flags);
    hipEventCreateWithFlags(event: *mut Handle, flags: c_uint) => cuEventCreate(event, flags);
    hipEventDestroy(event: Handle) => cuEventDestroy_v2(event);
    hipEventRecord(event: Handle, stream: Handle) => cuEventRecord(event, stream);
    hipMemsetD8Async(to: *mut c_void, value: u8, count: usize, stream: Handle) => cuMemsetD8Async(address(to), value, count, stream);
    hipMemsetD16Async(to: *mut c_void, value: u16, count: usize, stream: Handle) => cuMemsetD16Async(address(to), value, count, stream);
    hipMemsetD32Async(to: *mut c_void, value: c_int, count: usize, stream: Handle) => cuMemsetD32Async(address(to), value.cast_unsigned(), count, stream);
    hipStreamBeginCapture(stream: Handle, mode: c_uint) => cuStreamBeginCapture_v2(stream, mode);
    hipStreamEndCapture(stream: Handle, graph: *mut Handle) => cuStreamEndCapture(stream, graph);
    hipGraphLaunch(executable: Handle, stream: Handle) => cuGraphLaunch(executable, stream);
    hipGraphExecDestroy(executable: Handle) => cuGraphExecDestroy(executable);
    hipGraphDestroy(graph: Handle) => cuGraphDestroy(graph);
    hipUserObjectCreate(object: *mut Handle, value: *mut c_void, destroy: Destroy, references: c_uint, flags: c_uint) => cuUserObjectCreate(object, value, destroy, references, flags);
    hipUserObjectRelease(object: Handle, count: c_uint) => cuUserObjectRelease(object, count);
    hipGraphRetainUserObject(graph: Handle, object: Handle, count: c_uint, flags: c_uint) => cuGraphRetainUserObject(graph, object, count, flags);
}

/// The same, for twins that a driver may lack. Their arguments are laid out alike.
macro_rules! forward_if_there {
    ($($hip:ident($($name:ident: $type:ty),*) => $cuda:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $hip($($name: $type),*) -> Code {
            call(|cuda| match cuda.$cuda {
                // SAFETY: as in `forward`.
                Some(twin) => unsafe { twin($($name),*) },
                None => NOT_SUPPORTED,
            })
        }
    )*};
}

forward_if_there! {
    hipMemGetAllocationGranularity(granularity: *mut usize, properties: *const AllocationProperties, option: c_uint) => cuMemGetAllocationGranularity;
    hipMemAddressReserve(address: *mut u64, size: usize, alignment: usize, wanted: u64, flags: u64) => cuMemAddressReserve;
    hipMemAddressFree(address: u64, size: usize) => cuMemAddressFree;
    hipMemCreate(piece: *mut u64, size: usize, properties: *const AllocationProperties, flags: u64) => cuMemCreate;
    hipMemRelease(piece: u64) => cuMemRelease;
    hipMemMap(address: u64, size: usize, offset: usize, piece: u64, flags: u64) => cuMemMap;
    hipMemUnmap(address: u64, size: usize) => cuMemUnmap;
    hipMemSetAccess(address: u64, size: usize, who: *const AccessDescription, count: usize) => cuMemSetAccess;
}

#[unsafe(no_mangle)]
extern "C" fn hipGetErrorName(code: Code) -> *const c_char {
    hip_error_name(c_int::try_from(code).unwrap_or(c_int::MAX)).as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipRuntimeGetVersion(version: *mut c_int) -> Code {
    if version.is_null() {
        return BAD_VALUE;
    }
    // SAFETY: the caller's pointer, and it is not null.
    unsafe { version.write(60_000_000) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> Code {
    let Some(functions) = functions() else {
        return NO_DEVICE;
    };
    // SAFETY: the caller's pointer, which CUDA checks.
    unsafe { (functions.cuDeviceGetCount)(count) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetDevice(device: *mut c_int) -> Code {
    if device.is_null() {
        return BAD_VALUE;
    }
    // SAFETY: the caller's pointer, and it is not null.
    unsafe { device.write(current()) };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hipSetDevice(device: c_int) -> Code {
    set_current(device).map_or_else(|code| code, |()| SUCCESS)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> Code {
    // SAFETY: the caller's pointer and length.
    about(device, |cuda, device| unsafe {
        (cuda.cuDeviceGetName)(name, len, device)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: c_int) -> Code {
    // SAFETY: the caller's pointer and length.
    about(device, |cuda, device| unsafe {
        (cuda.cuDeviceGetPCIBusId)(id, len, device)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_uint,
    device: c_int,
) -> Code {
    let attribute = match attribute {
        HIP_INTEGRATED => CUDA_INTEGRATED,
        HIP_VIRTUAL_MEMORY => CUDA_VIRTUAL_MEMORY,
        _ => return BAD_VALUE, // their numbers are not known here
    };
    // SAFETY: the caller's pointer, which CUDA checks.
    about(device, |cuda, device| unsafe {
        (cuda.cuDeviceGetAttribute)(value, attribute, device)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMalloc(pointer: *mut *mut c_void, size: usize) -> Code {
    let mut found = 0;
    // SAFETY: the call writes to `found` only.
    let code = call(|cuda| unsafe { (cuda.cuMemAlloc_v2)(&raw mut found, size) });
    if code == SUCCESS && !pointer.is_null() {
        // SAFETY: the caller's pointer, and it is not null.
        unsafe { pointer.write(ptr::with_exposed_provenance_mut(found as usize)) };
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemcpyAsync(
    to: *mut c_void,
    from: *const c_void,
    size: usize,
    kind: c_uint,
    stream: Handle,
) -> Code {
    // SAFETY: the caller's memory on either side, which lives until the stream has done the copy.
    call(|cuda| unsafe {
        match kind {
            HOST_TO_DEVICE => (cuda.cuMemcpyHtoDAsync_v2)(address(to), from, size, stream),
            DEVICE_TO_HOST => (cuda.cuMemcpyDtoHAsync_v2)(to, address(from), size, stream),
            DEVICE_TO_DEVICE => {
                (cuda.cuMemcpyDtoDAsync_v2)(address(to), address(from), size, stream)
            }
            _ => BAD_VALUE,
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamGetCaptureInfo(
    stream: Handle,
    status: *mut c_uint,
    id: *mut u64,
) -> Code {
    let nothing = ptr::null_mut::<Handle>();
    // SAFETY: the caller's stream and pointers; nothing else is asked for.
    call(|cuda| unsafe {
        (cuda.cuStreamGetCaptureInfo_v2)(
            stream,
            status,
            id,
            nothing,
            nothing.cast(),
            ptr::null_mut(),
        )
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGraphInstantiate(
    executable: *mut Handle,
    graph: Handle,
    _bad_node: *mut Handle,
    _log: *mut c_char,
    _log_len: usize,
) -> Code {
    // SAFETY: the caller's graph and pointer.
    call(|cuda| unsafe { (cuda.cuGraphInstantiateWithFlags)(executable, graph, 0) })
}
