//! Queues of work of a device: one's own, its default one, and those of other libraries.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hip_sys::hiprt::hipStream_t;
use workslab_core::{DeviceId, Error, Stream, StreamId};

use crate::call::{Current, DEINITIALIZED};
use crate::event::RocmEvent;
use crate::sys::Functions;

/// `hipStreamNonBlocking`: not ordered with the device's default stream.
const NON_BLOCKING: std::ffi::c_uint = 1;

/// Ids of own streams have the topmost bit, those of default streams the next one. Those of lent
/// streams are their handles, addresses or the small numbers of special streams, and have neither.
const OWN: u64 = 1 << 63;
const DEFAULT: u64 = 1 << 62;

/// A stream of a device. Clones name the same queue; an own one is destroyed with its last clone.
#[derive(Clone)]
pub struct RocmStream {
    functions: &'static Functions,
    device: DeviceId,
    id: StreamId,
    raw: Raw,
}

#[derive(Clone)]
enum Raw {
    Own(Arc<Own>),
    /// The device's default stream, which lives as long as the device.
    Default,
    Lent(hipStream_t),
}

struct Own {
    functions: &'static Functions,
    raw: hipStream_t,
}

// SAFETY: HIP's handles may be used from any thread, and by several at once.
unsafe impl Send for Own {}
// SAFETY: as above.
unsafe impl Sync for Own {}
// SAFETY: as above.
unsafe impl Send for RocmStream {}
// SAFETY: as above.
unsafe impl Sync for RocmStream {}

impl RocmStream {
    pub(crate) fn create(functions: &'static Functions, device: DeviceId) -> Result<Self, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(OWN);
        let _current = Current::set(functions, device)?;
        let mut raw: hipStream_t = std::ptr::null_mut();
        // SAFETY: the call writes to `raw` only.
        let code = unsafe { (functions.hipStreamCreateWithFlags)(&raw mut raw, NON_BLOCKING) };
        functions.check(device, "hipStreamCreateWithFlags", code)?;
        Ok(Self {
            functions,
            device,
            id: StreamId(NEXT.fetch_add(1, Ordering::Relaxed)),
            raw: Raw::Own(Arc::new(Own { functions, raw })),
        })
    }

    pub(crate) fn default_of(functions: &'static Functions, device: DeviceId) -> Self {
        Self {
            functions,
            device,
            id: StreamId(DEFAULT | u64::from(device.ordinal())),
            raw: Raw::Default,
        }
    }

    /// A stream of another library's, a `hipStream_t`; null is the device's default stream.
    pub(crate) fn lent(functions: &'static Functions, device: DeviceId, raw: hipStream_t) -> Self {
        if raw.is_null() {
            return Self::default_of(functions, device);
        }
        Self {
            functions,
            device,
            id: StreamId(raw.addr() as u64),
            raw: Raw::Lent(raw),
        }
    }

    /// The stream's `hipStream_t`.
    #[must_use]
    pub fn as_raw(&self) -> *mut std::ffi::c_void {
        self.raw().cast()
    }

    pub(crate) fn raw(&self) -> hipStream_t {
        match &self.raw {
            Raw::Own(own) => own.raw,
            Raw::Default => std::ptr::null_mut(),
            Raw::Lent(raw) => *raw,
        }
    }

    /// The default stream is the current device's; every other knows its own device.
    fn current_if_needed(&self) -> Result<Option<Current<'static>>, Error> {
        match self.raw {
            Raw::Default => Current::set(self.functions, self.device).map(Some),
            Raw::Own(_) | Raw::Lent(_) => Ok(None),
        }
    }
}

// SAFETY: HIP runs a stream's work in order; hipEventRecord marks the point behind what is enqueued,
// and hipStreamWaitEvent holds later work back until that point is reached. hipStreamSynchronize
// returns success when all is done. Own ids come from a counter.
unsafe impl Stream for RocmStream {
    type Event = RocmEvent;

    fn id(&self) -> StreamId {
        self.id
    }

    fn device(&self) -> DeviceId {
        self.device
    }

    fn is_owned(&self) -> bool {
        !matches!(self.raw, Raw::Lent(_))
    }

    fn record(&self, event: &RocmEvent) -> Result<(), Error> {
        let _current = self.current_if_needed()?;
        // SAFETY: both handles are alive.
        let code = unsafe { (self.functions.hipEventRecord)(event.raw(), self.raw()) };
        self.functions.check(self.device, "hipEventRecord", code)
    }

    fn wait(&self, event: &RocmEvent) -> Result<(), Error> {
        let _current = self.current_if_needed()?;
        // SAFETY: both handles are alive.
        let code = unsafe { (self.functions.hipStreamWaitEvent)(self.raw(), event.raw(), 0) };
        self.functions
            .check(self.device, "hipStreamWaitEvent", code)
    }

    fn synchronize(&self) -> Result<(), Error> {
        let _current = self.current_if_needed()?;
        // SAFETY: the handle is alive.
        let code = unsafe { (self.functions.hipStreamSynchronize)(self.raw()) };
        self.functions
            .check(self.device, "hipStreamSynchronize", code)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: the stream was created with this, and this was its last handle. HIP finishes the
        // work that is still queued.
        let code = unsafe { (self.functions.hipStreamDestroy)(self.raw) };
        if code != 0 && code != DEINITIALIZED {
            tracing::error!(code, "hipStreamDestroy failed");
        }
    }
}

impl fmt::Debug for RocmStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocmStream")
            .field("device", &self.device)
            .field("raw", &self.raw())
            .field("owned", &self.is_owned())
            .finish_non_exhaustive()
    }
}
