//! NVIDIA GPUs as a platform, through CUDA's driver interface.
//!
//! Three levels, each thin: `sys` is the driver's functions, looked up when the program runs; `call`
//! is the same with errors; `device`, `stream`, `event` and `slab` are the safe types. Types and
//! constants come from cust. Its functions are not used, for two reasons: they would tie the binary to
//! a library that most machines lack, and they return a Rust `enum`, which is undefined behaviour as
//! soon as a newer driver returns a code that the enum lacks.
//!
//! Memory, streams and events belong to the devices' primary contexts, which other libraries use too.

mod call;
mod device;
mod event;
mod graph;
mod memory;
mod slab;
mod stream;
mod sys;

pub use device::Cuda;
pub use event::CudaEvent;
pub use graph::{CudaCapture, CudaExecutable, CudaGraph};
pub use slab::CudaSlab;
pub use stream::CudaStream;

/// The platform's name.
pub(crate) const NAME: &str = "cuda";
