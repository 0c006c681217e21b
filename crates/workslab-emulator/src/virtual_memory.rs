//! Virtual memory: reserved addresses, pieces of memory, and which of these is behind which of those.
//!
//! Real drivers leave much of this to the program, so the emulated one watches it: a piece is mapped and
//! taken away as a whole, may be used only after access was given, and goes only when all work on it was
//! waited for; the drivers' own calls do not wait.

use std::alloc::Layout;
use std::ptr::NonNull;

use crate::driver::Driver;
use crate::shadow::Shadow;
use crate::world::{Allocation, Backing, Code, GARBAGE, Violation, World};

/// Addresses that are reserved. The bytes behind them are there from the start, but only what is mapped
/// may be touched.
pub(crate) struct Reservation {
    len: usize,
    memory: NonNull<u8>,
    layout: Layout,
    number: u64,
}

// SAFETY: the memory belongs to the reservation, and the world is used under one lock.
unsafe impl Send for Reservation {}

/// Memory of a device, mapped or not.
pub(crate) struct Piece {
    device: u32,
    len: usize,
    number: u64,
    mapped: bool,
    /// Whether its handle is gone, so that it goes when it is unmapped.
    released: bool,
}

/// The unit of a device, in bytes. Devices differ, so that nobody takes one device's for all.
fn granularity(device: u32) -> usize {
    if device.is_multiple_of(2) {
        2 << 20
    } else {
        64 << 10
    }
}

impl World {
    fn bad_mapping<T>(
        &mut self,
        call: &'static str,
        address: usize,
        len: usize,
        why: impl Into<String>,
    ) -> Result<T, Code> {
        let why = why.into();
        let violation = Violation::BadMapping {
            call,
            address,
            len,
            why,
        };
        self.violate(violation, Code::InvalidValue)
    }

    fn granularity(&mut self, device: u32) -> Result<usize, Code> {
        self.check_device(device)?;
        Ok(granularity(device))
    }

    fn reserve_addresses(&mut self, call: &'static str, len: usize) -> Result<usize, Code> {
        self.check_unsafe_call()?;
        if len == 0 || !len.is_multiple_of(granularity(1)) {
            return self.bad_mapping(call, 0, len, "is no multiple of a granularity");
        }
        let layout = Layout::from_size_align(len, granularity(0)).map_err(|_| Code::OutOfMemory)?;
        // SAFETY: the layout has at least one byte.
        let memory = NonNull::new(unsafe { std::alloc::alloc(layout) }).ok_or(Code::OutOfMemory)?;
        let address = memory.as_ptr().expose_provenance();
        let reservation = Reservation {
            len,
            memory,
            layout,
            number: self.call_number,
        };
        self.reservations.insert(address, reservation);
        Ok(address)
    }

    fn free_addresses(
        &mut self,
        call: &'static str,
        address: usize,
        len: usize,
    ) -> Result<(), Code> {
        self.check_unsafe_call()?;
        let found = self.reservations.get(&address);
        if found.is_none_or(|reservation| reservation.len != len) {
            return self.bad_mapping(call, address, len, "was not reserved as a whole");
        }
        if let Some((&base, _)) = self.allocations.range(address..address + len).next() {
            let why = format!("still has memory at {base:#x}");
            return self.bad_mapping(call, address, len, why);
        }
        if let Some(reservation) = self.reservations.remove(&address) {
            // SAFETY: allocated with this layout, and nothing is mapped there.
            unsafe { std::alloc::dealloc(reservation.memory.as_ptr(), reservation.layout) };
        }
        Ok(())
    }

    fn create_piece(&mut self, call: &'static str, device: u32, len: usize) -> Result<u64, Code> {
        self.check_unsafe_call()?;
        self.check_device(device)?;
        if len == 0 || !len.is_multiple_of(granularity(device)) {
            return self.bad_mapping(call, 0, len, "is no multiple of the device's granularity");
        }
        self.take_memory(device, len)?;
        let handle = self.next_handle;
        self.next_handle += 1;
        let piece = Piece {
            device,
            len,
            number: self.call_number,
            mapped: false,
            released: false,
        };
        self.pieces.insert(handle, piece);
        Ok(handle)
    }

    fn release_piece(&mut self, call: &'static str, handle: u64) -> Result<(), Code> {
        self.check_unsafe_call()?;
        match self.pieces.get_mut(&handle) {
            Some(piece) if !piece.released => piece.released = true,
            _ => {
                let violation = Violation::BadHandle {
                    call,
                    what: format!("memory {handle:#x}"),
                    why: "does not exist, or was released".into(),
                };
                return self.violate(violation, Code::InvalidValue);
            }
        }
        self.drop_if_unused(handle);
        Ok(())
    }

    /// Gives a piece's memory back to its device when it has neither a handle nor an address.
    fn drop_if_unused(&mut self, handle: u64) {
        if let Some(piece) = self.pieces.get(&handle)
            && piece.released
            && !piece.mapped
        {
            let (device, len) = (piece.device, piece.len);
            self.pieces.remove(&handle);
            self.give_memory(device, len);
        }
    }

    fn map(
        &mut self,
        call: &'static str,
        address: usize,
        len: usize,
        handle: u64,
    ) -> Result<(), Code> {
        self.check_unsafe_call()?;
        let Some(piece) = self.pieces.get(&handle).filter(|piece| !piece.released) else {
            return self.bad_mapping(call, address, len, "has no such memory to map");
        };
        let device = piece.device;
        let whole = piece.len == len && !piece.mapped;
        self.check_device(device)?;
        if !whole {
            return self.bad_mapping(
                call,
                address,
                len,
                "is not a whole piece that is still free",
            );
        }
        let reserved = self.reservations.range(..=address).next_back();
        let Some((&base, _)) = reserved.filter(|(base, reservation)| {
            address.is_multiple_of(granularity(device)) && address + len <= *base + reservation.len
        }) else {
            return self.bad_mapping(call, address, len, "is not reserved, or not aligned");
        };
        let before = self.allocations.range(..address + len).next_back();
        if before.is_some_and(|(other, allocation)| other + allocation.len > address) {
            return self.bad_mapping(call, address, len, "has memory already");
        }
        if let Some(piece) = self.pieces.get_mut(&handle) {
            piece.mapped = true;
        }
        let memory = std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: the addresses are the reservation's, and nothing else is there.
        unsafe { memory.write_bytes(GARBAGE, len) };
        let allocation = Allocation {
            device,
            len,
            backing: Backing::Mapped {
                reservation: base,
                piece: handle,
                accessible: false,
            },
            shadow: Shadow::default(),
            number: self.call_number,
        };
        self.allocations.insert(address, allocation);
        Ok(())
    }

    /// The addresses of what is mapped, if it fills the range to the last byte.
    fn mapped_in(&self, address: usize, len: usize) -> Option<Vec<usize>> {
        let end = address.checked_add(len)?;
        let mut at = address;
        let mut found = Vec::new();
        while at < end {
            let allocation = self.allocations.get(&at)?;
            let Backing::Mapped { .. } = allocation.backing else {
                return None;
            };
            found.push(at);
            at += allocation.len;
        }
        (at == end).then_some(found)
    }

    fn unmap(&mut self, call: &'static str, address: usize, len: usize) -> Result<(), Code> {
        self.check_unsafe_call()?;
        let Some(mapped) = self.mapped_in(address, len) else {
            return self.bad_mapping(call, address, len, "was not mapped as a whole");
        };
        for at in &mapped {
            let allocation = &self.allocations[at];
            let device = allocation.device;
            if let Some(access) = allocation.shadow.unseen(&self.host) {
                let why = format!(
                    "{} (call {}) still uses, which nobody has waited for",
                    access.call, access.number
                );
                return self.bad_mapping(call, *at, len, why);
            }
            self.check_device(device)?;
        }
        for at in mapped {
            if let Some(allocation) = self.allocations.remove(&at)
                && let Backing::Mapped { piece: handle, .. } = allocation.backing
            {
                if let Some(piece) = self.pieces.get_mut(&handle) {
                    piece.mapped = false;
                }
                self.drop_if_unused(handle);
            }
        }
        Ok(())
    }

    fn set_access(
        &mut self,
        call: &'static str,
        address: usize,
        len: usize,
        device: u32,
    ) -> Result<(), Code> {
        self.check_device(device)?;
        let Some(mapped) = self.mapped_in(address, len) else {
            return self.bad_mapping(call, address, len, "was not mapped as a whole");
        };
        for at in mapped {
            if let Some(allocation) = self.allocations.get_mut(&at)
                && allocation.device == device
                && let Backing::Mapped { accessible, .. } = &mut allocation.backing
            {
                *accessible = true;
            }
        }
        Ok(())
    }

    /// Addresses and memory that were never given back.
    pub(crate) fn unmapped_leaks(&self) -> Vec<Violation> {
        let addresses = self.reservations.iter().map(|(address, reservation)| {
            let what = format!("{} bytes of addresses at {address:#x}", reservation.len);
            (reservation.number, what)
        });
        let pieces = self.pieces.values().map(|piece| {
            let what = format!("{} bytes of memory of device {}", piece.len, piece.device);
            (piece.number, what)
        });
        let mut leaks: Vec<(u64, String)> = addresses.chain(pieces).collect();
        leaks.sort();
        leaks
            .into_iter()
            .map(|(number, what)| Violation::LeftMapping { what, number })
            .collect()
    }
}

impl Driver {
    /// The unit in which a device's memory can be mapped, in bytes.
    ///
    /// # Errors
    /// As [`Driver::with_device`].
    pub fn granularity(&self, name: &'static str, device: u32) -> Result<usize, Code> {
        self.call(name, |world| world.granularity(device))
    }

    /// Reserves addresses, and gives the first.
    ///
    /// # Errors
    /// [`Code::InvalidValue`] for a length that is no multiple of a granularity; [`Code::OutOfMemory`].
    pub fn reserve_addresses(&self, name: &'static str, len: usize) -> Result<usize, Code> {
        self.call(name, |world| world.reserve_addresses(name, len))
    }

    /// Gives addresses back, behind which there is no memory any more.
    ///
    /// # Errors
    /// [`Code::InvalidValue`] for what was not reserved like that, or still has memory.
    pub fn free_addresses(
        &self,
        name: &'static str,
        address: usize,
        len: usize,
    ) -> Result<(), Code> {
        self.call(name, |world| world.free_addresses(name, address, len))
    }

    /// Makes a piece of a device's memory, which has no address yet, and gives its handle.
    ///
    /// # Errors
    /// [`Code::OutOfMemory`], [`Code::InvalidValue`] for a length that is no multiple of the granularity,
    /// and as [`Driver::with_device`].
    pub fn create_piece(&self, name: &'static str, device: u32, len: usize) -> Result<u64, Code> {
        self.call(name, |world| world.create_piece(name, device, len))
    }

    /// Gives a handle back; the memory goes when it has no address either.
    ///
    /// # Errors
    /// [`Code::InvalidValue`] for what is no handle.
    pub fn release_piece(&self, name: &'static str, handle: u64) -> Result<(), Code> {
        self.call(name, |world| world.release_piece(name, handle))
    }

    /// Puts a whole piece of memory behind reserved addresses. Nobody may use it yet.
    ///
    /// # Errors
    /// [`Code::InvalidValue`] for addresses that are not reserved, not aligned, or taken, and for memory
    /// that has an address or another length.
    pub fn map(
        &self,
        name: &'static str,
        address: usize,
        len: usize,
        handle: u64,
    ) -> Result<(), Code> {
        self.call(name, |world| world.map(name, address, len, handle))
    }

    /// Takes memory away from addresses. It does not wait: that work which uses it is done, and that the
    /// host knows, is the caller's business.
    ///
    /// # Errors
    /// [`Code::InvalidValue`] for what was not mapped as a whole, or is in use.
    pub fn unmap(&self, name: &'static str, address: usize, len: usize) -> Result<(), Code> {
        self.call(name, |world| world.unmap(name, address, len))
    }

    /// Lets a device use what is mapped.
    ///
    /// # Errors
    /// [`Code::InvalidValue`] for what was not mapped as a whole; as [`Driver::with_device`].
    pub fn set_access(
        &self,
        name: &'static str,
        address: usize,
        len: usize,
        device: u32,
    ) -> Result<(), Code> {
        self.call(name, |world| world.set_access(name, address, len, device))
    }
}
