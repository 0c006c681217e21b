//! What a real run allocated, and when: an instance for the planner.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};

use workslab_plan::{Buffer, Instance};

use crate::frame::bytes_of;
use crate::scratch::{ArraySpec, Scratch};
use crate::{Element, Error};

/// Wraps a frame (or a dry one) and notes each array's size, and how long it is kept. Time is counted in
/// allocations and ends.
pub struct Recorder<'s, S: Scratch> {
    scratch: &'s S,
    events: RefCell<Events>,
}

#[derive(Default)]
struct Events {
    buffers: Vec<Buffer>,
    time: u64,
}

impl<'s, S: Scratch> Recorder<'s, S> {
    /// Records what is allocated through it from now on.
    pub fn new(scratch: &'s S) -> Self {
        Self {
            scratch,
            events: RefCell::default(),
        }
    }

    /// An array of `length` elements with a name.
    ///
    /// # Errors
    /// As [`Scratch::place`].
    pub fn array<T: Element>(
        &self,
        name: &str,
        length: usize,
    ) -> Result<Recorded<'_, S::Array<'_, T, 1>>, Error> {
        self.place(ArraySpec::default().named(name), [length])
    }

    /// An array of `shape`, in elements. The record says that it lives until what this gives is dropped.
    ///
    /// # Errors
    /// As [`Scratch::place`].
    pub fn place<T: Element, const D: usize>(
        &self,
        spec: ArraySpec<'_>,
        shape: [usize; D],
    ) -> Result<Recorded<'_, S::Array<'_, T, D>>, Error> {
        let array = self.scratch.place(spec, shape)?;
        // The scratch has checked that the size does not overflow.
        let bytes = bytes_of(&shape, size_of::<T>()).unwrap_or(usize::MAX);
        let mut events = self.events.borrow_mut();
        let start = events.time;
        events.time += 1;
        let name = spec.name.unwrap_or_default();
        let buffer = Buffer::new(name, bytes as u64, start..u64::MAX);
        events.buffers.push(buffer.aligned(spec.alignment as u64));
        Ok(Recorded {
            array,
            events: &self.events,
            index: events.buffers.len() - 1,
        })
    }

    /// What was recorded so far. What is still kept lives until now.
    pub fn instance(&self) -> Instance {
        let events = self.events.borrow();
        let mut buffers = events.buffers.clone();
        for buffer in &mut buffers {
            buffer.lifetime.end = buffer.lifetime.end.min(events.time);
        }
        Instance::new(buffers)
    }
}

/// An array whose end is recorded when this is dropped.
pub struct Recorded<'r, A> {
    array: A,
    events: &'r RefCell<Events>,
    index: usize,
}

impl<A> Deref for Recorded<'_, A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.array
    }
}

impl<A> DerefMut for Recorded<'_, A> {
    fn deref_mut(&mut self) -> &mut A {
        &mut self.array
    }
}

impl<A> Drop for Recorded<'_, A> {
    fn drop(&mut self) {
        let mut events = self.events.borrow_mut();
        let now = events.time;
        events.buffers[self.index].lifetime.end = now;
        events.time += 1;
    }
}

impl<S: Scratch> fmt::Debug for Recorder<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("arrays", &self.events.borrow().buffers.len())
            .finish_non_exhaustive()
    }
}

impl<A: fmt::Debug> fmt::Debug for Recorded<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.array.fmt(f)
    }
}
