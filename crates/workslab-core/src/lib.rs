//! One preallocated slab of device memory, leased to one program after the other.
//!
//! Data flows one way: an [`ExternalWorkspaceAllocator`] makes and caches a [`Workspace`] per
//! device; a [`Lease`] is the exclusive, stream-ordered right to use it; a [`Frame`] is a scoped
//! arena inside a lease; an [`Array`] is typed memory in a frame. [`Platform`] is what a backend
//! implements; this crate knows none.
//!
//! Sizes are bytes in `usize`, computed with checks; every array is aligned to at least
//! [`ARRAY_ALIGNMENT`] bytes. After warm-up, the path allocate → lease → frame → array → drop on
//! one stream calls no driver.

mod allocator;
mod array;
mod bump;
mod capture;
mod counter;
mod device;
mod element;
mod error;
mod fork;
mod frame;
mod gate;
mod growth;
mod guard;
mod layout;
mod lease;
mod memset;
mod pattern;
mod platform;
mod program;
mod recorder;
mod reservation;
mod scratch;
mod size;
mod statistics;
mod sync;
mod workspace;

pub use allocator::{ExternalWorkspaceAllocator, SharedWorkspace};
pub use array::Array;
pub use bump::ARRAY_ALIGNMENT;
pub use device::{DeviceId, DeviceInfo, DevicePtr};
pub use element::Element;
pub use error::{Error, Holder};
pub use frame::{ArrayBuilder, Frame};
pub use growth::{End, GrowableSlab, Growth, Pages};
pub use guard::{GuardViolation, Side};
pub use layout::{Bound, Layout, LayoutPlan, Phase, Slot};
pub use lease::Lease;
pub use memset::{MemsetCalls, fill_by_memset};
pub use pattern::Pattern;
pub use platform::{
    CaptureId, DeviceSlab, HostAccessible, Platform, ProcessWide, Stream, StreamId, check_disjoint,
    check_range, settle,
};
pub use program::Program;
pub use recorder::{Recorded, Recorder};
pub use reservation::Reservation;
pub use scratch::{ArraySpec, DryArray, DryFrame, Scratch};
pub use size::{Bytes, Request, SizeCheck, SlabOptions, SlabRequest, SlabSize};
pub use statistics::{ProgramStatistics, Statistics};
pub use workslab_plan::{Buffer, Effort, Instance, Plan, PlanError, Planned, Planner, Verdict};
pub use workspace::Workspace;
