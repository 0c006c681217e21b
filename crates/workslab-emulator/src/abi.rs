//! How results go back through a C interface. In HIP and in CUDA success is 0 and a bad argument 1.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::Code;

/// What a call returns that succeeds.
pub const SUCCESS: c_int = 0;
/// What a call returns whose argument makes no sense.
pub const INVALID_VALUE: c_int = 1;

/// Stores an outcome where the caller wants it, or gives its code.
///
/// # Safety
/// `to` is null or may be written to.
pub unsafe fn store<T>(
    to: *mut T,
    outcome: Result<T, Code>,
    code: impl FnOnce(Code) -> c_int,
) -> c_int {
    match outcome {
        Ok(_) if to.is_null() => INVALID_VALUE,
        Ok(value) => {
            // SAFETY: the caller's, and it is not null.
            unsafe { to.write(value) };
            SUCCESS
        }
        Err(error) => code(error),
    }
}

/// Stores text with its zero byte, if there is room for it.
///
/// # Safety
/// `to` is null or points to `len` bytes.
pub unsafe fn store_text(
    to: *mut c_char,
    len: c_int,
    text: Result<String, Code>,
    code: impl FnOnce(Code) -> c_int,
) -> c_int {
    let text = match text {
        Ok(text) => text,
        Err(error) => return code(error),
    };
    let room = usize::try_from(len).unwrap_or(0);
    if to.is_null() || room <= text.len() {
        return INVALID_VALUE;
    }
    // SAFETY: there is room for the text and a zero byte.
    unsafe {
        to.cast::<u8>()
            .copy_from_nonoverlapping(text.as_ptr(), text.len());
        to.add(text.len()).write(0);
    }
    SUCCESS
}

/// What virtual memory is wanted, as `hipMemAllocationProp` and `CUmemAllocationProp` have it.
#[repr(C)]
pub struct MemoryProperties {
    kind: c_int,
    handles: c_int,
    location: MemoryLocation,
    metadata: *const c_void,
    flags: [u8; 8],
}

/// `hipMemLocation`, `CUmemLocation`.
#[repr(C)]
pub struct MemoryLocation {
    kind: c_int,
    id: c_int,
}

/// Who may use it and how: `hipMemAccessDesc`, `CUmemAccessDesc`.
#[repr(C)]
pub struct MemoryAccess {
    location: MemoryLocation,
    flags: c_int,
}

impl MemoryLocation {
    fn device(&self) -> Result<u32, Code> {
        const DEVICE: c_int = 1;
        if self.kind != DEVICE {
            return Err(Code::InvalidValue);
        }
        u32::try_from(self.id).map_err(|_| Code::InvalidDevice)
    }
}

impl MemoryProperties {
    /// The device; memory that is pinned, is not shared and has no flags is the only kind there is.
    ///
    /// # Errors
    /// [`Code::InvalidValue`] for any other.
    pub fn device(&self) -> Result<u32, Code> {
        const PINNED: c_int = 1;
        if self.kind != PINNED
            || self.handles != 0
            || !self.metadata.is_null()
            || self.flags != [0; 8]
        {
            return Err(Code::InvalidValue);
        }
        self.location.device()
    }
}

impl MemoryAccess {
    /// The device, which must want to read and to write.
    ///
    /// # Errors
    /// [`Code::InvalidValue`] for any other.
    pub fn device(&self) -> Result<u32, Code> {
        const READ_AND_WRITE: c_int = 3;
        if self.flags != READ_AND_WRITE {
            return Err(Code::InvalidValue);
        }
        self.location.device()
    }
}

/// Exports the eight functions for virtual memory, which HIP and CUDA have alike. `begin` is called first,
/// and may have a code to return at once; `code` turns a [`Code`] into a number.
#[macro_export]
macro_rules! export_virtual_memory {
    (
        begin: $begin:path,
        code: $code:path,
        granularity: $granularity:ident,
        reserve: $reserve:ident,
        free: $free:ident,
        create: $create:ident,
        release: $release:ident,
        map: $map:ident,
        unmap: $unmap:ident,
        set_access: $set_access:ident,
    ) => {
        use ::std::ffi::{c_int, c_uint};
        use $crate::abi::{MemoryAccess, MemoryProperties, SUCCESS, store};

        fn done(outcome: Result<(), $crate::Code>) -> c_int {
            outcome.map_or_else($code, |()| SUCCESS)
        }

        /// The device that is asked for, or the code to return.
        ///
        /// # Safety
        /// `properties` is null or may be read.
        unsafe fn device_of(properties: *const MemoryProperties) -> Result<u32, $crate::Code> {
            // SAFETY: the caller's.
            unsafe { properties.as_ref() }
                .ok_or($crate::Code::InvalidValue)?
                .device()
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $granularity(
            granularity: *mut usize,
            properties: *const MemoryProperties,
            option: c_uint,
        ) -> c_int {
            if let Err(code) = $begin() {
                return code;
            }
            // SAFETY: the caller's pointer.
            let device = unsafe { device_of(properties) };
            let outcome = match option {
                0 | 1 => device.and_then(|device| {
                    $crate::process::driver().granularity(stringify!($granularity), device)
                }),
                _ => Err($crate::Code::InvalidValue),
            };
            // SAFETY: the caller's pointer.
            unsafe { store(granularity, outcome, $code) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $reserve(
            address: *mut u64,
            len: usize,
            alignment: usize,
            wanted: u64,
            flags: u64,
        ) -> c_int {
            if let Err(code) = $begin() {
                return code;
            }
            let outcome = if (alignment, wanted, flags) == (0, 0, 0) {
                $crate::process::driver()
                    .reserve_addresses(stringify!($reserve), len)
                    .map(|address| address as u64)
            } else {
                Err($crate::Code::InvalidValue)
            };
            // SAFETY: the caller's pointer.
            unsafe { store(address, outcome, $code) }
        }

        #[unsafe(no_mangle)]
        extern "C" fn $free(address: u64, len: usize) -> c_int {
            if let Err(code) = $begin() {
                return code;
            }
            let driver = $crate::process::driver();
            done(driver.free_addresses(stringify!($free), address as usize, len))
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $create(
            handle: *mut u64,
            len: usize,
            properties: *const MemoryProperties,
            flags: u64,
        ) -> c_int {
            if let Err(code) = $begin() {
                return code;
            }
            // SAFETY: the caller's pointer.
            let device = unsafe { device_of(properties) };
            let outcome = match flags {
                0 => device.and_then(|device| {
                    $crate::process::driver().create_piece(stringify!($create), device, len)
                }),
                _ => Err($crate::Code::InvalidValue),
            };
            // SAFETY: the caller's pointer.
            unsafe { store(handle, outcome, $code) }
        }

        #[unsafe(no_mangle)]
        extern "C" fn $release(handle: u64) -> c_int {
            if let Err(code) = $begin() {
                return code;
            }
            done($crate::process::driver().release_piece(stringify!($release), handle))
        }

        #[unsafe(no_mangle)]
        extern "C" fn $map(
            address: u64,
            len: usize,
            offset: usize,
            handle: u64,
            flags: u64,
        ) -> c_int {
            if let Err(code) = $begin() {
                return code;
            }
            if (offset, flags) != (0, 0) {
                return $crate::abi::INVALID_VALUE;
            }
            let driver = $crate::process::driver();
            done(driver.map(stringify!($map), address as usize, len, handle))
        }

        #[unsafe(no_mangle)]
        extern "C" fn $unmap(address: u64, len: usize) -> c_int {
            if let Err(code) = $begin() {
                return code;
            }
            done($crate::process::driver().unmap(stringify!($unmap), address as usize, len))
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $set_access(
            address: u64,
            len: usize,
            who: *const MemoryAccess,
            count: usize,
        ) -> c_int {
            if let Err(code) = $begin() {
                return code;
            }
            // SAFETY: the caller's pointer.
            let device = match unsafe { who.as_ref() } {
                Some(who) if count == 1 => who.device(),
                _ => Err($crate::Code::InvalidValue),
            };
            let driver = $crate::process::driver();
            done(device.and_then(|device| {
                driver.set_access(stringify!($set_access), address as usize, len, device)
            }))
        }
    };
}

/// HIP's name for a code.
#[must_use]
pub fn hip_error_name(code: c_int) -> &'static CStr {
    match code {
        0 => c"hipSuccess",
        1 => c"hipErrorInvalidValue",
        2 => c"hipErrorOutOfMemory",
        3 => c"hipErrorNotInitialized",
        4 => c"hipErrorDeinitialized",
        100 => c"hipErrorNoDevice",
        101 => c"hipErrorInvalidDevice",
        201 => c"hipErrorInvalidContext",
        400 => c"hipErrorInvalidHandle",
        600 => c"hipErrorNotReady",
        700 => c"hipErrorIllegalAddress",
        719 => c"hipErrorLaunchFailure",
        801 => c"hipErrorNotSupported",
        900 => c"hipErrorStreamCaptureUnsupported",
        901 => c"hipErrorStreamCaptureInvalidated",
        902 => c"hipErrorStreamCaptureMerge",
        903 => c"hipErrorStreamCaptureUnmatched",
        904 => c"hipErrorStreamCaptureUnjoined",
        905 => c"hipErrorStreamCaptureIsolation",
        906 => c"hipErrorStreamCaptureImplicit",
        907 => c"hipErrorCapturedEvent",
        908 => c"hipErrorStreamCaptureWrongThread",
        999 => c"hipErrorUnknown",
        _ => c"hipErrorUnknown",
    }
}
