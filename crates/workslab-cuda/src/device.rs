//! The devices, and the platform that they make.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use cust::sys::{CUcontext, CUdevice, CUdevice_attribute};
use once_cell::sync::OnceCell;
use workslab_core::{
    DeviceId, DeviceInfo, Error, ExternalWorkspaceAllocator, Platform, ProcessWide, SlabOptions,
    SlabSize,
};
use workslab_driver::no_growth;

use crate::NAME;
use crate::call::{Context, Current};
use crate::event::CudaEvent;
use crate::memory::Memory;
use crate::slab::CudaSlab;
use crate::stream::CudaStream;
use crate::sys::{self, Functions};

/// The unit in which the driver hands out memory from `cuMemAlloc`: a page.
const GRANULARITY: usize = 4096;

/// NVIDIA GPUs as a platform.
#[derive(Clone, Copy)]
pub struct Cuda {
    functions: &'static Functions,
    /// The primary contexts that are retained, by ordinal. They are kept for good: to release one
    /// while another library uses it is what tears down everything in it.
    contexts: &'static Mutex<Vec<Option<Context>>>,
}

impl Cuda {
    /// Loads and starts the driver, the first time.
    ///
    /// # Errors
    /// [`Error::Unavailable`], which names the libraries that were looked for, or what the one that
    /// was found lacks.
    pub fn open() -> Result<Self, Error> {
        static CONTEXTS: Mutex<Vec<Option<Context>>> = Mutex::new(Vec::new());
        sys::functions().map(|functions| Self {
            functions,
            contexts: &CONTEXTS,
        })
    }

    /// The driver in this file, for those who know better than the search. Call it once: a driver
    /// stays loaded.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it cannot be loaded or started, or lacks a function.
    pub fn from_library(library: impl AsRef<Path>) -> Result<Self, Error> {
        sys::functions_of(library.as_ref()).map(|functions| Self {
            functions,
            contexts: Box::leak(Box::default()),
        })
    }

    /// Which library the driver is, and the version of CUDA that it serves.
    #[must_use]
    pub fn driver(&self) -> String {
        let mut version: c_int = 0;
        // SAFETY: the call writes to `version` only.
        let code = unsafe { (self.functions.cuDriverGetVersion)(&raw mut version) };
        if code == 0 {
            let (major, minor) = (version / 1000, version % 1000 / 10);
            format!("{} (CUDA {major}.{minor})", self.functions.library)
        } else {
            self.functions.library.clone()
        }
    }

    /// A stream of another library's, a `CUstream` or `cudaStream_t`. Its owner may destroy it as
    /// soon as no lease on it is held. Null is the device's default stream.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`]; or the driver's.
    ///
    /// # Safety
    /// The handle is a stream of `device` in this driver, in its primary context, and lives as long
    /// as it is used here.
    pub unsafe fn lent_stream(
        &self,
        device: impl Into<DeviceId>,
        raw: *mut std::ffi::c_void,
    ) -> Result<CudaStream, Error> {
        Ok(CudaStream::lent(self.context(device.into())?, raw.cast()))
    }

    /// The device's handle.
    fn handle(&self, device: DeviceId) -> Result<CUdevice, Error> {
        let count = self.device_count()?;
        let no_such = || Error::NoSuchDevice {
            platform: NAME,
            device,
            count,
        };
        if device.ordinal() >= count {
            return Err(no_such());
        }
        let ordinal = c_int::try_from(device.ordinal()).map_err(|_| no_such())?;
        let mut handle: CUdevice = 0;
        // SAFETY: the call writes to `handle` only.
        let code = unsafe { (self.functions.cuDeviceGet)(&raw mut handle, ordinal) };
        self.functions.check(device, "cuDeviceGet", code)?;
        Ok(handle)
    }

    /// The device's primary context, retained once.
    pub(crate) fn context(&self, device: DeviceId) -> Result<Context, Error> {
        let handle = self.handle(device)?;
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        let index = device.ordinal() as usize;
        if let Some(Some(context)) = contexts.get(index) {
            return Ok(*context);
        }
        let mut raw: CUcontext = std::ptr::null_mut();
        // SAFETY: the call writes to `raw` only.
        let code = unsafe { (self.functions.cuDevicePrimaryCtxRetain)(&raw mut raw, handle) };
        self.functions
            .check(device, "cuDevicePrimaryCtxRetain", code)?;
        let context = Context {
            functions: self.functions,
            device,
            raw,
        };
        if contexts.len() <= index {
            contexts.resize(index + 1, None);
        }
        contexts[index] = Some(context);
        Ok(context)
    }

    /// Whether the device has an attribute.
    fn attribute(&self, device: DeviceId, attribute: CUdevice_attribute) -> Result<bool, Error> {
        let handle = self.handle(device)?;
        let mut value: c_int = 0;
        // SAFETY: the call writes to `value` only.
        let code = unsafe {
            (self.functions.cuDeviceGetAttribute)(&raw mut value, attribute as c_uint, handle)
        };
        self.functions.check(device, "cuDeviceGetAttribute", code)?;
        Ok(value != 0)
    }

    fn shares_host_memory(&self, device: DeviceId) -> Result<bool, Error> {
        self.attribute(device, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)
    }

    /// The device's virtual memory.
    fn memory(&self, device: DeviceId) -> Result<Memory, Error> {
        let attribute =
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED;
        match self.functions.virtual_memory() {
            Some(functions) if self.attribute(device, attribute)? => Ok(Memory {
                context: self.context(device)?,
                functions,
                ordinal: self.handle(device)?,
            }),
            _ => Err(no_growth(NAME, device, &self.driver())),
        }
    }

    /// Text that the driver writes into a buffer.
    fn text(
        &self,
        device: DeviceId,
        call: &'static str,
        function: unsafe extern "C" fn(*mut c_char, c_int, CUdevice) -> sys::Code,
    ) -> Result<String, Error> {
        let handle = self.handle(device)?;
        let mut buffer = [0u8; 256];
        // SAFETY: the driver writes at most as many bytes as it is told, the zero byte included.
        let code = unsafe {
            function(
                buffer.as_mut_ptr().cast(),
                buffer.len() as c_int - 1,
                handle,
            )
        };
        self.functions.check(device, call, code)?;
        let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }
}

impl Platform for Cuda {
    const NAME: &'static str = NAME;
    type Slab = CudaSlab;
    type Stream = CudaStream;
    type Event = CudaEvent;

    fn device_count(&self) -> Result<u32, Error> {
        let mut count: c_int = 0;
        // SAFETY: the call writes to `count` only.
        let code = unsafe { (self.functions.cuDeviceGetCount)(&raw mut count) };
        if code != 0 || count == 0 {
            return Err(Error::Unavailable {
                platform: NAME,
                reason: format!(
                    "{} finds no device: cuDeviceGetCount gives {} ({code}) and {count}",
                    self.functions.library,
                    self.functions.name_of(code)
                ),
            });
        }
        Ok(u32::try_from(count).unwrap_or(0))
    }

    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo, Error> {
        let name = self.text(device, "cuDeviceGetName", self.functions.cuDeviceGetName)?;
        let pci_id = self.text(
            device,
            "cuDeviceGetPCIBusId",
            self.functions.cuDeviceGetPCIBusId,
        )?;
        let shares = self.shares_host_memory(device)?;
        let context = self.context(device)?;
        let (mut free, mut total) = (0, 0);
        let current = Current::set(&context)?;
        // SAFETY: the call writes to its two arguments only.
        let code = unsafe { (self.functions.cuMemGetInfo_v2)(&raw mut free, &raw mut total) };
        drop(current);
        context.check("cuMemGetInfo", code)?;
        Ok(DeviceInfo::new(name, total, free, GRANULARITY)
            .with_pci_id(pci_id)
            .with_shared_host_memory(shares))
    }

    fn allocate_slab(
        &self,
        device: DeviceId,
        size: SlabSize,
        options: SlabOptions,
    ) -> Result<CudaSlab, Error> {
        // Where host and device share memory, pages come only when they are touched: touch them now.
        let touch = options.prefault || self.shares_host_memory(device)?;
        CudaSlab::allocate(self.context(device)?, size, touch)
    }

    fn reserve_slab(
        &self,
        device: DeviceId,
        cap: SlabSize,
        options: SlabOptions,
    ) -> Result<CudaSlab, Error> {
        let memory = self.memory(device)?;
        let touch = options.prefault || self.shares_host_memory(device)?;
        CudaSlab::reserve(memory, cap, touch)
    }

    fn create_event(&self, device: DeviceId) -> Result<CudaEvent, Error> {
        CudaEvent::create(self.context(device)?)
    }

    fn create_stream(&self, device: DeviceId) -> Result<CudaStream, Error> {
        CudaStream::create(self.context(device)?)
    }

    fn default_stream(&self, device: DeviceId) -> Result<CudaStream, Error> {
        Ok(CudaStream::default_of(self.context(device)?))
    }
}

impl ProcessWide for Cuda {
    fn process_wide() -> Result<&'static ExternalWorkspaceAllocator<Self>, Error> {
        static ALLOCATOR: OnceCell<ExternalWorkspaceAllocator<Cuda>> = OnceCell::new();
        ALLOCATOR.get_or_try_init(|| Cuda::open().map(ExternalWorkspaceAllocator::new))
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda")
            .field("library", &self.functions.library)
            .finish_non_exhaustive()
    }
}
