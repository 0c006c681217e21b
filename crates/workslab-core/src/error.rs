//! Everything that can go wrong, with the numbers that a person needs to act.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::guard::GuardViolation;
use crate::{Bytes, DeviceId, SizeCheck};

/// Who holds a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The holding thread's name, or its id where it has none.
    pub thread: String,
    /// The program it runs, if the lease was taken for one.
    pub program: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.thread)?;
        match &self.program {
            Some(program) => write!(f, " for program '{program}'"),
            None => Ok(()),
        }
    }
}

/// An error of workslab's core or of a backend.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A slab of no bytes was asked for.
    #[error("a workspace of 0 bytes was asked for; give a size of at least 1 byte, or none at all")]
    ZeroSize,

    /// No size is configured, which means that no external workspace is wanted.
    #[error(
        "no workspace size is configured; set WORKSLAB_WORKSPACE_SIZE, or run without an external workspace"
    )]
    NoSize,

    /// Another size is cached than was asked for.
    #[error(
        "the workspace of {platform} device {device} has {} ({}), but {} {} were asked for ({}); use one size per process{}",
        Bytes(*cached), origin(cached_origin), check_word(*check), Bytes(*requested), origin(requested_origin),
        if *check == SizeCheck::Exact && cached > requested { ", or size_check = at-least" } else { "" }
    )]
    SizeMismatch {
        /// The platform.
        platform: &'static str,
        /// The device.
        device: DeviceId,
        /// Bytes of the cached slab.
        cached: usize,
        /// Where its size came from.
        cached_origin: Option<String>,
        /// Bytes asked for.
        requested: usize,
        /// Where that size came from.
        requested_origin: Option<String>,
        /// How the two were compared.
        check: SizeCheck,
    },

    /// A slab that grows in place cannot be had.
    #[error(
        "{platform} device {device} has no workspace that grows: {reason}; give a fixed size (size_check = exact)"
    )]
    NoGrowth {
        /// The platform.
        platform: &'static str,
        /// The device.
        device: DeviceId,
        /// Why not.
        reason: String,
    },

    /// A workspace cannot grow any further.
    #[error(
        "{what} needs the workspace of {platform} device {device} to grow to {}, but its cap is {} ({}); set workspace_cap to at least {}",
        Bytes(*needed), Bytes(*cap), cap_text(*cap_given), Bytes(*needed)
    )]
    CapReached {
        /// The platform.
        platform: &'static str,
        /// The device.
        device: DeviceId,
        /// What does not fit.
        what: String,
        /// Bytes that the workspace would need, reservations included.
        needed: usize,
        /// How far it may grow.
        cap: usize,
        /// Whether a request gave the cap; otherwise it is the device's memory.
        cap_given: bool,
    },

    /// Two requests disagree on how far a workspace may grow, or whether.
    #[error(
        "the workspace of {platform} device {device} {}, but one that {} was asked for; use one configuration per process",
        growth_text(cached),
        growth_text(requested)
    )]
    GrowthMismatch {
        /// The platform.
        platform: &'static str,
        /// The device.
        device: DeviceId,
        /// How the cached workspace grows: not at all, as far as there is memory, or to a cap.
        cached: Option<Option<usize>>,
        /// How the requested one should.
        requested: Option<Option<usize>>,
    },

    /// The cached workspace was made in another mode than was asked for.
    #[error(
        "the workspace of {platform} device {device} was made with {setting} = {cached}, but {setting} = {requested} was asked for; use one configuration per process"
    )]
    ModeMismatch {
        /// The platform.
        platform: &'static str,
        /// The device.
        device: DeviceId,
        /// The setting that differs.
        setting: &'static str,
        /// Its value in the cached workspace.
        cached: bool,
        /// Its value in the request.
        requested: bool,
    },

    /// There is no such device.
    #[error("{platform} has no device {device}: {}", count_text(*count))]
    NoSuchDevice {
        /// The platform.
        platform: &'static str,
        /// The device asked for.
        device: DeviceId,
        /// How many there are.
        count: u32,
    },

    /// The platform cannot be used on this machine.
    #[error("platform {platform} is not usable: {reason}")]
    Unavailable {
        /// The platform.
        platform: &'static str,
        /// Why, and what was looked for.
        reason: String,
    },

    /// More memory was asked for than there is.
    #[error(
        "{platform} device {device} has {} free of {}, but {} were asked for; ask for less, or free some",
        Bytes(*available), Bytes(*total), Bytes(*requested)
    )]
    OutOfMemory {
        /// The platform.
        platform: &'static str,
        /// The device.
        device: DeviceId,
        /// Bytes asked for.
        requested: usize,
        /// Bytes free when asked.
        available: usize,
        /// Bytes that the device has.
        total: usize,
    },

    /// A call of the driver, or of the operating system, failed.
    #[error(
        "{call} failed on {platform} device {device}: {name} ({code}){}",
        detail_text(detail)
    )]
    Driver {
        /// The platform.
        platform: &'static str,
        /// The device.
        device: DeviceId,
        /// The call.
        call: &'static str,
        /// The driver's code.
        code: i64,
        /// The code's name.
        name: String,
        /// What that means here and what to do, if more is known.
        detail: Option<String>,
    },

    /// The driver broke a promise that this crate relies on.
    #[error("{platform} device {device} gave a slab that {what}; this is a defect of the driver")]
    BadSlab {
        /// The platform.
        platform: &'static str,
        /// The device.
        device: DeviceId,
        /// What is wrong with it.
        what: String,
    },

    /// The workspace is leased, and the caller did not want to wait.
    #[error("the workspace of {platform} device {device} is in use by {holder}")]
    Busy {
        /// The platform.
        platform: &'static str,
        /// The device.
        device: DeviceId,
        /// Who holds the lease, or is the first to wait for it.
        holder: Holder,
    },

    /// The workspace stayed leased for longer than the caller wanted to wait.
    #[error(
        "the workspace of {platform} device {device} was still in use by {holder} after {waited:?}"
    )]
    LeaseTimeout {
        /// The platform.
        platform: &'static str,
        /// The device.
        device: DeviceId,
        /// Who holds the lease, or is the first to wait for it.
        holder: Holder,
        /// How long the caller waited.
        waited: Duration,
    },

    /// This thread holds the lease already; waiting for itself would never end.
    #[error(
        "this thread already holds the workspace of {platform} device {device} ({holder}); end that lease first, or open a nested frame in it"
    )]
    AlreadyLeased {
        /// The platform.
        platform: &'static str,
        /// The device.
        device: DeviceId,
        /// The lease that this thread holds.
        holder: Holder,
    },

    /// The workspace cannot be released now.
    #[error("the workspace of {platform} device {device} cannot be released: {users}")]
    InUse {
        /// The platform.
        platform: &'static str,
        /// The device.
        device: DeviceId,
        /// Who uses it.
        users: String,
    },

    /// A stream of one device was used with the workspace of another.
    #[error(
        "a stream of device {stream} was used with the workspace of {platform} device {workspace}"
    )]
    WrongDevice {
        /// The platform.
        platform: &'static str,
        /// The workspace's device.
        workspace: DeviceId,
        /// The stream's device.
        stream: DeviceId,
    },

    /// An array or a reservation does not fit.
    #[error(
        "{what} needs {}, but {} of the workspace's {} on {platform} device {device} are free; set its size ({}) to at least {}",
        Bytes(*requested), Bytes(*available), Bytes(*size), origin(size_origin), Bytes(*needed_size)
    )]
    Exhausted {
        /// The platform.
        platform: &'static str,
        /// The device.
        device: DeviceId,
        /// What did not fit: array, frame and program by name.
        what: String,
        /// Bytes it needs, alignment and red zones included.
        requested: usize,
        /// Bytes that are left.
        available: usize,
        /// Bytes of the workspace.
        size: usize,
        /// Where the workspace's size came from.
        size_origin: Option<String>,
        /// A size with which this one would have fitted.
        needed_size: usize,
    },

    /// A size does not fit into a machine word.
    #[error("the size of {what} overflows: {length} elements of {element} bytes")]
    SizeOverflow {
        /// What was being sized.
        what: String,
        /// Elements asked for, as text since their product may overflow too.
        length: String,
        /// Bytes per element.
        element: usize,
    },

    /// An alignment is no power of two.
    #[error("an alignment of {alignment} was asked for {what}; it must be a power of two")]
    BadAlignment {
        /// What was to be aligned.
        what: String,
        /// The alignment.
        alignment: usize,
    },

    /// A frame was used while a frame nested in it is open.
    #[error("frame {frame} has an open frame inside it; use the inner one, or end it first")]
    FrameShadowed {
        /// The outer frame.
        frame: String,
    },

    /// A reservation of this name has another size.
    #[error(
        "reservation '{reservation}' has {}, but {} were asked for; use one size per name",
        Bytes(*cached), Bytes(*requested)
    )]
    ReservationMismatch {
        /// The reservation.
        reservation: String,
        /// Bytes that it has.
        cached: usize,
        /// Bytes asked for.
        requested: usize,
    },

    /// A reservation of this name is held by somebody.
    #[error("reservation '{reservation}' is in use; only one user may hold it at a time")]
    ReservationTaken {
        /// The reservation.
        reservation: String,
    },

    /// Reservations are made before leases.
    #[error(
        "reservation '{reservation}' was asked for while {holder} holds a lease; reserve before the first lease, or after it has ended"
    )]
    ReservationWhileLeased {
        /// The reservation.
        reservation: String,
        /// Who holds the lease.
        holder: Holder,
    },

    /// Guard mode found bytes written outside an array.
    #[error(transparent)]
    Guard(Box<GuardViolation>),

    /// The workspace was made before this process was forked.
    #[error(
        "the workspace of {platform} device {device} was made before this process was forked, and does not work in the child; make an allocator in the child, or start it by spawn"
    )]
    Forked {
        /// The platform.
        platform: &'static str,
        /// The device.
        device: DeviceId,
    },

    /// Something was asked for that cannot be had while a stream is captured into a graph.
    #[error("{platform} device {device}: {what} while a stream is captured into a graph; {advice}")]
    Capturing {
        /// The platform.
        platform: &'static str,
        /// The device.
        device: DeviceId,
        /// What cannot be done.
        what: &'static str,
        /// What to do instead.
        advice: &'static str,
    },

    /// An array of a layout was asked for where it is not.
    #[error("array '{array}' of a layout {problem}")]
    Misplaced {
        /// The array.
        array: String,
        /// Why it cannot be had.
        problem: String,
    },

    /// A layout cannot be planned, or a plan is wrong.
    #[error(transparent)]
    Plan(#[from] workslab_plan::PlanError),

    /// A range lies outside its slab, or overlaps where it must not.
    #[error("{len} bytes at offset {offset} do not lie within {slab} bytes")]
    OutOfBounds {
        /// Where the range begins.
        offset: usize,
        /// Its length in bytes.
        len: usize,
        /// The length of what it should lie in.
        slab: usize,
    },

    /// Two lengths that must agree do not.
    #[error("{what} has {found} elements, but the array has {expected}")]
    LengthMismatch {
        /// What has the wrong length.
        what: &'static str,
        /// Elements of the array.
        expected: usize,
        /// Elements found.
        found: usize,
    },
}

fn origin(origin: &Option<String>) -> String {
    match origin {
        Some(origin) => format!("set by {origin}"),
        None => "given in code".into(),
    }
}

fn check_word(check: SizeCheck) -> &'static str {
    match check {
        SizeCheck::Exact => "exactly",
        SizeCheck::AtLeast => "at least",
        SizeCheck::Grow => "growing from",
    }
}

fn cap_text(given: bool) -> &'static str {
    if given {
        "as was asked for"
    } else {
        "the device's memory"
    }
}

fn growth_text(growth: &Option<Option<usize>>) -> String {
    match growth {
        None => "has a fixed size".into(),
        Some(None) => "grows without a cap".into(),
        Some(Some(cap)) => format!("grows to at most {}", Bytes(*cap)),
    }
}

fn count_text(count: u32) -> String {
    match count {
        0 => "it has none at all".into(),
        1 => "it has only device 0".into(),
        n => format!("it has devices 0 to {}", n - 1),
    }
}

fn detail_text(detail: &Option<String>) -> String {
    match detail {
        Some(detail) => format!("; {detail}"),
        None => String::new(),
    }
}
