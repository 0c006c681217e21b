//! Whether the driver was started, and each thread's current context.
//!
//! There is one context a device, the primary one; its handle is a number that names the device.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

static STARTED: AtomicBool = AtomicBool::new(false);

pub(crate) fn start() {
    STARTED.store(true, Ordering::Relaxed);
}

pub(crate) fn is_started() -> bool {
    STARTED.load(Ordering::Relaxed)
}

thread_local! {
    static CURRENT: Cell<*mut c_void> = const { Cell::new(std::ptr::null_mut()) };
}

/// Handles begin here, so that none is null or an ordinal by chance.
const FIRST: usize = 0xC0DE_0000;

/// The handle of a device's primary context.
pub(crate) fn context_of(device: u32) -> *mut c_void {
    std::ptr::without_provenance_mut(FIRST + device as usize)
}

/// The device of a context.
pub(crate) fn device_of(context: *mut c_void) -> Option<u32> {
    let index = context.addr().checked_sub(FIRST)?;
    u32::try_from(index)
        .ok()
        .filter(|device| *device < 0x1_0000)
}

/// The calling thread's current context; null until it sets one, as in CUDA.
pub(crate) fn current() -> *mut c_void {
    CURRENT.get()
}

pub(crate) fn set_current(context: *mut c_void) {
    CURRENT.set(context);
}

/// The device of the calling thread's current context.
pub(crate) fn current_device() -> Option<u32> {
    device_of(current())
}
