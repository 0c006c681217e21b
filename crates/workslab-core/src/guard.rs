//! Guard mode: red zones around arrays, checked when their frame ends.
//!
//! A zone begins at the byte after an array, so an overrun by one byte is seen, and reaches to the
//! next array, so there is no gap that a longer one could hide in. The zones are written and read
//! on the lease's stream, and so they are checked after all the work that could have damaged them.

use std::cell::RefCell;
use std::fmt;

use crate::bump::{Place, RED_ZONE};
use crate::lease::Lease;
use crate::platform::{DeviceSlab, Platform};
use crate::{DeviceId, Error, Pattern};

/// The byte in red zones.
const RED: u8 = 0xFD;

/// How many bytes of a zone are read at a time.
const CHUNK: usize = 64 * 1024;

/// Bytes that were written outside an array.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuardViolation {
    /// The platform.
    pub platform: &'static str,
    /// The device.
    pub device: DeviceId,
    /// The program that held the lease, if it has a name.
    pub program: Option<String>,
    /// The frame, with those around it.
    pub frame: String,
    /// The array next to which the damage is, by name, or by its number in the frame.
    pub array: String,
    /// Which side of the array, and how far from it.
    pub side: Side,
    /// Offset of the first damaged byte in the slab.
    pub offset: usize,
    /// What stood there instead of the red zone's byte.
    pub found: u8,
    /// How many bytes of the zone are damaged.
    pub damaged: usize,
}

/// On which side of an array a write went astray.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Side {
    /// So many bytes before its first byte.
    Before(usize),
    /// So many bytes after its last byte.
    After(usize),
}

impl fmt::Display for GuardViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (distance, side) = match self.side {
            Side::Before(distance) => (distance, "before the first"),
            Side::After(distance) => (distance, "after the last"),
        };
        let program = match &self.program {
            Some(program) => format!(" of program '{program}'"),
            None => String::new(),
        };
        write!(
            f,
            "array {} in frame {}{program} was overrun on {} device {}: {} byte{} damaged, the first one {distance} byte{} {side} byte of the array, at offset {} of the workspace (found {:#04x}, expected {RED:#04x})",
            self.array,
            self.frame,
            self.platform,
            self.device,
            self.damaged,
            plural(self.damaged),
            plural(distance),
            self.offset,
            self.found,
        )
    }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

impl std::error::Error for GuardViolation {}

struct GuardedArray {
    name: Option<String>,
    start: usize,
    end: usize,
}

impl GuardedArray {
    fn label(&self, index: usize) -> String {
        match &self.name {
            Some(name) => format!("'{name}'"),
            None => format!("number {index}"),
        }
    }
}

/// The arrays of one frame, in the order of their addresses.
pub(crate) struct GuardLog {
    /// Where the frame begins, and with it the first red zone.
    start: usize,
    arrays: RefCell<Vec<GuardedArray>>,
}

impl GuardLog {
    pub(crate) fn new(start: usize) -> Self {
        Self {
            start,
            arrays: RefCell::new(Vec::new()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.arrays.borrow().is_empty()
    }

    /// Paints the zones on both sides of a new array, and poisons the array. `top` is where the
    /// array before it ends.
    pub(crate) fn add<P: Platform>(
        &self,
        lease: &Lease<'_, P>,
        name: Option<&str>,
        place: Place,
        poison: Pattern,
        top: usize,
    ) -> Result<(), Error> {
        let slab = lease.workspace().slab();
        let base = lease.base().address();
        let fill = |from: usize, to: usize, pattern| {
            // SAFETY: the lease is exclusive, and the frame gives the bytes from `top` up to the
            // place's reach to nobody but this array and its zones.
            unsafe { slab.fill(lease.stream(), from - base, to - from, pattern) }
        };
        fill(top, place.start, Pattern::U8(RED))?;
        fill(place.end, place.reach, Pattern::U8(RED))?;
        fill(place.start, place.end, poison)?;
        self.arrays.borrow_mut().push(GuardedArray {
            name: name.map(str::to_owned),
            start: place.start,
            end: place.end,
        });
        Ok(())
    }

    /// Looks at every zone; the first damage is the error.
    pub(crate) fn check<P: Platform>(
        &self,
        lease: &Lease<'_, P>,
        frame: &str,
    ) -> Result<(), Error> {
        let arrays = self.arrays.borrow();
        let base = lease.base().address();
        let mut from = self.start;
        for index in 0..=arrays.len() {
            let before = index.checked_sub(1).map(|index| &arrays[index]);
            let after = arrays.get(index);
            let to = match (before, after) {
                (_, Some(after)) => after.start,
                (Some(before), None) => before.end + RED_ZONE,
                (None, None) => break,
            };
            if let Some(damage) = find_damage(lease, from - base, to - base)? {
                let address = base + damage.offset;
                // Blame the array that is nearer, and of two equally near the one below: running
                // over the end is what programs do.
                let past_end = before.map(|before| address - before.end);
                let to_start = after.map(|after| after.start - address);
                let (array, side) = match (past_end, to_start) {
                    (Some(past), Some(ahead)) if past < ahead => {
                        (arrays[index - 1].label(index - 1), Side::After(past + 1))
                    }
                    (_, Some(ahead)) => (arrays[index].label(index), Side::Before(ahead)),
                    (Some(past), None) => {
                        (arrays[index - 1].label(index - 1), Side::After(past + 1))
                    }
                    (None, None) => break,
                };
                let violation = Box::new(GuardViolation {
                    platform: P::NAME,
                    device: lease.workspace().device(),
                    program: lease.program(),
                    frame: frame.to_owned(),
                    array,
                    side,
                    offset: damage.offset,
                    found: damage.found,
                    damaged: damage.bytes,
                });
                lease.workspace().note_violation(&violation);
                return Err(Error::Guard(violation));
            }
            if let Some(after) = after {
                from = after.end;
            }
        }
        Ok(())
    }
}

struct Damage {
    offset: usize,
    found: u8,
    bytes: usize,
}

/// The first damaged byte between two offsets of the slab, and how many there are.
fn find_damage<P: Platform>(
    lease: &Lease<'_, P>,
    from: usize,
    to: usize,
) -> Result<Option<Damage>, Error> {
    let mut buffer = vec![0; (to - from).min(CHUNK)];
    let mut damage: Option<Damage> = None;
    let mut offset = from;
    while offset < to {
        let chunk = &mut buffer[..(to - offset).min(CHUNK)];
        // SAFETY: the zone belongs to the lease; what writes to it is enqueued on its stream.
        unsafe {
            lease
                .workspace()
                .slab()
                .read(lease.stream(), offset, chunk)?;
        }
        for (index, &found) in chunk.iter().enumerate() {
            if found != RED {
                damage
                    .get_or_insert(Damage {
                        offset: offset + index,
                        found,
                        bytes: 0,
                    })
                    .bytes += 1;
            }
        }
        offset += chunk.len();
    }
    Ok(damage)
}
