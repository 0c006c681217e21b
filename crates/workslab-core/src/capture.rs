//! Leases on streams that are captured into graphs.
//!
//! A capture takes work down and runs none of it. So a lease in one is ordered against the other
//! leases of the same capture, by edges of the graph, and against nothing else: the launch of the
//! graph is work under a lease of its own, and that one is ordered as every lease is.

use std::sync::Arc;

use crate::Error;
use crate::gate::GateState;
use crate::platform::{CaptureId, Platform, Stream, StreamId};
use crate::sync::MutexGuard;
use crate::workspace::{Inside, Workspace};

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
    event: Arc<P::Event>,
}

/// What the last holder in the capture left behind.
enum Tail<P: Platform> {
    Stream(P::Stream),
    /// The capture's event was recorded behind it.
    Recorded,
    /// It could not be recorded.
    Lost(Error),
}

impl<P: Platform> Clone for Tail<P> {
    fn clone(&self) -> Self {
        match self {
            Self::Stream(stream) => Self::Stream(stream.clone()),
            Self::Recorded => Self::Recorded,
            Self::Lost(error) => Self::Lost(error.clone()),
        }
    }
}

type State<'g, P> = MutexGuard<'g, GateState<Inside<P>>>;

impl<P: Platform> Workspace<P> {
    /// Orders `stream` after the last holder in the same capture. The caller is inside the gate; the
    /// mutex is open during the driver's calls.
    #[cold]
    pub(crate) fn enter_capture<'g>(
        &'g self,
        mut state: State<'g, P>,
        stream: &P::Stream,
        id: CaptureId,
    ) -> Result<State<'g, P>, Error> {
        let captures = &mut state.inside.captures.open;
        captures.retain(|capture| capture.id == id || !capture.streams.contains(&stream.id()));
        let last = captures
            .iter()
            .find(|capture| capture.id == id)
            .map(|capture| (capture.tail.clone(), Arc::clone(&capture.event)));
        drop(state);
        let ordered = self.order_in_capture(stream, last);
        let mut state = self.gate().peek();
        let event = match ordered {
            Ok(event) => event,
            Err(error) => {
                self.gate().leave(state);
                return Err(error);
            }
        };
        let captures = &mut state.inside.captures.open;
        let index = captures
            .iter()
            .position(|capture| capture.id == id)
            .unwrap_or_else(|| {
                captures.push(Capture {
                    id,
                    streams: Vec::new(),
                    tail: Tail::Recorded,
                    event,
                });
                captures.len() - 1
            });
        let capture = &mut captures[index];
        if !capture.streams.contains(&stream.id()) {
            capture.streams.push(stream.id());
        }
        // A stream that is not owned leaves its mark when the lease ends.
        if stream.is_owned() {
            capture.tail = Tail::Stream(stream.clone());
        }
        Ok(state)
    }

    /// The driver's part of [`Workspace::enter_capture`]; the result is the capture's event.
    fn order_in_capture(
        &self,
        stream: &P::Stream,
        last: Option<(Tail<P>, Arc<P::Event>)>,
    ) -> Result<Arc<P::Event>, Error> {
        if self.guard() {
            return Err(Error::Capturing {
                platform: P::NAME,
                device: self.device(),
                what: "guard mode cannot check red zones",
                advice: "capture without guard mode, or run under it without capturing",
            });
        }
        let Some((tail, event)) = last else {
            return self.create_event().map(Arc::new);
        };
        match tail {
            Tail::Stream(last) if last.id() == stream.id() => {}
            Tail::Stream(last) => {
                last.record(&event)?;
                stream.wait(&event)?;
            }
            Tail::Recorded => stream.wait(&event)?,
            Tail::Lost(error) => return Err(error),
        }
        Ok(event)
    }

    /// Ends a lease in a capture: marks its end on a stream that may be gone soon.
    #[cold]
    pub(crate) fn leave_capture(&self, stream: &P::Stream, id: CaptureId) {
        if stream.is_owned() {
            return;
        }
        let event = {
            let state = self.gate().peek();
            let captures = &state.inside.captures.open;
            let capture = captures.iter().find(|capture| capture.id == id);
            capture.map(|capture| Arc::clone(&capture.event))
        };
        let Some(event) = event else {
            return;
        };
        let tail = match stream.capture() {
            // The capture is over, and nobody will lease in it any more.
            Ok(now) if now != Some(id) => Tail::Recorded,
            Ok(_) => match stream.record(&event) {
                Ok(()) => Tail::Recorded,
                Err(error) => Tail::Lost(error),
            },
            Err(error) => Tail::Lost(error),
        };
        let mut state = self.gate().peek();
        let captures = &mut state.inside.captures.open;
        if let Some(capture) = captures.iter_mut().find(|capture| capture.id == id) {
            capture.tail = tail;
        }
    }
}
