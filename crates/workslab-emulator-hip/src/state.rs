//! The process's driver, and each thread's current device.

use std::cell::Cell;

use once_cell::sync::Lazy;
use workslab_emulator::{Driver, Options};

static DRIVER: Lazy<Driver> = Lazy::new(|| match Options::from_env() {
    Ok(options) => Driver::new(options),
    Err(error) => {
        // There is nobody to return an error to: the first call of any kind brings us here.
        eprintln!("workslab emulator: {error}");
        std::process::exit(2);
    }
});

pub(crate) fn driver() -> &'static Driver {
    &DRIVER
}

thread_local! {
    static CURRENT: Cell<u32> = const { Cell::new(0) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// The calling thread's current device; 0 until it sets another, as in HIP.
pub(crate) fn current() -> u32 {
    CURRENT.get()
}

pub(crate) fn set_current(device: u32) {
    CURRENT.set(device);
}

/// Counts a call of the calling thread.
pub(crate) fn count_call() {
    CALLS.set(CALLS.get() + 1);
}

/// How many calls the calling thread has made.
pub(crate) fn thread_calls() -> u64 {
    CALLS.get()
}
