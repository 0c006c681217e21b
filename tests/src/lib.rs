//! What the tests stand on: backends, and a layer that counts calls and makes them fail.
//!
//! The matrix itself is `all/matrix.rs`: a backend is one line there.

mod backend;
mod counted;
mod emulator;

pub use backend::{Backend, CudaBackend, GraphBackend, HostBackend, MEMORY, Release, RocmBackend};
pub use counted::{Calls, Counted, CountedSlab, CountedStream};
pub use emulator::Emulator;
