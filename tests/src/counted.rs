//! A layer around a platform that counts its calls, and makes one fail when a test wants it.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use workslab::{
    CaptureId, DeviceId, DeviceInfo, DevicePtr, DeviceSlab, End, Error, GrowableSlab,
    HostAccessible, Pattern, Platform, SlabOptions, SlabSize, Stream, StreamId,
};

/// The calls that a platform, its slabs and its streams have seen. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    counts: BTreeMap<&'static str, u64>,
    /// The calls that shall fail, and how many of each shall pass before.
    faults: Vec<(&'static str, u64)>,
}

impl Calls {
    /// How often a call was made.
    #[must_use]
    pub fn count(&self, call: &str) -> u64 {
        self.lock().counts.get(call).copied().unwrap_or(0)
    }

    /// All calls and how often each was made.
    #[must_use]
    pub fn all(&self) -> BTreeMap<&'static str, u64> {
        self.lock().counts.clone()
    }

    /// Starts counting anew.
    pub fn clear(&self) {
        self.lock().counts.clear();
    }

    /// Makes a call fail once, after so many of it have passed.
    pub fn fail(&self, call: &'static str, after: u64) {
        self.lock().faults.push((call, after));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, call: &'static str, device: DeviceId) -> Result<(), Error> {
        let mut state = self.lock();
        *state.counts.entry(call).or_default() += 1;
        let Some(index) = state.faults.iter().position(|(faulty, _)| *faulty == call) else {
            return Ok(());
        };
        if state.faults[index].1 > 0 {
            state.faults[index].1 -= 1;
            return Ok(());
        }
        state.faults.remove(index);
        Err(Error::Driver {
            platform: "test",
            device,
            call,
            code: -1,
            name: "injected fault".into(),
            detail: None,
        })
    }
}

/// A platform whose calls are counted.
#[derive(Debug)]
pub struct Counted<P> {
    inner: P,
    calls: Calls,
}

impl<P: Platform> Counted<P> {
    /// The platform, and where its calls are counted.
    pub fn new(inner: P) -> (Self, Calls) {
        let calls = Calls::default();
        let counted = Self {
            inner,
            calls: calls.clone(),
        };
        (counted, calls)
    }

    fn stream(&self, inner: P::Stream) -> CountedStream<P::Stream> {
        CountedStream {
            inner,
            calls: self.calls.clone(),
        }
    }
}

/// A slab whose calls are counted.
#[derive(Debug)]
pub struct CountedSlab<S> {
    inner: S,
    calls: Calls,
}

/// A stream whose calls are counted.
#[derive(Clone, Debug)]
pub struct CountedStream<S> {
    inner: S,
    calls: Calls,
}

impl<S> CountedStream<S> {
    /// The stream inside.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// The same with another stream inside.
    #[must_use]
    pub fn map(&self, inner: impl FnOnce(&S) -> S) -> Self {
        Self {
            inner: inner(&self.inner),
            calls: self.calls.clone(),
        }
    }
}

impl<P: Platform> Platform for Counted<P> {
    const NAME: &'static str = P::NAME;
    type Slab = CountedSlab<P::Slab>;
    type Stream = CountedStream<P::Stream>;
    type Event = P::Event;

    fn device_count(&self) -> Result<u32, Error> {
        self.calls.note("device_count", DeviceId::new(0))?;
        self.inner.device_count()
    }

    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo, Error> {
        self.calls.note("device_info", device)?;
        self.inner.device_info(device)
    }

    fn allocate_slab(
        &self,
        device: DeviceId,
        size: SlabSize,
        options: SlabOptions,
    ) -> Result<Self::Slab, Error> {
        self.calls.note("allocate_slab", device)?;
        Ok(CountedSlab {
            inner: self.inner.allocate_slab(device, size, options)?,
            calls: self.calls.clone(),
        })
    }

    fn reserve_slab(
        &self,
        device: DeviceId,
        cap: SlabSize,
        options: SlabOptions,
    ) -> Result<Self::Slab, Error> {
        self.calls.note("reserve_slab", device)?;
        Ok(CountedSlab {
            inner: self.inner.reserve_slab(device, cap, options)?,
            calls: self.calls.clone(),
        })
    }

    fn create_event(&self, device: DeviceId) -> Result<P::Event, Error> {
        self.calls.note("create_event", device)?;
        self.inner.create_event(device)
    }

    fn create_stream(&self, device: DeviceId) -> Result<Self::Stream, Error> {
        self.calls.note("create_stream", device)?;
        Ok(self.stream(self.inner.create_stream(device)?))
    }

    fn default_stream(&self, device: DeviceId) -> Result<Self::Stream, Error> {
        self.calls.note("default_stream", device)?;
        Ok(self.stream(self.inner.default_stream(device)?))
    }
}

// SAFETY: every call goes to a stream that keeps the contract, or fails without doing anything.
unsafe impl<S: Stream> Stream for CountedStream<S> {
    type Event = S::Event;

    fn id(&self) -> StreamId {
        self.inner.id()
    }

    fn device(&self) -> DeviceId {
        self.inner.device()
    }

    fn is_owned(&self) -> bool {
        self.inner.is_owned()
    }

    fn record(&self, event: &S::Event) -> Result<(), Error> {
        self.calls.note("record", self.device())?;
        self.inner.record(event)
    }

    fn wait(&self, event: &S::Event) -> Result<(), Error> {
        self.calls.note("wait", self.device())?;
        self.inner.wait(event)
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.calls.note("synchronize", self.device())?;
        self.inner.synchronize()
    }

    /// Not counted: it asks, and enqueues nothing.
    fn capture(&self) -> Result<Option<CaptureId>, Error> {
        self.inner.capture()
    }

    fn wait_before_capture(&self, last: &Self) -> Result<(), Error> {
        self.calls.note("wait_before_capture", self.device())?;
        self.inner.wait_before_capture(&last.inner)
    }
}

// SAFETY: the memory is that of a slab that keeps the contract.
unsafe impl<S> DeviceSlab for CountedSlab<S>
where
    S: DeviceSlab,
    S::Stream: Stream,
{
    type Stream = CountedStream<S::Stream>;

    fn device(&self) -> DeviceId {
        self.inner.device()
    }

    fn base(&self) -> DevicePtr {
        self.inner.base()
    }

    fn len(&self) -> usize {
        self.inner.len()
    }

    fn growable(&self) -> Option<&dyn GrowableSlab> {
        self.inner.growable()?;
        Some(self)
    }

    unsafe fn write(
        &self,
        stream: &Self::Stream,
        offset: usize,
        source: &[u8],
    ) -> Result<(), Error> {
        self.calls.note("write", self.device())?;
        // SAFETY: the caller's.
        unsafe { self.inner.write(&stream.inner, offset, source) }
    }

    unsafe fn read(
        &self,
        stream: &Self::Stream,
        offset: usize,
        destination: &mut [u8],
    ) -> Result<(), Error> {
        self.calls.note("read", self.device())?;
        // SAFETY: the caller's.
        unsafe { self.inner.read(&stream.inner, offset, destination) }
    }

    unsafe fn fill(
        &self,
        stream: &Self::Stream,
        offset: usize,
        len: usize,
        pattern: Pattern,
    ) -> Result<(), Error> {
        self.calls.note("fill", self.device())?;
        // SAFETY: the caller's.
        unsafe { self.inner.fill(&stream.inner, offset, len, pattern) }
    }

    unsafe fn copy(
        &self,
        stream: &Self::Stream,
        from: usize,
        to: usize,
        len: usize,
    ) -> Result<(), Error> {
        self.calls.note("copy", self.device())?;
        // SAFETY: the caller's.
        unsafe { self.inner.copy(&stream.inner, from, to, len) }
    }
}

impl<S: DeviceSlab> CountedSlab<S> {
    fn grows(&self) -> &dyn GrowableSlab {
        // It is only asked after `growable` has looked.
        self.inner.growable().expect("a slab that grows")
    }
}

// SAFETY: every call goes to a slab that keeps the contract, or fails without doing anything.
unsafe impl<S: DeviceSlab> GrowableSlab for CountedSlab<S> {
    fn range(&self) -> usize {
        self.grows().range()
    }

    fn granularity(&self) -> usize {
        self.grows().granularity()
    }

    fn committed(&self, end: End) -> usize {
        self.grows().committed(end)
    }

    fn commit(&self, end: End, bytes: usize) -> Result<(), Error> {
        self.calls.note("commit", self.inner.device())?;
        self.grows().commit(end, bytes)
    }

    unsafe fn trim(&self, bytes: usize) -> Result<(), Error> {
        self.calls.note("trim", self.inner.device())?;
        // SAFETY: the caller's.
        unsafe { self.grows().trim(bytes) }
    }
}

// SAFETY: the memory is that of a slab that keeps the contract.
unsafe impl<S> HostAccessible for CountedSlab<S>
where
    S: HostAccessible,
    S::Stream: Stream,
{
    fn host_base(&self) -> NonNull<u8> {
        self.inner.host_base()
    }
}

impl<S> Drop for CountedSlab<S> {
    fn drop(&mut self) {
        // Freeing cannot fail here, and so it is only counted.
        *self.calls.lock().counts.entry("free").or_default() += 1;
    }
}
