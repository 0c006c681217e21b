//! Vector clocks: what happened before what.

/// How far each stream was when something happened. A stream is named by its slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    ticks: Vec<u64>,
}

/// One access's place in time: the slot of its stream, and that stream's tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(crate) slot: usize,
    pub(crate) tick: u64,
}

impl Clock {
    pub(crate) fn tick_of(&self, slot: usize) -> u64 {
        self.ticks.get(slot).copied().unwrap_or(0)
    }

    /// Takes over whatever the other has seen that this one has not.
    pub(crate) fn join(&mut self, other: &Clock) {
        if self.ticks.len() < other.ticks.len() {
            self.ticks.resize(other.ticks.len(), 0);
        }
        for (own, other) in self.ticks.iter_mut().zip(&other.ticks) {
            *own = (*own).max(*other);
        }
    }

    /// A new moment on the slot's stream.
    pub(crate) fn advance(&mut self, slot: usize) -> Epoch {
        if self.ticks.len() <= slot {
            self.ticks.resize(slot + 1, 0);
        }
        self.ticks[slot] += 1;
        Epoch {
            slot,
            tick: self.ticks[slot],
        }
    }

    /// Whether the epoch happened before the moment that this clock shows.
    pub(crate) fn has_seen(&self, epoch: Epoch) -> bool {
        epoch.tick <= self.tick_of(epoch.slot)
    }
}
