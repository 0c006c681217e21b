//! Where the next array goes: the arithmetic that frames and dry frames share.

/// The alignment of every array that asks for none, in bytes: what HIP and CUDA promise for an
/// allocation of their own.
pub const ARRAY_ALIGNMENT: usize = 256;

/// The least width of a red zone in guard mode, in bytes. A zone is a multiple of the alignment,
/// so that arrays keep theirs.
pub(crate) const RED_ZONE: usize = 256;

/// An array's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its first byte.
    pub(crate) start: usize,
    /// The byte after its last.
    pub(crate) end: usize,
    /// The byte after the last that must exist: `end`, or in guard mode the end of the red zone.
    pub(crate) reach: usize,
}

/// The place of `bytes` bytes above `top`, or `None` if it lies beyond the address space.
/// `alignment` is a power of two.
#[inline]
pub(crate) fn place(top: usize, bytes: usize, alignment: usize, guard: bool) -> Option<Place> {
    let zone = if guard { RED_ZONE } else { 0 };
    let start = align_up(top.checked_add(zone)?, alignment)?;
    let end = start.checked_add(bytes)?;
    let reach = end.checked_add(zone)?;
    Some(Place { start, end, reach })
}

/// The least multiple of `alignment`, a power of two, that is at least `address`.
#[inline]
pub(crate) fn align_up(address: usize, alignment: usize) -> Option<usize> {
    Some(address.checked_add(alignment - 1)? & !(alignment - 1))
}
