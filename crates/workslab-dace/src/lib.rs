//! Programs that DaCe compiled to shared libraries, run in a workspace.
//!
//! A program whose transients have the lifetime `External` leaves their memory to its caller. Its library exports
//! `__dace_get_external_memory_size_STORAGE` and `__dace_set_external_memory_STORAGE` for each storage (DaCe,
//! `codegen/targets/framecode.py`). Here such a library is loaded, asked for its sizes, bound to a [`Workspace`]
//! and called under a [`Lease`].
//!
//! ```no_run
//! use workslab_core::{ExternalWorkspaceAllocator, Platform, SlabSize};
//! use workslab_dace::{CompiledProgram, Value};
//! use workslab_host::Host;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // SAFETY: the library is one that DaCe compiled.
//! let program = unsafe { CompiledProgram::load(".dacecache/smooth/build/libsmooth.so")? };
//! let mut started = program.start(&[Value::I32(1000)])?; // its symbols
//! let allocator = ExternalWorkspaceAllocator::new(Host::new());
//! let workspace = allocator.allocate(0, &SlabSize::new(1 << 20)?)?;
//! let stream = allocator.platform().default_stream(workspace.device())?;
//! let mut bound = started.bind(workspace)?; // checks that it is large enough, and where it should be
//! let (field, mut out) = (vec![1.0; 1000], vec![0.0; 1000]);
//! let arguments = [Value::of(field.as_ptr()), Value::of(out.as_mut_ptr()), Value::I32(1000)];
//! let mut lease = workspace.lease(&stream)?;
//! // SAFETY: both arrays have 1000 elements, as the program's signature says.
//! unsafe { bound.run(&mut lease, &arguments)? };
//! # Ok(())
//! # }
//! ```
//!
//! [`Workspace`]: workslab_core::Workspace
//! [`Lease`]: workslab_core::Lease

mod error;
mod file;
mod placement;
mod program;
mod setup;
mod signature;
mod value;

pub use error::Error;
pub use file::{Inspected, inspect};
pub use placement::Placement;
pub use program::{Bound, CompiledProgram, Started};
pub use setup::{
    BackendDescriptor, DaceOptions, DeviceKind, DriverConfig, TransientMemoryMode,
    customize_backend, dace_options, setup_program,
};
pub use signature::{CType, Parameter, Signature};
pub use value::Value;
