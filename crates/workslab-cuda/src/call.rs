//! The driver's calls with errors instead of codes, and the caller's current context.

use std::ffi::{CStr, c_char};

use cust::sys::CUcontext;
use workslab_core::{DeviceId, Error};

use crate::NAME;
use crate::sys::{Code, Functions};

/// `CUDA_SUCCESS`.
const SUCCESS: Code = 0;
/// `CUDA_ERROR_DEINITIALIZED`: the driver has shut down, as it does when the process ends.
pub(crate) const DEINITIALIZED: Code = 4;

impl Functions {
    /// An error for a code that is not success.
    #[inline]
    pub(crate) fn check(
        &self,
        device: DeviceId,
        call: &'static str,
        code: Code,
    ) -> Result<(), Error> {
        if code == SUCCESS {
            Ok(())
        } else {
            Err(self.error(device, call, code, None))
        }
    }

    #[cold]
    pub(crate) fn error(
        &self,
        device: DeviceId,
        call: &'static str,
        code: Code,
        detail: Option<String>,
    ) -> Error {
        Error::Driver {
            platform: NAME,
            device,
            call,
            code: i64::from(code),
            name: self.name_of(code),
            detail,
        }
    }

    /// The driver's name for a code; it knows its own, also those that are newer than cust.
    pub(crate) fn name_of(&self, code: Code) -> String {
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: the call writes to `name` only.
        let found = unsafe { (self.cuGetErrorName)(code, &raw mut name) };
        if found != SUCCESS || name.is_null() {
            return "unknown error".into();
        }
        // SAFETY: the driver gives a string of its own that lives as long as it is loaded.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    }
}

/// A device's primary context: where its memory, streams and events live.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) functions: &'static Functions,
    pub(crate) device: DeviceId,
    pub(crate) raw: CUcontext,
}

// SAFETY: contexts may be made current on any thread, and on several at once.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    #[inline]
    pub(crate) fn check(&self, call: &'static str, code: Code) -> Result<(), Error> {
        self.functions.check(self.device, call, code)
    }
}

/// Makes a context the calling thread's current one for as long as this lives, and then the one that
/// was current before, or none, on every path.
pub(crate) struct Current {
    context: Context,
    /// What to go back to, if that is another context.
    before: Option<CUcontext>,
}

impl Current {
    pub(crate) fn set(context: &Context) -> Result<Self, Error> {
        let functions = context.functions;
        let mut before: CUcontext = std::ptr::null_mut();
        // SAFETY: the call writes to `before` only.
        let code = unsafe { (functions.cuCtxGetCurrent)(&raw mut before) };
        context.check("cuCtxGetCurrent", code)?;
        if before == context.raw {
            return Ok(Self {
                context: *context,
                before: None,
            });
        }
        // SAFETY: the primary context is retained, and so it is alive.
        let code = unsafe { (functions.cuCtxSetCurrent)(context.raw) };
        context.check("cuCtxSetCurrent", code)?;
        Ok(Self {
            context: *context,
            before: Some(before),
        })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        let Some(before) = self.before else {
            return;
        };
        // SAFETY: it was the current context when this was made, or there was none.
        let set_back = || unsafe { (self.context.functions.cuCtxSetCurrent)(before) };
        let mut code = set_back();
        if code != SUCCESS {
            // The caller must not be left in another context for a passing fault.
            code = set_back();
        }
        if code != SUCCESS && code != DEINITIALIZED {
            tracing::error!(code, "the current context could not be set back");
        }
    }
}
