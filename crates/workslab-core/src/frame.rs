//! A scoped arena inside a lease: arrays bump upward, and all go when the frame ends.
//!
//! An array borrows its frame and a nested frame borrows the outer one, so the compiler sees that
//! none outlives what it stands in. What it cannot see is the order of use: while an inner frame
//! is open the outer one must not hand out arrays, or the two would bump over each other. That is
//! checked at run time, and costs nothing on the fast path: an outer frame's limit is set to zero
//! meanwhile, and so every array that it is asked for takes the slow path, which finds out why.

use std::cell::Cell;
use std::fmt;

use crate::array::Array;
use crate::bump::{self, ARRAY_ALIGNMENT, RED_ZONE};
use crate::guard::GuardLog;
use crate::lease::Lease;
use crate::platform::Platform;
use crate::scratch::ArraySpec;
use crate::{Element, Error};

/// A scoped arena inside a lease; from [`Lease::frame`] or [`Frame::frame`].
pub struct Frame<'l, P: Platform> {
    lease: &'l Lease<'l, P>,
    outer: Option<&'l Frame<'l, P>>,
    name: Option<&'l str>,
    /// Address of the next free byte.
    top: Cell<usize>,
    /// Address after the last byte that the fast path may hand out; 0 sends all to the slow path.
    fast_limit: Cell<usize>,
    /// Whether a nested frame is open.
    shadowed: Cell<bool>,
    /// The arrays and their red zones, in guard mode.
    guard: Option<Box<GuardLog>>,
}

impl<'l, P: Platform> Frame<'l, P> {
    #[inline]
    pub(crate) fn outermost(lease: &'l Lease<'l, P>, name: Option<&'l str>) -> Self {
        Self::open(lease, None, name, lease.base().address())
    }

    #[inline]
    fn open(
        lease: &'l Lease<'l, P>,
        outer: Option<&'l Frame<'l, P>>,
        name: Option<&'l str>,
        top: usize,
    ) -> Self {
        let guard = lease
            .workspace()
            .guard()
            .then(|| Box::new(GuardLog::new(top)));
        Self {
            lease,
            outer,
            name,
            top: Cell::new(top),
            fast_limit: Cell::new(if guard.is_some() { 0 } else { lease.limit() }),
            shadowed: Cell::new(false),
            guard,
        }
    }

    /// An array of `length` elements, aligned to [`ARRAY_ALIGNMENT`](crate::ARRAY_ALIGNMENT)
    /// bytes. It holds whatever the bytes held before. No driver is called, except in guard mode.
    ///
    /// # Errors
    /// [`Error::Exhausted`], [`Error::SizeOverflow`], [`Error::FrameShadowed`]; in guard mode the
    /// driver's.
    #[inline]
    pub fn array<T: Element>(&self, length: usize) -> Result<Array<'_, T, P>, Error> {
        self.shaped([length])
    }

    /// An array of `shape`, in elements, the last dimension contiguous.
    ///
    /// # Errors
    /// As [`Frame::array`].
    #[inline]
    pub fn shaped<T: Element, const D: usize>(
        &self,
        shape: [usize; D],
    ) -> Result<Array<'_, T, P, D>, Error> {
        self.place(None, ARRAY_ALIGNMENT, shape)
    }

    /// The next array's name, for messages: `frame.named("theta").array::<f64>(n)?`.
    pub fn named<'f>(&'f self, name: &'f str) -> ArrayBuilder<'f, P> {
        self.builder().named(name)
    }

    /// The next array's alignment in bytes, a power of two.
    pub fn aligned(&self, alignment: usize) -> ArrayBuilder<'_, P> {
        self.builder().aligned(alignment)
    }

    fn builder(&self) -> ArrayBuilder<'_, P> {
        ArrayBuilder {
            frame: self,
            spec: ArraySpec::default(),
        }
    }

    /// Opens a frame inside this one. Arrays of this one stay usable; new ones come from the inner
    /// frame until it ends.
    ///
    /// # Errors
    /// [`Error::FrameShadowed`] if there is an inner frame already.
    #[inline]
    pub fn frame(&self) -> Result<Frame<'_, P>, Error> {
        self.nested(None)
    }

    /// As [`Frame::frame`], with a name for messages.
    ///
    /// # Errors
    /// As there.
    pub fn named_frame<'f>(&'f self, name: &'f str) -> Result<Frame<'f, P>, Error> {
        self.nested(Some(name))
    }

    #[inline]
    fn nested<'f>(&'f self, name: Option<&'f str>) -> Result<Frame<'f, P>, Error> {
        if self.shadowed.get() {
            return Err(self.shadow_error());
        }
        // In guard mode the last array's red zone stays between the two frames.
        let top = match &self.guard {
            Some(log) if !log.is_empty() => self.top.get() + RED_ZONE,
            _ => self.top.get(),
        };
        self.shadowed.set(true);
        self.fast_limit.set(0);
        Ok(Frame::open(self.lease, Some(self), name, top))
    }

    /// Ends the frame. In guard mode its red zones are checked; otherwise this is what dropping
    /// does.
    ///
    /// # Errors
    /// [`Error::Guard`]; or the driver's, if red zones could not be read.
    pub fn finish(mut self) -> Result<(), Error> {
        self.check_guard()
    }

    /// Bytes that the frame and those around it use, alignment and red zones included.
    pub fn used(&self) -> usize {
        self.top.get() - self.lease.base().address()
    }

    /// Bytes that are left above it.
    pub fn available(&self) -> usize {
        self.lease.limit().saturating_sub(self.top.get())
    }

    /// The lease it is in.
    pub fn lease(&self) -> &'l Lease<'l, P> {
        self.lease
    }

    pub(crate) fn place_spec<T: Element, const D: usize>(
        &self,
        spec: ArraySpec<'_>,
        shape: [usize; D],
    ) -> Result<Array<'_, T, P, D>, Error> {
        check_alignment(spec.alignment, || self.what(spec.name))?;
        self.place(spec.name, spec.alignment, shape)
    }

    #[inline]
    fn place<T: Element, const D: usize>(
        &self,
        name: Option<&str>,
        alignment: usize,
        shape: [usize; D],
    ) -> Result<Array<'_, T, P, D>, Error> {
        let alignment = alignment.max(align_of::<T>());
        let bytes = bytes_of(&shape, size_of::<T>());
        if let Some(bytes) = bytes
            && let Some(place) = bump::place(self.top.get(), bytes, alignment, false)
            && place.end <= self.fast_limit.get()
        {
            self.top.set(place.end);
            return Ok(Array::new(self.lease, place.start, shape));
        }
        let start = self.place_slowly::<T>(name, alignment, &shape, bytes)?;
        Ok(Array::new(self.lease, start, shape))
    }

    /// Everything that is rare: guard mode, an empty array at the very end, and errors.
    #[cold]
    fn place_slowly<T: Element>(
        &self,
        name: Option<&str>,
        alignment: usize,
        shape: &[usize],
        bytes: Option<usize>,
    ) -> Result<usize, Error> {
        if self.shadowed.get() {
            return Err(self.shadow_error());
        }
        let guarded = self.guard.is_some();
        let top = self.top.get();
        let limit = self.lease.limit();
        let Some(bytes) = bytes else {
            return Err(overflow(&self.what(name), shape, size_of::<T>()));
        };
        let Some(place) = bump::place(top, bytes, alignment, guarded) else {
            return Err(overflow(&self.what(name), shape, size_of::<T>()));
        };
        let limit = if place.reach > limit {
            let needed = place.reach - self.lease.base().address();
            self.lease.grow_to(needed, || self.what(name))?;
            self.lease.limit()
        } else {
            limit
        };
        if place.reach > limit {
            if bytes == 0 && !guarded {
                // No byte is used, so any aligned address within the lease will do.
                let start = limit & !(alignment - 1);
                if start >= self.lease.base().address() {
                    return Ok(start);
                }
            }
            return Err(self.exhausted(name, place.reach));
        }
        if let Some(log) = &self.guard {
            log.add(self.lease, name, place, T::POISON, top)?;
            self.lease.reach(place.reach);
        } else {
            self.fast_limit.set(limit);
        }
        self.top.set(place.end);
        Ok(place.start)
    }

    fn exhausted(&self, name: Option<&str>, reach: usize) -> Error {
        let workspace = self.lease.workspace();
        let base = workspace.base().address();
        let top = self.top.get();
        let limit = self.lease.limit();
        let reserved = base + workspace.size() - limit;
        Error::Exhausted {
            platform: P::NAME,
            device: workspace.device(),
            what: self.what(name),
            requested: reach - top,
            available: limit.saturating_sub(top),
            size: workspace.size(),
            size_origin: workspace.size_origin().map(str::to_owned),
            needed_size: (reach - base).saturating_add(reserved),
        }
    }

    fn shadow_error(&self) -> Error {
        Error::FrameShadowed { frame: self.path() }
    }

    /// An array of this frame as messages call it.
    fn what(&self, name: Option<&str>) -> String {
        let array = match name {
            Some(name) => format!("array '{name}'"),
            None => "an array".into(),
        };
        let program = match self.lease.program() {
            Some(program) => format!(" of program '{program}'"),
            None => String::new(),
        };
        format!("{array} in frame {}{program}", self.path())
    }

    /// The names of the frame and of those around it: `'step'/'solver'`.
    pub(crate) fn path(&self) -> String {
        let own = match self.name {
            Some(name) => format!("'{name}'"),
            None => "(unnamed)".into(),
        };
        match self.outer {
            Some(outer) => format!("{}/{own}", outer.path()),
            None => own,
        }
    }

    fn check_guard(&mut self) -> Result<(), Error> {
        match self.guard.take() {
            Some(log) => log.check(self.lease, &self.path()),
            None => Ok(()),
        }
    }
}

impl<P: Platform> Drop for Frame<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.lease.reach(self.top.get());
        if self.guard.is_some()
            && let Err(error) = self.check_guard()
        {
            // A destructor cannot return it: the lease's `finish`, or else the next lease, will.
            self.lease.keep_trouble(error);
        }
        if let Some(outer) = self.outer {
            outer.shadowed.set(false);
            if outer.guard.is_none() {
                outer.fast_limit.set(outer.lease.limit());
            }
        }
    }
}

impl<P: Platform> fmt::Debug for Frame<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("path", &self.path())
            .field("used", &self.used())
            .field("available", &self.available())
            .finish_non_exhaustive()
    }
}

/// An array to be, with a name or an alignment of its own.
#[derive(Debug)]
pub struct ArrayBuilder<'f, P: Platform> {
    frame: &'f Frame<'f, P>,
    spec: ArraySpec<'f>,
}

impl<'f, P: Platform> ArrayBuilder<'f, P> {
    /// Its name, for messages.
    pub fn named(mut self, name: &'f str) -> Self {
        self.spec.name = Some(name);
        self
    }

    /// Its alignment in bytes, a power of two; at least the element type's own.
    pub fn aligned(mut self, alignment: usize) -> Self {
        self.spec.alignment = alignment;
        self
    }

    /// As [`Frame::array`].
    ///
    /// # Errors
    /// As there; [`Error::BadAlignment`] for an alignment that is no power of two.
    pub fn array<T: Element>(self, length: usize) -> Result<Array<'f, T, P>, Error> {
        self.shaped([length])
    }

    /// As [`Frame::shaped`].
    ///
    /// # Errors
    /// As there; [`Error::BadAlignment`] for an alignment that is no power of two.
    pub fn shaped<T: Element, const D: usize>(
        self,
        shape: [usize; D],
    ) -> Result<Array<'f, T, P, D>, Error> {
        self.frame.place_spec(self.spec, shape)
    }
}

pub(crate) fn check_alignment(
    alignment: usize,
    what: impl FnOnce() -> String,
) -> Result<(), Error> {
    if alignment.is_power_of_two() {
        Ok(())
    } else {
        Err(Error::BadAlignment {
            what: what(),
            alignment,
        })
    }
}

/// The bytes of an array of this shape, unless they overflow. An empty dimension makes it empty,
/// however large the others are.
#[inline]
pub(crate) fn bytes_of(shape: &[usize], element: usize) -> Option<usize> {
    let mut bytes = element;
    for (index, &length) in shape.iter().enumerate() {
        bytes = match bytes.checked_mul(length) {
            Some(bytes) => bytes,
            None if shape[index + 1..].contains(&0) => return Some(0),
            None => return None,
        };
    }
    Some(bytes)
}

pub(crate) fn overflow(what: &str, shape: &[usize], element: usize) -> Error {
    let length: Vec<String> = shape.iter().map(usize::to_string).collect();
    Error::SizeOverflow {
        what: what.to_owned(),
        length: length.join(" × "),
        element,
    }
}
