//! Captures of streams into graphs, graphs that are launched, and the objects that they keep alive.
//!
//! A captured stream's work becomes nodes with the nodes that come before; events carry the order from
//! stream to stream, as they do for work that runs. A launch puts the nodes on hidden streams, one for
//! each chain of nodes, so that two nodes with no path between them run in any order, and the race
//! detector sees them as what they are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::thread::ThreadId;

use crate::world::{Action, Code, EventId, Key, Stream, StreamId, Touch, Violation, World};

/// What cannot be while a stream is captured; HIP and CUDA have the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[non_exhaustive]
pub enum CaptureFault {
    /// The call cannot become part of a graph.
    Unsupported = 900,
    /// An earlier fault has spoilt the capture.
    Invalidated = 901,
    /// Two captures would become one.
    Merge = 902,
    /// The capture did not begin on this stream.
    Unmatched = 903,
    /// Work of another stream in the capture was not joined again.
    Unjoined = 904,
    /// The graph would depend on work outside of it.
    Isolation = 905,
    /// The default stream's rules would add an order that a graph cannot have.
    Implicit = 906,
    /// The event marks a point of a graph.
    CapturedEvent = 907,
    /// The capture began on another thread.
    WrongThread = 908,
}

/// Which calls a capture rules out on which threads: those that could wait for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureMode {
    /// On every thread.
    Global,
    /// On the thread that began the capture.
    ThreadLocal,
    /// Nowhere.
    Relaxed,
}

impl CaptureMode {
    /// The mode of this number, the same in HIP and CUDA.
    ///
    /// # Errors
    /// [`Code::InvalidValue`].
    pub fn of(number: u32) -> Result<Self, Code> {
        match number {
            0 => Ok(Self::Global),
            1 => Ok(Self::ThreadLocal),
            2 => Ok(Self::Relaxed),
            _ => Err(Code::InvalidValue),
        }
    }
}

/// Whether a stream is captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureStatus {
    /// It is not.
    None,
    /// By the capture of this number.
    Active(u64),
    /// By one that a fault has spoilt.
    Invalidated(u64),
}

impl CaptureStatus {
    /// The status as a number, the same in HIP and CUDA, and the capture's number.
    #[must_use]
    pub fn numbers(self) -> (i32, u64) {
        match self {
            Self::None => (0, 0),
            Self::Active(id) => (1, id),
            Self::Invalidated(id) => (2, id),
        }
    }
}

/// What is done when nobody needs an object any more: the function, and what it is called with.
#[derive(Clone, Copy, Debug)]
pub struct Destructor {
    /// The function.
    pub function: unsafe extern "C" fn(*mut std::ffi::c_void),
    /// Its argument.
    pub argument: *mut std::ffi::c_void,
}

// SAFETY: the driver calls it from whichever thread lets go last; whoever makes one knows that.
unsafe impl Send for Destructor {}

/// A point of a capture.
#[derive(Clone, Default)]
pub(crate) struct Captured {
    pub(crate) capture: u64,
    /// The last node on each path that leads here.
    frontier: Vec<usize>,
}

#[derive(Clone)]
struct Node {
    device: u32,
    before: Vec<usize>,
    action: Action,
    touches: Vec<Touch>,
    call: &'static str,
}

struct Capture {
    origin: Key,
    thread: ThreadId,
    mode: CaptureMode,
    nodes: Vec<Node>,
    /// Where each of its streams is.
    frontiers: HashMap<Key, Vec<usize>>,
    spoilt: bool,
}

#[derive(Default)]
struct Graph {
    nodes: Vec<Node>,
    objects: BTreeMap<u64, u32>,
}

#[derive(Default)]
struct Executable {
    nodes: Vec<Node>,
    /// The hidden stream of each node.
    lanes: Vec<Key>,
    objects: BTreeMap<u64, u32>,
    /// Where the last launch ends.
    end: Option<(Key, u64, crate::clock::Clock)>,
}

struct Object {
    references: u32,
    destructor: Destructor,
}

#[derive(Default)]
pub(crate) struct Graphs {
    captures: BTreeMap<u64, Capture>,
    graphs: HashMap<u64, Graph>,
    executables: HashMap<u64, Executable>,
    objects: HashMap<u64, Object>,
    /// What nobody needs any more; run when the driver's lock is open.
    pub(crate) due: Vec<Destructor>,
}

impl World {
    fn new_handle(&mut self) -> u64 {
        self.next_handle += 1;
        self.next_handle - 1
    }

    // Captures

    pub(crate) fn begin_capture(
        &mut self,
        call: &'static str,
        device: u32,
        stream: StreamId,
        mode: CaptureMode,
    ) -> Result<(), Code> {
        if stream.0 == 0 {
            // Every blocking stream is ordered with it.
            return Err(Code::Capture(CaptureFault::Unsupported));
        }
        let key = self.stream_anywhere(call, device, stream)?;
        let id = self.new_handle();
        let Some(stream) = self.streams.get_mut(&key) else {
            return Err(Code::InvalidHandle);
        };
        if stream.capture.is_some() {
            return Err(Code::InvalidValue);
        }
        stream.capture = Some(id);
        self.graphs.captures.insert(
            id,
            Capture {
                origin: key,
                thread: std::thread::current().id(),
                mode,
                nodes: Vec::new(),
                frontiers: [(key, Vec::new())].into(),
                spoilt: false,
            },
        );
        Ok(())
    }

    pub(crate) fn capture_status(
        &mut self,
        call: &'static str,
        device: u32,
        stream: StreamId,
    ) -> Result<CaptureStatus, Code> {
        if stream.0 == 0 {
            let busy = self.captured_streams(device, Stream::is_blocking);
            return match busy.is_empty() {
                true => Ok(CaptureStatus::None),
                false => Err(Code::Capture(CaptureFault::Implicit)),
            };
        }
        let key = self.stream_anywhere(call, device, stream)?;
        Ok(match self.streams.get(&key).and_then(|s| s.capture) {
            None => CaptureStatus::None,
            Some(id) if self.graphs.captures.get(&id).is_some_and(|c| c.spoilt) => {
                CaptureStatus::Invalidated(id)
            }
            Some(id) => CaptureStatus::Active(id),
        })
    }

    /// Ends a capture, which makes a graph of it, or nothing if it was spoilt.
    pub(crate) fn end_capture(
        &mut self,
        call: &'static str,
        device: u32,
        stream: StreamId,
    ) -> Result<u64, Code> {
        let fault = |fault| Err(Code::Capture(fault));
        let key = self.stream_anywhere(call, device, stream)?;
        let Some(id) = self.streams.get(&key).and_then(|stream| stream.capture) else {
            return Err(Code::InvalidValue);
        };
        let Some(capture) = self.graphs.captures.get_mut(&id) else {
            return Err(Code::InvalidValue);
        };
        if capture.origin != key {
            capture.spoilt = true;
            return fault(CaptureFault::Unmatched);
        }
        if capture.mode != CaptureMode::Relaxed && capture.thread != std::thread::current().id() {
            return fault(CaptureFault::WrongThread);
        }
        let Some(capture) = self.graphs.captures.remove(&id) else {
            return Err(Code::InvalidValue);
        };
        for key in capture.frontiers.keys() {
            if let Some(stream) = self.streams.get_mut(key) {
                stream.capture = None;
            }
        }
        if capture.spoilt {
            return fault(CaptureFault::Invalidated);
        }
        let joined = capture.ancestors(&capture.frontiers[&key]);
        if capture
            .frontiers
            .values()
            .flatten()
            .any(|node| !joined.contains(node))
        {
            return fault(CaptureFault::Unjoined);
        }
        let graph = self.new_handle();
        let nodes = capture.nodes;
        let objects = BTreeMap::new();
        self.graphs.graphs.insert(graph, Graph { nodes, objects });
        Ok(graph)
    }

    /// Where a captured stream is; nothing for one that is not captured.
    pub(crate) fn captured_point(&self, key: Key) -> Result<Option<Captured>, Code> {
        let Some(id) = self.streams.get(&key).and_then(|stream| stream.capture) else {
            return Ok(None);
        };
        match self.graphs.captures.get(&id) {
            Some(capture) if !capture.spoilt => Ok(Some(Captured {
                capture: id,
                frontier: capture.frontiers.get(&key).cloned().unwrap_or_default(),
            })),
            _ => Err(Code::Capture(CaptureFault::Invalidated)),
        }
    }

    /// Makes a node of work.
    pub(crate) fn take_down(
        &mut self,
        call: &'static str,
        key: Key,
        action: Action,
        touches: &[Touch],
    ) -> Result<(), Code> {
        let Some(id) = self.streams.get(&key).and_then(|stream| stream.capture) else {
            return Err(Code::InvalidHandle);
        };
        let Some(capture) = self.graphs.captures.get_mut(&id) else {
            return Err(Code::InvalidHandle);
        };
        let node = capture.nodes.len();
        let frontier = capture.frontiers.entry(key).or_default();
        capture.nodes.push(Node {
            device: key.0,
            before: std::mem::replace(frontier, vec![node]),
            action,
            touches: touches.to_vec(),
            call,
        });
        Ok(())
    }

    /// What a wait means where a capture is involved; false if none is.
    pub(crate) fn wait_in_capture(
        &mut self,
        call: &'static str,
        key: Key,
        event: EventId,
    ) -> Result<bool, Code> {
        let here = self.captured_point(key)?;
        let event = self.event(call, event)?;
        let never = event.is_never_recorded();
        match (here, event.captured.clone()) {
            (None, None) => Ok(false),
            (Some(_), None) if never => Ok(true),
            (Some(here), None) => Err(self.spoil(here.capture, CaptureFault::Isolation)),
            (Some(here), Some(there)) if here.capture != there.capture => {
                Err(self.spoil(here.capture, CaptureFault::Merge))
            }
            (_, Some(there)) => {
                let Some(capture) = self.graphs.captures.get_mut(&there.capture) else {
                    return Err(Code::Capture(CaptureFault::CapturedEvent));
                };
                let frontier = capture.frontiers.entry(key).or_default();
                frontier.extend(there.frontier);
                frontier.sort_unstable();
                frontier.dedup();
                if let Some(stream) = self.streams.get_mut(&key) {
                    stream.capture = Some(there.capture);
                }
                Ok(true)
            }
        }
    }

    /// Spoils a capture, and says why.
    pub(crate) fn spoil(&mut self, capture: u64, fault: CaptureFault) -> Code {
        if let Some(capture) = self.graphs.captures.get_mut(&capture) {
            capture.spoilt = true;
        }
        Code::Capture(fault)
    }

    /// Refuses what waits for a stream that is captured.
    pub(crate) fn check_not_captured(&mut self, key: Key) -> Result<(), Code> {
        match self.streams.get(&key).and_then(|stream| stream.capture) {
            None => Ok(()),
            Some(capture) => Err(self.spoil(capture, CaptureFault::Unsupported)),
        }
    }

    /// Refuses calls that could wait for the device, where a capture rules them out.
    pub(crate) fn check_unsafe_call(&mut self) -> Result<(), Code> {
        let here = std::thread::current().id();
        let ruled_out = self
            .graphs
            .captures
            .values_mut()
            .find(|capture| match capture.mode {
                CaptureMode::Global => true,
                CaptureMode::ThreadLocal => capture.thread == here,
                CaptureMode::Relaxed => false,
            });
        match ruled_out {
            None => Ok(()),
            Some(capture) => {
                capture.spoilt = true;
                Err(Code::Capture(CaptureFault::Unsupported))
            }
        }
    }

    /// Refuses work on the default stream that would have to wait for a captured one.
    pub(crate) fn check_implicit(&mut self, key: Key) -> Result<(), Code> {
        if key.1.0 != 0 {
            return Ok(());
        }
        let captured = self.captured_streams(key.0, Stream::is_blocking);
        match captured.first().and_then(|key| self.streams[key].capture) {
            None => Ok(()),
            Some(capture) => Err(self.spoil(capture, CaptureFault::Implicit)),
        }
    }

    pub(crate) fn captured_streams(
        &self,
        device: u32,
        which: impl Fn(&Stream) -> bool,
    ) -> Vec<Key> {
        if self.graphs.captures.is_empty() {
            return Vec::new();
        }
        self.streams
            .iter()
            .filter(|(key, stream)| key.0 == device && stream.capture.is_some() && which(stream))
            .map(|(key, _)| *key)
            .collect()
    }

    /// Spoils the capture of a stream that is destroyed.
    pub(crate) fn leave_capture(&mut self, key: Key) {
        let capture = self
            .streams
            .get_mut(&key)
            .and_then(|stream| stream.capture.take());
        if let Some(capture) = capture.and_then(|id| self.graphs.captures.get_mut(&id)) {
            capture.spoilt = true;
        }
    }

    // Graphs

    fn no_such<T>(&mut self, call: &'static str, what: &str, handle: u64) -> Result<T, Code> {
        self.violate(
            Violation::BadHandle {
                call,
                what: format!("{what} {handle:#x}"),
                why: "does not exist, or was destroyed".into(),
            },
            Code::InvalidValue,
        )
    }

    pub(crate) fn instantiate(&mut self, call: &'static str, graph: u64) -> Result<u64, Code> {
        let Some(found) = self.graphs.graphs.get(&graph) else {
            return self.no_such(call, "graph", graph);
        };
        let nodes = found.nodes.clone();
        let objects: BTreeMap<u64, u32> = found.objects.keys().map(|id| (*id, 1)).collect();
        for id in objects.keys() {
            if let Some(object) = self.graphs.objects.get_mut(id) {
                object.references += 1;
            }
        }
        // A node goes on where its predecessor is the last on a hidden stream, or on a new one.
        let mut lanes: Vec<Key> = Vec::with_capacity(nodes.len());
        let mut last: HashMap<Key, usize> = HashMap::new();
        for (index, node) in nodes.iter().enumerate() {
            let lane = node
                .before
                .iter()
                .map(|before| (lanes[*before], *before))
                .find(|(lane, before)| last.get(lane) == Some(before) && lane.0 == node.device);
            let lane = match lane {
                Some((lane, _)) => lane,
                None => {
                    let key = (node.device, StreamId(self.new_handle()));
                    let slot = self.take_slot();
                    self.streams.insert(key, Stream::new(slot, false));
                    key
                }
            };
            last.insert(lane, index);
            lanes.push(lane);
        }
        let handle = self.new_handle();
        let executable = Executable {
            nodes,
            lanes,
            objects,
            end: None,
        };
        self.graphs.executables.insert(handle, executable);
        Ok(handle)
    }

    pub(crate) fn launch(
        &mut self,
        call: &'static str,
        device: u32,
        executable: u64,
        stream: StreamId,
    ) -> Result<(), Code> {
        let key = self.stream_anywhere(call, device, stream)?;
        self.check_not_captured(key)?;
        let Some(mut found) = self.graphs.executables.remove(&executable) else {
            return self.no_such(call, "executable graph", executable);
        };
        let outcome = self.launch_nodes(call, key, &mut found);
        self.graphs.executables.insert(executable, found);
        outcome
    }

    fn launch_nodes(
        &mut self,
        call: &'static str,
        key: Key,
        executable: &mut Executable,
    ) -> Result<(), Code> {
        // One launch of a graph follows the last one.
        let mut points = Vec::new();
        if let Some((other, point, clock)) = executable.end.take() {
            points.push((other, point));
            if let Some(stream) = self.streams.get_mut(&key) {
                stream.clock.join(&clock);
            }
        }
        self.enqueue_after(call, key, Action::Nothing, &[], points)?;
        let begin = (
            key,
            self.streams[&key].enqueued,
            self.streams[&key].clock.clone(),
        );
        let mut reached: Vec<(Key, u64, crate::clock::Clock)> = Vec::new();
        for (node, lane) in executable.nodes.iter().zip(&executable.lanes) {
            let before: Vec<_> = match node.before[..] {
                [] => vec![begin.clone()],
                [..] => node
                    .before
                    .iter()
                    .map(|index| reached[*index].clone())
                    .collect(),
            };
            if let Some(stream) = self.streams.get_mut(lane) {
                before
                    .iter()
                    .for_each(|(_, _, clock)| stream.clock.join(clock));
            }
            let points = before
                .iter()
                .map(|(key, point, _)| (*key, *point))
                .collect();
            self.enqueue_after(node.call, *lane, node.action.clone(), &node.touches, points)?;
            let stream = &self.streams[lane];
            reached.push((*lane, stream.enqueued, stream.clock.clone()));
        }
        if let Some(stream) = self.streams.get_mut(&key) {
            reached
                .iter()
                .for_each(|(_, _, clock)| stream.clock.join(clock));
        }
        let points = reached
            .iter()
            .map(|(key, point, _)| (*key, *point))
            .collect();
        self.enqueue_after(call, key, Action::Nothing, &[], points)?;
        let stream = &self.streams[&key];
        executable.end = Some((key, stream.enqueued, stream.clock.clone()));
        Ok(())
    }

    pub(crate) fn destroy_graph(&mut self, call: &'static str, graph: u64) -> Result<(), Code> {
        let Some(graph) = self.graphs.graphs.remove(&graph) else {
            return self.no_such(call, "graph", graph);
        };
        self.let_go(&graph.objects);
        Ok(())
    }

    /// Destroys an executable graph, after its last launch.
    pub(crate) fn destroy_executable(
        &mut self,
        call: &'static str,
        executable: u64,
    ) -> Result<(), Code> {
        let Some(executable) = self.graphs.executables.remove(&executable) else {
            return self.no_such(call, "executable graph", executable);
        };
        if let Some((key, point, _)) = executable.end {
            self.run(key, point);
        }
        let lanes: HashSet<Key> = executable.lanes.into_iter().collect();
        for lane in lanes {
            self.destroy_stream(call, lane.1)?;
        }
        self.let_go(&executable.objects);
        Ok(())
    }

    // Objects that graphs keep alive

    pub(crate) fn create_object(
        &mut self,
        destructor: Destructor,
        references: u32,
    ) -> Result<u64, Code> {
        if references == 0 {
            return Err(Code::InvalidValue);
        }
        let handle = self.new_handle();
        let object = Object {
            references,
            destructor,
        };
        self.graphs.objects.insert(handle, object);
        Ok(handle)
    }

    /// Gives a graph references to an object: the caller's, or new ones.
    pub(crate) fn retain_in_graph(
        &mut self,
        call: &'static str,
        graph: u64,
        object: u64,
        count: u32,
        moves: bool,
    ) -> Result<(), Code> {
        let Some(found) = self.graphs.objects.get_mut(&object) else {
            return self.no_such(call, "user object", object);
        };
        let Some(graph_found) = self.graphs.graphs.get_mut(&graph) else {
            return self.no_such(call, "graph", graph);
        };
        if !moves {
            found.references += count;
        }
        *graph_found.objects.entry(object).or_default() += count;
        Ok(())
    }

    /// Takes references back that the caller holds.
    pub(crate) fn release_object(
        &mut self,
        call: &'static str,
        object: u64,
        count: u32,
    ) -> Result<(), Code> {
        if !self.graphs.objects.contains_key(&object) {
            return self.no_such(call, "user object", object);
        }
        self.let_go(&[(object, count)].into());
        Ok(())
    }

    fn let_go(&mut self, objects: &BTreeMap<u64, u32>) {
        for (id, count) in objects {
            let Some(object) = self.graphs.objects.get_mut(id) else {
                continue;
            };
            object.references = object.references.saturating_sub(*count);
            if object.references == 0
                && let Some(object) = self.graphs.objects.remove(id)
            {
                self.graphs.due.push(object.destructor);
            }
        }
    }
}

impl Capture {
    /// The nodes from which a path leads to one of these, and these.
    fn ancestors(&self, nodes: &[usize]) -> HashSet<usize> {
        let mut found: HashSet<usize> = HashSet::new();
        let mut open = nodes.to_vec();
        while let Some(node) = open.pop() {
            if found.insert(node) {
                open.extend(&self.nodes[node].before);
            }
        }
        found
    }
}
