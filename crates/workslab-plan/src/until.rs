//! When to end with what there is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What ends a search from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until<'s> {
    /// Somebody says so.
    pub(crate) stop: &'s AtomicBool,
    /// The time is over.
    pub(crate) deadline: Option<Instant>,
}

impl Until<'_> {
    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
    }
}
