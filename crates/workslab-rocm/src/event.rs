//! A point in a stream that another stream can wait for.

use std::fmt;

use hip_sys::hiprt::hipEvent_t;
use workslab_core::{DeviceId, Error};

use crate::call::{Current, DEINITIALIZED};
use crate::sys::Functions;

/// `hipEventDisableTiming`: an event for order alone, which is cheaper.
const DISABLE_TIMING: std::ffi::c_uint = 2;

/// An event of a device.
pub struct RocmEvent {
    functions: &'static Functions,
    raw: hipEvent_t,
}

// SAFETY: HIP's handles may be used from any thread, and by several at once.
unsafe impl Send for RocmEvent {}
// SAFETY: as above.
unsafe impl Sync for RocmEvent {}

impl RocmEvent {
    pub(crate) fn create(functions: &'static Functions, device: DeviceId) -> Result<Self, Error> {
        let _current = Current::set(functions, device)?;
        let mut raw: hipEvent_t = std::ptr::null_mut();
        // SAFETY: the call writes to `raw` only.
        let code = unsafe { (functions.hipEventCreateWithFlags)(&raw mut raw, DISABLE_TIMING) };
        functions.check(device, "hipEventCreateWithFlags", code)?;
        Ok(Self { functions, raw })
    }

    #[inline]
    pub(crate) fn raw(&self) -> hipEvent_t {
        self.raw
    }
}

impl Drop for RocmEvent {
    fn drop(&mut self) {
        // SAFETY: the event was created with this and is used by nobody any more; work that waits
        // for it has taken down the point already.
        let code = unsafe { (self.functions.hipEventDestroy)(self.raw) };
        if code != 0 && code != DEINITIALIZED {
            tracing::error!(code, "hipEventDestroy failed");
        }
    }
}

impl fmt::Debug for RocmEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RocmEvent").field(&self.raw).finish()
    }
}
