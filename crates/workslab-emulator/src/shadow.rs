//! Who touched which bytes last: the race detector's memory of an allocation.
//!
//! The bytes are cut into segments with one history each: the last write, and the reads since. A
//! write makes one segment of its range, so the number of segments stays that of the ranges in use
//! (the idea is FastTrack's: Flanagan and Freund, PLDI 2009, doi:10.1145/1542476.1542490).

use std::collections::BTreeMap;
use std::ops::Range;

use crate::clock::{Clock, Epoch};

/// An access that can be named in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) epoch: Epoch,
    pub(crate) write: bool,
    /// The driver's call.
    pub(crate) call: &'static str,
    /// The number of the call in the process.
    pub(crate) number: u64,
}

#[derive(Clone, Debug, Default)]
struct History {
    write: Option<Access>,
    /// At most one read a slot: the latest.
    reads: Vec<Access>,
}

struct Segment {
    end: usize,
    history: History,
}

/// The histories of an allocation's bytes, by offset.
#[derive(Default)]
pub(crate) struct Shadow {
    segments: BTreeMap<usize, Segment>,
}

impl Shadow {
    /// Enters an access by work whose stream has seen `clock`. The result is an earlier access that
    /// it races with, and where.
    pub(crate) fn access(
        &mut self,
        range: Range<usize>,
        access: Access,
        clock: &Clock,
    ) -> Option<(Access, Range<usize>)> {
        if range.is_empty() {
            return None;
        }
        self.split_at(range.start);
        self.split_at(range.end);
        let mut race = None;
        let mut at = range.start;
        let mut gaps = Vec::new();
        for (&start, segment) in self.segments.range_mut(range.clone()) {
            if at < start {
                gaps.push(at..start);
            }
            at = segment.end;
            let conflict = segment.history.conflict(access.write, clock);
            if let (Some(other), None) = (conflict, &race) {
                race = Some((other, start..segment.end));
            }
            if !access.write {
                segment.history.add_read(access);
            }
        }
        if access.write {
            // The write hides all that came before, so the pieces become one.
            let inside: Vec<usize> = self
                .segments
                .range(range.clone())
                .map(|(s, _)| *s)
                .collect();
            for start in inside {
                self.segments.remove(&start);
            }
            self.insert(range, access);
        } else {
            if at < range.end {
                gaps.push(at..range.end);
            }
            for gap in gaps {
                self.insert(gap, access);
            }
        }
        race
    }

    /// An access that the clock has not seen.
    pub(crate) fn unseen(&self, clock: &Clock) -> Option<Access> {
        self.segments
            .values()
            .flat_map(|segment| segment.history.write.iter().chain(&segment.history.reads))
            .find(|access| !clock.has_seen(access.epoch))
            .copied()
    }

    fn insert(&mut self, range: Range<usize>, access: Access) {
        let mut history = History::default();
        if access.write {
            history.write = Some(access);
        } else {
            history.reads.push(access);
        }
        self.segments.insert(
            range.start,
            Segment {
                end: range.end,
                history,
            },
        );
    }

    /// Makes `at` a boundary between segments.
    fn split_at(&mut self, at: usize) {
        let Some((_, segment)) = self.segments.range_mut(..at).next_back() else {
            return;
        };
        if segment.end <= at {
            return;
        }
        let rest = Segment {
            end: segment.end,
            history: segment.history.clone(),
        };
        segment.end = at;
        self.segments.insert(at, rest);
    }
}

impl History {
    /// An earlier access that the new one is not ordered after.
    fn conflict(&self, write: bool, clock: &Clock) -> Option<Access> {
        if let Some(last) = self.write
            && !clock.has_seen(last.epoch)
        {
            return Some(last);
        }
        if write {
            return self
                .reads
                .iter()
                .find(|read| !clock.has_seen(read.epoch))
                .copied();
        }
        None
    }

    fn add_read(&mut self, access: Access) {
        let same = |read: &&mut Access| read.epoch.slot == access.epoch.slot;
        match self.reads.iter_mut().find(same) {
            Some(read) => *read = access,
            None => self.reads.push(access),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(slot: usize, tick: u64, write: bool) -> Access {
        Access {
            epoch: Epoch { slot, tick },
            write,
            call: "test",
            number: tick,
        }
    }

    fn clock(ticks: &[(usize, u64)]) -> Clock {
        let mut clock = Clock::default();
        for &(slot, tick) in ticks {
            for _ in 0..tick {
                clock.advance(slot);
            }
        }
        clock
    }

    #[test]
    fn unordered_accesses_race_if_one_is_a_write() {
        let first = clock(&[(0, 1)]);
        let second = clock(&[(1, 1)]);
        for (one, two, races) in [
            (true, true, true),
            (true, false, true),
            (false, true, true),
            (false, false, false),
        ] {
            let mut shadow = Shadow::default();
            assert!(shadow.access(0..10, access(0, 1, one), &first).is_none());
            let found = shadow.access(5..15, access(1, 1, two), &second);
            assert_eq!(found.is_some(), races, "{one} {two}");
            if let Some((other, range)) = found {
                assert_eq!((other.epoch.slot, range), (0, 5..10));
            }
        }
    }

    #[test]
    fn ordered_accesses_and_ranges_that_only_touch_do_not_race() {
        let mut shadow = Shadow::default();
        shadow.access(0..10, access(0, 1, true), &clock(&[(0, 1)]));
        let seen = clock(&[(0, 1), (1, 1)]);
        assert!(shadow.access(0..10, access(1, 1, true), &seen).is_none());
        let unseen = clock(&[(2, 1)]);
        assert!(shadow.access(10..20, access(2, 1, true), &unseen).is_none());
        assert!(shadow.access(9..10, access(2, 2, false), &unseen).is_some());
    }

    #[test]
    fn writes_join_segments_again() {
        let mut shadow = Shadow::default();
        let mut clock = Clock::default();
        for tick in 1..100 {
            let epoch = clock.advance(0);
            let start = (tick * 7) % 50;
            shadow.access(
                start..start + 3,
                access(0, epoch.tick, tick % 2 == 0),
                &clock,
            );
        }
        let epoch = clock.advance(0);
        shadow.access(0..100, access(0, epoch.tick, true), &clock);
        assert_eq!(shadow.segments.len(), 1);
    }
}
