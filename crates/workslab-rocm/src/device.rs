//! The devices, and the platform that they make.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::path::Path;

use hip_sys::hiprt::hipDeviceAttribute_t;
use once_cell::sync::OnceCell;
use workslab_core::{
    DeviceId, DeviceInfo, Error, ExternalWorkspaceAllocator, Platform, ProcessWide, SlabOptions,
    SlabSize,
};
use workslab_driver::no_growth;

use crate::NAME;
use crate::call::{Current, ordinal};
use crate::event::RocmEvent;
use crate::memory::Memory;
use crate::slab::RocmSlab;
use crate::stream::RocmStream;
use crate::sys::{self, Functions};

/// The unit in which `hipMalloc` hands out memory: a page.
const GRANULARITY: usize = 4096;

/// `hipDeviceAttributeVirtualMemoryManagementSupported`, which hip-sys does not have.
const VIRTUAL_MEMORY: c_uint = 89;
/// `hipErrorInvalidValue`: what a driver says to an attribute that it does not know.
const INVALID_VALUE: sys::Code = 1;

/// AMD GPUs as a platform.
#[derive(Clone, Copy)]
pub struct Rocm {
    functions: &'static Functions,
}

impl Rocm {
    /// Loads the driver, the first time.
    ///
    /// # Errors
    /// [`Error::Unavailable`], which names the libraries that were looked for, or what the one that
    /// was found lacks.
    pub fn open() -> Result<Self, Error> {
        sys::functions().map(|functions| Self { functions })
    }

    /// The driver in this file, for those who know better than the search. Call it once: a driver
    /// stays loaded.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it cannot be loaded or lacks a function.
    pub fn from_library(library: impl AsRef<Path>) -> Result<Self, Error> {
        sys::functions_of(library.as_ref()).map(|functions| Self { functions })
    }

    /// Which library the driver is, and its version as it counts it.
    #[must_use]
    pub fn driver(&self) -> String {
        let mut version: c_int = 0;
        // SAFETY: the call writes to `version` only.
        let code = unsafe { (self.functions.hipRuntimeGetVersion)(&raw mut version) };
        if code == 0 {
            format!("{} (HIP {version})", self.functions.library)
        } else {
            self.functions.library.clone()
        }
    }

    /// A stream of another library's, a `hipStream_t`. Its owner may destroy it as soon as no lease
    /// on it is held. Null is the device's default stream.
    ///
    /// # Safety
    /// The handle is a stream of `device` in this driver, and lives as long as it is used here.
    #[must_use]
    pub unsafe fn lent_stream(
        &self,
        device: impl Into<DeviceId>,
        raw: *mut std::ffi::c_void,
    ) -> RocmStream {
        RocmStream::lent(self.functions, device.into(), raw.cast())
    }

    pub(crate) fn functions(&self) -> &'static Functions {
        self.functions
    }

    /// An attribute's value; none if the driver is too old to know it.
    fn attribute(&self, device: DeviceId, attribute: c_uint) -> Result<Option<i32>, Error> {
        let mut value: c_int = 0;
        // SAFETY: the call writes to `value` only.
        let code = unsafe {
            (self.functions.hipDeviceGetAttribute)(&raw mut value, attribute, ordinal(device)?)
        };
        if code == INVALID_VALUE {
            return Ok(None);
        }
        self.functions
            .check(device, "hipDeviceGetAttribute", code)?;
        Ok(Some(value))
    }

    fn shares_host_memory(&self, device: DeviceId) -> Result<bool, Error> {
        let attribute = hipDeviceAttribute_t::hipDeviceAttributeIntegrated as c_uint;
        Ok(self.attribute(device, attribute)?.is_some_and(|it| it != 0))
    }

    /// The device's virtual memory.
    fn memory(&self, device: DeviceId) -> Result<Memory, Error> {
        // The attribute comes first: HIP 5.2 has the functions, but not as they are now.
        let supported = self.attribute(device, VIRTUAL_MEMORY)?;
        match (supported, self.functions.virtual_memory()) {
            (Some(1..), Some(memory)) => Memory::new(self.functions, memory, device),
            _ => Err(no_growth(NAME, device, &self.driver())),
        }
    }

    /// Text that the driver writes into a buffer.
    fn text(
        &self,
        device: DeviceId,
        call: &'static str,
        function: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> sys::Code,
    ) -> Result<String, Error> {
        let mut buffer = [0u8; 256];
        // SAFETY: the driver writes at most as many bytes as it is told, the zero byte included.
        let code = unsafe {
            function(
                buffer.as_mut_ptr().cast(),
                buffer.len() as c_int - 1,
                ordinal(device)?,
            )
        };
        self.functions.check(device, call, code)?;
        let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    fn check_device(&self, device: DeviceId) -> Result<(), Error> {
        let count = self.device_count()?;
        if device.ordinal() < count {
            Ok(())
        } else {
            Err(Error::NoSuchDevice {
                platform: NAME,
                device,
                count,
            })
        }
    }
}

impl Platform for Rocm {
    const NAME: &'static str = NAME;
    type Slab = RocmSlab;
    type Stream = RocmStream;
    type Event = RocmEvent;

    fn device_count(&self) -> Result<u32, Error> {
        let mut count: c_int = 0;
        // SAFETY: the call writes to `count` only.
        let code = unsafe { (self.functions.hipGetDeviceCount)(&raw mut count) };
        if code != 0 {
            return Err(Error::Unavailable {
                platform: NAME,
                reason: format!(
                    "{} finds no device: hipGetDeviceCount gives {} ({code})",
                    self.functions.library,
                    self.functions.name_of(code)
                ),
            });
        }
        Ok(u32::try_from(count).unwrap_or(0))
    }

    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo, Error> {
        self.check_device(device)?;
        let name = self.text(device, "hipDeviceGetName", self.functions.hipDeviceGetName)?;
        let pci_id = self.text(
            device,
            "hipDeviceGetPCIBusId",
            self.functions.hipDeviceGetPCIBusId,
        )?;
        let shares = self.shares_host_memory(device)?;
        let (mut free, mut total) = (0, 0);
        let current = Current::set(self.functions, device)?;
        // SAFETY: the call writes to its two arguments only.
        let code = unsafe { (self.functions.hipMemGetInfo)(&raw mut free, &raw mut total) };
        drop(current);
        self.functions.check(device, "hipMemGetInfo", code)?;
        Ok(DeviceInfo::new(name, total, free, GRANULARITY)
            .with_pci_id(pci_id)
            .with_shared_host_memory(shares))
    }

    fn allocate_slab(
        &self,
        device: DeviceId,
        size: SlabSize,
        options: SlabOptions,
    ) -> Result<RocmSlab, Error> {
        self.check_device(device)?;
        // Where host and device share memory, pages come only when they are touched, and under
        // pressure perhaps from another device's memory (ROCm/amdgpu 186): touch them now.
        let touch = options.prefault || self.shares_host_memory(device)?;
        RocmSlab::allocate(self.functions, device, size, touch)
    }

    fn reserve_slab(
        &self,
        device: DeviceId,
        cap: SlabSize,
        options: SlabOptions,
    ) -> Result<RocmSlab, Error> {
        self.check_device(device)?;
        let memory = self.memory(device)?;
        let touch = options.prefault || self.shares_host_memory(device)?;
        RocmSlab::reserve(self.functions, device, memory, cap, touch)
    }

    fn create_event(&self, device: DeviceId) -> Result<RocmEvent, Error> {
        RocmEvent::create(self.functions, device)
    }

    fn create_stream(&self, device: DeviceId) -> Result<RocmStream, Error> {
        self.check_device(device)?;
        RocmStream::create(self.functions, device)
    }

    fn default_stream(&self, device: DeviceId) -> Result<RocmStream, Error> {
        self.check_device(device)?;
        Ok(RocmStream::default_of(self.functions, device))
    }
}

impl ProcessWide for Rocm {
    fn process_wide() -> Result<&'static ExternalWorkspaceAllocator<Self>, Error> {
        static ALLOCATOR: OnceCell<ExternalWorkspaceAllocator<Rocm>> = OnceCell::new();
        ALLOCATOR.get_or_try_init(|| Rocm::open().map(ExternalWorkspaceAllocator::new))
    }
}

impl std::fmt::Debug for Rocm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rocm")
            .field("library", &self.functions.library)
            .finish_non_exhaustive()
    }
}
