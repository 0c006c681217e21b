//! A strict, emulated GPU driver over host memory: what the emulated `libamdhip64` and `libcuda`
//! have in common.
//!
//! It is stricter than a real driver on purpose:
//! - Streams do not run. Work is queued, and done only when somebody has to have its result: as late
//!   as the ordering allows, and, seeded, with other streams' work squeezed in before. A wait that is
//!   missing gives wrong data.
//! - Every access is a byte range on a stream. Two that overlap, at least one of them a write, with
//!   nothing that orders one before the other, are a race, found when the second is enqueued,
//!   whether or not the data came out right.
//! - New memory holds garbage, and a freed address stays invalid.
//! - Misuse is an error and a [`Violation`] that names the call.
//! - Memory goes from a reserved address only when all work on it was waited for.
//!
//! Happens-before comes from streams, events and synchronisation alone. All host threads count as
//! one: what one of them has waited for, the others are taken to know of.

pub mod abi;
mod capture;
mod clock;
mod driver;
mod faults;
pub mod process;
mod shadow;
mod virtual_memory;
mod world;

pub use capture::{CaptureFault, CaptureMode, CaptureStatus, Destructor};
pub use driver::{Driver, Options};
pub use faults::Fault;
pub use world::{Code, EventId, StreamId, Violation};
