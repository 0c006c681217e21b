//! HIP's codes, and their names.

use std::ffi::{CStr, c_char, c_int};

use workslab_emulator::Code;
use workslab_emulator::abi::{INVALID_VALUE, SUCCESS};

/// The code that HIP has for it.
pub(crate) fn code(code: Code) -> c_int {
    match code {
        Code::InvalidValue => INVALID_VALUE,
        Code::OutOfMemory => 2,
        Code::NoDevice => 100,
        Code::InvalidDevice => 101,
        Code::InvalidHandle => 400,
        Code::NotReady => 600,
        // What a program sees of a device that has gone.
        Code::DeviceLost => 719,
        Code::Capture(fault) => fault as c_int,
        Code::Injected(code) => code,
        _ => 999,
    }
}

/// What a call returns.
pub(crate) fn result(outcome: Result<(), Code>) -> c_int {
    outcome.map_or_else(code, |()| SUCCESS)
}

fn name(code: c_int) -> &'static CStr {
    match code {
        0 => c"hipSuccess",
        1 => c"hipErrorInvalidValue",
        2 => c"hipErrorOutOfMemory",
        3 => c"hipErrorNotInitialized",
        4 => c"hipErrorDeinitialized",
        100 => c"hipErrorNoDevice",
        101 => c"hipErrorInvalidDevice",
        201 => c"hipErrorInvalidContext",
        400 => c"hipErrorInvalidHandle",
        600 => c"hipErrorNotReady",
        700 => c"hipErrorIllegalAddress",
        719 => c"hipErrorLaunchFailure",
        801 => c"hipErrorNotSupported",
        900 => c"hipErrorStreamCaptureUnsupported",
        901 => c"hipErrorStreamCaptureInvalidated",
        902 => c"hipErrorStreamCaptureMerge",
        903 => c"hipErrorStreamCaptureUnmatched",
        904 => c"hipErrorStreamCaptureUnjoined",
        905 => c"hipErrorStreamCaptureIsolation",
        906 => c"hipErrorStreamCaptureImplicit",
        907 => c"hipErrorCapturedEvent",
        908 => c"hipErrorStreamCaptureWrongThread",
        999 => c"hipErrorUnknown",
        _ => c"hipErrorUnknown",
    }
}

#[unsafe(no_mangle)]
extern "C" fn hipGetErrorName(code: c_int) -> *const c_char {
    name(code).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn hipGetErrorString(code: c_int) -> *const c_char {
    name(code).as_ptr()
}
