//! Memory behind reserved addresses, for slabs that grow: pages without access become pages with it.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use workslab_core::{DeviceId, Error, Growth, Pages, SlabOptions, SlabSize};

use crate::slab::{HUGE_PAGE, advise_huge, map_aligned, page_size, settle_pages, system_error};

/// A range of addresses that nothing may be read from or written to, but for the pieces in use.
pub(crate) struct HostPages {
    device: DeviceId,
    base: NonNull<u8>,
    range: usize,
    options: SlabOptions,
    /// The device's count of bytes in use.
    in_use: Arc<AtomicUsize>,
}

// SAFETY: as a slab: memory that is not tied to a thread, changed under the lock of `Growth`.
unsafe impl Send for HostPages {}
// SAFETY: as above.
unsafe impl Sync for HostPages {}

impl HostPages {
    /// Reserves addresses for `cap` bytes, rounded up to huge pages, or to pages if one is enough.
    pub(crate) fn reserve(
        device: DeviceId,
        cap: SlabSize,
        options: SlabOptions,
        in_use: Arc<AtomicUsize>,
    ) -> Result<(NonNull<u8>, Growth<Self>), Error> {
        let granularity = if cap.bytes() >= HUGE_PAGE {
            HUGE_PAGE
        } else {
            page_size()
        };
        let too_large = || system_error(device, "mmap", io::Error::from_raw_os_error(libc::ENOMEM));
        let range = cap.bytes().checked_next_multiple_of(granularity);
        let range = range.ok_or_else(too_large)?;
        let base = map_aligned(range, granularity, libc::PROT_NONE)
            .ok_or_else(too_large)?
            .map_err(|error| system_error(device, "mmap", error))?;
        let pages = Self {
            device,
            base,
            range,
            options,
            in_use,
        };
        Ok((base, Growth::new(pages, range, granularity)))
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.base.as_ptr().wrapping_add(offset)
    }

    /// Puts new pages that nothing may touch over a range: what was there goes back to the system.
    fn clear(&self, offset: usize, len: usize) -> io::Result<()> {
        // SAFETY: the range lies within the reservation, which is this value's, and its callers say
        // that nobody uses the memory.
        let mapped = unsafe {
            libc::mmap(
                self.at(offset).cast(),
                len,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

// SAFETY: anonymous pages with access are memory full of zeros, until they are replaced.
unsafe impl Pages for HostPages {
    type Chunk = ();

    fn map(&self, offset: usize, len: usize) -> Result<(), Error> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range lies within the reservation, and nobody uses it yet.
        let code = unsafe { libc::mprotect(self.at(offset).cast(), len, access) };
        if code != 0 {
            let error = io::Error::last_os_error();
            return Err(system_error(self.device, "mprotect", error));
        }
        let piece = NonNull::new(self.at(offset)).unwrap_or(self.base);
        if len >= HUGE_PAGE {
            advise_huge(piece, len);
        }
        if let Err(error) = settle_pages(self.device, piece, len, self.options) {
            if let Err(error) = self.clear(offset, len) {
                tracing::error!(%error, "memory that a growth took is not given back");
            }
            return Err(error);
        }
        self.in_use.fetch_add(len, Ordering::Relaxed);
        Ok(())
    }

    unsafe fn unmap(&self, offset: usize, len: usize, (): ()) -> Result<(), ((), Error)> {
        self.clear(offset, len)
            .map_err(|error| ((), system_error(self.device, "mmap", error)))?;
        self.in_use.fetch_sub(len, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for HostPages {
    fn drop(&mut self) {
        // SAFETY: the reservation was made by `reserve`, and nobody may use the slab any more.
        let code = unsafe { libc::munmap(self.base.as_ptr().cast(), self.range) };
        if code != 0 {
            tracing::error!(error = %io::Error::last_os_error(), "munmap of a slab failed");
        }
    }
}
