//! The exclusive, stream-ordered right to use a workspace.

use std::cell::{Cell, RefCell};
use std::fmt;

use crate::frame::Frame;
use crate::gate::Pass;
use crate::platform::{CaptureId, Platform, Stream};
use crate::program::ProgramRecord;
use crate::workspace::{Order, Workspace};
use crate::{DevicePtr, Error};

/// The right to use a workspace, or the part of it that is not reserved, until it is dropped.
///
/// Nobody else holds one at the same time, and work enqueued on its stream starts after all that
/// the last holder enqueued. Dropping a lease does not wait for the device: the next holder's work
/// is ordered after this one's.
///
/// A lease stays on the thread that took it, so that a thread which asks twice can be told so
/// instead of waiting for itself.
pub struct Lease<'w, P: Platform> {
    workspace: &'w Workspace<P>,
    stream: &'w P::Stream,
    /// The right to be inside the workspace's gate, which keeps the lease on its thread.
    pass: Pass<'w, Order<P>>,
    program: Option<&'w ProgramRecord>,
    /// The capture that the lease belongs to, if its work becomes part of a graph.
    captured: Option<CaptureId>,
    /// Address after the last byte that may be used; grows with a workspace that does.
    limit: Cell<usize>,
    /// The highest address that a frame has reached.
    peak: Cell<usize>,
    /// What a frame found when it was dropped and could not return.
    trouble: RefCell<Option<Box<Error>>>,
}

impl<'w, P: Platform> Lease<'w, P> {
    #[inline]
    pub(crate) fn new(
        workspace: &'w Workspace<P>,
        stream: &'w P::Stream,
        pass: Pass<'w, Order<P>>,
        program: Option<&'w ProgramRecord>,
        captured: Option<CaptureId>,
    ) -> Self {
        Self {
            workspace,
            stream,
            pass,
            program,
            captured,
            limit: Cell::new(workspace.limit()),
            peak: Cell::new(workspace.base().address()),
            trouble: RefCell::new(None),
        }
    }

    /// Opens a frame: arrays come from it, and all go when it ends.
    #[inline]
    pub fn frame(&mut self) -> Frame<'_, P> {
        Frame::outermost(self, None)
    }

    /// As [`Lease::frame`], with a name for messages.
    pub fn named_frame<'l>(&'l mut self, name: &'l str) -> Frame<'l, P> {
        Frame::outermost(self, Some(name))
    }

    /// Ends the lease, and says what guard mode found in frames that were dropped without
    /// [`Frame::finish`].
    ///
    /// # Errors
    /// [`Error::Guard`]; or the driver's, if red zones could not be read.
    pub fn finish(self) -> Result<(), Error> {
        match self.trouble.take() {
            Some(error) => Err(*error),
            None => Ok(()),
        }
    }

    /// The first byte that the lease covers.
    pub fn base(&self) -> DevicePtr {
        self.workspace.base()
    }

    /// How many bytes it covers.
    pub fn size(&self) -> usize {
        self.limit.get() - self.workspace.base().address()
    }

    /// The stream it is ordered on.
    pub fn stream(&self) -> &'w P::Stream {
        self.stream
    }

    /// The workspace it is of.
    pub fn workspace(&self) -> &'w Workspace<P> {
        self.workspace
    }

    /// The capture that the lease belongs to, if its stream was being captured into a graph when it
    /// was taken. Its work runs when the graph is launched; the launch needs a lease of its own.
    pub fn captured(&self) -> Option<CaptureId> {
        self.captured
    }

    /// Refuses work that would run at once, and so in nobody's order, in a lease for a capture that
    /// has ended.
    #[inline]
    pub(crate) fn check_capture(&self) -> Result<(), Error> {
        match self.captured {
            None => Ok(()),
            Some(capture) => self.check_captured(capture),
        }
    }

    #[cold]
    fn check_captured(&self, capture: CaptureId) -> Result<(), Error> {
        if self.stream.capture()? == Some(capture) {
            return Ok(());
        }
        Err(Error::Capturing {
            platform: P::NAME,
            device: self.workspace.device(),
            what: "the capture that the lease was taken in has ended, and work cannot be enqueued in it",
            advice: "drop the lease and take another one for work outside of the graph",
        })
    }

    /// The program it was taken for.
    pub fn program(&self) -> Option<String> {
        self.program.map(|program| program.name.to_string())
    }

    #[inline]
    pub(crate) fn limit(&self) -> usize {
        self.limit.get()
    }

    /// Sees to it that the lease covers `bytes`, by growing the workspace if it grows. Whether it does
    /// now is for the caller to look at.
    #[cold]
    pub(crate) fn grow_to(&self, bytes: usize, what: impl FnOnce() -> String) -> Result<(), Error> {
        let workspace = self.workspace;
        if bytes <= self.size() || !workspace.grows() {
            return Ok(());
        }
        if self.captured.is_some() {
            return Err(Error::Capturing {
                platform: P::NAME,
                device: workspace.device(),
                what: "the workspace cannot grow",
                advice: "call grow with the size that the graph needs before the capture begins",
            });
        }
        workspace.grow_front(bytes, what)?;
        self.limit.set(workspace.limit());
        Ok(())
    }

    /// Sees to it that the lease covers `bytes` from its beginning, which a program places things in by
    /// itself, and counts them as used. `what` is called so in messages.
    ///
    /// # Errors
    /// [`Error::Exhausted`] if it does not and the workspace cannot grow; or why it cannot.
    pub fn cover(&mut self, bytes: usize, what: &str) -> Result<(), Error> {
        self.cover_for(bytes, || what.to_owned())?;
        self.reach(self.base().address() + bytes);
        Ok(())
    }

    #[inline]
    pub(crate) fn cover_for(&self, bytes: usize, what: impl Fn() -> String) -> Result<(), Error> {
        if bytes <= self.size() {
            return Ok(());
        }
        self.grow_to(bytes, &what)?;
        if bytes <= self.size() {
            return Ok(());
        }
        let workspace = self.workspace;
        let reserved = workspace.size() - self.size();
        Err(Error::Exhausted {
            platform: P::NAME,
            device: workspace.device(),
            what: what(),
            requested: bytes,
            available: self.size(),
            size: workspace.size(),
            size_origin: workspace.size_origin().map(str::to_owned),
            needed_size: bytes.saturating_add(reserved),
        })
    }

    #[inline]
    pub(crate) fn reach(&self, address: usize) {
        self.peak.set(self.peak.get().max(address));
    }

    /// Keeps the first error that a frame could not return.
    pub(crate) fn keep_trouble(&self, error: Error) {
        self.trouble
            .borrow_mut()
            .get_or_insert_with(|| Box::new(error));
    }
}

impl<P: Platform> Drop for Lease<'_, P> {
    #[inline]
    fn drop(&mut self) {
        let used = self.peak.get() - self.workspace.base().address();
        let trouble = self.trouble.get_mut().take();
        let workspace = self.workspace;
        workspace.end_lease(&mut self.pass, self.stream, self.captured, trouble);
        workspace.note_use(self.program, used);
    }
}

impl<P: Platform> fmt::Debug for Lease<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("workspace", self.workspace)
            .field("program", &self.program())
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}
