//! HIP's functions. Where HIP's own documentation leaves a choice, the stricter one is taken.

use std::ffi::{c_char, c_int, c_uint, c_void};

use workslab_emulator::abi::{INVALID_VALUE, store, store_text};
use workslab_emulator::process::{count_call, driver};
use workslab_emulator::{Code, EventId, StreamId};

use crate::error::{code, result};
use crate::state::{current, set_current};

/// `hipStreamNonBlocking`.
const NON_BLOCKING: c_uint = 1;
/// `hipMemcpyKind`.
const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;
const DEVICE_TO_DEVICE: c_int = 3;
/// `hipDeviceAttribute_t`, those that a program asks for here.
const ATTRIBUTE_INTEGRATED: c_int = 16;
const ATTRIBUTE_VIRTUAL_MEMORY: c_int = 89;

pub(crate) fn stream_of(handle: *mut c_void) -> StreamId {
    StreamId(handle.addr() as u64)
}

fn event_of(handle: *mut c_void) -> EventId {
    EventId(handle.addr() as u64)
}

pub(crate) fn handle(id: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(id as usize)
}

fn address(pointer: *const c_void) -> usize {
    pointer.expose_provenance()
}

fn ordinal(device: c_int) -> u32 {
    u32::try_from(device).unwrap_or(u32::MAX)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipRuntimeGetVersion(version: *mut c_int) -> c_int {
    count_call();
    // SAFETY: the caller's pointer.
    unsafe { store(version, Ok(60_000_000), code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> c_int {
    count_call();
    let outcome = driver()
        .device_count("hipGetDeviceCount")
        .map(|count| c_int::try_from(count).unwrap_or(c_int::MAX));
    // SAFETY: the caller's pointer.
    unsafe { store(count, outcome, code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetDevice(device: *mut c_int) -> c_int {
    count_call();
    let now = current();
    let outcome = driver().with_device("hipGetDevice", now, || {
        c_int::try_from(now).unwrap_or(c_int::MAX)
    });
    // SAFETY: the caller's pointer.
    unsafe { store(device, outcome, code) }
}

#[unsafe(no_mangle)]
extern "C" fn hipSetDevice(device: c_int) -> c_int {
    count_call();
    let device = ordinal(device);
    result(driver().with_device("hipSetDevice", device, || set_current(device)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> c_int {
    count_call();
    let text = driver().with_device("hipDeviceGetName", ordinal(device), || {
        format!("workslab emulated GPU {device}")
    });
    // SAFETY: the caller\'s pointer and length.
    unsafe { store_text(name, len, text, code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: c_int) -> c_int {
    count_call();
    let text = driver().with_device("hipDeviceGetPCIBusId", ordinal(device), || {
        format!("0000:{device:02x}:00.0")
    });
    // SAFETY: the caller\'s pointer and length.
    unsafe { store_text(id, len, text, code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    device: c_int,
) -> c_int {
    count_call();
    let outcome = driver()
        .with_device("hipDeviceGetAttribute", ordinal(device), || ())
        .and(match attribute {
            ATTRIBUTE_INTEGRATED => Ok(c_int::from(driver().options().integrated)),
            ATTRIBUTE_VIRTUAL_MEMORY => Ok(c_int::from(driver().options().virtual_memory)),
            _ => Err(Code::InvalidValue),
        });
    // SAFETY: the caller's pointer.
    unsafe { store(value, outcome, code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> c_int {
    count_call();
    match driver().memory("hipMemGetInfo", current()) {
        Ok((free_bytes, all_bytes)) => {
            // SAFETY: the caller's pointers.
            unsafe { store(free, Ok(free_bytes), code) | store(total, Ok(all_bytes), code) }
        }
        Err(error) => code(error),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMalloc(pointer: *mut *mut c_void, size: usize) -> c_int {
    count_call();
    let outcome = driver()
        .allocate("hipMalloc", current(), size)
        .map(std::ptr::with_exposed_provenance_mut);
    // SAFETY: the caller's pointer.
    unsafe { store(pointer, outcome, code) }
}

#[unsafe(no_mangle)]
extern "C" fn hipFree(pointer: *mut c_void) -> c_int {
    count_call();
    result(driver().free("hipFree", address(pointer)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamCreateWithFlags(stream: *mut *mut c_void, flags: c_uint) -> c_int {
    count_call();
    let blocking = flags & NON_BLOCKING == 0;
    let outcome = driver()
        .create_stream("hipStreamCreateWithFlags", current(), blocking)
        .map(|stream| handle(stream.0));
    // SAFETY: the caller's pointer.
    unsafe { store(stream, outcome, code) }
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamDestroy(stream: *mut c_void) -> c_int {
    count_call();
    result(driver().destroy_stream("hipStreamDestroy", stream_of(stream)))
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamSynchronize(stream: *mut c_void) -> c_int {
    count_call();
    result(driver().synchronize_stream("hipStreamSynchronize", current(), stream_of(stream)))
}

#[unsafe(no_mangle)]
extern "C" fn hipDeviceSynchronize() -> c_int {
    count_call();
    result(driver().synchronize_device("hipDeviceSynchronize", current()))
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamWaitEvent(stream: *mut c_void, event: *mut c_void, flags: c_uint) -> c_int {
    count_call();
    if flags != 0 {
        return INVALID_VALUE;
    }
    result(driver().wait(
        "hipStreamWaitEvent",
        current(),
        stream_of(stream),
        event_of(event),
    ))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipEventCreateWithFlags(event: *mut *mut c_void, _flags: c_uint) -> c_int {
    count_call();
    let outcome = driver()
        .create_event("hipEventCreateWithFlags", current())
        .map(|event| handle(event.0));
    // SAFETY: the caller's pointer.
    unsafe { store(event, outcome, code) }
}

#[unsafe(no_mangle)]
extern "C" fn hipEventDestroy(event: *mut c_void) -> c_int {
    count_call();
    result(driver().destroy_event("hipEventDestroy", event_of(event)))
}

#[unsafe(no_mangle)]
extern "C" fn hipEventRecord(event: *mut c_void, stream: *mut c_void) -> c_int {
    count_call();
    result(driver().record(
        "hipEventRecord",
        current(),
        event_of(event),
        stream_of(stream),
    ))
}

#[unsafe(no_mangle)]
extern "C" fn hipEventQuery(event: *mut c_void) -> c_int {
    count_call();
    result(driver().query("hipEventQuery", event_of(event)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemcpyAsync(
    to: *mut c_void,
    from: *const c_void,
    size: usize,
    kind: c_int,
    stream: *mut c_void,
) -> c_int {
    const CALL: &str = "hipMemcpyAsync";
    count_call();
    let (driver, device, stream) = (driver(), current(), stream_of(stream));
    // SAFETY: the caller keeps the host's side as it is until the stream has done the copy.
    result(unsafe {
        match kind {
            HOST_TO_DEVICE => {
                driver.copy_from_host(CALL, device, stream, from.cast(), address(to), size)
            }
            DEVICE_TO_HOST => {
                driver.copy_to_host(CALL, device, stream, address(from), to.cast(), size)
            }
            DEVICE_TO_DEVICE => driver.copy(CALL, device, stream, address(from), address(to), size),
            _ => Err(Code::InvalidValue),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipMemsetD8Async(
    to: *mut c_void,
    value: u8,
    count: usize,
    stream: *mut c_void,
) -> c_int {
    fill("hipMemsetD8Async", to, &[value], count, stream)
}

#[unsafe(no_mangle)]
extern "C" fn hipMemsetD16Async(
    to: *mut c_void,
    value: u16,
    count: usize,
    stream: *mut c_void,
) -> c_int {
    fill("hipMemsetD16Async", to, &value.to_ne_bytes(), count, stream)
}

#[unsafe(no_mangle)]
extern "C" fn hipMemsetD32Async(
    to: *mut c_void,
    value: c_int,
    count: usize,
    stream: *mut c_void,
) -> c_int {
    fill("hipMemsetD32Async", to, &value.to_ne_bytes(), count, stream)
}

fn fill(
    call: &'static str,
    to: *mut c_void,
    bytes: &[u8],
    count: usize,
    stream: *mut c_void,
) -> c_int {
    count_call();
    if !address(to).is_multiple_of(bytes.len()) {
        return INVALID_VALUE;
    }
    result(driver().fill(
        call,
        current(),
        stream_of(stream),
        address(to),
        bytes,
        count,
    ))
}
