//! Queues of work of a device: one's own, its default one, and those of other libraries.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cust::sys::CUstream;
use workslab_core::{DeviceId, Error, Stream, StreamId};

use crate::call::{Context, Current, DEINITIALIZED};
use crate::event::CudaEvent;

/// `CU_STREAM_NON_BLOCKING`: not ordered with the device's default stream.
const NON_BLOCKING: std::ffi::c_uint = 1;

/// Ids of own streams have the topmost bit, those of default streams the next one. Those of lent
/// streams are their handles, addresses or the small numbers of special streams, and have neither.
const OWN: u64 = 1 << 63;
const DEFAULT: u64 = 1 << 62;

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
            raw: Raw::Own(Arc::new(Own { context, raw })),
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

    /// The stream's `CUstream`.
    #[must_use]
    pub fn as_raw(&self) -> *mut std::ffi::c_void {
        self.raw().cast()
    }

    pub(crate) fn raw(&self) -> CUstream {
        match &self.raw {
            Raw::Own(own) => own.raw,
            Raw::Default => std::ptr::null_mut(),
            Raw::Lent(raw) => *raw,
        }
    }

    /// The default stream is the current context's; every other knows its own.
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

    fn id(&self) -> StreamId {
        self.id
    }

    fn device(&self) -> DeviceId {
        self.context.device
    }

    fn is_owned(&self) -> bool {
        !matches!(self.raw, Raw::Lent(_))
    }

    fn record(&self, event: &CudaEvent) -> Result<(), Error> {
        let _current = self.current_if_needed()?;
        // SAFETY: both handles are alive.
        let code = unsafe { (self.context.functions.cuEventRecord)(event.raw(), self.raw()) };
        self.context.check("cuEventRecord", code)
    }

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
