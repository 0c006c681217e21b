//! A point in a stream that another stream can wait for.

use std::fmt;

use cust::sys::CUevent;
use workslab_core::Error;

use crate::call::{Context, Current, DEINITIALIZED};

/// `CU_EVENT_DISABLE_TIMING`: an event for order alone, which is cheaper.
const DISABLE_TIMING: std::ffi::c_uint = 2;

/// An event of a device.
pub struct CudaEvent {
    context: Context,
    raw: CUevent,
}

// SAFETY: CUDA's handles may be used from any thread, and by several at once.
unsafe impl Send for CudaEvent {}
// SAFETY: as above.
unsafe impl Sync for CudaEvent {}

impl CudaEvent {
    pub(crate) fn create(context: Context) -> Result<Self, Error> {
        let _current = Current::set(&context)?;
        let mut raw: CUevent = std::ptr::null_mut();
        // SAFETY: the call writes to `raw` only.
        let code = unsafe { (context.functions.cuEventCreate)(&raw mut raw, DISABLE_TIMING) };
        context.check("cuEventCreate", code)?;
        Ok(Self { context, raw })
    }

    #[inline]
    pub(crate) fn raw(&self) -> CUevent {
        self.raw
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        // SAFETY: the event was created with this and is used by nobody any more; work that waits
        // for it has taken down the point already.
        let code = unsafe { (self.context.functions.cuEventDestroy_v2)(self.raw) };
        if code != 0 && code != DEINITIALIZED {
            tracing::error!(code, "cuEventDestroy failed");
        }
    }
}

impl fmt::Debug for CudaEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CudaEvent").field(&self.raw).finish()
    }
}
