//! Slabs that grow in place: a range of addresses is reserved once, and memory is put behind it when
//! it is wanted. Addresses stay, and nothing is copied.
//!
//! Memory is committed at both ends. Leases have the front, which grows upward from the slab's base;
//! reservations have the back, which grows downward from the end of the range. So neither is in the
//! other's way until the range is full.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Error;

/// An end of a growable slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// From the slab's base upward: what leases have.
    Front,
    /// From the end of the range downward: what reservations have.
    Back,
}

/// What a slab can do that grows in place; from [`DeviceSlab::growable`](crate::DeviceSlab::growable).
///
/// # Safety
/// The first `committed(End::Front)` and the last `committed(End::Back)` bytes of the range are valid
/// memory of the device; what is committed moves and goes only by [`trim`](GrowableSlab::trim).
pub unsafe trait GrowableSlab: Send + Sync {
    /// How many bytes of addresses are reserved, from the slab's base on.
    fn range(&self) -> usize;

    /// The unit in which memory is committed, in bytes.
    fn granularity(&self) -> usize;

    /// How many bytes are committed at an end.
    fn committed(&self, end: End) -> usize;

    /// Sees to it that at least `bytes` are committed at an end. Rounds up to the granularity.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] if the two ends would meet; or the driver's. What was committed before
    /// stays as it was, and nothing more is.
    fn commit(&self, end: End, bytes: usize) -> Result<(), Error>;

    /// Gives memory at the front back, but at least `bytes` of it. A step of growth goes as a whole or
    /// not at all.
    ///
    /// # Errors
    /// The driver's. What could not be given back stays committed.
    ///
    /// # Safety
    /// Nobody uses the front beyond `bytes`, nor is there work enqueued that does.
    unsafe fn trim(&self, bytes: usize) -> Result<(), Error>;
}

/// How a platform puts memory behind reserved addresses, for [`Growth`]. Dropping it gives the
/// addresses back.
///
/// # Safety
/// After `map` has returned `Ok`, the range is valid, initialised memory of the device until `unmap` is
/// called with the same range.
pub unsafe trait Pages: Send + Sync {
    /// What stands for one mapped piece of memory.
    type Chunk: Send;

    /// Maps memory behind `len` bytes at `offset`, both multiples of the granularity, where none is.
    ///
    /// # Errors
    /// The driver's. Nothing is mapped then, and nothing stays allocated.
    fn map(&self, offset: usize, len: usize) -> Result<Self::Chunk, Error>;

    /// Takes the memory away that `map` put there.
    ///
    /// # Errors
    /// The driver's, with the chunk, whose memory is still there.
    ///
    /// # Safety
    /// Nobody uses the range, nor is there work enqueued that does.
    unsafe fn unmap(
        &self,
        offset: usize,
        len: usize,
        chunk: Self::Chunk,
    ) -> Result<(), (Self::Chunk, Error)>;
}

/// A reserved range of addresses and what is committed of it; for backends.
pub struct Growth<P: Pages> {
    range: usize,
    granularity: usize,
    front: AtomicUsize,
    back: AtomicUsize,
    /// What is mapped at the front and at the back, in the order in which it was.
    chunks: Mutex<[Vec<Mapped<P::Chunk>>; 2]>,
    /// Dropped after all chunks.
    pages: P,
}

struct Mapped<C> {
    offset: usize,
    len: usize,
    chunk: C,
}

impl<P: Pages> Growth<P> {
    /// A range of `range` bytes behind which nothing is yet, a multiple of `granularity`.
    pub fn new(pages: P, range: usize, granularity: usize) -> Self {
        debug_assert!(granularity > 0 && range.is_multiple_of(granularity));
        Self {
            range,
            granularity,
            front: AtomicUsize::new(0),
            back: AtomicUsize::new(0),
            chunks: Mutex::new([Vec::new(), Vec::new()]),
            pages,
        }
    }

    /// Whether `len` bytes at `offset` lie within the front or within the back.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], with the length of the front.
    pub fn check(&self, offset: usize, len: usize) -> Result<(), Error> {
        let front = self.committed(End::Front);
        let back_from = self.range - self.committed(End::Back);
        if offset >= back_from && crate::check_range(offset, len, self.range).is_ok() {
            return Ok(());
        }
        crate::check_range(offset, len, front)
    }

    fn lock(&self) -> MutexGuard<'_, [Vec<Mapped<P::Chunk>>; 2]> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn length(&self, end: End) -> &AtomicUsize {
        match end {
            End::Front => &self.front,
            End::Back => &self.back,
        }
    }
}

// SAFETY: an end's length is raised after its memory is mapped, and lowered before it is unmapped.
unsafe impl<P: Pages> GrowableSlab for Growth<P> {
    fn range(&self) -> usize {
        self.range
    }

    fn granularity(&self) -> usize {
        self.granularity
    }

    fn committed(&self, end: End) -> usize {
        self.length(end).load(Ordering::Acquire)
    }

    fn commit(&self, end: End, bytes: usize) -> Result<(), Error> {
        let mut chunks = self.lock();
        let have = self.committed(end);
        if bytes <= have {
            return Ok(());
        }
        let other = match end {
            End::Front => self.committed(End::Back),
            End::Back => self.committed(End::Front),
        };
        let room = self.range - other;
        let want = bytes
            .checked_next_multiple_of(self.granularity)
            .filter(|want| *want <= room)
            .ok_or(Error::OutOfBounds {
                offset: have,
                len: bytes - have,
                slab: room,
            })?;
        let offset = match end {
            End::Front => have,
            End::Back => self.range - want,
        };
        let len = want - have;
        let chunk = self.pages.map(offset, len)?;
        chunks[end as usize].push(Mapped { offset, len, chunk });
        self.length(end).store(want, Ordering::Release);
        Ok(())
    }

    unsafe fn trim(&self, bytes: usize) -> Result<(), Error> {
        let mut chunks = self.lock();
        let front = &mut chunks[End::Front as usize];
        while let Some(last) = front.pop_if(|last| last.offset >= bytes) {
            let Mapped { offset, len, chunk } = last;
            self.front.store(offset, Ordering::Release);
            // SAFETY: the piece lies beyond what the caller says is used.
            if let Err((chunk, error)) = unsafe { self.pages.unmap(offset, len, chunk) } {
                front.push(Mapped { offset, len, chunk });
                self.front.store(offset + len, Ordering::Release);
                return Err(error);
            }
        }
        Ok(())
    }
}

impl<P: Pages> Drop for Growth<P> {
    fn drop(&mut self) {
        let chunks = self.chunks.get_mut();
        let chunks = chunks.unwrap_or_else(PoisonError::into_inner);
        for Mapped { offset, len, chunk } in chunks.iter_mut().flat_map(|end| end.drain(..)) {
            // SAFETY: whoever drops the slab says that nobody uses it any more.
            if let Err((_, error)) = unsafe { self.pages.unmap(offset, len, chunk) } {
                tracing::error!(%error, offset, len, "memory of a growable slab is lost");
            }
        }
    }
}

impl<P: Pages> fmt::Debug for Growth<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Growth")
            .field("range", &self.range)
            .field("granularity", &self.granularity)
            .field("front", &self.committed(End::Front))
            .field("back", &self.committed(End::Back))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceId;
    use std::collections::BTreeMap;

    /// Pages that note what is mapped, and refuse when told to.
    #[derive(Default)]
    struct Noted {
        mapped: Mutex<BTreeMap<usize, usize>>,
        refuse_map: Mutex<bool>,
        refuse_unmap: Mutex<bool>,
    }

    fn refused(call: &'static str) -> Error {
        Error::Driver {
            platform: "test",
            device: DeviceId::new(0),
            call,
            code: 2,
            name: "refused".into(),
            detail: None,
        }
    }

    // SAFETY: nothing is ever read or written behind these addresses.
    unsafe impl Pages for &Noted {
        type Chunk = usize;

        fn map(&self, offset: usize, len: usize) -> Result<usize, Error> {
            if *self.refuse_map.lock().expect("test") {
                return Err(refused("map"));
            }
            let mut mapped = self.mapped.lock().expect("test");
            assert!(mapped.range(offset..offset + len).next().is_none());
            mapped.insert(offset, len);
            Ok(offset)
        }

        unsafe fn unmap(
            &self,
            offset: usize,
            len: usize,
            chunk: usize,
        ) -> Result<(), (usize, Error)> {
            if *self.refuse_unmap.lock().expect("test") {
                return Err((chunk, refused("unmap")));
            }
            assert_eq!(chunk, offset);
            assert_eq!(self.mapped.lock().expect("test").remove(&offset), Some(len));
            Ok(())
        }
    }

    #[test]
    fn both_ends_grow_until_they_meet() {
        let noted = Noted::default();
        let growth = Growth::new(&noted, 100, 10);
        growth.commit(End::Front, 15).expect("there is room");
        growth.commit(End::Back, 1).expect("there is room");
        growth.commit(End::Front, 20).expect("it is there");
        growth.commit(End::Back, 25).expect("there is room");
        assert_eq!(growth.committed(End::Front), 20);
        assert_eq!(growth.committed(End::Back), 30);
        assert_eq!(
            *noted.mapped.lock().expect("test"),
            BTreeMap::from([(0, 20), (70, 20), (90, 10)])
        );
        assert!(growth.check(19, 1).is_ok() && growth.check(70, 30).is_ok());
        for (offset, len) in [(19, 2), (20, 1), (69, 2), (99, 2), (70, usize::MAX)] {
            assert!(growth.check(offset, len).is_err(), "{len} at {offset}");
        }
        growth.commit(End::Front, 70).expect("just what is left");
        for bytes in [71, usize::MAX] {
            let error = growth
                .commit(End::Front, bytes)
                .expect_err("the back is there");
            assert!(
                matches!(error, Error::OutOfBounds { slab: 70, .. }),
                "{error}"
            );
        }
        drop(growth);
        assert!(noted.mapped.lock().expect("test").is_empty());
    }

    #[test]
    fn what_fails_half_way_leaves_what_was() {
        let noted = Noted::default();
        let growth = Growth::new(&noted, 100, 10);
        growth.commit(End::Front, 20).expect("there is room");
        *noted.refuse_map.lock().expect("test") = true;
        assert!(growth.commit(End::Front, 30).is_err());
        assert_eq!(growth.committed(End::Front), 20);
        *noted.refuse_map.lock().expect("test") = false;
        growth.commit(End::Front, 30).expect("again");
        growth.commit(End::Front, 50).expect("there is room");
        *noted.refuse_unmap.lock().expect("test") = true;
        // SAFETY: nobody uses any of it.
        assert!(unsafe { growth.trim(0) }.is_err());
        assert_eq!(growth.committed(End::Front), 50);
        *noted.refuse_unmap.lock().expect("test") = false;
        // SAFETY: as above.
        unsafe { growth.trim(25) }.expect("nothing refuses");
        assert_eq!(growth.committed(End::Front), 30, "a step goes as a whole");
        // SAFETY: as above.
        unsafe { growth.trim(0) }.expect("nothing refuses");
        assert_eq!(growth.committed(End::Front), 0);
    }
}
