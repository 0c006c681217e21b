//! CUDA's functions. Where CUDA's own documentation leaves a choice, the stricter one is taken.

use std::ffi::{c_char, c_int, c_uint, c_void};

use workslab_emulator::abi::{INVALID_VALUE, SUCCESS, store, store_text};
use workslab_emulator::process::{count_call, driver};
use workslab_emulator::{Code, EventId, StreamId};

use crate::error::{INVALID_CONTEXT, NOT_INITIALIZED, code, result};
use crate::state::{
    context_of, current, current_device, device_of, is_started, set_current, start,
};

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;
/// `CU_DEVICE_ATTRIBUTE_INTEGRATED`.
const ATTRIBUTE_INTEGRATED: c_int = 18;
/// `CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED`.
const ATTRIBUTE_VIRTUAL_MEMORY: c_int = 102;

/// Counts the call, and goes on only if the driver was started.
macro_rules! begin {
    () => {
        count_call();
        if !is_started() {
            return NOT_INITIALIZED;
        }
    };
}

/// As [`begin`], and gives the current context's device; there must be one.
macro_rules! begin_in_context {
    () => {{
        begin!();
        match current_device() {
            Some(device) => device,
            None => return INVALID_CONTEXT,
        }
    }};
}

/// As [`begin`], and gives the device on whose behalf a call on the stream is made.
macro_rules! begin_for {
    ($stream:expr) => {{
        begin!();
        match device_for($stream) {
            Some(device) => device,
            None => return INVALID_CONTEXT,
        }
    }};
}

pub(crate) use {begin, begin_for};

pub(crate) fn stream_of(handle: *mut c_void) -> StreamId {
    StreamId(handle.addr() as u64)
}

fn event_of(handle: *mut c_void) -> EventId {
    EventId(handle.addr() as u64)
}

pub(crate) fn handle(id: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(id as usize)
}

fn ordinal(device: c_int) -> u32 {
    u32::try_from(device).unwrap_or(u32::MAX)
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: c_uint) -> c_int {
    count_call();
    if flags != 0 {
        return INVALID_VALUE;
    }
    start();
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    count_call();
    // SAFETY: the caller's pointer.
    unsafe { store(version, Ok(12_000), code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    begin!();
    // CUDA counts no devices where HIP says that there is none.
    let outcome = match driver().device_count("cuDeviceGetCount") {
        Err(Code::NoDevice) => Ok(0),
        other => other,
    };
    let outcome = outcome.map(|count| c_int::try_from(count).unwrap_or(c_int::MAX));
    // SAFETY: the caller's pointer.
    unsafe { store(count, outcome, code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, number: c_int) -> c_int {
    begin!();
    let outcome = driver().with_device("cuDeviceGet", ordinal(number), || number);
    // SAFETY: the caller's pointer.
    unsafe { store(device, outcome, code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> c_int {
    begin!();
    let text = driver().with_device("cuDeviceGetName", ordinal(device), || {
        format!("workslab emulated GPU {device}")
    });
    // SAFETY: the caller\'s pointer and length.
    unsafe { store_text(name, len, text, code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: c_int) -> c_int {
    begin!();
    let text = driver().with_device("cuDeviceGetPCIBusId", ordinal(device), || {
        format!("0000:{device:02x}:00.0")
    });
    // SAFETY: the caller\'s pointer and length.
    unsafe { store_text(id, len, text, code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    device: c_int,
) -> c_int {
    begin!();
    let outcome = driver()
        .with_device("cuDeviceGetAttribute", ordinal(device), || ())
        .and(match attribute {
            ATTRIBUTE_INTEGRATED => Ok(c_int::from(driver().options().integrated)),
            ATTRIBUTE_VIRTUAL_MEMORY => Ok(c_int::from(driver().options().virtual_memory)),
            _ => Err(Code::InvalidValue),
        });
    // SAFETY: the caller's pointer.
    unsafe { store(value, outcome, code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int) -> c_int {
    begin!();
    let device = ordinal(device);
    let outcome = driver().with_device("cuDevicePrimaryCtxRetain", device, || context_of(device));
    // SAFETY: the caller's pointer.
    unsafe { store(context, outcome, code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut *mut c_void) -> c_int {
    begin!();
    // Which context is current is known without any device; 0 only stands for the driver.
    let outcome = driver().with_device("cuCtxGetCurrent", 0, current);
    // SAFETY: the caller's pointer.
    unsafe { store(context, outcome, code) }
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> c_int {
    begin!();
    let device = match device_of(context) {
        Some(device) => device,
        None if context.is_null() => 0,
        None => return INVALID_CONTEXT,
    };
    result(driver().with_device("cuCtxSetCurrent", device, || set_current(context)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    let device = begin_in_context!();
    match driver().memory("cuMemGetInfo", device) {
        Ok((free_bytes, all_bytes)) => {
            // SAFETY: the caller's pointers.
            unsafe { store(free, Ok(free_bytes), code) | store(total, Ok(all_bytes), code) }
        }
        Err(error) => code(error),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(pointer: *mut u64, size: usize) -> c_int {
    let device = begin_in_context!();
    if size == 0 {
        return INVALID_VALUE;
    }
    let outcome = driver()
        .allocate("cuMemAlloc", device, size)
        .map(|address| address as u64);
    // SAFETY: the caller's pointer.
    unsafe { store(pointer, outcome, code) }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(pointer: u64) -> c_int {
    let _device = begin_in_context!();
    result(driver().free("cuMemFree", pointer as usize))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut *mut c_void, flags: c_uint) -> c_int {
    let device = begin_in_context!();
    let blocking = flags & NON_BLOCKING == 0;
    let outcome = driver()
        .create_stream("cuStreamCreate", device, blocking)
        .map(|stream| handle(stream.0));
    // SAFETY: the caller's pointer.
    unsafe { store(stream, outcome, code) }
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: *mut c_void) -> c_int {
    begin!();
    result(driver().destroy_stream("cuStreamDestroy", stream_of(stream)))
}

/// The device on whose behalf a call on a stream is made: a stream knows its own, but the default
/// stream is that of the current context.
pub(crate) fn device_for(stream: *mut c_void) -> Option<u32> {
    match current_device() {
        None if !stream.is_null() => Some(0),
        current => current,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: *mut c_void) -> c_int {
    let device = begin_for!(stream);
    result(driver().synchronize_stream("cuStreamSynchronize", device, stream_of(stream)))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, flags: c_uint) -> c_int {
    let device = begin_for!(stream);
    if flags != 0 {
        return INVALID_VALUE;
    }
    result(driver().wait(
        "cuStreamWaitEvent",
        device,
        stream_of(stream),
        event_of(event),
    ))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut *mut c_void, _flags: c_uint) -> c_int {
    let device = begin_in_context!();
    let outcome = driver()
        .create_event("cuEventCreate", device)
        .map(|event| handle(event.0));
    // SAFETY: the caller's pointer.
    unsafe { store(event, outcome, code) }
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: *mut c_void) -> c_int {
    begin!();
    result(driver().destroy_event("cuEventDestroy", event_of(event)))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: *mut c_void, stream: *mut c_void) -> c_int {
    let device = begin_for!(stream);
    result(driver().record("cuEventRecord", device, event_of(event), stream_of(stream)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    size: usize,
    stream: *mut c_void,
) -> c_int {
    let device = begin_in_context!();
    // SAFETY: the caller keeps the source as it is until the stream has done the copy.
    result(unsafe {
        driver().copy_from_host(
            "cuMemcpyHtoDAsync",
            device,
            stream_of(stream),
            from.cast(),
            to as usize,
            size,
        )
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    size: usize,
    stream: *mut c_void,
) -> c_int {
    let device = begin_in_context!();
    // SAFETY: the caller keeps the destination to this copy until the stream has done it.
    result(unsafe {
        driver().copy_to_host(
            "cuMemcpyDtoHAsync",
            device,
            stream_of(stream),
            from as usize,
            to.cast(),
            size,
        )
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, size: usize, stream: *mut c_void) -> c_int {
    let device = begin_in_context!();
    result(driver().copy(
        "cuMemcpyDtoDAsync",
        device,
        stream_of(stream),
        from as usize,
        to as usize,
        size,
    ))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: *mut c_void) -> c_int {
    fill("cuMemsetD8Async", to, &[value], count, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD16Async(to: u64, value: u16, count: usize, stream: *mut c_void) -> c_int {
    fill("cuMemsetD16Async", to, &value.to_ne_bytes(), count, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32Async(to: u64, value: c_uint, count: usize, stream: *mut c_void) -> c_int {
    fill("cuMemsetD32Async", to, &value.to_ne_bytes(), count, stream)
}

fn fill(call: &'static str, to: u64, bytes: &[u8], count: usize, stream: *mut c_void) -> c_int {
    let device = begin_in_context!();
    let to = to as usize;
    if !to.is_multiple_of(bytes.len()) {
        return INVALID_VALUE;
    }
    result(driver().fill(call, device, stream_of(stream), to, bytes, count))
}
