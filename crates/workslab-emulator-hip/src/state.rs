//! Each thread's current device.

use std::cell::Cell;

thread_local! {
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread's current device; 0 until it sets another, as in HIP.
pub(crate) fn current() -> u32 {
    CURRENT.get()
}

pub(crate) fn set_current(device: u32) {
    CURRENT.set(device);
}
