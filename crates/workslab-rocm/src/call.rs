//! The driver's calls with errors instead of codes, and the caller's current device.

use std::ffi::{CStr, c_int};

use workslab_core::{DeviceId, Error};

use crate::NAME;
use crate::sys::{Code, Functions};

/// `hipSuccess`.
const SUCCESS: Code = 0;
/// `hipErrorDeinitialized`: the driver has shut down, as it does when the process ends.
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

    /// The driver's name for a code; it knows its own, also those that are newer than hip-sys.
    pub(crate) fn name_of(&self, code: Code) -> String {
        // SAFETY: the call only looks the code up.
        let name = unsafe { (self.hipGetErrorName)(code) };
        if name.is_null() {
            return "unknown error".into();
        }
        // SAFETY: the driver gives a string of its own that lives as long as it is loaded.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    }
}

/// Makes a device the calling thread's current one for as long as this lives, and then the one that
/// was current before, on every path.
pub(crate) struct Current<'f> {
    functions: &'f Functions,
    /// What to go back to, if that is another device.
    before: Option<c_int>,
}

impl<'f> Current<'f> {
    pub(crate) fn set(functions: &'f Functions, device: DeviceId) -> Result<Self, Error> {
        let mut before: c_int = 0;
        // SAFETY: the call writes to `before` only.
        let code = unsafe { (functions.hipGetDevice)(&raw mut before) };
        functions.check(device, "hipGetDevice", code)?;
        let wanted = ordinal(device)?;
        if before == wanted {
            return Ok(Self {
                functions,
                before: None,
            });
        }
        // SAFETY: any number may be asked for.
        let code = unsafe { (functions.hipSetDevice)(wanted) };
        functions.check(device, "hipSetDevice", code)?;
        Ok(Self {
            functions,
            before: Some(before),
        })
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let Some(before) = self.before else {
            return;
        };
        // SAFETY: it was the current device when this was made.
        let set_back = || unsafe { (self.functions.hipSetDevice)(before) };
        let mut code = set_back();
        if code != SUCCESS {
            // The caller must not be left on another device for a passing fault.
            code = set_back();
        }
        if code != SUCCESS && code != DEINITIALIZED {
            tracing::error!(code, before, "the current device could not be set back");
        }
    }
}

/// The ordinal as the driver takes it.
pub(crate) fn ordinal(device: DeviceId) -> Result<c_int, Error> {
    c_int::try_from(device.ordinal()).map_err(|_| Error::NoSuchDevice {
        platform: NAME,
        device,
        count: 0,
    })
}
