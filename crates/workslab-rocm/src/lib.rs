//! AMD GPUs as a platform, through HIP.
//!
//! Three levels, each thin: `sys` is the driver's functions, looked up when the program runs; `call`
//! is the same with errors; `device`, `stream`, `event` and `slab` are the safe types. Types and constants come from hip-sys. Its functions are not used, for two reasons: they
//! would tie the binary to a library that most machines lack, and they return a Rust `enum`, which is
//! undefined behaviour as soon as a newer driver returns a code that the enum lacks.
//!
//! Only calls and values are used that are the same in HIP 5, 6 and 7.

mod call;
mod device;
mod event;
mod graph;
mod memory;
mod slab;
mod stream;
mod sys;

pub use device::Rocm;
pub use event::RocmEvent;
pub use graph::{RocmCapture, RocmExecutable, RocmGraph};
pub use slab::RocmSlab;
pub use stream::RocmStream;

/// The platform's name.
pub(crate) const NAME: &str = "rocm";
