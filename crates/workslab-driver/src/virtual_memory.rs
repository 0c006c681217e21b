//! Virtual memory of a device: addresses that are reserved first, and get memory when it is wanted.
//!
//! HIP's calls for it were made after CUDA's, so one piece of code serves both. Addresses and handles of
//! pieces of memory are passed as 64-bit numbers, which CUDA declares so, and which HIP's pointers are
//! passed like.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use workslab_core::{DeviceId, Error, Growth, Pages, SlabSize};

/// What a driver's function returns: 0, or its code for what went wrong.
pub type Code = c_uint;

/// A function of a driver's, and its name for messages.
#[derive(Clone, Copy)]
pub struct Named<F> {
    /// The name.
    pub name: &'static str,
    /// The function.
    pub call: F,
}

/// Where memory is: `hipMemLocation`, `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Location {
    kind: c_int,
    device: c_int,
}

impl Location {
    /// A device's own memory.
    const DEVICE: c_int = 1;
}

/// What memory is wanted: `hipMemAllocationProp` (that of HIP 5.2 has its members in another order) and
/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AllocationProperties {
    kind: c_int,
    handles: c_int,
    location: Location,
    metadata: *const c_void,
    flags: [u8; 8],
}

impl AllocationProperties {
    /// Memory that stays where it is.
    const PINNED: c_int = 1;

    fn of(device: c_int) -> Self {
        Self {
            kind: Self::PINNED,
            handles: 0,
            location: Location {
                kind: Location::DEVICE,
                device,
            },
            metadata: ptr::null(),
            flags: [0; 8],
        }
    }
}

/// Who may do what: `hipMemAccessDesc`, `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AccessDescription {
    location: Location,
    flags: c_int,
}

impl AccessDescription {
    const READ_AND_WRITE: c_int = 3;
}

/// The eight functions.
#[derive(Clone, Copy)]
pub struct MemoryFunctions {
    /// `hipMemGetAllocationGranularity`.
    pub granularity:
        Named<unsafe extern "C" fn(*mut usize, *const AllocationProperties, c_uint) -> Code>,
    /// `hipMemAddressReserve`.
    pub reserve: Named<unsafe extern "C" fn(*mut u64, usize, usize, u64, u64) -> Code>,
    /// `hipMemAddressFree`.
    pub free: Named<unsafe extern "C" fn(u64, usize) -> Code>,
    /// `hipMemCreate`.
    pub create:
        Named<unsafe extern "C" fn(*mut u64, usize, *const AllocationProperties, u64) -> Code>,
    /// `hipMemRelease`.
    pub release: Named<unsafe extern "C" fn(u64) -> Code>,
    /// `hipMemMap`.
    pub map: Named<unsafe extern "C" fn(u64, usize, usize, u64, u64) -> Code>,
    /// `hipMemUnmap`.
    pub unmap: Named<unsafe extern "C" fn(u64, usize) -> Code>,
    /// `hipMemSetAccess`.
    pub set_access:
        Named<unsafe extern "C" fn(u64, usize, *const AccessDescription, usize) -> Code>,
}

/// A device whose driver has virtual memory, as a backend knows it.
pub trait VirtualMemory: Send + Sync {
    /// Keeps the device current on this thread, and goes back when it is dropped.
    type Current;

    /// The driver's functions.
    fn functions(&self) -> &MemoryFunctions;

    /// The device, as the driver counts.
    fn ordinal(&self) -> c_int;

    /// Makes the device current.
    ///
    /// # Errors
    /// The driver's.
    fn enter(&self) -> Result<Self::Current, Error>;

    /// Nothing for code 0, or an error.
    ///
    /// # Errors
    /// The driver's.
    fn check(&self, call: &'static str, code: Code) -> Result<(), Error>;

    /// Whether the driver says with this error that the process ends.
    fn is_shut_down(&self, error: &Error) -> bool;

    /// Fills memory with zeros, so that it is there, and waits for it.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The memory is the device's, and nobody else uses it.
    unsafe fn clear(&self, address: u64, len: usize) -> Result<(), Error>;
}

/// The error for a device or a driver without virtual memory.
#[must_use]
pub fn no_growth(platform: &'static str, device: DeviceId, driver: &str) -> Error {
    Error::NoGrowth {
        platform,
        device,
        reason: format!("{driver} has no virtual memory for it"),
    }
}

/// The granularity that a driver advises, rather than the least that it can do.
const RECOMMENDED: c_uint = 1;

/// Reserved addresses of a device.
pub struct DevicePages<V: VirtualMemory> {
    memory: V,
    base: u64,
    range: usize,
    touch: bool,
    /// How many pieces are mapped. Addresses with memory cannot be given back.
    mapped: AtomicUsize,
}

/// The handle of a piece of memory that is mapped.
pub struct Piece(u64);

impl<V: VirtualMemory> DevicePages<V> {
    /// Reserves addresses for `cap` bytes, rounded up to the device's granularity, and gives the first.
    /// With `touch` new memory is cleared.
    ///
    /// # Errors
    /// The driver's; nothing stays reserved.
    pub fn reserve(memory: V, cap: SlabSize, touch: bool) -> Result<(u64, Growth<Self>), Error> {
        let current = memory.enter()?;
        let functions = *memory.functions();
        let properties = AllocationProperties::of(memory.ordinal());
        let mut granularity = 0;
        let Named { name, call } = functions.granularity;
        // SAFETY: the call reads the properties and writes to `granularity` only.
        let code = unsafe { call(&raw mut granularity, &raw const properties, RECOMMENDED) };
        memory.check(name, code)?;
        let granularity = granularity.max(1);
        // What has no multiple that fits is refused by the driver.
        let range = cap.bytes().checked_next_multiple_of(granularity);
        let range = range.unwrap_or(usize::MAX / granularity * granularity);
        let mut base = 0;
        let Named { name, call } = functions.reserve;
        // SAFETY: the call writes to `base` only.
        let code = unsafe { call(&raw mut base, range, 0, 0, 0) };
        memory.check(name, code)?;
        drop(current);
        let pages = Self {
            memory,
            base,
            range,
            touch,
            mapped: AtomicUsize::new(0),
        };
        Ok((base, Growth::new(pages, range, granularity)))
    }

    fn at(&self, offset: usize) -> u64 {
        self.base + offset as u64
    }

    fn create(&self, len: usize) -> Result<Unmapped<'_, V>, Error> {
        let properties = AllocationProperties::of(self.memory.ordinal());
        let mut handle = 0;
        let Named { name, call } = self.memory.functions().create;
        // SAFETY: the call reads the properties and writes to `handle` only.
        let code = unsafe { call(&raw mut handle, len, &raw const properties, 0) };
        self.memory.check(name, code)?;
        Ok(Unmapped {
            pages: self,
            handle,
        })
    }

    /// Lets the device use what is mapped.
    fn allow(&self, offset: usize, len: usize) -> Result<(), Error> {
        let description = AccessDescription {
            location: Location {
                kind: Location::DEVICE,
                device: self.memory.ordinal(),
            },
            flags: AccessDescription::READ_AND_WRITE,
        };
        let Named { name, call } = self.memory.functions().set_access;
        // SAFETY: the range was just mapped, and nobody uses it yet.
        let code = unsafe { call(self.at(offset), len, &raw const description, 1) };
        self.memory.check(name, code)
    }

    /// # Safety
    /// The range was mapped as a whole, and nobody uses it.
    unsafe fn take_away(&self, offset: usize, len: usize) -> Result<(), Error> {
        let Named { name, call } = self.memory.functions().unmap;
        // SAFETY: the caller's.
        let code = unsafe { call(self.at(offset), len) };
        self.memory.check(name, code)?;
        self.mapped.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    fn lost(&self, what: &str, outcome: Result<(), Error>) {
        if let Err(error) = outcome
            && !self.memory.is_shut_down(&error)
        {
            tracing::error!(%error, "{what} of a growable slab could not be given back");
        }
    }
}

/// Memory without an address, given back when this is dropped.
struct Unmapped<'p, V: VirtualMemory> {
    pages: &'p DevicePages<V>,
    handle: u64,
}

impl<V: VirtualMemory> Unmapped<'_, V> {
    fn keep(self) -> Piece {
        let piece = Piece(self.handle);
        std::mem::forget(self);
        piece
    }
}

impl<V: VirtualMemory> Drop for Unmapped<'_, V> {
    fn drop(&mut self) {
        let memory = &self.pages.memory;
        let Named { name, call } = memory.functions().release;
        // SAFETY: the handle is this value's, and it is mapped nowhere.
        let code = unsafe { call(self.handle) };
        self.pages.lost("memory", memory.check(name, code));
    }
}

// SAFETY: memory that was created, mapped and made accessible stays so until it is unmapped; the driver
// gives it no meaning, so that every byte has some value.
unsafe impl<V: VirtualMemory> Pages for DevicePages<V> {
    type Chunk = Piece;

    fn map(&self, offset: usize, len: usize) -> Result<Piece, Error> {
        let _current = self.memory.enter()?;
        let piece = self.create(len)?;
        let Named { name, call } = self.memory.functions().map;
        // SAFETY: the addresses are reserved, and nothing is mapped there.
        let code = unsafe { call(self.at(offset), len, 0, piece.handle, 0) };
        self.memory.check(name, code)?;
        self.mapped.fetch_add(1, Ordering::Relaxed);
        let ready = self.allow(offset, len).and_then(|()| {
            if self.touch {
                // SAFETY: nobody knows of the memory yet.
                unsafe { self.memory.clear(self.at(offset), len) }
            } else {
                Ok(())
            }
        });
        if let Err(error) = ready {
            // SAFETY: it was mapped above, and nobody knows of it.
            self.lost("addresses", unsafe { self.take_away(offset, len) });
            return Err(error);
        }
        Ok(piece.keep())
    }

    unsafe fn unmap(
        &self,
        offset: usize,
        len: usize,
        Piece(handle): Piece,
    ) -> Result<(), (Piece, Error)> {
        let _current = match self.memory.enter() {
            Ok(current) => current,
            Err(error) => return Err((Piece(handle), error)),
        };
        // SAFETY: the caller's, and `map` mapped the range as a whole.
        match unsafe { self.take_away(offset, len) } {
            Ok(()) => {}
            // When the process ends, the driver has taken all away itself.
            Err(error) if self.memory.is_shut_down(&error) => {
                self.mapped.fetch_sub(1, Ordering::Relaxed);
            }
            Err(error) => return Err((Piece(handle), error)),
        }
        drop(Unmapped {
            pages: self,
            handle,
        });
        Ok(())
    }
}

impl<V: VirtualMemory> Drop for DevicePages<V> {
    fn drop(&mut self) {
        if *self.mapped.get_mut() > 0 {
            // The driver did not take all memory away, and has been asked why where that happened.
            tracing::error!(
                "{} bytes of addresses of a growable slab are lost, since they still have memory",
                self.range
            );
            return;
        }
        let freed = self.memory.enter().and_then(|_current| {
            let Named { name, call } = self.memory.functions().free;
            // SAFETY: the reservation is this value's, and all that was mapped there is gone.
            let code = unsafe { call(self.base, self.range) };
            self.memory.check(name, code)
        });
        self.lost("addresses", freed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// The numbers that check/hip_abi.c and check/cuda_abi.c hold against the drivers' own headers.
    #[test]
    fn the_structures_are_laid_out_as_the_headers_have_them() {
        assert_eq!(offset_of!(AllocationProperties, kind), 0);
        assert_eq!(offset_of!(AllocationProperties, handles), 4);
        assert_eq!(offset_of!(AllocationProperties, location), 8);
        assert_eq!(offset_of!(AllocationProperties, metadata), 16);
        assert_eq!(offset_of!(AllocationProperties, flags), 24);
        assert_eq!(size_of::<AllocationProperties>(), 32);
        assert_eq!(offset_of!(Location, device), 4);
        assert_eq!(size_of::<Location>(), 8);
        assert_eq!(offset_of!(AccessDescription, flags), 8);
        assert_eq!(size_of::<AccessDescription>(), 12);
    }
}
