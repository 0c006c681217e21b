//! The few primitives that leases are built from, so that a build with `--cfg loom` can swap
//! them for loom's and explore every interleaving.
//!
//! Nothing else in this crate may block a thread or share mutable state between threads without
//! going through here, or the model would not see it. The exceptions are statistics counters and
//! `once_cell`, whose own correctness is trusted: under loom a mutex stands in for it.

#[cfg(not(loom))]
mod imp {
    use std::cell::Cell;
    pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize};
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread::{Thread, current as current_thread};

    pub(crate) use once_cell::sync::OnceCell;

    /// The calling thread's number: even, not 0, and no other thread's ever.
    #[inline]
    pub(crate) fn thread_number() -> u64 {
        thread_local! {
            static NUMBER: Cell<u64> = const { Cell::new(0) };
        }
        match NUMBER.get() {
            0 => {
                let number = super::next_number();
                NUMBER.set(number);
                number
            }
            number => number,
        }
    }

    /// A cell with loom's interface.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
            look(self.0.get())
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
            change(self.0.get())
        }
    }
}

#[cfg(loom)]
mod imp {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::{Thread, current as current_thread};

    loom::thread_local! {
        static NUMBER: u64 = super::next_number();
    }

    pub(crate) fn thread_number() -> u64 {
        NUMBER.with(|number| *number)
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
pub(crate) use std::sync::atomic::Ordering;

/// Not one of loom's: that numbers differ is all that matters of them.
fn next_number() -> u64 {
    use std::sync::atomic::AtomicU64;
    static NEXT: AtomicU64 = AtomicU64::new(2);
    NEXT.fetch_add(2, Ordering::Relaxed)
}

/// Locks `mutex`. A panic elsewhere cannot leave our state half-changed (no call-back runs under
/// the lock), so poisoning carries no information here.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}
