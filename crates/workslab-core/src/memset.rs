//! Filling memory with any pattern by what drivers have: sets of 1, 2 and 4 bytes, and copies.

use std::ffi::c_void;

use crate::{Error, Pattern};

/// A driver's calls on one slab, in the order of one stream; for backends.
pub trait MemsetCalls {
    /// The address of a byte.
    fn at(&self, offset: usize) -> *mut c_void;

    /// Sets `count` bytes from `offset` on.
    ///
    /// # Errors
    /// The driver's.
    fn set8(&self, offset: usize, value: u8, count: usize) -> Result<(), Error>;

    /// Sets `count` words of two bytes; the address is a multiple of 2.
    ///
    /// # Errors
    /// The driver's.
    fn set16(&self, offset: usize, value: u16, count: usize) -> Result<(), Error>;

    /// Sets `count` words of four bytes; the address is a multiple of 4.
    ///
    /// # Errors
    /// The driver's.
    fn set32(&self, offset: usize, value: u32, count: usize) -> Result<(), Error>;

    /// Copies `len` bytes between ranges that do not overlap.
    ///
    /// # Errors
    /// The driver's.
    fn copy(&self, from: usize, to: usize, len: usize) -> Result<(), Error>;
}

/// Fills `len` bytes at `offset`, a range that has been checked. One call where the driver has one;
/// else the first eight bytes are set and copies double them, which takes as many calls as `len` has
/// binary digits.
///
/// # Errors
/// The driver's.
pub fn fill_by_memset(
    calls: &impl MemsetCalls,
    offset: usize,
    len: usize,
    pattern: Pattern,
) -> Result<(), Error> {
    let aligned = |width| calls.at(offset).addr().is_multiple_of(width);
    let bytes = pattern.widened();
    let done = match pattern {
        Pattern::U8(value) => {
            if len > 0 {
                calls.set8(offset, value, len)?;
            }
            return Ok(());
        }
        Pattern::U16(value) if aligned(2) => {
            if len >= 2 {
                calls.set16(offset, value, len / 2)?;
            }
            len / 2 * 2
        }
        Pattern::U32(value) if aligned(4) => words(calls, offset, len, value)?,
        // Eight bytes that are twice the same four.
        Pattern::U64(value) if aligned(4) && value >> 32 == value & 0xFFFF_FFFF => {
            words(calls, offset, len, value as u32)?
        }
        Pattern::U16(_) | Pattern::U32(_) | Pattern::U64(_) => {
            let first = len.min(bytes.len());
            single_bytes(calls, offset, 0..first, &bytes)?;
            let mut done = first;
            while done < len {
                let more = done.min(len - done);
                calls.copy(offset, offset + done, more)?;
                done += more;
            }
            return Ok(());
        }
    };
    single_bytes(calls, offset, done..len, &bytes)
}

fn words(calls: &impl MemsetCalls, offset: usize, len: usize, value: u32) -> Result<usize, Error> {
    if len >= 4 {
        calls.set32(offset, value, len / 4)?;
    }
    Ok(len / 4 * 4)
}

/// What is left over when whole words are done, or the seed of a doubling.
fn single_bytes(
    calls: &impl MemsetCalls,
    offset: usize,
    range: std::ops::Range<usize>,
    pattern: &[u8; 8],
) -> Result<(), Error> {
    for at in range {
        calls.set8(offset + at, pattern[at % 8], 1)?;
    }
    Ok(())
}
