//! One preallocated workspace per device, shared safely by every program in the process.
//!
//! ```
//! use workslab::{BackendConfig, ExternalWorkspaceAllocator, Platform, host::Host};
//!
//! let config = BackendConfig::builder().set("workspace_size=1MiB", "example").resolve()?;
//! let allocator = ExternalWorkspaceAllocator::new(Host::new());
//! let workspace = allocator.allocate(0, &config)?;
//! let stream = allocator.platform().default_stream(workspace.device())?;
//!
//! let mut lease = workspace.lease(&stream)?;
//! let frame = lease.frame();
//! let mut theta = frame.array::<f64>(1000)?;
//! theta.fill(300.0)?;
//! assert_eq!(theta.host()?[999], 300.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The [allocator](ExternalWorkspaceAllocator) is generic over the platform. [`AnyAllocator`]
//! chooses one when the program runs, among those that its features compiled in.

mod any;
mod probe;

pub use any::{Allocator, AnyAllocator, OnPlatform, OpenError};
pub use probe::{PlatformReport, probe};
pub use workslab_config::{
    BackendConfig, ConfigError, DeviceChoice, Entry, ICON4PY_SIZE_VARIABLE, LocalRank,
    SIZE_VARIABLE, parse_size,
};
pub use workslab_core::*;
/// The planner; with the feature `files` also its files and pictures, and sizes learnt from runs.
pub use workslab_plan as plan;

/// The host: slabs by `mmap`, streams by worker threads.
#[cfg(feature = "host")]
pub mod host {
    pub use workslab_host::{Host, HostBuilder, HostEvent, HostSlab, HostStream};
}

/// AMD GPUs, through HIP.
#[cfg(feature = "rocm")]
pub mod rocm {
    pub use workslab_rocm::{
        Rocm, RocmCapture, RocmEvent, RocmExecutable, RocmGraph, RocmSlab, RocmStream,
    };
}

/// NVIDIA GPUs, through CUDA.
#[cfg(feature = "cuda")]
pub mod cuda {
    pub use workslab_cuda::{
        Cuda, CudaCapture, CudaEvent, CudaExecutable, CudaGraph, CudaSlab, CudaStream,
    };
}

#[cfg(not(any(feature = "host", feature = "rocm", feature = "cuda")))]
compile_error!("workslab needs at least one platform: enable `host`, `rocm` or `cuda`");

/// The platforms that workslab has a name for, in the order in which they are tried.
pub const PLATFORMS: [&str; 3] = ["rocm", "cuda", "host"];

/// The README's example, compiled and run with the documentation's own.
#[cfg(all(doctest, feature = "host"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
