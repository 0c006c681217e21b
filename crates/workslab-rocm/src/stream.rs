//! Queues of work of a device: one's own, its default one, and those of other libraries.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hip_sys::hiprt::hipStream_t;
use workslab_core::{CaptureId, DeviceId, Error, Stream, StreamId};

use crate::NAME;
use crate::call::{Current, DEINITIALIZED};
use crate::event::RocmEvent;
use crate::graph::RocmCapture;
use crate::sys::Functions;
use crate::sys::Handle;

/// `hipStreamNonBlocking`: not ordered with the device's default stream.
const NON_BLOCKING: std::ffi::c_uint = 1;

/// Ids of own streams have the topmost bit, those of default streams the next one. Those of lent
/// streams are their handles, addresses or the small numbers of special streams, and have neither.
const OWN: u64 = 1 << 63;
const DEFAULT: u64 = 1 << 62;

/// `hipStreamCaptureModeThreadLocal`: a capture rules out calls that could wait for the device, but on
/// its own thread only.
const THREAD_LOCAL: std::ffi::c_uint = 1;

/// How many captures began here and go on. While there are none, no own stream is captured, and the
/// driver need not be asked.
static CAPTURES: AtomicUsize = AtomicUsize::new(0);

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
    /// The last capture that began on the stream, and what was recorded right before.
    before: Mutex<Option<(CaptureId, Arc<RocmEvent>)>>,
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
            raw: Raw::Own(Arc::new(Own {
                before: Mutex::new(None),
                functions,
                raw,
            })),
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

    /// Begins to capture the stream into a graph. Leases are taken as ever during it: see
    /// [`Workspace::lease`](workslab_core::Workspace::lease). Own streams that join the capture, by
    /// waiting for an event, are seen to be in it; a capture that another library begins on an own
    /// stream is not.
    ///
    /// # Errors
    /// [`Error::Capturing`] for the default stream, which cannot be captured; [`Error::Unavailable`]
    /// if the driver is too old for it; or the driver's.
    pub fn begin_capture(&self) -> Result<RocmCapture<'_>, Error> {
        let functions = self.functions;
        let begin = functions.later(functions.hipStreamBeginCapture, "hipStreamBeginCapture")?;
        if matches!(self.raw, Raw::Default) {
            return Err(self.refusal(
                "the default stream cannot be captured",
                "capture a stream of your own, or one that another library lends",
            ));
        }
        let before = RocmEvent::create(self.functions, self.device)?;
        self.record(&before)?;
        // SAFETY: the handle is alive.
        let code = unsafe { begin(self.raw(), THREAD_LOCAL) };
        self.functions
            .check(self.device, "hipStreamBeginCapture", code)?;
        CAPTURES.fetch_add(1, Ordering::Relaxed);
        let capture = RocmCapture::new(self);
        if let (Raw::Own(own), Some(id)) = (&self.raw, self.ask_for_capture()?) {
            let mut kept = own.before.lock().unwrap_or_else(PoisonError::into_inner);
            *kept = Some((id, Arc::new(before)));
        }
        Ok(capture)
    }

    /// Ends a capture that `begin_capture` began, whatever came of it.
    pub(crate) fn end_capture(&self) -> Result<Handle, Error> {
        let functions = self.functions;
        let end = functions.later(functions.hipStreamEndCapture, "hipStreamEndCapture")?;
        let mut graph: Handle = std::ptr::null_mut();
        // SAFETY: the handle is alive, and the call writes to `graph` only.
        let code = unsafe { end(self.raw(), &raw mut graph) };
        CAPTURES.fetch_sub(1, Ordering::Relaxed);
        self.functions
            .check(self.device, "hipStreamEndCapture", code)?;
        Ok(graph)
    }

    #[cold]
    fn ask_for_capture(&self) -> Result<Option<CaptureId>, Error> {
        let functions = self.functions;
        let Some(ask) = functions.hipStreamGetCaptureInfo else {
            return Ok(None); // no captures in this driver
        };
        let (mut status, mut id) = (0, 0);

        // SAFETY: the handle is alive, and the call writes to its two arguments only.
        let code = unsafe { ask(self.raw(), &raw mut status, &raw mut id) };
        self.functions
            .check(self.device, "hipStreamGetCaptureInfo", code)?;
        match status {
            0 => Ok(None),
            1 => Ok(Some(CaptureId(id))),
            _ => Err(self.refusal(
                "work cannot be enqueued, for an earlier fault has spoilt the capture,",
                "end the capture and look at its error",
            )),
        }
    }

    /// Refuses what makes no sense in a graph.
    pub(crate) fn refuse_capture(&self, what: &'static str) -> Result<(), Error> {
        match self.capture()? {
            None => Ok(()),
            Some(_) => Err(self.refusal(what, "do it before the capture or after it")),
        }
    }

    fn refusal(&self, what: &'static str, advice: &'static str) -> Error {
        Error::Capturing {
            platform: NAME,
            device: self.device,
            what,
            advice,
        }
    }

    pub(crate) fn functions(&self) -> &'static Functions {
        self.functions
    }

    pub(crate) fn device_id(&self) -> DeviceId {
        self.device
    }

    /// The stream's `hipStream_t`.
    #[must_use]
    pub fn as_raw(&self) -> *mut std::ffi::c_void {
        self.raw().cast()
    }

    #[inline]
    pub(crate) fn raw(&self) -> hipStream_t {
        match &self.raw {
            Raw::Own(own) => own.raw,
            Raw::Default => std::ptr::null_mut(),
            Raw::Lent(raw) => *raw,
        }
    }

    /// The default stream is the current device's; every other knows its own device.
    #[inline]
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

    #[inline]
    fn id(&self) -> StreamId {
        self.id
    }

    #[inline]
    fn device(&self) -> DeviceId {
        self.device
    }

    #[inline]
    fn is_owned(&self) -> bool {
        !matches!(self.raw, Raw::Lent(_))
    }

    #[inline]
    fn record(&self, event: &RocmEvent) -> Result<(), Error> {
        let _current = self.current_if_needed()?;
        // SAFETY: both handles are alive.
        let code = unsafe { (self.functions.hipEventRecord)(event.raw(), self.raw()) };
        self.functions.check(self.device, "hipEventRecord", code)
    }

    #[inline]
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

    #[inline]
    fn capture(&self) -> Result<Option<CaptureId>, Error> {
        match self.raw {
            // What is enqueued on it would have to wait for blocking streams; no graph can do that.
            Raw::Default => Ok(None),
            Raw::Own(_) if CAPTURES.load(Ordering::Relaxed) == 0 => Ok(None),
            Raw::Own(_) | Raw::Lent(_) => self.ask_for_capture(),
        }
    }

    fn wait_before_capture(&self, last: &Self) -> Result<(), Error> {
        let now = last.capture()?;
        let before = match &last.raw {
            Raw::Own(own) => {
                let kept = own.before.lock().unwrap_or_else(PoisonError::into_inner);
                kept.clone().filter(|(id, _)| now == Some(*id))
            }
            Raw::Default | Raw::Lent(_) => None,
        };
        match before {
            Some((_, before)) => self.wait(&before),
            None => Err(self.refusal(
                "the last holder's stream joined a capture, and what it did before is not known to be done",
                "end the capture first",
            )),
        }
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
