//! HIP's functions, each handed on to its twin.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

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
    if attribute != HIP_INTEGRATED {
        return BAD_VALUE; // the only one whose number is known here
    }
    // SAFETY: the caller's pointer, which CUDA checks.
    about(device, |cuda, device| unsafe {
        (cuda.cuDeviceGetAttribute)(value, CUDA_INTEGRATED, device)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> Code {
    // SAFETY: the caller's pointers.
    call(|cuda| unsafe { (cuda.cuMemGetInfo_v2)(free, total) })
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
extern "C" fn hipFree(pointer: *mut c_void) -> Code {
    // SAFETY: an address that CUDA gave, which it checks.
    call(|cuda| unsafe { (cuda.cuMemFree_v2)(address(pointer)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamCreateWithFlags(stream: *mut Handle, flags: c_uint) -> Code {
    // SAFETY: the caller's pointer. The flags are the same.
    call(|cuda| unsafe { (cuda.cuStreamCreate)(stream, flags) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamDestroy(stream: Handle) -> Code {
    // SAFETY: the caller's stream.
    call(|cuda| unsafe { (cuda.cuStreamDestroy_v2)(stream) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamSynchronize(stream: Handle) -> Code {
    // SAFETY: the caller's stream.
    call(|cuda| unsafe { (cuda.cuStreamSynchronize)(stream) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) -> Code {
    // SAFETY: the caller's stream and event.
    call(|cuda| unsafe { (cuda.cuStreamWaitEvent)(stream, event, flags) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipEventCreateWithFlags(event: *mut Handle, flags: c_uint) -> Code {
    // SAFETY: the caller's pointer. The flag for "no timing" is the same.
    call(|cuda| unsafe { (cuda.cuEventCreate)(event, flags) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipEventDestroy(event: Handle) -> Code {
    // SAFETY: the caller's event.
    call(|cuda| unsafe { (cuda.cuEventDestroy_v2)(event) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipEventRecord(event: Handle, stream: Handle) -> Code {
    // SAFETY: the caller's event and stream.
    call(|cuda| unsafe { (cuda.cuEventRecord)(event, stream) })
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
unsafe extern "C" fn hipMemsetD8Async(
    to: *mut c_void,
    value: u8,
    count: usize,
    stream: Handle,
) -> Code {
    // SAFETY: the caller's memory.
    call(|cuda| unsafe { (cuda.cuMemsetD8Async)(address(to), value, count, stream) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemsetD16Async(
    to: *mut c_void,
    value: u16,
    count: usize,
    stream: Handle,
) -> Code {
    // SAFETY: the caller's memory.
    call(|cuda| unsafe { (cuda.cuMemsetD16Async)(address(to), value, count, stream) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemsetD32Async(
    to: *mut c_void,
    value: c_int,
    count: usize,
    stream: Handle,
) -> Code {
    // SAFETY: the caller's memory.
    call(|cuda| unsafe {
        (cuda.cuMemsetD32Async)(address(to), value.cast_unsigned(), count, stream)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamBeginCapture(stream: Handle, mode: c_uint) -> Code {
    // SAFETY: the caller's stream. The modes are the same.
    call(|cuda| unsafe { (cuda.cuStreamBeginCapture_v2)(stream, mode) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamEndCapture(stream: Handle, graph: *mut Handle) -> Code {
    // SAFETY: the caller's stream and pointer.
    call(|cuda| unsafe { (cuda.cuStreamEndCapture)(stream, graph) })
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

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGraphLaunch(executable: Handle, stream: Handle) -> Code {
    // SAFETY: the caller's graph and stream.
    call(|cuda| unsafe { (cuda.cuGraphLaunch)(executable, stream) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGraphExecDestroy(executable: Handle) -> Code {
    // SAFETY: the caller's graph.
    call(|cuda| unsafe { (cuda.cuGraphExecDestroy)(executable) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGraphDestroy(graph: Handle) -> Code {
    // SAFETY: the caller's graph.
    call(|cuda| unsafe { (cuda.cuGraphDestroy)(graph) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipUserObjectCreate(
    object: *mut Handle,
    value: *mut c_void,
    destroy: Destroy,
    references: c_uint,
    flags: c_uint,
) -> Code {
    // SAFETY: the caller's pointer and destructor. The flag is the same.
    call(|cuda| unsafe { (cuda.cuUserObjectCreate)(object, value, destroy, references, flags) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipUserObjectRelease(object: Handle, count: c_uint) -> Code {
    // SAFETY: the caller's object.
    call(|cuda| unsafe { (cuda.cuUserObjectRelease)(object, count) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGraphRetainUserObject(
    graph: Handle,
    object: Handle,
    count: c_uint,
    flags: c_uint,
) -> Code {
    // SAFETY: the caller's graph and object. The flag is the same.
    call(|cuda| unsafe { (cuda.cuGraphRetainUserObject)(graph, object, count, flags) })
}
