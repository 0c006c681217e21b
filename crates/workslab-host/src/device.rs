//! The host's devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use once_cell::sync::OnceCell;
use procfs::{CpuInfo, Current};
use workslab_core::{
    DeviceId, DeviceInfo, Error, ExternalWorkspaceAllocator, Platform, ProcessWide, SlabOptions,
    SlabSize,
};

use crate::NAME;
use crate::event::HostEvent;
use crate::memory;
use crate::slab::{HostSlab, page_size};
use crate::stream::HostStream;

/// The variable that says how many virtual devices the process-wide allocator has.
const DEVICES_VARIABLE: &str = "WORKSLAB_HOST_DEVICES";

/// The host as a platform: one device, or several virtual ones that share its memory.
///
/// Clones name the same devices.
#[derive(Clone, Debug)]
pub struct Host {
    devices: Arc<[Device]>,
}

#[derive(Debug)]
struct Device {
    /// A virtual device's own limit in bytes.
    memory: Option<usize>,
    in_use: Arc<AtomicUsize>,
}

/// A [`Host`] to be.
#[derive(Clone, Debug)]
pub struct HostBuilder {
    devices: u32,
    memory: Option<usize>,
}

impl Default for HostBuilder {
    fn default() -> Self {
        Self {
            devices: 1,
            memory: None,
        }
    }
}

impl HostBuilder {
    /// How many virtual devices there are.
    #[must_use]
    pub fn devices(mut self, count: u32) -> Self {
        self.devices = count;
        self
    }

    /// How many bytes each of them has. Without this they have what the system has.
    #[must_use]
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// The platform.
    #[must_use]
    pub fn build(self) -> Host {
        Host {
            devices: (0..self.devices)
                .map(|_| Device {
                    memory: self.memory,
                    in_use: Arc::default(),
                })
                .collect(),
        }
    }
}

impl Host {
    /// The host with one device.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// The host with as many virtual devices as `WORKSLAB_HOST_DEVICES` says; one if it is not set.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the variable is not a number from 1 to 1024.
    pub fn from_env() -> Result<Self, Error> {
        let Some(text) = std::env::var_os(DEVICES_VARIABLE) else {
            return Ok(Self::new());
        };
        let count = text.to_str().and_then(|text| text.trim().parse().ok());
        match count {
            Some(count @ 1..=1024) => Ok(Self::builder().devices(count).build()),
            _ => Err(Error::Unavailable {
                platform: NAME,
                reason: format!(
                    "{DEVICES_VARIABLE} is {text:?}; it must be a number of virtual devices from 1 to 1024, or not set"
                ),
            }),
        }
    }

    /// A host to be set up.
    #[must_use]
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    fn device(&self, device: DeviceId) -> Result<&Device, Error> {
        self.devices
            .get(device.ordinal() as usize)
            .ok_or(Error::NoSuchDevice {
                platform: NAME,
                device,
                count: u32::try_from(self.devices.len()).unwrap_or(u32::MAX),
            })
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl Platform for Host {
    const NAME: &'static str = NAME;
    type Slab = HostSlab;
    type Stream = HostStream;
    type Event = HostEvent;

    fn device_count(&self) -> Result<u32, Error> {
        Ok(u32::try_from(self.devices.len()).unwrap_or(u32::MAX))
    }

    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo, Error> {
        let entry = self.device(device)?;
        let system = memory::read().map_err(|reason| Error::Unavailable {
            platform: NAME,
            reason,
        })?;
        let (total, free) = match entry.memory {
            Some(memory) => {
                let left = memory.saturating_sub(entry.in_use.load(Ordering::Relaxed));
                (memory, left.min(system.free))
            }
            None => (system.total, system.free),
        };
        Ok(DeviceInfo::new(cpu_name(), total, free, page_size()).with_shared_host_memory(true))
    }

    fn allocate_slab(
        &self,
        device: DeviceId,
        size: SlabSize,
        options: SlabOptions,
    ) -> Result<HostSlab, Error> {
        let entry = self.device(device)?;
        HostSlab::map(device, size, options, Arc::clone(&entry.in_use))
    }

    fn reserve_slab(
        &self,
        device: DeviceId,
        cap: SlabSize,
        options: SlabOptions,
    ) -> Result<HostSlab, Error> {
        let entry = self.device(device)?;
        HostSlab::reserve(device, cap, options, Arc::clone(&entry.in_use))
    }

    fn create_event(&self, device: DeviceId) -> Result<HostEvent, Error> {
        self.device(device)?;
        Ok(HostEvent::new())
    }

    fn create_stream(&self, device: DeviceId) -> Result<HostStream, Error> {
        self.device(device)?;
        HostStream::queued(device)
    }

    /// The stream whose work the calling thread does at once: what a program that knows of no
    /// streams runs on.
    fn default_stream(&self, device: DeviceId) -> Result<HostStream, Error> {
        self.device(device)?;
        Ok(HostStream::immediate(device))
    }
}

impl ProcessWide for Host {
    fn process_wide() -> Result<&'static ExternalWorkspaceAllocator<Self>, Error> {
        static ALLOCATOR: OnceCell<ExternalWorkspaceAllocator<Host>> = OnceCell::new();
        ALLOCATOR.get_or_try_init(|| Host::from_env().map(ExternalWorkspaceAllocator::new))
    }
}

/// The processor's name, read once: the file has an entry a core.
fn cpu_name() -> String {
    static NAME: OnceCell<String> = OnceCell::new();
    NAME.get_or_init(|| {
        let Ok(info) = CpuInfo::current() else {
            return "CPU".into();
        };
        let model = info.model_name(0).unwrap_or("CPU").trim().to_owned();
        let cores = info.num_cores();
        format!(
            "{model} ({cores} core{})",
            if cores == 1 { "" } else { "s" }
        )
    })
    .clone()
}
