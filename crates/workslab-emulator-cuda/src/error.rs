//! CUDA's codes, and their names.

use std::ffi::{CStr, c_char, c_int};

use workslab_emulator::Code;
use workslab_emulator::abi::{INVALID_VALUE, SUCCESS};

pub(crate) const NOT_INITIALIZED: c_int = 3;
pub(crate) const INVALID_CONTEXT: c_int = 201;

/// The code that CUDA has for it.
pub(crate) fn code(code: Code) -> c_int {
    match code {
        Code::InvalidValue => INVALID_VALUE,
        Code::OutOfMemory => 2,
        Code::NoDevice => 100,
        Code::InvalidDevice => 101,
        Code::InvalidHandle => 400,
        Code::NotReady => 600,
        // CUDA_ERROR_DEVICE_UNAVAILABLE, which cust's enum does not have.
        Code::DeviceLost => 46,
        Code::Capture(fault) => fault as c_int,
        Code::Injected(code) => code,
        _ => 999,
    }
}

/// What a call returns.
pub(crate) fn result(outcome: Result<(), Code>) -> c_int {
    outcome.map_or_else(code, |()| SUCCESS)
}

fn name(code: c_int) -> Option<&'static CStr> {
    Some(match code {
        0 => c"CUDA_SUCCESS",
        1 => c"CUDA_ERROR_INVALID_VALUE",
        2 => c"CUDA_ERROR_OUT_OF_MEMORY",
        3 => c"CUDA_ERROR_NOT_INITIALIZED",
        4 => c"CUDA_ERROR_DEINITIALIZED",
        46 => c"CUDA_ERROR_DEVICE_UNAVAILABLE",
        100 => c"CUDA_ERROR_NO_DEVICE",
        101 => c"CUDA_ERROR_INVALID_DEVICE",
        201 => c"CUDA_ERROR_INVALID_CONTEXT",
        400 => c"CUDA_ERROR_INVALID_HANDLE",
        600 => c"CUDA_ERROR_NOT_READY",
        700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        719 => c"CUDA_ERROR_LAUNCH_FAILED",
        900 => c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        901 => c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        902 => c"CUDA_ERROR_STREAM_CAPTURE_MERGE",
        903 => c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
        904 => c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
        905 => c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
        906 => c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
        907 => c"CUDA_ERROR_CAPTURED_EVENT",
        908 => c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
        999 => c"CUDA_ERROR_UNKNOWN",
        _ => return None,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(code: c_int, to: *mut *const c_char) -> c_int {
    if to.is_null() {
        return INVALID_VALUE;
    }
    let found = name(code);
    // SAFETY: the caller's pointer, which is not null.
    unsafe { to.write(found.map_or(std::ptr::null(), CStr::as_ptr)) };
    if found.is_some() {
        SUCCESS
    } else {
        INVALID_VALUE
    }
}
