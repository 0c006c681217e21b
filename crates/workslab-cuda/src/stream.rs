//! Queues of work of a device: one's own, its default one, and those of other libraries.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cust::sys::CUstream;
use workslab_core::{CaptureId, DeviceId, Error, Stream, StreamId};

use crate::NAME;
use crate::call::{Context, Current, DEINITIALIZED};
use crate::event::CudaEvent;
use crate::graph::CudaCapture;
use crate::sys::Handle;

/// `CU_STREAM_NON_BLOCKING`: not ordered with the device's default stream.
const NON_BLOCKING: std::ffi::c_uint = 1;

/// Ids of own streams have the topmost bit, those of default streams the next one. Those of lent
/// streams are their handles, addresses or the small numbers of special streams, and have neither.
const OWN: u64 = 1 << 63;
const DEFAULT: u64 = 1 << 62;

/// `cuStreamCaptureModeThreadLocal`: a capture rules out calls that could wait for the device, but on
/// its own thread only.
const THREAD_LOCAL: std::ffi::c_uint = 1;

/// How many captures began here and go on. While there are none, no own stream is captured, and the
/// driver need not be asked.
static CAPTURES: AtomicUsize = AtomicUsize::new(0);

/// A stream of a device. Clones name the same queue; an own one is destroyed with its last clone.
#[derive(Clone)]
pub struct CudaStream {
    context: Context,
    id: StreamId,
    raw: Raw,
}

#[derive(Clone)]
enum Raw {
    Own(Arc<Own>),
    /// The device's default stream, which lives as long as the device.
    Default,
    Lent(CUstream),
}

struct Own {
    /// The last capture that began on the stream, and what was recorded right before.
    before: Mutex<Option<(CaptureId, Arc<CudaEvent>)>>,
    context: Context,
    raw: CUstream,
}

// SAFETY: CUDA's handles may be used from any thread, and by several at once.
unsafe impl Send for Own {}
// SAFETY: as above.
unsafe impl Sync for Own {}
// SAFETY: as above.
unsafe impl Send for CudaStream {}
// SAFETY: as above.
unsafe impl Sync for CudaStream {}

impl CudaStream {
    pub(crate) fn create(context: Context) -> Result<Self, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(OWN);
        let _current = Current::set(&context)?;
        let mut raw: CUstream = std::ptr::null_mut();
        // SAFETY: the call writes to `raw` only.
        let code = unsafe { (context.functions.cuStreamCreate)(&raw mut raw, NON_BLOCKING) };
        context.check("cuStreamCreate", code)?;
        Ok(Self {
            context,
            id: StreamId(NEXT.fetch_add(1, Ordering::Relaxed)),
            raw: Raw::Own(Arc::new(Own {
                before: Mutex::new(None),
                context,
                raw,
            })),
        })
    }

    pub(crate) fn default_of(context: Context) -> Self {
        Self {
            context,
            id: StreamId(DEFAULT | u64::from(context.device.ordinal())),
            raw: Raw::Default,
        }
    }

    /// A stream of another library's, a `CUstream`; null is the device's default stream.
    pub(crate) fn lent(context: Context, raw: CUstream) -> Self {
        if raw.is_null() {
            return Self::default_of(context);
        }
        Self {
            context,
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
    pub fn begin_capture(&self) -> Result<CudaCapture<'_>, Error> {
        let functions = self.context.functions;
        let begin =
            functions.later(functions.cuStreamBeginCapture_v2, "cuStreamBeginCapture_v2")?;
        if matches!(self.raw, Raw::Default) {
            return Err(self.refusal(
                "the default stream cannot be captured",
                "capture a stream of your own, or one that another library lends",
            ));
        }
        let before = CudaEvent::create(self.context)?;
        self.record(&before)?;
        // SAFETY: the handle is alive.
        let code = unsafe { begin(self.raw(), THREAD_LOCAL) };
        self.context.check("cuStreamBeginCapture_v2", code)?;
        CAPTURES.fetch_add(1, Ordering::Relaxed);
        let capture = CudaCapture::new(self);
        if let (Raw::Own(own), Some(id)) = (&self.raw, self.ask_for_capture()?) {
            let mut kept = own.before.lock().unwrap_or_else(PoisonError::into_inner);
            *kept = Some((id, Arc::new(before)));
        }
        Ok(capture)
    }

    /// Ends a capture that `begin_capture` began, whatever came of it.
    pub(crate) fn end_capture(&self) -> Result<Handle, Error> {
        let functions = self.context.functions;
        let end = functions.later(functions.cuStreamEndCapture, "cuStreamEndCapture")?;
        let mut graph: Handle = std::ptr::null_mut();
        // SAFETY: the handle is alive, and the call writes to `graph` only.
        let code = unsafe { end(self.raw(), &raw mut graph) };
        CAPTURES.fetch_sub(1, Ordering::Relaxed);
        self.context.check("cuStreamEndCapture", code)?;
        Ok(graph)
    }

    #[cold]
    fn ask_for_capture(&self) -> Result<Option<CaptureId>, Error> {
        let functions = self.context.functions;
        let Some(ask) = functions.cuStreamGetCaptureInfo_v2 else {
            return Ok(None); // no captures in this driver
        };
        let (mut status, mut id) = (0, 0);
        let null = || std::ptr::null_mut::<Handle>();
        // SAFETY: the handle is alive, and the call writes to its two arguments only.
        let code = unsafe {
            ask(
                self.raw(),
                &raw mut status,
                &raw mut id,
                null(),
                null().cast(),
                std::ptr::null_mut(),
            )
        };
        self.context.check("cuStreamGetCaptureInfo", code)?;
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
            device: self.context.device,
            what,
            advice,
        }
    }

    pub(crate) fn context(&self) -> Context {
        self.context
    }

    /// The stream's `CUstream`.
    #[must_use]
    pub fn as_raw(&self) -> *mut std::ffi::c_void {
        self.raw().cast()
    }

    #[inline]
    pub(crate) fn raw(&self) -> CUstream {
        match &self.raw {
            Raw::Own(own) => own.raw,
            Raw::Default => std::ptr::null_mut(),
            Raw::Lent(raw) => *raw,
        }
    }

    /// The default stream is the current context's; every other knows its own.
    #[inline]
    fn current_if_needed(&self) -> Result<Option<Current>, Error> {
        match self.raw {
            Raw::Default => Current::set(&self.context).map(Some),
            Raw::Own(_) | Raw::Lent(_) => Ok(None),
        }
    }
}

// SAFETY: CUDA runs a stream's work in order; cuEventRecord marks the point behind what is enqueued,
// and cuStreamWaitEvent holds later work back until that point is reached. cuStreamSynchronize
// returns success when all is done. Own ids come from a counter.
unsafe impl Stream for CudaStream {
    type Event = CudaEvent;

    #[inline]
    fn id(&self) -> StreamId {
        self.id
    }

    #[inline]
    fn device(&self) -> DeviceId {
        self.context.device
    }

    #[inline]
    fn is_owned(&self) -> bool {
        !matches!(self.raw, Raw::Lent(_))
    }

    #[inline]
    fn record(&self, event: &CudaEvent) -> Result<(), Error> {
        let _current = self.current_if_needed()?;
        // SAFETY: both handles are alive.
        let code = unsafe { (self.context.functions.cuEventRecord)(event.raw(), self.raw()) };
        self.context.check("cuEventRecord", code)
    }

    #[inline]
    fn wait(&self, event: &CudaEvent) -> Result<(), Error> {
        let _current = self.current_if_needed()?;
        // SAFETY: both handles are alive.
        let code =
            unsafe { (self.context.functions.cuStreamWaitEvent)(self.raw(), event.raw(), 0) };
        self.context.check("cuStreamWaitEvent", code)
    }

    fn synchronize(&self) -> Result<(), Error> {
        let _current = self.current_if_needed()?;
        // SAFETY: the handle is alive.
        let code = unsafe { (self.context.functions.cuStreamSynchronize)(self.raw()) };
        self.context.check("cuStreamSynchronize", code)
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
        // SAFETY: the stream was created with this, and this was its last handle. CUDA finishes the
        // work that is still queued.
        let code = unsafe { (self.context.functions.cuStreamDestroy_v2)(self.raw) };
        if code != 0 && code != DEINITIALIZED {
            tracing::error!(code, "cuStreamDestroy failed");
        }
    }
}

impl fmt::Debug for CudaStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaStream")
            .field("device", &self.context.device)
            .field("raw", &self.raw())
            .field("owned", &self.is_owned())
            .finish_non_exhaustive()
    }
}
