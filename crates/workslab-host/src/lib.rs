//! The host as a platform: slabs by `mmap`, streams by worker threads.
//!
//! The host is the platform that every machine has. Its streams are real queues, worked on by
//! threads of their own, so that what is ordered across streams here is ordered by the same calls
//! as on a GPU. Linux only: sizes come from `/proc` and the memory cgroup.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "workslab-host reads Linux's /proc and cgroups; other systems are not supported yet"
);

mod device;
mod event;
mod memory;
mod pages;
mod slab;
mod stream;

pub use device::{Host, HostBuilder};
pub use event::HostEvent;
pub use slab::HostSlab;
pub use stream::HostStream;

/// The platform's name.
pub(crate) const NAME: &str = "host";
