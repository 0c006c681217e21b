//! The few primitives that leases are built from, so that a build with `--cfg loom` can swap
//! them for loom's and explore every interleaving.
//!
//! Nothing else in this crate may block a thread or share mutable state between threads without
//! going through here, or the model would not see it. The exceptions are statistics counters and
//! `once_cell`, whose own correctness is trusted: under loom a mutex stands in for it.

#[cfg(not(loom))]
mod imp {
    use std::cell::Cell;
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread::{Thread, ThreadId, current as current_thread};

    pub(crate) use once_cell::sync::OnceCell;

    /// The calling thread's id. A lease asks for it each time, and a handle would have to be counted.
    #[inline]
    pub(crate) fn current_id() -> ThreadId {
        thread_local! {
            static CURRENT: Cell<Option<ThreadId>> = const { Cell::new(None) };
        }
        CURRENT.get().unwrap_or_else(|| {
            let id = current_thread().id();
            CURRENT.set(Some(id));
            id
        })
    }
}

#[cfg(loom)]
mod imp {
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::{Thread, ThreadId, current as current_thread};

    pub(crate) fn current_id() -> ThreadId {
        current_thread().id()
    }

    /// `once_cell`'s contract over a loom mutex: one initialiser at a time, a failure is not kept.
    pub(crate) struct OnceCell<T> {
        initialising: Mutex<()>,
        value: std::sync::OnceLock<T>,
    }

    impl<T> OnceCell<T> {
        pub(crate) fn new() -> Self {
            Self {
                initialising: Mutex::new(()),
                value: std::sync::OnceLock::new(),
            }
        }

        pub(crate) fn get(&self) -> Option<&T> {
            // The lock makes the read a scheduling point, as a real acquire load would be.
            let _order = self.initialising.lock();
            self.value.get()
        }

        pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
            self.value.get_mut()
        }

        pub(crate) fn take(&mut self) -> Option<T> {
            self.value.take()
        }

        pub(crate) fn get_or_try_init<E>(
            &self,
            init: impl FnOnce() -> Result<T, E>,
        ) -> Result<&T, E> {
            let _order = self.initialising.lock();
            if self.value.get().is_none() {
                let value = init()?;
                // The lock is held, so nobody else can have set it meanwhile.
                let _ = self.value.set(value);
            }
            match self.value.get() {
                Some(value) => Ok(value),
                None => unreachable!("set above, under the lock"),
            }
        }
    }
}

pub(crate) use imp::*;

/// Locks `mutex`. A panic elsewhere cannot leave our state half-changed (no call-back runs under
/// the lock), so poisoning carries no information here.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}
