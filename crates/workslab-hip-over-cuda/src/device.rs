//! Each thread's current device, and the primary contexts that stand for devices in CUDA.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use crate::cuda::{Code, Functions, Handle, functions};

pub(crate) const NO_DEVICE: Code = 100;
const INVALID_DEVICE: Code = 101;

thread_local! {
    static CURRENT: Cell<c_int> = const { Cell::new(0) };
}

/// A context, which CUDA lets every thread use.
#[derive(Clone, Copy)]
struct Context(Handle);

// SAFETY: the driver's contexts are bound to no thread.
unsafe impl Send for Context {}

/// The calling thread's current device.
pub(crate) fn current() -> c_int {
    CURRENT.get()
}

/// Makes a device the calling thread's current one, if it is there.
pub(crate) fn set_current(ordinal: c_int) -> Result<(), Code> {
    let functions = functions().ok_or(NO_DEVICE)?;
    context(functions, ordinal)?;
    CURRENT.set(ordinal);
    Ok(())
}

/// CUDA's handle of a device.
pub(crate) fn handle(functions: &Functions, ordinal: c_int) -> Result<c_int, Code> {
    let mut device = 0;
    // SAFETY: the call writes to `device` only.
    match unsafe { (functions.cuDeviceGet)(&raw mut device, ordinal) } {
        0 => Ok(device),
        1 => Err(INVALID_DEVICE), // HIP has a code of its own for it
        code => Err(code),
    }
}

/// The driver, with the context of the current device current on this thread.
pub(crate) fn enter() -> Result<&'static Functions, Code> {
    let functions = functions().ok_or(NO_DEVICE)?;
    let context = context(functions, current())?;
    // SAFETY: the context is a primary one, retained for ever.
    match unsafe { (functions.cuCtxSetCurrent)(context.0) } {
        0 => Ok(functions),
        code => Err(code),
    }
}

/// The device's primary context, retained once.
fn context(functions: &Functions, ordinal: c_int) -> Result<Context, Code> {
    static CONTEXTS: Mutex<Vec<Option<Context>>> = Mutex::new(Vec::new());
    let index = usize::try_from(ordinal).map_err(|_| INVALID_DEVICE)?;
    let device = handle(functions, ordinal)?;
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Some(context)) = contexts.get(index) {
        return Ok(*context);
    }
    let mut raw = ptr::null_mut();
    // SAFETY: the call writes to `raw` only.
    let code = unsafe { (functions.cuDevicePrimaryCtxRetain)(&raw mut raw, device) };
    if code != 0 {
        return Err(code);
    }
    if contexts.len() <= index {
        contexts.resize(index + 1, None);
    }
    contexts[index] = Some(Context(raw));
    Ok(Context(raw))
}
