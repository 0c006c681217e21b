//! What each of the emulated C interfaces has in common: the process's one driver, and the functions
//! by which tests control it.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::LazyLock;

use crate::{Driver, Options};

static DRIVER: LazyLock<Driver> = LazyLock::new(|| match Options::from_env() {
    Ok(options) => {
        let driver = Driver::new(options);
        if let Err(error) = driver.faults_from_env() {
            give_up(&error);
        }
        if options.leaks {
            // SAFETY: the handler lives as long as the process: the library is never unloaded.
            let refused = unsafe { atexit(report_leaks) };
            assert_eq!(refused, 0, "the process has no room for an exit handler");
        }
        driver
    }
    Err(error) => give_up(&error),
});

unsafe extern "C" {
    /// C's own: `stdlib.h`.
    fn atexit(handler: extern "C" fn()) -> c_int;
}

/// Names what was never freed, and then there is no good end.
extern "C" fn report_leaks() {
    let leaks = driver().leaks();
    for leak in &leaks {
        eprintln!("workslab emulator: {leak}");
    }
    if !leaks.is_empty() {
        std::process::abort();
    }
}

/// Ends the process. There is nobody to return an error to: the first call of any kind brings us here.
fn give_up(error: &str) -> ! {
    eprintln!("workslab emulator: {error}");
    std::process::exit(2);
}

/// The process's driver, set up by the environment when it is first used.
pub fn driver() -> &'static Driver {
    &DRIVER
}

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Counts a call of the calling thread.
pub fn count_call() {
    CALLS.set(CALLS.get() + 1);
}

/// How many calls the calling thread has made.
#[must_use]
pub fn thread_calls() -> u64 {
    CALLS.get()
}

/// Exports `workslab_emulator_*` from a shared library: counts, faults and leaks, for tests.
#[macro_export]
macro_rules! export_control {
    () => {
        /// How many of the driver's calls the calling thread has made.
        #[unsafe(no_mangle)]
        extern "C" fn workslab_emulator_thread_calls() -> u64 {
            $crate::process::thread_calls()
        }

        /// Makes the calling thread's calls of this name fail: after `after` more have passed,
        /// `times` of them, with `code`.
        ///
        /// # Safety
        /// `call` points to a string that ends in a zero byte.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn workslab_emulator_fail(
            call: *const ::std::ffi::c_char,
            after: u64,
            times: u64,
            code: ::std::ffi::c_int,
        ) {
            // SAFETY: the caller's.
            let call = unsafe { ::std::ffi::CStr::from_ptr(call) };
            let fault = $crate::Fault {
                after,
                times,
                code,
                this_thread: true,
            };
            $crate::process::driver().fail(&call.to_string_lossy(), fault);
        }

        /// Forgets the calling thread's faults that have not struck.
        #[unsafe(no_mangle)]
        extern "C" fn workslab_emulator_clear_faults() {
            $crate::process::driver().clear_faults();
        }

        /// Makes a device disappear.
        #[unsafe(no_mangle)]
        extern "C" fn workslab_emulator_lose_device(device: u32) {
            $crate::process::driver().lose_device(device);
        }

        /// Prints what was never freed on standard error, and says how many allocations that is.
        #[unsafe(no_mangle)]
        extern "C" fn workslab_emulator_leaks() -> u64 {
            let leaks = $crate::process::driver().leaks();
            for leak in &leaks {
                eprintln!("workslab emulator: {leak}");
            }
            leaks.len() as u64
        }
    };
}
