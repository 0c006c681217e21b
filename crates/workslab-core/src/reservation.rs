//! A named, permanent part of a workspace, for example a BLAS handle's own workspace.
//!
//! Reservations lie at the end of the slab and grow downward, so that leases always begin at its
//! base. A name keeps its bytes for as long as the workspace lives; dropping the handle only lets
//! somebody else hold it.

use std::fmt;

use crate::bump::ARRAY_ALIGNMENT;
use crate::gate::Patience;
use crate::platform::{DeviceSlab, Platform, Stream};
use crate::workspace::Workspace;
use crate::{DevicePtr, End, Error, Pattern};

pub(crate) struct ReservationRecord {
    name: String,
    offset: usize,
    size: usize,
    held: bool,
}

/// The right to a named part of a workspace, which no lease covers.
///
/// Its copies and fills wait until they are done: unlike an array it may be used on any stream,
/// at any time, and nothing orders one use after another but that.
pub struct Reservation<'w, P: Platform> {
    workspace: &'w Workspace<P>,
    index: usize,
    offset: usize,
    size: usize,
}

impl<P: Platform> Workspace<P> {
    /// Sets `size` bytes aside under `name`, aligned to
    /// [`ARRAY_ALIGNMENT`](crate::ARRAY_ALIGNMENT) bytes, for as long as the workspace lives. A
    /// name that was reserved before, and that nobody holds, gives the same bytes again.
    ///
    /// Waits for the last lease's work, which may have used these bytes.
    ///
    /// # Errors
    /// [`Error::ReservationWhileLeased`]; [`Error::ReservationTaken`] if somebody holds it;
    /// [`Error::ReservationMismatch`] if it has another size; [`Error::ZeroSize`];
    /// [`Error::Exhausted`]; [`Error::Forked`]; or the driver's.
    pub fn reserve(&self, name: &str, size: usize) -> Result<Reservation<'_, P>, Error> {
        self.check_process()?;
        if size == 0 {
            return Err(Error::ZeroSize);
        }
        let Ok(mut order) = self.gate().enter(None, Patience::None) else {
            return Err(Error::ReservationWhileLeased {
                reservation: name.to_owned(),
                holder: self.holder(),
            });
        };
        // Inside the gate nobody else reserves; the list is not locked while the driver is called.
        self.drain(&mut order)?;
        let back = self.back_for(name, size)?;
        self.commit(End::Back, back, || format!("reservation '{name}'"))?;
        let (index, offset) = self.find_or_carve(name, size)?;
        drop(order);
        tracing::debug!(
            platform = P::NAME,
            device = self.device().ordinal(),
            name,
            size,
            "reserved"
        );
        Ok(Reservation {
            workspace: self,
            index,
            offset,
            size,
        })
    }

    /// How much of a growable slab's back the reservations need with this one; 0 if it is there.
    fn back_for(&self, name: &str, size: usize) -> Result<usize, Error> {
        match self.cap() {
            Some(cap) if self.reservations().iter().all(|r| r.name != name) => {
                Ok(cap - self.carve(name, size)?)
            }
            _ => Ok(0),
        }
    }

    /// The offset of a new reservation.
    fn carve(&self, name: &str, size: usize) -> Result<usize, Error> {
        let from = self.reserved_from();
        // The slab's base is aligned, so an aligned offset is an aligned address.
        from.checked_sub(size)
            .map(|offset| offset & !(ARRAY_ALIGNMENT - 1))
            .ok_or_else(|| Error::Exhausted {
                platform: P::NAME,
                device: self.device(),
                what: format!("reservation '{name}'"),
                requested: size,
                available: from,
                size: self.range(),
                size_origin: self.size_origin().map(str::to_owned),
                needed_size: (self.range() - from)
                    .saturating_add(size)
                    .checked_next_multiple_of(ARRAY_ALIGNMENT)
                    .unwrap_or(usize::MAX),
            })
    }

    /// The index and the offset of a reservation, for whoever is inside the gate.
    fn find_or_carve(&self, name: &str, size: usize) -> Result<(usize, usize), Error> {
        let mut reservations = self.reservations();
        if let Some(index) = reservations.iter().position(|r| r.name == name) {
            let record = &mut reservations[index];
            if record.held {
                return Err(Error::ReservationTaken {
                    reservation: name.to_owned(),
                });
            }
            if record.size != size {
                return Err(Error::ReservationMismatch {
                    reservation: name.to_owned(),
                    cached: record.size,
                    requested: size,
                });
            }
            record.held = true;
            return Ok((index, record.offset));
        }
        let offset = self.carve(name, size)?;
        self.reserve_from(offset);
        reservations.push(ReservationRecord {
            name: name.to_owned(),
            offset,
            size,
            held: true,
        });
        Ok((reservations.len() - 1, offset))
    }

    /// The names of the reservations that somebody holds.
    pub(crate) fn held_reservations(&self) -> Vec<String> {
        self.reservations()
            .iter()
            .filter(|record| record.held)
            .map(|record| record.name.clone())
            .collect()
    }
}

impl<P: Platform> Reservation<'_, P> {
    /// The address of its first byte.
    ///
    /// Whoever passes it on sees to it that work which uses it is done before the workspace is released or
    /// dropped. A slab of fixed size waits for its device when it is freed; one that grows does not, since
    /// the drivers' `cuMemUnmap` and `hipMemUnmap` do not.
    pub fn as_device_ptr(&self) -> DevicePtr {
        DevicePtr::new(self.workspace.base().address() + self.offset)
    }

    /// Its size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Its first byte's offset in the slab.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Copies `source` to the byte at `offset` and those after it.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::WrongDevice`]; or the driver's.
    pub fn write(&mut self, stream: &P::Stream, offset: usize, source: &[u8]) -> Result<(), Error> {
        self.check(stream, offset, source.len())?;
        // SAFETY: no lease covers a reservation, one handle at a time does, and it is borrowed
        // mutably until the work is done.
        unsafe {
            self.workspace
                .slab()
                .write(stream, self.offset + offset, source)?;
        }
        stream.synchronize()
    }

    /// Copies the byte at `offset` and those after it to `destination`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::WrongDevice`]; or the driver's.
    pub fn read(
        &self,
        stream: &P::Stream,
        offset: usize,
        destination: &mut [u8],
    ) -> Result<(), Error> {
        self.check(stream, offset, destination.len())?;
        // SAFETY: as in `write`; all earlier writes are done.
        unsafe {
            self.workspace
                .slab()
                .read(stream, self.offset + offset, destination)
        }
    }

    /// Fills all its bytes with `pattern`.
    ///
    /// # Errors
    /// [`Error::WrongDevice`]; or the driver's.
    pub fn fill(&mut self, stream: &P::Stream, pattern: Pattern) -> Result<(), Error> {
        self.check(stream, 0, self.size)?;
        // SAFETY: as in `write`.
        unsafe {
            self.workspace
                .slab()
                .fill(stream, self.offset, self.size, pattern)?;
        }
        stream.synchronize()
    }

    fn check(&self, stream: &P::Stream, offset: usize, len: usize) -> Result<(), Error> {
        self.workspace.check_process()?;
        self.workspace.check_stream(stream)?;
        crate::check_range(offset, len, self.size)
    }
}

impl<P: Platform> Drop for Reservation<'_, P> {
    fn drop(&mut self) {
        self.workspace.reservations()[self.index].held = false;
    }
}

impl<P: Platform> fmt::Debug for Reservation<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("address", &self.as_device_ptr())
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
