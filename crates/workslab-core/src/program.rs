//! A program that leases under its name.

use std::fmt;
use std::iter;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use crate::Error;
use crate::gate::Patience;
use crate::lease::Lease;
use crate::platform::Platform;
use crate::workspace::{Workspace, patience_of};

/// What is known of a workspace's programs. They come and never go, so a reference to one is good for
/// as long as the workspace is.
#[derive(Default)]
pub(crate) struct Programs {
    first: Link,
}

type Link = OnceLock<Box<ProgramRecord>>;

pub(crate) struct ProgramRecord {
    pub(crate) name: Box<str>,
    pub(crate) index: usize,
    /// Counts of the leases, changed by whoever holds one.
    pub(crate) leases: AtomicU64,
    pub(crate) high_water: AtomicUsize,
    next: Link,
}

impl Programs {
    /// The one of that name, which is new if there was none.
    fn named(&self, name: &str) -> &ProgramRecord {
        let mut link = &self.first;
        for index in 0.. {
            let record = link.get_or_init(|| {
                Box::new(ProgramRecord {
                    name: name.into(),
                    index,
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
        unreachable!("the list is finite")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ProgramRecord> {
        iter::successors(self.first.get(), |record| record.next.get()).map(|record| &**record)
    }
}

impl Drop for Programs {
    /// One after the other: as they hang together, they would be dropped within each other.
    fn drop(&mut self) {
        let mut link = self.first.take();
        while let Some(mut record) = link {
            link = record.next.take();
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
