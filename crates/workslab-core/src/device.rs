//! What names a device, an address on it, and what it can tell about itself.

use std::fmt;

use serde::Serialize;

/// One device of a platform, by its ordinal: the number the driver gives it, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct DeviceId(u32);

impl DeviceId {
    /// The device with this ordinal. Whether there is one, the platform says when asked.
    pub const fn new(ordinal: u32) -> Self {
        Self(ordinal)
    }

    /// The ordinal.
    pub const fn ordinal(self) -> u32 {
        self.0
    }
}

impl From<u32> for DeviceId {
    fn from(ordinal: u32) -> Self {
        Self(ordinal)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An address in a device's memory: a number to hand to a kernel or a library, not something that
/// Rust code may follow. (On the host, [`Array::host`](crate::Array::host) gives slices.)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevicePtr(usize);

impl DevicePtr {
    /// The address with this value.
    pub const fn new(address: usize) -> Self {
        Self(address)
    }

    /// The address as a number.
    pub const fn address(self) -> usize {
        self.0
    }

    /// The address as the pointer that a C interface takes.
    pub fn as_mut_ptr<T>(self) -> *mut T {
        std::ptr::with_exposed_provenance_mut(self.0)
    }

    /// Whether the address is a multiple of `alignment` (bytes, not 0).
    pub const fn is_aligned_to(self, alignment: usize) -> bool {
        self.0.is_multiple_of(alignment)
    }
}

impl fmt::Debug for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What a device says about itself. All sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The device's own name, for example `AMD Instinct MI300A`.
    pub name: String,
    /// Memory that the device has.
    pub total: usize,
    /// Memory that this process could still get.
    pub free: usize,
    /// The unit in which the driver hands out memory.
    pub granularity: usize,
    /// Whether host and device address the same physical memory.
    pub shares_host_memory: bool,
    /// The PCI address (`0000:c1:00.0`), for a device that has one.
    pub pci_id: Option<String>,
}

impl DeviceInfo {
    /// A device with these facts; it shares no memory with the host and has no PCI address until
    /// told otherwise.
    pub fn new(name: impl Into<String>, total: usize, free: usize, granularity: usize) -> Self {
        Self {
            name: name.into(),
            total,
            free,
            granularity,
            shares_host_memory: false,
            pci_id: None,
        }
    }

    /// Says whether host and device address the same physical memory.
    pub fn with_shared_host_memory(mut self, shares: bool) -> Self {
        self.shares_host_memory = shares;
        self
    }

    /// Gives the PCI address.
    pub fn with_pci_id(mut self, pci_id: impl Into<String>) -> Self {
        self.pci_id = Some(pci_id.into());
        self
    }
}
