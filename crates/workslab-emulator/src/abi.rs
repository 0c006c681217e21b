//! How results go back through a C interface. In HIP and in CUDA success is 0 and a bad argument 1.

use std::ffi::{CStr, c_char, c_int};

use crate::Code;

/// What a call returns that succeeds.
pub const SUCCESS: c_int = 0;
/// What a call returns whose argument makes no sense.
pub const INVALID_VALUE: c_int = 1;

/// Stores an outcome where the caller wants it, or gives its code.
///
/// # Safety
/// `to` is null or may be written to.
pub unsafe fn store<T>(
    to: *mut T,
    outcome: Result<T, Code>,
    code: impl FnOnce(Code) -> c_int,
) -> c_int {
    match outcome {
        Ok(_) if to.is_null() => INVALID_VALUE,
        Ok(value) => {
            // SAFETY: the caller's, and it is not null.
            unsafe { to.write(value) };
            SUCCESS
        }
        Err(error) => code(error),
    }
}

/// Stores text with its zero byte, if there is room for it.
///
/// # Safety
/// `to` is null or points to `len` bytes.
pub unsafe fn store_text(
    to: *mut c_char,
    len: c_int,
    text: Result<String, Code>,
    code: impl FnOnce(Code) -> c_int,
) -> c_int {
    let text = match text {
        Ok(text) => text,
        Err(error) => return code(error),
    };
    let room = usize::try_from(len).unwrap_or(0);
    if to.is_null() || room <= text.len() {
        return INVALID_VALUE;
    }
    // SAFETY: there is room for the text and a zero byte.
    unsafe {
        to.cast::<u8>()
            .copy_from_nonoverlapping(text.as_ptr(), text.len());
        to.add(text.len()).write(0);
    }
    SUCCESS
}

/// HIP's name for a code.
#[must_use]
pub fn hip_error_name(code: c_int) -> &'static CStr {
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
