//! What a backend provides: slabs, streams and events of one family of devices.

use std::ptr::NonNull;

use crate::{DeviceId, DeviceInfo, DevicePtr, Error, GrowableSlab, Pattern, SlabOptions, SlabSize};

/// A family of devices behind one driver.
///
/// Every call leaves the caller's current device and context as it found them, on every path.
pub trait Platform: Send + Sync + 'static {
    /// The platform's name in messages and settings: `rocm`, `cuda`, `host`.
    const NAME: &'static str;
    /// A block of a device's memory.
    type Slab: DeviceSlab<Stream = Self::Stream>;
    /// A queue of device work.
    type Stream: Stream<Event = Self::Event>;
    /// A point in a stream that another stream can wait for.
    type Event: Send + Sync + 'static;

    /// How many devices there are.
    ///
    /// # Errors
    /// When the driver is missing or refuses.
    fn device_count(&self) -> Result<u32, Error>;

    /// A device's name and memory, as they are now.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`]; or the driver's.
    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo, Error>;

    /// Allocates one slab: exactly one allocation of the driver's.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`], [`Error::OutOfMemory`]; or the driver's. Nothing stays allocated.
    fn allocate_slab(
        &self,
        device: DeviceId,
        size: SlabSize,
        options: SlabOptions,
    ) -> Result<Self::Slab, Error>;

    /// Reserves addresses for a slab of up to `cap` bytes that grows in place, and commits nothing yet.
    /// Rounds up to the granularity in which it will grow.
    ///
    /// # Errors
    /// [`Error::NoGrowth`] where the driver has no virtual memory; [`Error::NoSuchDevice`]; or the
    /// driver's. Nothing stays reserved.
    fn reserve_slab(
        &self,
        device: DeviceId,
        cap: SlabSize,
        options: SlabOptions,
    ) -> Result<Self::Slab, Error> {
        let _ = (cap, options);
        Err(Error::NoGrowth {
            platform: Self::NAME,
            device,
            reason: "this platform has no slabs that grow".into(),
        })
    }

    /// Makes an event for the device's streams. It counts as having happened until it is recorded.
    ///
    /// # Errors
    /// The driver's.
    fn create_event(&self, device: DeviceId) -> Result<Self::Event, Error>;

    /// Makes a stream of its own on the device.
    ///
    /// # Errors
    /// The driver's.
    fn create_stream(&self, device: DeviceId) -> Result<Self::Stream, Error>;

    /// The stream that a program uses that names none.
    ///
    /// # Errors
    /// The driver's.
    fn default_stream(&self, device: DeviceId) -> Result<Self::Stream, Error>;
}

/// A platform with one allocator for the whole process.
pub trait ProcessWide: Platform + Sized {
    /// The process's allocator. It lives as long as the process and releases nothing: a `'static`
    /// borrow could be anywhere. Whoever wants to release makes an allocator of one's own.
    ///
    /// # Errors
    /// When the platform cannot be opened.
    fn process_wide() -> Result<&'static crate::ExternalWorkspaceAllocator<Self>, Error>;
}

/// Names a stream among all that this process ever uses on a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId(pub u64);

/// Names one capture of streams into a graph among all that this process ever makes on a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CaptureId(pub u64);

/// A queue of work that its device does in order. A handle: clones name the same queue.
///
/// # Safety
/// Safe code hands out memory on the strength of these calls, so:
/// - work enqueued after `wait(event)` starts after everything that was enqueued on the recording
///   stream before the last `record(event)`;
/// - when `synchronize` has returned `Ok`, everything enqueued before has finished;
/// - two streams that are alive never share an id, and an owned stream's id is never used again.
pub unsafe trait Stream: Clone + Send + Sync + 'static {
    /// The platform's event.
    type Event;

    /// The stream's name.
    fn id(&self) -> StreamId;

    /// The device that works on it.
    fn device(&self) -> DeviceId;

    /// Whether holding this handle keeps the stream alive. A stream lent by another library is not
    /// owned: its owner may destroy it as soon as a lease has ended, so the lease's end must be
    /// recorded then and there.
    fn is_owned(&self) -> bool;

    /// Marks this point of the stream in `event`; does not block.
    ///
    /// # Errors
    /// The driver's.
    fn record(&self, event: &Self::Event) -> Result<(), Error>;

    /// Makes later work on this stream wait for `event` as it was last recorded; does not block,
    /// except on a stream whose work the calling thread does itself.
    ///
    /// # Errors
    /// The driver's.
    fn wait(&self, event: &Self::Event) -> Result<(), Error>;

    /// Blocks until everything enqueued so far has finished.
    ///
    /// # Errors
    /// The driver's, those of the enqueued work included.
    fn synchronize(&self) -> Result<(), Error>;

    /// The capture that turns what is enqueued on this stream into a graph instead of running it, if
    /// there is one. On an own stream no driver call, as long as the platform captures nothing.
    ///
    /// # Errors
    /// The driver's.
    fn capture(&self) -> Result<Option<CaptureId>, Error> {
        Ok(None)
    }

    /// Makes later work on this stream wait for everything that was enqueued on `last`, a stream that
    /// is being captured, before its capture began.
    ///
    /// # Errors
    /// [`Error::Capturing`] if that point is not known; or the driver's.
    fn wait_before_capture(&self, last: &Self) -> Result<(), Error> {
        last.synchronize()
    }
}

/// One contiguous block of memory on one device, freed when dropped.
///
/// # Safety
/// The range `[base, base + len)` is valid memory of `device` for as long as the slab lives, it
/// never moves, and every byte of it is initialised. (A slab that grows may be trimmed, and says there
/// what is valid.)
pub unsafe trait DeviceSlab: Send + Sync + 'static {
    /// The platform's stream.
    type Stream;

    /// The device the slab is on.
    fn device(&self) -> DeviceId;

    /// Its first byte.
    fn base(&self) -> DevicePtr;

    /// Its length in bytes; of a slab that grows, what is committed from its base on.
    fn len(&self) -> usize;

    /// Whether it has no bytes. Only a growable slab may have none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How it grows in place, if it does.
    fn growable(&self) -> Option<&dyn GrowableSlab> {
        None
    }

    /// Copies `source` to the slab at `offset`, in the stream's order. Returns when `source` may
    /// be used again.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; or the driver's.
    ///
    /// # Safety
    /// The caller has the exclusive right to the range until the stream has done the copy.
    unsafe fn write(
        &self,
        stream: &Self::Stream,
        offset: usize,
        source: &[u8],
    ) -> Result<(), Error>;

    /// Copies from the slab at `offset` to `destination`, in the stream's order, and waits for it.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; or the driver's. `destination` may then hold anything.
    ///
    /// # Safety
    /// Nobody writes to the range until the call returns, except work enqueued before on `stream`.
    unsafe fn read(
        &self,
        stream: &Self::Stream,
        offset: usize,
        destination: &mut [u8],
    ) -> Result<(), Error>;

    /// Fills `len` bytes at `offset` with `pattern`, in the stream's order; does not block. A last
    /// repetition that does not fit is cut off.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; or the driver's.
    ///
    /// # Safety
    /// The caller has the exclusive right to the range until the stream has done the fill.
    unsafe fn fill(
        &self,
        stream: &Self::Stream,
        offset: usize,
        len: usize,
        pattern: Pattern,
    ) -> Result<(), Error>;

    /// Copies `len` bytes from offset `from` to offset `to`, in the stream's order; does not block.
    /// The two ranges must not overlap.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], also for ranges that overlap; or the driver's.
    ///
    /// # Safety
    /// The caller has the exclusive right to the target range, and nobody writes to the source
    /// range, until the stream has done the copy.
    unsafe fn copy(
        &self,
        stream: &Self::Stream,
        from: usize,
        to: usize,
        len: usize,
    ) -> Result<(), Error>;
}

/// A slab whose memory the host may read and write through ordinary pointers.
///
/// # Safety
/// `host_base` points to `len` bytes that the host may access for as long as the slab lives, at
/// the same addresses that the device uses.
pub unsafe trait HostAccessible: DeviceSlab {
    /// The slab's first byte.
    fn host_base(&self) -> NonNull<u8>;
}

/// Waits for a copy from or to memory that a caller takes back afterwards; for backends.
///
/// When the wait fails, the copy may still be under way, and to return then would let it write to
/// memory that is somebody else's by now. So the wait is tried again. A driver that keeps refusing has
/// given up on the device for good and runs nothing on it any more.
///
/// # Errors
/// The first wait's.
pub fn settle(stream: &impl Stream) -> Result<(), Error> {
    const TRIES: usize = 3;
    let Err(error) = stream.synchronize() else {
        return Ok(());
    };
    for _ in 0..TRIES {
        if stream.synchronize().is_ok() {
            break;
        }
    }
    Err(error)
}

/// Checks that `len` bytes at `offset` lie within a slab of `slab` bytes; for backends.
///
/// # Errors
/// [`Error::OutOfBounds`], also when `offset + len` overflows.
pub fn check_range(offset: usize, len: usize, slab: usize) -> Result<(), Error> {
    match offset.checked_add(len) {
        Some(end) if end <= slab => Ok(()),
        _ => Err(Error::OutOfBounds { offset, len, slab }),
    }
}

/// Checks that `len` bytes at `from` and as many at `to` share none; for backends.
///
/// # Errors
/// [`Error::OutOfBounds`], with the distance between the two as what there is room for.
pub fn check_disjoint(from: usize, to: usize, len: usize) -> Result<(), Error> {
    let room = from.abs_diff(to);
    if len <= room || len == 0 {
        Ok(())
    } else {
        Err(Error::OutOfBounds {
            offset: from,
            len,
            slab: room,
        })
    }
}
