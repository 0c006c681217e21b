//! What this machine has, platform by platform.

use serde::Serialize;
use workslab_core::{DeviceId, DeviceInfo};

use crate::any::{Allocator, AnyAllocator};
use crate::{OpenError, PLATFORMS};

/// A platform and its devices, or why it has none.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PlatformReport {
    /// The platform's name.
    pub platform: &'static str,
    /// Its devices, by ordinal.
    pub devices: Vec<DeviceInfo>,
    /// Why it cannot be used, if it cannot.
    pub problem: Option<String>,
}

/// Asks every platform that workslab has a name for. A problem with one does not hide the others.
#[must_use]
pub fn probe() -> Vec<PlatformReport> {
    PLATFORMS
        .into_iter()
        .map(|platform| match devices(platform) {
            Ok(devices) => PlatformReport {
                platform,
                problem: devices.is_empty().then(|| "it has no devices".to_owned()),
                devices,
            },
            Err(error) => PlatformReport {
                platform,
                devices: Vec::new(),
                problem: Some(error.to_string()),
            },
        })
        .collect()
}

fn devices(platform: &str) -> Result<Vec<DeviceInfo>, OpenError> {
    let allocator = AnyAllocator::open(Some(platform))?;
    let count = allocator.device_count()?;
    (0..count)
        .map(|ordinal| Ok(allocator.device_info(DeviceId::new(ordinal))?))
        .collect()
}
