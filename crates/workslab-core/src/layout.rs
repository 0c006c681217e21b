//! Arrays declared with their phases, planned before anything is allocated, and bound to a lease.
//!
//! ```
//! use workslab_core::{Effort, Error, Layout};
//!
//! let mut layout = Layout::new();
//! let flux = layout.array::<f64, 2>("flux", [1000, 65], 0..2)?;
//! let divergence = layout.array::<f64, 2>("divergence", [1000, 65], 1..3)?;
//! let tendency = layout.array::<f64, 2>("tendency", [1000, 65], 2..4)?; // may lie where flux was
//! let plan = layout.plan(Effort::Balanced)?;
//! assert!(plan.bytes() < 3 * 1000 * 65 * 8);
//! # let _ = (flux, divergence, tendency);
//! # Ok::<(), Error>(())
//! ```

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use workslab_plan::{Buffer, Effort, Instance, Plan, PlanError, Planner};

use crate::array::Array;
use crate::frame::{bytes_of, check_alignment, overflow};
use crate::lease::Lease;
use crate::platform::Platform;
use crate::scratch::ArraySpec;
use crate::{Element, Error};

/// A set of arrays with element types, shapes and lifetimes. Time is counted in phases, whatever the
/// program takes one to be.
#[derive(Debug)]
pub struct Layout {
    id: u64,
    arrays: Vec<Declared>,
}

#[derive(Clone, Debug)]
struct Declared {
    name: String,
    bytes: usize,
    alignment: usize,
    phases: Range<u64>,
}

/// An array of a layout, to be looked up in a phase.
pub struct Slot<T: Element, const D: usize = 1> {
    layout: u64,
    index: usize,
    shape: [usize; D],
    element: PhantomData<fn() -> T>,
}

impl<T: Element, const D: usize> Clone for Slot<T, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Element, const D: usize> Copy for Slot<T, D> {}

impl Default for Layout {
    fn default() -> Self {
        Self::new()
    }
}

impl Layout {
    /// A layout without arrays.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            arrays: Vec::new(),
        }
    }

    /// Declares an array of `shape`, in elements, that is needed from the first phase of the range on
    /// and no longer from its end on.
    ///
    /// # Errors
    /// [`Error::SizeOverflow`]; [`Error::Plan`] for a range that ends before it begins.
    pub fn array<T: Element, const D: usize>(
        &mut self,
        name: &str,
        shape: [usize; D],
        phases: Range<u64>,
    ) -> Result<Slot<T, D>, Error> {
        self.place(ArraySpec::default().named(name), shape, phases)
    }

    /// As [`Layout::array`], with an alignment of its own.
    ///
    /// # Errors
    /// Also [`Error::BadAlignment`].
    pub fn place<T: Element, const D: usize>(
        &mut self,
        spec: ArraySpec<'_>,
        shape: [usize; D],
        phases: Range<u64>,
    ) -> Result<Slot<T, D>, Error> {
        let name = spec.name.unwrap_or_default();
        let what = || format!("array '{name}' of a layout");
        check_alignment(spec.alignment, what)?;
        let alignment = spec.alignment.max(align_of::<T>());
        let bytes = bytes_of(&shape, size_of::<T>())
            .ok_or_else(|| overflow(&what(), &shape, size_of::<T>()))?;
        if phases.start > phases.end {
            return Err(Error::Plan(PlanError::BadBuffer {
                buffer: format!("'{name}'"),
                problem: format!(
                    "ends at phase {} before it starts at {}",
                    phases.end, phases.start
                ),
            }));
        }
        self.arrays.push(Declared {
            name: name.to_owned(),
            bytes,
            alignment,
            phases,
        });
        Ok(Slot {
            layout: self.id,
            index: self.arrays.len() - 1,
            shape,
            element: PhantomData,
        })
    }

    /// The layout as an instance.
    #[must_use]
    pub fn instance(&self) -> Instance {
        let buffers = self.arrays.iter().map(|array| {
            Buffer::new(&array.name, array.bytes as u64, array.phases.clone())
                .aligned(array.alignment as u64)
        });
        Instance::new(buffers.collect())
    }

    /// Finds an offset for every array. Calls no driver.
    ///
    /// # Errors
    /// [`Error::Plan`].
    pub fn plan(&self, effort: Effort) -> Result<LayoutPlan, Error> {
        let instance = self.instance();
        // With the padding that aligns the next array, as in a frame, a bound can be met that is out
        // of reach without.
        let mut padded = instance.clone();
        for buffer in &mut padded.buffers {
            let size = buffer.size.checked_next_multiple_of(buffer.alignment);
            buffer.size = size.ok_or(PlanError::TooLarge)?;
        }
        let plan = Planner::new().plan(&padded, effort)?.plan;
        let own = Plan::of(&instance, plan.offsets.clone())?;
        Ok(LayoutPlan {
            plan,
            ..self.with_plan(own)?
        })
    }

    /// Takes offsets that were found elsewhere, after checking them.
    ///
    /// # Errors
    /// [`Error::Plan`] for offsets that are wrong.
    pub fn with_plan(&self, plan: Plan) -> Result<LayoutPlan, Error> {
        let bytes = plan.verify(&self.instance())?;
        let too_large = |_| Error::Plan(PlanError::TooLarge);
        Ok(LayoutPlan {
            layout: self.id,
            bytes: usize::try_from(bytes).map_err(too_large)?,
            offsets: plan
                .offsets
                .iter()
                .map(|&offset| usize::try_from(offset).map_err(too_large))
                .collect::<Result<_, _>>()?,
            arrays: self.arrays.clone(),
            plan,
        })
    }
}

/// A layout with offsets.
#[derive(Clone, Debug)]
pub struct LayoutPlan {
    layout: u64,
    bytes: usize,
    offsets: Vec<usize>,
    arrays: Vec<Declared>,
    plan: Plan,
}

impl LayoutPlan {
    /// How many bytes a lease must have for it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The offsets, and how good they are. If [`Layout::plan`] made them, with the padding that follows
    /// each array.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

impl<P: Platform> Lease<'_, P> {
    /// Puts a plan's arrays into the lease. Calls no driver. The arrays have no red zones, also in guard
    /// mode: they share bytes on purpose.
    ///
    /// # Errors
    /// [`Error::Exhausted`] if the lease is too small, and [`Error::BadAlignment`] if it begins at an
    /// address that is not aligned enough.
    pub fn bind<'l>(&'l mut self, plan: &'l LayoutPlan) -> Result<Bound<'l, P>, Error> {
        let lease: &'l Self = self;
        let base = lease.base().address();
        let what = || match lease.program() {
            Some(program) => format!("the layout of program '{program}'"),
            None => "a layout".into(),
        };
        lease.cover_for(plan.bytes, what)?;
        for array in &plan.arrays {
            if !base.is_multiple_of(array.alignment) {
                return Err(Error::Misplaced {
                    array: array.name.clone(),
                    problem: format!(
                        "must be aligned to {} bytes, but the workspace begins at {base:#x}",
                        array.alignment
                    ),
                });
            }
        }
        lease.reach(base + plan.bytes);
        Ok(Bound {
            lease,
            plan,
            taken: plan.arrays.iter().map(|_| Cell::new(false)).collect(),
        })
    }
}

/// A plan's arrays in a lease.
pub struct Bound<'l, P: Platform> {
    lease: &'l Lease<'l, P>,
    plan: &'l LayoutPlan,
    /// Which arrays have been handed out in the phase.
    taken: Vec<Cell<bool>>,
}

impl<P: Platform> Bound<'_, P> {
    /// Begins a phase. Its arrays cannot outlive it, and there is one at a time: the compiler sees to
    /// both. So no view of an array is left when another one's phase begins.
    pub fn phase(&mut self, number: u64) -> Phase<'_, P> {
        self.taken.iter().for_each(|taken| taken.set(false));
        Phase {
            bound: self,
            number,
        }
    }
}

/// One phase of a bound plan.
pub struct Phase<'b, P: Platform> {
    bound: &'b Bound<'b, P>,
    number: u64,
}

impl<P: Platform> Phase<'_, P> {
    /// The array of a slot; it holds what the phases before left in it, or, in its first phase, anything.
    ///
    /// # Errors
    /// [`Error::Misplaced`] for an array of another layout, one that does not live in this phase, or one
    /// that was taken in it already.
    pub fn array<T: Element, const D: usize>(
        &self,
        slot: Slot<T, D>,
    ) -> Result<Array<'_, T, P, D>, Error> {
        let plan = self.bound.plan;
        let declared = match plan.arrays.get(slot.index) {
            Some(declared) if plan.layout == slot.layout => declared,
            _ => {
                return Err(Error::Misplaced {
                    array: format!("number {}", slot.index),
                    problem: "belongs to another layout than the one that is bound".into(),
                });
            }
        };
        let misplaced = |problem: String| Error::Misplaced {
            array: declared.name.clone(),
            problem,
        };
        if !declared.phases.contains(&self.number) {
            return Err(misplaced(format!(
                "lives from phase {} until before {}, and not in phase {}",
                declared.phases.start, declared.phases.end, self.number
            )));
        }
        if self.bound.taken[slot.index].replace(true) {
            return Err(misplaced(format!(
                "was taken already in phase {}; keep the first one",
                self.number
            )));
        }
        let lease = self.bound.lease;
        let address = lease.base().address() + plan.offsets[slot.index];
        Ok(Array::new(lease, address, slot.shape))
    }
}

impl<T: Element, const D: usize> fmt::Debug for Slot<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("index", &self.index)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl<P: Platform> fmt::Debug for Bound<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound")
            .field("plan", self.plan)
            .finish_non_exhaustive()
    }
}

impl<P: Platform> fmt::Debug for Phase<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Phase")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
