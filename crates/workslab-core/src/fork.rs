//! Notices that the process was forked.
//!
//! A child of `fork` inherits the addresses of its parent's slabs, but neither the driver's state
//! behind them nor the threads that run streams. Using them would hang or corrupt, so every
//! workspace remembers the generation in which it was made and refuses in a later one. Asking
//! costs one relaxed load; `getpid` would be a system call on every hit.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// How often this process, seen from its first ancestor that asked, was forked into being.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Starts counting, once per process. Must be called before the first workspace is made.
pub(crate) fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        extern "C" fn in_the_child() {
            // Only this thread exists in the child, and an atomic add is async-signal-safe.
            GENERATION.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the handler is a plain function that lives as long as the program and touches
        // nothing but an atomic.
        let code = unsafe { libc::pthread_atfork(None, None, Some(in_the_child)) };
        // The only documented failure is ENOMEM for one list node; without the handler a fork
        // would go unnoticed, so say it.
        if code != 0 {
            tracing::error!(code, "cannot watch for fork: out of memory");
        }
    });
}
