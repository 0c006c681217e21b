//! Leases on streams that are captured into graphs.
//!
//! A capture takes work down and runs none of it. So a lease in one is ordered against the other
//! leases of the same capture, by edges of the graph, and against nothing else: the launch of the
//! graph is work under a lease of its own, and that one is ordered as every lease is.

use crate::Error;
use crate::platform::{CaptureId, Platform, Stream, StreamId};
use crate::workspace::Workspace;

/// The captures in which the workspace was leased and that may still go on.
pub(crate) struct Captures<P: Platform> {
    open: Vec<Capture<P>>,
}

impl<P: Platform> Default for Captures<P> {
    fn default() -> Self {
        Self { open: Vec::new() }
    }
}

struct Capture<P: Platform> {
    id: CaptureId,
    /// The streams that leased in it. One that is seen in another capture proves that this one is
    /// over: a stream leaves a capture only with all of it.
    streams: Vec<StreamId>,
    tail: Tail<P>,
    /// A point of the capture, so no other capture can use it.
    event: P::Event,
}

/// What the last holder in the capture left behind.
enum Tail<P: Platform> {
    Stream(P::Stream),
    /// The capture's event was recorded behind it.
    Recorded,
    /// It could not be recorded.
    Lost(Error),
}

impl<P: Platform> Workspace<P> {
    /// Orders `stream` after the last holder in the same capture.
    #[cold]
    pub(crate) fn enter_capture(
        &self,
        captures: &mut Captures<P>,
        stream: &P::Stream,
        id: CaptureId,
    ) -> Result<(), Error> {
        if self.guard() {
            return Err(Error::Capturing {
                platform: P::NAME,
                device: self.device(),
                what: "guard mode cannot check red zones",
                advice: "capture without guard mode, or run under it without capturing",
            });
        }
        let open = &mut captures.open;
        open.retain(|capture| capture.id == id || !capture.streams.contains(&stream.id()));
        let index = if let Some(index) = open.iter().position(|capture| capture.id == id) {
            open[index].order(stream)?;
            index
        } else {
            open.push(Capture {
                id,
                streams: Vec::new(),
                tail: Tail::Recorded,
                event: self.create_event()?,
            });
            open.len() - 1
        };
        let capture = &mut open[index];
        if !capture.streams.contains(&stream.id()) {
            capture.streams.push(stream.id());
        }
        // A stream that is not owned leaves its mark when the lease ends.
        if stream.is_owned() {
            capture.tail = Tail::Stream(stream.clone());
        }
        Ok(())
    }
}

impl<P: Platform> Capture<P> {
    /// Makes `stream` wait for the last holder, by an edge of the graph.
    fn order(&self, stream: &P::Stream) -> Result<(), Error> {
        match &self.tail {
            Tail::Stream(last) if last.id() == stream.id() => Ok(()),
            Tail::Stream(last) => {
                last.record(&self.event)?;
                stream.wait(&self.event)
            }
            Tail::Recorded => stream.wait(&self.event),
            Tail::Lost(error) => Err(error.clone()),
        }
    }
}

impl<P: Platform> Captures<P> {
    /// Ends a lease in a capture: marks its end on a stream that may be gone soon.
    #[cold]
    pub(crate) fn leave(&mut self, stream: &P::Stream, id: CaptureId) {
        if stream.is_owned() {
            return;
        }
        let Some(capture) = self.open.iter_mut().find(|capture| capture.id == id) else {
            return;
        };
        capture.tail = match stream.capture() {
            // The capture is over, and nobody will lease in it any more.
            Ok(now) if now != Some(id) => Tail::Recorded,
            Ok(_) => match stream.record(&capture.event) {
                Ok(()) => Tail::Recorded,
                Err(error) => Tail::Lost(error),
            },
            Err(error) => Tail::Lost(error),
        };
    }
}
