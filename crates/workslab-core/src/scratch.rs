//! Set-up code that runs twice: once dry, to say how many bytes it needs, and once for real.
//!
//! ```
//! use workslab_core::{DryFrame, Error, Scratch};
//!
//! struct Work<'s, S: Scratch + 's> {
//!     residual: S::Array<'s, f64, 1>,
//!     direction: S::Array<'s, f64, 1>,
//! }
//!
//! fn set_up<S: Scratch>(scratch: &S, n: usize) -> Result<Work<'_, S>, Error> {
//!     Ok(Work {
//!         residual: scratch.named_array("residual", n)?,
//!         direction: scratch.named_array("direction", n)?,
//!     })
//! }
//!
//! let dry = DryFrame::new();
//! set_up(&dry, 1000)?;
//! assert_eq!(dry.bytes_needed(), 8192 + 8000); // the second array starts at a multiple of 256
//! # Ok::<(), Error>(())
//! ```

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use crate::array::Array;
use crate::bump::{ARRAY_ALIGNMENT, RED_ZONE, align_up};
use crate::frame::{Frame, bytes_of, check_alignment, overflow};
use crate::platform::Platform;
use crate::{Element, Error};

/// What can be said of an array beyond its shape.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ArraySpec<'a> {
    /// Its name, for messages.
    pub name: Option<&'a str>,
    /// Its alignment in bytes, a power of two.
    pub alignment: usize,
}

impl Default for ArraySpec<'_> {
    fn default() -> Self {
        Self {
            name: None,
            alignment: ARRAY_ALIGNMENT,
        }
    }
}

impl<'a> ArraySpec<'a> {
    /// The same with a name.
    pub fn named(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// The same with an alignment in bytes.
    pub fn aligned(mut self, alignment: usize) -> Self {
        self.alignment = alignment;
        self
    }
}

/// Where arrays come from: a [`Frame`], or a [`DryFrame`] that has no memory.
pub trait Scratch {
    /// An array of this scratch.
    type Array<'s, T: Element, const D: usize>
    where
        Self: 's;
    /// A frame inside this scratch.
    type Inner<'s>: Scratch
    where
        Self: 's;

    /// An array of `shape`, in elements.
    ///
    /// # Errors
    /// As [`Frame::array`] and [`ArrayBuilder::array`](crate::ArrayBuilder::array).
    fn place<T: Element, const D: usize>(
        &self,
        spec: ArraySpec<'_>,
        shape: [usize; D],
    ) -> Result<Self::Array<'_, T, D>, Error>;

    /// Opens a frame inside this one.
    ///
    /// # Errors
    /// [`Error::FrameShadowed`] if there is one already.
    fn inner(&self) -> Result<Self::Inner<'_>, Error>;

    /// An array of `length` elements.
    ///
    /// # Errors
    /// As [`Scratch::place`].
    fn array<T: Element>(&self, length: usize) -> Result<Self::Array<'_, T, 1>, Error> {
        self.place(ArraySpec::default(), [length])
    }

    /// An array of `length` elements with a name.
    ///
    /// # Errors
    /// As [`Scratch::place`].
    fn named_array<T: Element>(
        &self,
        name: &str,
        length: usize,
    ) -> Result<Self::Array<'_, T, 1>, Error> {
        self.place(ArraySpec::default().named(name), [length])
    }
}

impl<P: Platform> Scratch for Frame<'_, P> {
    type Array<'s, T: Element, const D: usize>
        = Array<'s, T, P, D>
    where
        Self: 's;
    type Inner<'s>
        = Frame<'s, P>
    where
        Self: 's;

    fn place<T: Element, const D: usize>(
        &self,
        spec: ArraySpec<'_>,
        shape: [usize; D],
    ) -> Result<Array<'_, T, P, D>, Error> {
        self.place_spec(spec, shape)
    }

    fn inner(&self) -> Result<Frame<'_, P>, Error> {
        self.frame()
    }
}

/// A frame without memory: it only counts.
pub struct DryFrame<'o> {
    outer: Option<&'o DryFrame<'o>>,
    guard: bool,
    top: Cell<usize>,
    peak: Cell<usize>,
    shadowed: Cell<bool>,
}

impl DryFrame<'static> {
    /// An empty one.
    pub fn new() -> Self {
        Self::open(None, 0, false)
    }

    /// An empty one that counts guard mode's red zones too.
    pub fn guarded() -> Self {
        Self::open(None, 0, true)
    }
}

impl Default for DryFrame<'static> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'o> DryFrame<'o> {
    fn open(outer: Option<&'o DryFrame<'o>>, top: usize, guard: bool) -> Self {
        Self {
            outer,
            guard,
            top: Cell::new(top),
            peak: Cell::new(top),
            shadowed: Cell::new(false),
        }
    }

    /// The bytes of a lease in which everything placed so far, inner frames that have ended
    /// included, fits. For arrays with an alignment above
    /// [`ARRAY_ALIGNMENT`](crate::ARRAY_ALIGNMENT) this may be more than a given slab needs, whose
    /// base happens to be well aligned; it is never less.
    pub fn bytes_needed(&self) -> usize {
        self.peak.get()
    }

    fn zone(&self) -> usize {
        if self.guard { RED_ZONE } else { 0 }
    }
}

impl Drop for DryFrame<'_> {
    fn drop(&mut self) {
        if let Some(outer) = self.outer {
            outer.shadowed.set(false);
            outer.peak.set(outer.peak.get().max(self.peak.get()));
        }
    }
}

impl Scratch for DryFrame<'_> {
    type Array<'s, T: Element, const D: usize>
        = DryArray<T, D>
    where
        Self: 's;
    type Inner<'s>
        = DryFrame<'s>
    where
        Self: 's;

    fn place<T: Element, const D: usize>(
        &self,
        spec: ArraySpec<'_>,
        shape: [usize; D],
    ) -> Result<DryArray<T, D>, Error> {
        let what = || match spec.name {
            Some(name) => format!("array '{name}' in a dry frame"),
            None => "an array in a dry frame".into(),
        };
        check_alignment(spec.alignment, what)?;
        if self.shadowed.get() {
            return Err(shadowed());
        }
        let alignment = spec.alignment.max(align_of::<T>());
        let place = || {
            let bytes = bytes_of(&shape, size_of::<T>())?;
            let zone = self.zone();
            // The slab's base is a multiple of 256, and perhaps of no more.
            let padding = alignment.saturating_sub(ARRAY_ALIGNMENT);
            let from = self.top.get().checked_add(zone)?;
            let start = align_up(from, alignment.min(ARRAY_ALIGNMENT))?.checked_add(padding)?;
            let end = start.checked_add(bytes)?;
            Some((end, end.checked_add(zone)?))
        };
        let (end, reach) = place().ok_or_else(|| overflow(&what(), &shape, size_of::<T>()))?;
        self.top.set(end);
        self.peak.set(self.peak.get().max(reach));
        Ok(DryArray {
            shape,
            element: PhantomData,
        })
    }

    fn inner(&self) -> Result<DryFrame<'_>, Error> {
        if self.shadowed.replace(true) {
            return Err(shadowed());
        }
        let empty = self.peak.get() == 0;
        let zone = if empty { 0 } else { self.zone() };
        Ok(DryFrame::open(
            Some(self),
            self.top.get() + zone,
            self.guard,
        ))
    }
}

fn shadowed() -> Error {
    Error::FrameShadowed {
        frame: "(dry)".into(),
    }
}

impl fmt::Debug for DryFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DryFrame")
            .field("bytes_needed", &self.bytes_needed())
            .finish_non_exhaustive()
    }
}

/// An array of a [`DryFrame`]: a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DryArray<T, const D: usize = 1> {
    shape: [usize; D],
    element: PhantomData<T>,
}

impl<T, const D: usize> DryArray<T, D> {
    /// Its dimensions, in elements.
    pub fn shape(&self) -> [usize; D] {
        self.shape
    }
}
