//! Slabs: anonymous memory straight from the kernel.

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use workslab_core::{
    DeviceId, DevicePtr, DeviceSlab, End, Error, GrowableSlab, Growth, HostAccessible, Pattern,
    SlabOptions, SlabSize, Stream, check_disjoint, check_range,
};

use crate::NAME;
use crate::pages::HostPages;
use crate::stream::HostStream;

/// The size of a huge page on x86-64 and, with 4 KiB pages, on Arm.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// One block of anonymous memory, by `mmap`. A large one is aligned to 2 MiB and asks the kernel
/// for huge pages, so that touching it first costs a five-hundredth of the page faults.
pub struct HostSlab {
    device: DeviceId,
    base: NonNull<u8>,
    memory: Memory,
}

enum Memory {
    Fixed(Mapping),
    Growing(Growth<HostPages>),
}

/// A mapping that is all of a slab.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// What was mapped: `len`, rounded up to whole pages.
    mapped: usize,
    /// The device's count of bytes in use, to be lowered when the mapping goes.
    in_use: Arc<AtomicUsize>,
}

// SAFETY: the slab is memory, not tied to a thread; what is done to it through shared references
// goes through `unsafe` calls whose contract is exclusive use.
unsafe impl Send for HostSlab {}
// SAFETY: as above.
unsafe impl Sync for HostSlab {}

impl HostSlab {
    pub(crate) fn map(
        device: DeviceId,
        size: SlabSize,
        options: SlabOptions,
        in_use: Arc<AtomicUsize>,
    ) -> Result<Self, Error> {
        let len = size.bytes();
        let too_large = || system_error(device, "mmap", io::Error::from_raw_os_error(libc::ENOMEM));
        let mapped = len
            .checked_next_multiple_of(page_size())
            .ok_or_else(too_large)?;
        let alignment = if mapped >= HUGE_PAGE {
            HUGE_PAGE
        } else {
            page_size()
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let base = map_aligned(mapped, alignment, access)
            .ok_or_else(too_large)?
            .map_err(|error| system_error(device, "mmap", error))?;
        in_use.fetch_add(len, Ordering::Relaxed);
        // From here on, dropping `slab` takes everything back.
        let slab = Self {
            device,
            base,
            memory: Memory::Fixed(Mapping {
                base,
                len,
                mapped,
                in_use,
            }),
        };
        if alignment == HUGE_PAGE {
            advise_huge(base, mapped);
        }
        settle_pages(device, base, mapped, options)?;
        Ok(slab)
    }

    /// A slab that grows up to `cap` bytes, and has none yet.
    pub(crate) fn reserve(
        device: DeviceId,
        cap: SlabSize,
        options: SlabOptions,
        in_use: Arc<AtomicUsize>,
    ) -> Result<Self, Error> {
        let (base, growth) = HostPages::reserve(device, cap, options, in_use)?;
        Ok(Self {
            device,
            base,
            memory: Memory::Growing(growth),
        })
    }

    fn check(&self, offset: usize, len: usize) -> Result<(), Error> {
        match &self.memory {
            Memory::Fixed(mapping) => check_range(offset, len, mapping.len),
            Memory::Growing(growth) => growth.check(offset, len),
        }
    }

    /// The first byte of a range that has been checked.
    fn at(&self, offset: usize) -> Target {
        // SAFETY: callers have checked that the offset is within the slab, or is its end.
        Target(unsafe { self.base.add(offset) })
    }
}

/// An address that a job on another thread may use.
struct Target(NonNull<u8>);

// SAFETY: a target is only used by a job that has the exclusive right to its bytes (the contract of
// the slab's unsafe calls), on whichever thread works on the stream.
unsafe impl Send for Target {}

impl Target {
    fn pointer(&self) -> *mut u8 {
        self.0.as_ptr()
    }
}

/// The size of a page, the unit in which the kernel hands out memory.
pub(crate) fn page_size() -> usize {
    // SAFETY: sysconf only reads.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Maps `len` bytes, a multiple of the page size, at a multiple of `alignment`, by mapping more and
/// giving back what sticks out. `None` if the sum overflows.
pub(crate) fn map_aligned(
    len: usize,
    alignment: usize,
    access: libc::c_int,
) -> Option<io::Result<NonNull<u8>>> {
    let reserve = if access == libc::PROT_NONE {
        libc::MAP_NORESERVE
    } else {
        0
    };
    let padded = len.checked_add(alignment - page_size())?;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing else.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            padded,
            access,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | reserve,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Some(Err(io::Error::last_os_error()));
    }
    let start: *mut u8 = start.cast();
    let before = start.align_offset(alignment);
    let after = padded - before - len;
    // SAFETY: the two ranges are whole pages at the ends of the mapping just made, outside the part
    // that is kept. `munmap` of such a range cannot fail but by splitting one mapping too many, and
    // then the pages, which are never touched, cost address space only.
    unsafe {
        if before > 0 {
            libc::munmap(start.cast(), before);
        }
        if after > 0 {
            libc::munmap(start.add(before + len).cast(), after);
        }
        Some(Ok(NonNull::new_unchecked(start.add(before))))
    }
}

/// Asks for huge pages behind a mapping.
pub(crate) fn advise_huge(base: NonNull<u8>, len: usize) {
    // SAFETY: the advice changes no byte of the caller's mapping.
    let code = unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
    if code != 0 {
        // A kernel without huge pages is slower, not wrong.
        tracing::debug!(error = %io::Error::last_os_error(), "no huge pages");
    }
}

/// Locks or touches new pages, as the options say.
pub(crate) fn settle_pages(
    device: DeviceId,
    base: NonNull<u8>,
    len: usize,
    options: SlabOptions,
) -> Result<(), Error> {
    if options.lock {
        // SAFETY: locking changes no byte of the caller's mapping.
        let code = unsafe { libc::mlock(base.as_ptr().cast(), len) };
        if code != 0 {
            return Err(lock_error(device, len));
        }
    } else if options.prefault {
        prefault(base, len).map_err(|error| system_error(device, "madvise", error))?;
    }
    Ok(())
}

/// Touches every page, on all cores: the kernel clears pages one core at a time.
fn prefault(base: NonNull<u8>, len: usize) -> io::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = len.div_ceil(threads).next_multiple_of(HUGE_PAGE);
    let touch = |from: usize| -> io::Result<()> {
        let part = share.min(len - from);
        // SAFETY: the range lies within the mapping, which nobody else uses yet.
        let start = unsafe { base.as_ptr().add(from) };
        // SAFETY: as above; populating changes no byte.
        let code = unsafe { libc::madvise(start.cast(), part, libc::MADV_POPULATE_WRITE) };
        if code == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) {
            return Err(error);
        }
        // Kernels before 5.14 do not know the call: touch by hand.
        for page in (0..part).step_by(page_size()) {
            // SAFETY: within the range above.
            unsafe { start.add(page).write_volatile(0) };
        }
        Ok(())
    };
    let touch = &SendSync(touch);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..len)
            .step_by(share)
            .map(|from| scope.spawn(move || touch.call(from)))
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// A closure over a pointer to memory that the threads share out among themselves.
struct SendSync<F>(F);

// SAFETY: only `prefault` makes one, and its threads touch disjoint parts of the memory.
unsafe impl<F> Sync for SendSync<F> {}

impl<F: Fn(usize) -> io::Result<()>> SendSync<F> {
    fn call(&self, from: usize) -> io::Result<()> {
        (self.0)(from)
    }
}

pub(crate) fn system_error(device: DeviceId, call: &'static str, error: io::Error) -> Error {
    Error::Driver {
        platform: NAME,
        device,
        call,
        code: i64::from(error.raw_os_error().unwrap_or(0)),
        name: error.to_string(),
        detail: None,
    }
}

fn lock_error(device: DeviceId, len: usize) -> Error {
    let error = io::Error::last_os_error();
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call writes to `limit` only.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0;
    let detail = known.then(|| {
        let allowed = usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX);
        format!(
            "{} were to be locked, and this process may lock {}; raise the limit (ulimit -l) or set lock = false",
            workslab_core::Bytes(len),
            workslab_core::Bytes(allowed)
        )
    });
    match system_error(device, "mlock", error) {
        Error::Driver {
            platform,
            device,
            call,
            code,
            name,
            ..
        } => Error::Driver {
            platform,
            device,
            call,
            code,
            name,
            detail,
        },
        other => other,
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `HostSlab::map`, and nobody may use the slab's memory any more.
        let code = unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped) };
        if code != 0 {
            tracing::error!(error = %io::Error::last_os_error(), "munmap of a slab failed");
        }
        self.in_use.fetch_sub(self.len, Ordering::Relaxed);
    }
}

// SAFETY: the mapping stays where it is until the slab is dropped; it covers `len` bytes, which the
// kernel clears.
unsafe impl DeviceSlab for HostSlab {
    type Stream = HostStream;

    fn device(&self) -> DeviceId {
        self.device
    }

    fn base(&self) -> DevicePtr {
        DevicePtr::new(self.base.as_ptr().expose_provenance())
    }

    fn len(&self) -> usize {
        match &self.memory {
            Memory::Fixed(mapping) => mapping.len,
            Memory::Growing(growth) => growth.committed(End::Front),
        }
    }

    fn growable(&self) -> Option<&dyn GrowableSlab> {
        match &self.memory {
            Memory::Fixed(_) => None,
            Memory::Growing(growth) => Some(growth),
        }
    }

    unsafe fn write(&self, stream: &HostStream, offset: usize, source: &[u8]) -> Result<(), Error> {
        self.check(offset, source.len())?;
        let target = self.at(offset);
        let from = Target(NonNull::from(source).cast());
        let len = source.len();
        stream.launch(move || {
            // SAFETY: the caller has the exclusive right to the target, and waits below for the
            // copy, so that the source is still there.
            unsafe { copy(from.pointer(), target.pointer(), len) }
        });
        stream.synchronize()
    }

    unsafe fn read(
        &self,
        stream: &HostStream,
        offset: usize,
        destination: &mut [u8],
    ) -> Result<(), Error> {
        self.check(offset, destination.len())?;
        let source = self.at(offset);
        let len = destination.len();
        let to = Target(NonNull::from(destination).cast());
        stream.launch(move || {
            // SAFETY: nobody writes to the source, and the destination is borrowed until the copy
            // has been waited for below.
            unsafe { copy(source.pointer(), to.pointer(), len) }
        });
        stream.synchronize()
    }

    unsafe fn fill(
        &self,
        stream: &HostStream,
        offset: usize,
        len: usize,
        pattern: Pattern,
    ) -> Result<(), Error> {
        self.check(offset, len)?;
        let target = self.at(offset);
        stream.launch(move || {
            // SAFETY: the caller has the exclusive right to the range until this job is done, and
            // every byte of a slab is initialised.
            let bytes = unsafe { std::slice::from_raw_parts_mut(target.pointer(), len) };
            fill(bytes, pattern);
        });
        Ok(())
    }

    unsafe fn copy(
        &self,
        stream: &HostStream,
        from: usize,
        to: usize,
        len: usize,
    ) -> Result<(), Error> {
        self.check(from, len)?;
        self.check(to, len)?;
        check_disjoint(from, to, len)?;
        let source = self.at(from);
        let target = self.at(to);
        stream.launch(move || {
            // SAFETY: the caller has the exclusive right to the target, nobody writes to the
            // source, and the two do not overlap.
            unsafe { copy(source.pointer(), target.pointer(), len) }
        });
        Ok(())
    }
}

// SAFETY: a slab is ordinary memory of this process.
unsafe impl HostAccessible for HostSlab {
    fn host_base(&self) -> NonNull<u8> {
        self.base
    }
}

/// Copies `len` bytes, and keeps out of the way of a slow instruction.
///
/// For more than some 2 KiB glibc's memcpy uses `rep movsb`, and on AMD processors that runs at a
/// fifth of its speed when the target lies 1 to 31 bytes after the source modulo 4096. That is just
/// where a large vector (malloc puts it 16 bytes into a page) stands to an array at the start of a
/// page; docs/benchmarks.md has the numbers. Smaller pieces take another path.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`].
unsafe fn copy(source: *const u8, target: *mut u8, len: usize) {
    const PIECE: usize = 1024;
    let ahead = target.addr().wrapping_sub(source.addr()) % 4096;
    if !(1..32).contains(&ahead) {
        // SAFETY: the caller's.
        return unsafe { std::ptr::copy_nonoverlapping(source, target, len) };
    }
    for start in (0..len).step_by(PIECE) {
        let piece = PIECE.min(len - start);
        // SAFETY: the piece lies within the caller's ranges.
        unsafe { std::ptr::copy_nonoverlapping(source.add(start), target.add(start), piece) };
    }
}

fn fill(bytes: &mut [u8], pattern: Pattern) {
    if let Pattern::U8(byte) = pattern {
        bytes.fill(byte);
        return;
    }
    let word = pattern.widened();
    let (chunks, rest) = bytes.as_chunks_mut::<8>();
    chunks.fill(word);
    rest.copy_from_slice(&word[..rest.len()]);
}

impl fmt::Debug for HostSlab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostSlab")
            .field("device", &self.device)
            .field("base", &self.base)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slab(bytes: usize, options: SlabOptions) -> Result<HostSlab, Error> {
        HostSlab::map(
            DeviceId::new(0),
            SlabSize::new(bytes).expect("not zero"),
            options,
            Arc::default(),
        )
    }

    fn with_prefault() -> SlabOptions {
        let mut options = SlabOptions::default();
        options.prefault = true;
        options
    }

    #[test]
    fn a_large_slab_is_aligned_to_a_huge_page_and_a_small_one_to_a_page() {
        let large = slab(5 << 20, SlabOptions::default()).expect("5 MiB");
        assert!(large.base().is_aligned_to(HUGE_PAGE));
        assert_eq!(large.len(), 5 << 20);
        let small = slab(1, SlabOptions::default()).expect("1 byte");
        assert!(small.base().is_aligned_to(page_size()));
        assert_eq!(small.len(), 1);
    }

    #[test]
    fn a_prefaulted_slab_is_resident() {
        let slab = slab((5 << 20) + 1, with_prefault()).expect("5 MiB and a byte");
        let Memory::Fixed(mapping) = &slab.memory else {
            panic!("a fixed slab was asked for");
        };
        let pages = mapping.mapped / page_size();
        let mut resident = vec![0u8; pages];
        // SAFETY: the range is the slab's mapping, and there is a byte for each of its pages.
        let code = unsafe {
            libc::mincore(
                slab.base.as_ptr().cast(),
                mapping.mapped,
                resident.as_mut_ptr(),
            )
        };
        assert_eq!(code, 0);
        assert!(resident.iter().all(|page| page & 1 == 1));
    }

    /// How many bytes this process keeps from being paged out.
    fn locked() -> u64 {
        let process = procfs::process::Process::myself().expect("this process");
        let status = process.status().expect("its status");
        status.vmlck.unwrap_or(0) * 1024
    }

    #[test]
    fn a_locked_slab_counts_as_locked_or_says_what_may_be() {
        let mut options = SlabOptions::default();
        options.lock = true;
        let before = locked();
        match slab(1 << 16, options) {
            Ok(slab) => {
                assert_eq!(locked(), before + (1 << 16));
                drop(slab);
                assert_eq!(locked(), before);
            }
            // A machine may allow nothing to be locked; then the message says so.
            Err(error) => {
                let text = error.to_string();
                assert!(
                    text.contains("mlock") && text.contains("ulimit -l"),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn a_lock_beyond_the_limit_of_a_forked_child_names_the_limit() {
        // SAFETY: lowers this thread's process limit in a child, which ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let limit = libc::rlimit {
                rlim_cur: 4096,
                rlim_max: 4096,
            };
            // SAFETY: as above. Without root's privilege the limit holds; with it, it must go.
            let limited = unsafe {
                libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) == 0
                    && (libc::geteuid() != 0 || libc::setuid(65_534) == 0)
            };
            let mut options = SlabOptions::default();
            options.lock = true;
            let refused = match slab(1 << 20, options) {
                Err(Error::Driver {
                    call: "mlock",
                    detail: Some(detail),
                    ..
                }) => detail.contains("4 KiB") && detail.contains("1 MiB"),
                _ => false,
            };
            // SAFETY: ends the child without running anything else.
            unsafe { libc::_exit(i32::from(!limited) << 1 | i32::from(!refused)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status));
        assert_eq!(
            libc::WEXITSTATUS(status),
            0,
            "2: no limit could be set, 1: it was not told"
        );
    }

    #[test]
    fn a_slab_that_cannot_be_mapped_is_an_error_and_counts_nothing() {
        let in_use = Arc::new(AtomicUsize::new(0));
        let outcome = HostSlab::map(
            DeviceId::new(0),
            SlabSize::new(usize::MAX).expect("not zero"),
            SlabOptions::default(),
            Arc::clone(&in_use),
        );
        assert!(matches!(outcome, Err(Error::Driver { call: "mmap", .. })));
        assert_eq!(in_use.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_copy_is_whole_wherever_its_ends_stand_to_each_other() {
        let source: Vec<u8> = (0..10_000u32).map(|i| i.to_le_bytes()[0] ^ 0x5A).collect();
        for ahead in 0..40 {
            let mut target = vec![0u8; 12_000 + 4096];
            let wanted = (source.as_ptr().addr() + ahead) % 4096;
            let shift = (wanted + 4096 - target.as_ptr().addr() % 4096) % 4096;
            let target = &mut target[shift..shift + 10_000];
            // SAFETY: two vectors, both of at least this length.
            unsafe { copy(source.as_ptr(), target.as_mut_ptr(), source.len()) };
            assert_eq!(target, source, "{ahead} bytes ahead");
        }
    }

    #[test]
    fn the_last_repetition_of_a_pattern_is_cut_off() {
        let mut bytes = [0; 11];
        fill(&mut bytes, Pattern::U32(u32::from_ne_bytes([1, 2, 3, 4])));
        assert_eq!(bytes, [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3]);
    }
}
