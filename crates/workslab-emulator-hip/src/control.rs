//! What tests ask of the emulator beside HIP's own interface.

use std::ffi::{CStr, c_char, c_int};

use workslab_emulator::Fault;

use crate::state::{driver, thread_calls};

/// How many HIP calls the calling thread has made.
#[unsafe(no_mangle)]
extern "C" fn workslab_emulator_thread_calls() -> u64 {
    thread_calls()
}

/// Makes the calling thread's calls of this name fail: after `after` more have passed, `times` of
/// them, with `code`.
///
/// # Safety
/// `call` points to a string that ends in a zero byte.
#[unsafe(no_mangle)]
unsafe extern "C" fn workslab_emulator_fail(
    call: *const c_char,
    after: u64,
    times: u64,
    code: c_int,
) {
    // SAFETY: the caller's.
    let call = unsafe { CStr::from_ptr(call) };
    let fault = Fault {
        after,
        times,
        code,
        this_thread: true,
    };
    driver().fail(&call.to_string_lossy(), fault);
}

/// Forgets the calling thread's faults that have not struck.
#[unsafe(no_mangle)]
extern "C" fn workslab_emulator_clear_faults() {
    driver().clear_faults();
}

/// Makes a device disappear.
#[unsafe(no_mangle)]
extern "C" fn workslab_emulator_lose_device(device: u32) {
    driver().lose_device(device);
}

/// Prints what was never freed on standard error, and says how many allocations that is.
#[unsafe(no_mangle)]
extern "C" fn workslab_emulator_leaks() -> u64 {
    let leaks = driver().leaks();
    for leak in &leaks {
        eprintln!("workslab emulator: {leak}");
    }
    leaks.len() as u64
}
