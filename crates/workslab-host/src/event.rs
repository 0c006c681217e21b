//! A point in a stream that another stream can wait for.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// An event of the host's streams.
#[derive(Debug)]
pub struct HostEvent {
    point: Arc<Point>,
}

/// The state that an event shares with the work that reaches or awaits it.
#[derive(Debug, Default)]
pub(crate) struct Point {
    counts: Mutex<Counts>,
    reached: Condvar,
}

/// An event can be recorded again and again; each time is a ticket, and tickets are reached in
/// whatever order their streams come to them.
#[derive(Debug, Default)]
struct Counts {
    recorded: u64,
    reached: u64,
}

impl HostEvent {
    pub(crate) fn new() -> Self {
        Self {
            point: Arc::default(),
        }
    }

    pub(crate) fn point(&self) -> &Arc<Point> {
        &self.point
    }
}

impl Point {
    /// Marks a new point in some stream; the stream reaches it by [`Point::reach`].
    pub(crate) fn record(&self) -> u64 {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.recorded += 1;
        counts.recorded
    }

    /// The point that was recorded last.
    pub(crate) fn last_recorded(&self) -> u64 {
        self.counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recorded
    }

    pub(crate) fn reach(&self, ticket: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.reached = counts.reached.max(ticket);
        self.reached.notify_all();
    }

    /// Blocks the calling thread until the point has been reached.
    pub(crate) fn await_reached(&self, ticket: u64) {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        drop(
            self.reached
                .wait_while(counts, |counts| counts.reached < ticket)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}
