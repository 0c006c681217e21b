//! A program that leases under its name.

use std::fmt;
use std::hash::Hasher;
use std::iter;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rustc_hash::FxHasher;

use crate::Error;
use crate::gate::Patience;
use crate::lease::Lease;
use crate::platform::Platform;
use crate::workspace::{Workspace, patience_of};

/// As many lists as keep each short for the hundreds of programs of a model, so that one is found in the time
/// that a hash of its name takes.
const LISTS: usize = 64;

/// What is known of a workspace's programs. They come and never go, so a reference to one is good for
/// as long as the workspace is.
pub(crate) struct Programs {
    lists: [Link; LISTS],
    count: AtomicUsize,
}

type Link = OnceLock<Box<ProgramRecord>>;

pub(crate) struct ProgramRecord {
    pub(crate) name: Box<str>,
    /// How many were there before it.
    pub(crate) index: usize,
    /// Counts of the leases, changed by whoever holds one.
    pub(crate) leases: AtomicU64,
    pub(crate) high_water: AtomicUsize,
    next: Link,
}

impl Programs {
    pub(crate) fn new() -> Self {
        Self {
            lists: [const { Link::new() }; LISTS],
            count: AtomicUsize::new(0),
        }
    }

    /// The one of that name, which is new if there was none.
    fn named(&self, name: &str) -> &ProgramRecord {
        let mut link = &self.lists[list_of(name)];
        loop {
            let record = link.get_or_init(|| {
                Box::new(ProgramRecord {
                    name: name.into(),
                    index: self.count.fetch_add(1, Ordering::Relaxed),
                    leases: AtomicU64::new(0),
                    high_water: AtomicUsize::new(0),
                    next: Link::new(),
                })
            });
            if &*record.name == name {
                return record;
            }
            link = &record.next;
        }
    }

    /// In the order in which they came.
    pub(crate) fn in_order(&self) -> Vec<&ProgramRecord> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_unstable_by_key(|record| record.index);
        all
    }

    pub(crate) fn at(&self, index: usize) -> Option<&ProgramRecord> {
        self.iter().find(|record| record.index == index)
    }

    fn iter(&self) -> impl Iterator<Item = &ProgramRecord> {
        self.lists.iter().flat_map(|first| {
            iter::successors(first.get(), |record| record.next.get()).map(|record| &**record)
        })
    }
}

fn list_of(name: &str) -> usize {
    let mut hasher = FxHasher::default();
    hasher.write(name.as_bytes());
    (hasher.finish() % LISTS as u64) as usize
}

impl Drop for Programs {
    /// One after the other: as they hang together, they would be dropped within each other.
    fn drop(&mut self) {
        for list in &mut self.lists {
            let mut link = list.take();
            while let Some(mut record) = link {
                link = record.next.take();
            }
        }
    }
}

/// A program that leases under its name; from [`Workspace::program`].
pub struct Program<'w, P: Platform> {
    workspace: &'w Workspace<P>,
    record: &'w ProgramRecord,
}

impl<P: Platform> Workspace<P> {
    /// A program by name. Leases taken through it carry the name in messages, and have statistics
    /// of their own.
    pub fn program(&self, name: &str) -> Program<'_, P> {
        Program {
            workspace: self,
            record: self.programs().named(name),
        }
    }
}

impl<'w, P: Platform> Program<'w, P> {
    /// The program's name.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// As [`Workspace::lease`], for this program.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn lease(&self, stream: &'w P::Stream) -> Result<Lease<'w, P>, Error> {
        self.workspace
            .enter(stream, Some(self.record), Patience::Endless)
    }

    /// As [`Workspace::try_lease`], for this program.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn try_lease(&self, stream: &'w P::Stream) -> Result<Lease<'w, P>, Error> {
        self.workspace
            .enter(stream, Some(self.record), Patience::None)
    }

    /// As [`Workspace::lease_timeout`], for this program.
    ///
    /// # Errors
    /// As there.
    pub fn lease_timeout(
        &self,
        stream: &'w P::Stream,
        timeout: Duration,
    ) -> Result<Lease<'w, P>, Error> {
        self.workspace
            .enter(stream, Some(self.record), patience_of(timeout))
    }
}

impl<P: Platform> fmt::Debug for Program<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Program").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::Programs;

    #[test]
    fn a_name_is_one_program_whoever_comes_first() {
        let programs = Programs::new();
        let names: Vec<_> = (0..500).map(|number| format!("solver_{number}")).collect();
        let start = Barrier::new(4);
        let found: Vec<Vec<usize>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        let index = |name: &String| programs.named(name).index;
                        names.iter().map(index).collect()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(found.iter().all(|indices| *indices == found[0]));
        for (name, &index) in names.iter().zip(&found[0]) {
            assert_eq!(&*programs.at(index).unwrap().name, name);
        }
        let order: Vec<_> = programs
            .in_order()
            .iter()
            .map(|record| record.index)
            .collect();
        assert_eq!(order, (0..500).collect::<Vec<_>>());
        assert!(programs.at(500).is_none());
    }
}
