//! HIP's codes.

use std::ffi::{c_char, c_int};

use workslab_emulator::Code;
use workslab_emulator::abi::{INVALID_VALUE, SUCCESS, hip_error_name};

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

#[unsafe(no_mangle)]
extern "C" fn hipGetErrorName(code: c_int) -> *const c_char {
    hip_error_name(code).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn hipGetErrorString(code: c_int) -> *const c_char {
    hip_error_name(code).as_ptr()
}
