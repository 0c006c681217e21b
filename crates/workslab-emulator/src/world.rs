//! The emulated devices: memory, streams, events, and the work that is queued on them.

use std::alloc::Layout;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::ptr::NonNull;

use thiserror::Error;

use crate::capture::{CaptureFault, Captured, Graphs};
use crate::clock::Clock;
use crate::shadow::{Access, Shadow};
use crate::virtual_memory::{Piece, Reservation};

/// What a call comes to when it does not succeed, in words that HIP and CUDA have codes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// An argument makes no sense.
    InvalidValue,
    /// The device has not that much memory left.
    OutOfMemory,
    /// There is no device at all.
    NoDevice,
    /// There is no such device.
    InvalidDevice,
    /// There is no such stream or event, or it is another device's.
    InvalidHandle,
    /// The work is not done yet.
    NotReady,
    /// The device has gone.
    DeviceLost,
    /// Something that cannot be while a stream is captured.
    Capture(CaptureFault),
    /// A fault that was asked for, with its code.
    Injected(i32),
}

/// A stream. 0 is the device's default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u64);

/// Something that no correct program does.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Two accesses with nothing that orders them.
    #[error(
        "race on device {device}: {second} (call {second_number}) {second_kind} bytes {from} to {to} of the allocation at {base:#x}, which {first} (call {first_number}) {first_kind} on another stream, and nothing orders the two"
    )]
    Race {
        /// The device.
        device: u32,
        /// The allocation's address.
        base: usize,
        /// The first byte that both touch.
        from: usize,
        /// The byte after the last.
        to: usize,
        /// The earlier call.
        first: &'static str,
        /// Its number in the process.
        first_number: u64,
        /// `reads` or `writes`.
        first_kind: &'static str,
        /// The later call.
        second: &'static str,
        /// Its number in the process.
        second_number: u64,
        /// `reads` or `writes`.
        second_kind: &'static str,
    },
    /// An access outside every allocation.
    #[error("{call} touches {len} bytes at {address:#x} on device {device}, which {why}")]
    OutOfBounds {
        /// The call.
        call: &'static str,
        /// The device.
        device: u32,
        /// The address.
        address: usize,
        /// How many bytes.
        len: usize,
        /// Why it may not.
        why: String,
    },
    /// A free of what cannot be freed.
    #[error("{call} frees {address:#x}, which {why}")]
    BadFree {
        /// The call.
        call: &'static str,
        /// The address.
        address: usize,
        /// Why it may not.
        why: String,
    },
    /// A handle that is not one, or not one any more, or another device's.
    #[error("{call} uses {what}, which {why}")]
    BadHandle {
        /// The call.
        call: &'static str,
        /// The handle in words.
        what: String,
        /// Why it may not.
        why: String,
    },
    /// Addresses or memory that cannot be had like that.
    #[error("{call} of {len} bytes at {address:#x}, which {why}")]
    BadMapping {
        /// The call.
        call: &'static str,
        /// The address.
        address: usize,
        /// How many bytes.
        len: usize,
        /// Why it may not.
        why: String,
    },
    /// Addresses, or memory without one, that were never given back.
    #[error("{what}, made by call {number}, were never given back")]
    LeftMapping {
        /// What it is, and how much.
        what: String,
        /// The call that made it.
        number: u64,
    },
    /// Memory that was never freed.
    #[error(
        "{bytes} bytes at {address:#x} on device {device}, made by call {number}, were never freed"
    )]
    Leak {
        /// The device.
        device: u32,
        /// The address.
        address: usize,
        /// How many bytes.
        bytes: usize,
        /// The call that allocated them.
        number: u64,
    },
}

/// Names a stream among all devices: a default stream has no id of its own.
pub(crate) type Key = (u32, StreamId);

struct Device {
    memory: usize,
    used: usize,
    lost: bool,
}

/// What new memory is full of: nobody may count on zeros.
pub(crate) const GARBAGE: u8 = 0xEB;

/// Where an allocation has its bytes from.
pub(crate) enum Backing {
    Own(NonNull<u8>, Layout),
    /// A piece of memory behind reserved addresses.
    Mapped {
        reservation: usize,
        piece: u64,
        accessible: bool,
    },
}

pub(crate) struct Allocation {
    pub(crate) device: u32,
    pub(crate) len: usize,
    pub(crate) backing: Backing,
    pub(crate) shadow: Shadow,
    pub(crate) number: u64,
}

// SAFETY: the memory belongs to the allocation, and the world is used under one lock.
unsafe impl Send for Allocation {}

/// A range of host memory that a caller lends until the work is done.
#[derive(Clone, Copy)]
pub(crate) struct HostRange(*mut u8);

// SAFETY: whoever enqueues a copy promises that the range stays until the copy is done, on whichever
// thread that happens.
unsafe impl Send for HostRange {}

#[derive(Clone)]
pub(crate) enum Action {
    /// Only a point to wait for.
    Nothing,
    Fill {
        at: usize,
        bytes: Vec<u8>,
        count: usize,
    },
    Copy {
        from: usize,
        to: usize,
        len: usize,
    },
    FromHost {
        from: HostRange,
        to: usize,
        len: usize,
    },
    ToHost {
        from: usize,
        to: HostRange,
        len: usize,
    },
}

struct Work {
    /// Points of other streams that must be reached before.
    after: Vec<(Key, u64)>,
    action: Action,
}

pub(crate) struct Stream {
    slot: usize,
    /// Whether the device's default stream waits for it, and it for the default stream.
    blocking: bool,
    queue: VecDeque<Work>,
    pub(crate) enqueued: u64,
    done: u64,
    pub(crate) clock: Clock,
    destroyed: bool,
    /// The capture it is in.
    pub(crate) capture: Option<u64>,
}

#[derive(Clone, Default)]
pub(crate) struct Event {
    device: u32,
    /// The point that was recorded last, and what its stream had seen by then.
    recorded: Option<(Key, u64, Clock)>,
    /// The point of a capture, if it was recorded in one last.
    pub(crate) captured: Option<Captured>,
    destroyed: bool,
}

pub(crate) struct World {
    devices: Vec<Device>,
    pub(crate) allocations: BTreeMap<usize, Allocation>,
    pub(crate) reservations: BTreeMap<usize, Reservation>,
    pub(crate) pieces: HashMap<u64, Piece>,
    pub(crate) streams: HashMap<Key, Stream>,
    events: HashMap<EventId, Event>,
    pub(crate) graphs: Graphs,
    /// What the host has waited for.
    pub(crate) host: Clock,
    pub(crate) next_handle: u64,
    next_slot: usize,
    /// Slots of destroyed streams whose work the host has seen: nothing can race with it any more.
    free_slots: Vec<usize>,
    random: u64,
    /// The number of the call that is being made.
    pub(crate) call_number: u64,
    pub(crate) violations: Vec<Violation>,
}

/// An access that is about to be enqueued: an address range, and whether it is a write.
#[derive(Clone)]
pub(crate) struct Touch {
    range: Range<usize>,
    write: bool,
}

impl World {
    pub(crate) fn new(devices: u32, memory: usize, seed: u64) -> Self {
        Self {
            devices: (0..devices)
                .map(|_| Device {
                    memory,
                    used: 0,
                    lost: false,
                })
                .collect(),
            allocations: BTreeMap::new(),
            reservations: BTreeMap::new(),
            pieces: HashMap::new(),
            streams: HashMap::new(),
            events: HashMap::new(),
            graphs: Graphs::default(),
            host: Clock::default(),
            next_handle: 1,
            next_slot: 0,
            free_slots: Vec::new(),
            random: seed,
            call_number: 0,
            violations: Vec::new(),
        }
    }

    pub(crate) fn device_count(&self) -> u32 {
        u32::try_from(self.devices.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn lose_device(&mut self, device: u32) {
        if let Some(device) = self.devices.get_mut(device as usize) {
            device.lost = true;
        }
        // Nothing runs on it any more.
        for (key, stream) in &mut self.streams {
            if key.0 == device {
                stream.queue.clear();
                stream.done = stream.enqueued;
            }
        }
    }

    /// The device's free bytes and all its bytes.
    pub(crate) fn memory(&mut self, device: u32) -> Result<(usize, usize), Code> {
        let device = self.device(device)?;
        Ok((device.memory - device.used, device.memory))
    }

    fn device(&mut self, device: u32) -> Result<&mut Device, Code> {
        if self.devices.is_empty() {
            return Err(Code::NoDevice);
        }
        let device = self
            .devices
            .get_mut(device as usize)
            .ok_or(Code::InvalidDevice)?;
        if device.lost {
            return Err(Code::DeviceLost);
        }
        Ok(device)
    }

    pub(crate) fn check_device(&mut self, device: u32) -> Result<(), Code> {
        self.device(device).map(|_| ())
    }

    // Memory

    pub(crate) fn allocate(&mut self, device: u32, len: usize) -> Result<usize, Code> {
        let number = self.call_number;
        self.check_unsafe_call()?;
        self.check_device(device)?;
        if len == 0 {
            return Ok(0);
        }
        let layout = Layout::from_size_align(len, 4096).map_err(|_| Code::OutOfMemory)?;
        self.take_memory(device, len)?;
        // SAFETY: the layout has at least one byte.
        let Some(memory) = NonNull::new(unsafe { std::alloc::alloc(layout) }) else {
            self.give_memory(device, len);
            return Err(Code::OutOfMemory);
        };
        // SAFETY: the memory was just allocated with this length.
        unsafe { memory.write_bytes(GARBAGE, len) };
        let address = memory.as_ptr().expose_provenance();
        self.allocations.insert(
            address,
            Allocation {
                device,
                len,
                backing: Backing::Own(memory, layout),
                shadow: Shadow::default(),
                number,
            },
        );
        Ok(address)
    }

    /// Takes bytes of a device's memory, if it has them.
    pub(crate) fn take_memory(&mut self, device: u32, len: usize) -> Result<(), Code> {
        let state = self.device(device)?;
        if len > state.memory - state.used {
            return Err(Code::OutOfMemory);
        }
        state.used += len;
        Ok(())
    }

    /// Gives them back, also to a device that has gone.
    pub(crate) fn give_memory(&mut self, device: u32, len: usize) {
        if let Some(device) = self.devices.get_mut(device as usize) {
            device.used -= len;
        }
    }

    /// Frees an allocation, after all the device's work, as the drivers do.
    pub(crate) fn free(&mut self, call: &'static str, address: usize) -> Result<(), Code> {
        if address == 0 {
            return Ok(());
        }
        let Some(allocation) = self.allocations.get(&address) else {
            let why = match self.allocation_at(address) {
                Some((base, _)) => format!("lies inside the allocation at {base:#x}"),
                None => "is not allocated, or was freed before".into(),
            };
            return self.violate(
                Violation::BadFree { call, address, why },
                Code::InvalidValue,
            );
        };
        let device = allocation.device;
        let len = allocation.len;
        let Backing::Own(memory, layout) = allocation.backing else {
            let why = "is mapped, not allocated".into();
            return self.violate(
                Violation::BadFree { call, address, why },
                Code::InvalidValue,
            );
        };
        self.check_unsafe_call()?;
        self.finish_device(device)?;
        self.allocations.remove(&address);
        // SAFETY: allocated with this layout, and no work on it is left.
        unsafe { std::alloc::dealloc(memory.as_ptr(), layout) };
        self.give_memory(device, len);
        Ok(())
    }

    /// What was never freed.
    pub(crate) fn leaks(&self) -> Vec<Violation> {
        let mut leaks: Vec<Violation> = self
            .allocations
            .iter()
            .filter(|(_, allocation)| matches!(allocation.backing, Backing::Own(..)))
            .map(|(&address, allocation)| Violation::Leak {
                device: allocation.device,
                address,
                bytes: allocation.len,
                number: allocation.number,
            })
            .collect();
        leaks.extend(self.unmapped_leaks());
        leaks
    }

    fn allocation_at(&self, address: usize) -> Option<(usize, &Allocation)> {
        let (&base, allocation) = self.allocations.range(..=address).next_back()?;
        (address < base + allocation.len).then_some((base, allocation))
    }

    // Streams

    pub(crate) fn create_stream(&mut self, device: u32, blocking: bool) -> Result<StreamId, Code> {
        self.check_device(device)?;
        let id = StreamId(self.next_handle);
        self.next_handle += 1;
        let slot = self.take_slot();
        self.streams
            .insert((device, id), Stream::new(slot, blocking));
        Ok(id)
    }

    pub(crate) fn take_slot(&mut self) -> usize {
        self.free_slots.pop().unwrap_or_else(|| {
            self.next_slot += 1;
            self.next_slot - 1
        })
    }

    pub(crate) fn destroy_stream(
        &mut self,
        call: &'static str,
        stream: StreamId,
    ) -> Result<(), Code> {
        let key = self.find_stream(call, stream)?;
        self.leave_capture(key);
        // Its work goes on, so it stays until the last of it is done.
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.destroyed = true;
        }
        self.bury(key);
        Ok(())
    }

    /// Forgets a destroyed stream when its work is done. Its slot serves another stream once the
    /// host has seen all of it; before that a later stream would seem to have seen it too.
    fn bury(&mut self, key: Key) {
        let Some(stream) = self.streams.get(&key) else {
            return;
        };
        if !stream.destroyed || !stream.queue.is_empty() {
            return;
        }
        let slot = stream.slot;
        let seen = self.host.tick_of(slot) >= stream.clock.tick_of(slot);
        self.streams.remove(&key);
        if seen {
            self.free_slots.push(slot);
        }
    }

    /// The stream of this id that lives on any device but for the default stream, which is the given
    /// device's.
    pub(crate) fn find_stream(
        &mut self,
        call: &'static str,
        stream: StreamId,
    ) -> Result<Key, Code> {
        let devices = self.device_count();
        let found = (0..devices)
            .map(|device| (device, stream))
            .find(|key| self.streams.get(key).is_some_and(|s| !s.destroyed));
        match found {
            Some(key) if stream.0 != 0 => Ok(key),
            _ => self.violate(
                Violation::BadHandle {
                    call,
                    what: format!("stream {:#x}", stream.0),
                    why: "does not exist, or was destroyed".into(),
                },
                Code::InvalidHandle,
            ),
        }
    }

    /// A stream of any device; the default stream is the current device's.
    pub(crate) fn stream_anywhere(
        &mut self,
        call: &'static str,
        device: u32,
        stream: StreamId,
    ) -> Result<Key, Code> {
        if stream.0 == 0 {
            return self.stream_on(call, device, stream);
        }
        let key = self.find_stream(call, stream)?;
        self.check_device(key.0)?;
        Ok(key)
    }

    /// The stream as the current device sees it: one of another device is refused.
    pub(crate) fn stream_on(
        &mut self,
        call: &'static str,
        device: u32,
        stream: StreamId,
    ) -> Result<Key, Code> {
        self.check_device(device)?;
        if stream.0 == 0 {
            let key = (device, stream);
            if !self.streams.contains_key(&key) {
                let slot = self.take_slot();
                self.streams.insert(key, Stream::new(slot, true));
            }
            return Ok(key);
        }
        let key = self.find_stream(call, stream)?;
        if key.0 != device {
            return self.violate(
                Violation::BadHandle {
                    call,
                    what: format!("a stream of device {}", key.0),
                    why: format!("is not the current device, {device}"),
                },
                Code::InvalidHandle,
            );
        }
        Ok(key)
    }

    pub(crate) fn synchronize_stream(
        &mut self,
        call: &'static str,
        device: u32,
        stream: StreamId,
    ) -> Result<(), Code> {
        let key = self.stream_anywhere(call, device, stream)?;
        self.check_not_captured(key)?;
        // Also for a stream that is not captured, as CUDA 13 does (seen on an H200).
        self.check_unsafe_call()?;
        let after = self.implicit_order(key);
        for (other, point) in after {
            self.run(other, point);
        }
        self.squeeze(key);
        let goal = self.streams[&key].enqueued;
        self.run(key, goal);
        let clock = self.streams[&key].clock.clone();
        self.host.join(&clock);
        Ok(())
    }

    pub(crate) fn synchronize_device(&mut self, device: u32) -> Result<(), Code> {
        self.check_device(device)?;
        let mut captured: Vec<Key> = self.captured_streams(device, |_| true);
        captured.sort_unstable();
        for key in captured {
            self.check_not_captured(key)?;
        }
        self.finish_device(device)
    }

    fn finish_device(&mut self, device: u32) -> Result<(), Code> {
        self.check_device(device)?;
        let mut keys: Vec<Key> = self
            .streams
            .keys()
            .filter(|key| key.0 == device)
            .copied()
            .collect();
        keys.sort_unstable();
        for key in keys {
            // A destroyed stream goes when its last work is done, which may be before its turn.
            if let Some(stream) = self.streams.get(&key) {
                let goal = stream.enqueued;
                let clock = stream.clock.clone();
                self.host.join(&clock);
                self.run(key, goal);
                self.bury(key);
            }
        }
        Ok(())
    }

    // Events

    pub(crate) fn create_event(&mut self, device: u32) -> Result<EventId, Code> {
        self.check_device(device)?;
        let id = EventId(self.next_handle);
        self.next_handle += 1;
        self.events.insert(
            id,
            Event {
                device,
                recorded: None,
                captured: None,
                destroyed: false,
            },
        );
        Ok(id)
    }

    pub(crate) fn destroy_event(&mut self, call: &'static str, event: EventId) -> Result<(), Code> {
        self.event(call, event)?.destroyed = true;
        Ok(())
    }

    pub(crate) fn event(&mut self, call: &'static str, event: EventId) -> Result<&mut Event, Code> {
        if self.events.get(&event).is_none_or(|event| event.destroyed) {
            return self.violate(
                Violation::BadHandle {
                    call,
                    what: format!("event {:#x}", event.0),
                    why: "does not exist, or was destroyed".into(),
                },
                Code::InvalidHandle,
            );
        }
        self.events.get_mut(&event).ok_or(Code::InvalidHandle)
    }

    pub(crate) fn record(
        &mut self,
        call: &'static str,
        device: u32,
        event: EventId,
        stream: StreamId,
    ) -> Result<(), Code> {
        let key = self.stream_anywhere(call, device, stream)?;
        if self.event(call, event)?.device != key.0 {
            return self.violate(
                Violation::BadHandle {
                    call,
                    what: "an event of another device".into(),
                    why: format!("cannot be recorded on device {device}"),
                },
                Code::InvalidHandle,
            );
        }
        if let Some(point) = self.captured_point(key)? {
            let event = self.event(call, event)?;
            event.recorded = None;
            event.captured = Some(point);
            return Ok(());
        }
        self.enqueue(call, key, Action::Nothing, &[])?;
        let stream = &self.streams[&key];
        let recorded = (key, stream.enqueued, stream.clock.clone());
        let event = self.event(call, event)?;
        event.recorded = Some(recorded);
        event.captured = None;
        Ok(())
    }

    pub(crate) fn wait(
        &mut self,
        call: &'static str,
        device: u32,
        stream: StreamId,
        event: EventId,
    ) -> Result<(), Code> {
        let key = self.stream_anywhere(call, device, stream)?;
        if self.wait_in_capture(call, key, event)? {
            return Ok(());
        }
        let Some((other, point, clock)) = self.event(call, event)?.recorded.clone() else {
            return Ok(()); // an event that was never recorded has happened
        };
        self.enqueue(call, key, Action::Nothing, &[])?;
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.clock.join(&clock);
            if let Some(work) = stream.queue.back_mut() {
                work.after.push((other, point));
            }
        }
        Ok(())
    }

    /// Whether the event has happened, without doing anything for it.
    pub(crate) fn query(&mut self, call: &'static str, event: EventId) -> Result<bool, Code> {
        if let Some(point) = self.event(call, event)?.captured.clone() {
            return Err(self.spoil(point.capture, CaptureFault::CapturedEvent));
        }
        let Some((key, point, clock)) = self.event(call, event)?.recorded.clone() else {
            return Ok(true);
        };
        // A stream that is gone has done all its work.
        let reached = self
            .streams
            .get(&key)
            .is_none_or(|stream| stream.done >= point);
        if reached {
            self.host.join(&clock);
        }
        Ok(reached)
    }

    // Work

    pub(crate) fn fill(
        &mut self,
        call: &'static str,
        device: u32,
        stream: StreamId,
        at: usize,
        bytes: &[u8],
        count: usize,
    ) -> Result<(), Code> {
        let key = self.stream_on(call, device, stream)?;
        let len = bytes.len().checked_mul(count).ok_or(Code::InvalidValue)?;
        let action = Action::Fill {
            at,
            bytes: bytes.to_vec(),
            count,
        };
        self.enqueue(call, key, action, &[write(at, len)?])
    }

    pub(crate) fn copy(
        &mut self,
        call: &'static str,
        device: u32,
        stream: StreamId,
        from: usize,
        to: usize,
        len: usize,
    ) -> Result<(), Code> {
        let key = self.stream_on(call, device, stream)?;
        let action = Action::Copy { from, to, len };
        self.enqueue(call, key, action, &[read(from, len)?, write(to, len)?])
    }

    /// # Safety
    /// `from` points to `len` bytes that stay as they are until the copy is done.
    pub(crate) unsafe fn copy_from_host(
        &mut self,
        call: &'static str,
        device: u32,
        stream: StreamId,
        from: *const u8,
        to: usize,
        len: usize,
    ) -> Result<(), Code> {
        let key = self.stream_on(call, device, stream)?;
        let action = Action::FromHost {
            from: HostRange(from.cast_mut()),
            to,
            len,
        };
        self.enqueue(call, key, action, &[write(to, len)?])
    }

    /// # Safety
    /// `to` points to `len` bytes that nobody uses until the copy is done.
    pub(crate) unsafe fn copy_to_host(
        &mut self,
        call: &'static str,
        device: u32,
        stream: StreamId,
        from: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<(), Code> {
        let key = self.stream_on(call, device, stream)?;
        let action = Action::ToHost {
            from,
            to: HostRange(to),
            len,
        };
        self.enqueue(call, key, action, &[read(from, len)?])
    }

    /// Queues work, after checking what it touches.
    pub(crate) fn enqueue(
        &mut self,
        call: &'static str,
        key: Key,
        action: Action,
        touches: &[Touch],
    ) -> Result<(), Code> {
        self.enqueue_after(call, key, action, touches, Vec::new())
    }

    /// As [`World::enqueue`], behind points of other streams; their clocks are the caller's business.
    pub(crate) fn enqueue_after(
        &mut self,
        call: &'static str,
        key: Key,
        action: Action,
        touches: &[Touch],
        points: Vec<(Key, u64)>,
    ) -> Result<(), Code> {
        for touch in touches {
            self.check_bounds(call, key.0, touch)?;
        }
        self.check_implicit(key)?;
        if self.captured_point(key)?.is_some() {
            return self.take_down(call, key, action, touches);
        }
        let mut after = self.implicit_order(key);
        after.extend(points);
        let Some(stream) = self.streams.get_mut(&key) else {
            return Err(Code::InvalidHandle);
        };
        stream.clock.join(&self.host);
        let epoch = stream.clock.advance(stream.slot);
        let clock = stream.clock.clone();
        stream.queue.push_back(Work { after, action });
        stream.enqueued += 1;
        for touch in touches {
            self.note_access(call, key.0, touch, epoch, &clock);
        }
        Ok(())
    }

    /// What the default stream's rules add to the order: it waits for every blocking stream of its
    /// device, and they for it.
    fn implicit_order(&mut self, key: Key) -> Vec<(Key, u64)> {
        let (device, id) = key;
        if !self.streams.get(&key).is_some_and(|stream| stream.blocking) {
            return Vec::new();
        }
        let others: Vec<Key> = if id.0 == 0 {
            let mut blocking: Vec<Key> = self
                .streams
                .iter()
                .filter(|(other, stream)| other.0 == device && **other != key && stream.blocking)
                .map(|(other, _)| *other)
                .collect();
            blocking.sort_unstable();
            blocking
        } else {
            vec![(device, StreamId(0))]
        };
        let mut after = Vec::new();
        let mut seen = Clock::default();
        for other in others {
            if let Some(stream) = self.streams.get(&other) {
                after.push((other, stream.enqueued));
                seen.join(&stream.clock);
            }
        }
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.clock.join(&seen);
        }
        after
    }

    fn check_bounds(&mut self, call: &'static str, device: u32, touch: &Touch) -> Result<(), Code> {
        let address = touch.range.start;
        let len = touch.range.len();
        if len == 0 {
            return Ok(());
        }
        let Some(why) = self.out_of_bounds(device, &touch.range) else {
            return Ok(());
        };
        self.violate(
            Violation::OutOfBounds {
                call,
                device,
                address,
                len,
                why,
            },
            Code::InvalidValue,
        )
    }

    /// Why a range may not be touched. It may lie in several pieces that are mapped side by side.
    fn out_of_bounds(&self, device: u32, range: &Range<usize>) -> Option<String> {
        let mut at = range.start;
        let mut first = None;
        while at < range.end {
            let Some((base, allocation)) = self.allocation_at(at) else {
                return Some(match first {
                    None => "is not allocated".to_owned(),
                    Some(_) => format!("is mapped only up to {at:#x}"),
                });
            };
            if allocation.device != device {
                return Some(format!("belongs to device {}", allocation.device));
            }
            let end = base + allocation.len;
            match allocation.backing {
                Backing::Own(..) if range.end > end => {
                    return Some(format!(
                        "ends behind the allocation of {} bytes at {base:#x}",
                        allocation.len
                    ));
                }
                Backing::Own(..) => {}
                Backing::Mapped {
                    accessible: false, ..
                } => return Some(format!("nobody was given access to at {base:#x}")),
                Backing::Mapped { reservation, .. } => {
                    if *first.get_or_insert(reservation) != reservation {
                        return Some(format!("ends behind the addresses reserved up to {at:#x}"));
                    }
                }
            }
            at = end;
        }
        None
    }

    fn note_access(
        &mut self,
        call: &'static str,
        device: u32,
        touch: &Touch,
        epoch: crate::clock::Epoch,
        clock: &Clock,
    ) {
        if touch.range.is_empty() {
            return;
        }
        let number = self.call_number;
        let Some((first, _)) = self.allocation_at(touch.range.start) else {
            return;
        };
        let access = Access {
            epoch,
            write: touch.write,
            call,
            number,
        };
        for (&base, allocation) in self.allocations.range_mut(first..touch.range.end) {
            let from = touch.range.start.saturating_sub(base);
            let to = (touch.range.end - base).min(allocation.len);
            if let Some((other, overlap)) = allocation.shadow.access(from..to, access, clock) {
                let kind = |write: bool| if write { "writes" } else { "reads" };
                self.violations.push(Violation::Race {
                    device,
                    base,
                    from: overlap.start,
                    to: overlap.end,
                    first: other.call,
                    first_number: other.number,
                    first_kind: kind(other.write),
                    second: call,
                    second_number: number,
                    second_kind: kind(touch.write),
                });
            }
        }
    }

    pub(crate) fn violate<T>(&mut self, violation: Violation, code: Code) -> Result<T, Code> {
        self.violations.push(violation);
        Err(code)
    }

    /// Does a stream's work up to a point, and before that whatever of other streams' it waits for;
    /// nothing else.
    pub(crate) fn run(&mut self, key: Key, goal: u64) {
        let mut pending = vec![(key, goal)];
        while let Some(&(key, goal)) = pending.last() {
            let next = match self.streams.get(&key) {
                Some(stream) if stream.done < goal => stream.queue.front(),
                _ => None,
            };
            let Some(work) = next else {
                pending.pop();
                continue;
            };
            let unmet = work.after.iter().find(|(other, point)| {
                self.streams
                    .get(other)
                    .is_some_and(|stream| stream.done < *point)
            });
            if let Some(&unmet) = unmet {
                pending.push(unmet);
                continue;
            }
            self.do_next(key);
        }
    }

    fn do_next(&mut self, key: Key) {
        let Some(stream) = self.streams.get_mut(&key) else {
            return;
        };
        let Some(work) = stream.queue.pop_front() else {
            return;
        };
        stream.done += 1;
        work.action.perform();
        self.bury(key);
    }

    /// Does some work of other streams that nobody asked for, as a real device might.
    fn squeeze(&mut self, but: Key) {
        if !self.next_random().is_multiple_of(2) {
            return;
        }
        let mut keys: Vec<Key> = self
            .streams
            .iter()
            .filter(|(key, stream)| **key != but && !stream.queue.is_empty())
            .map(|(key, _)| *key)
            .collect();
        keys.sort_unstable();
        if keys.is_empty() {
            return;
        }
        let chosen = keys[(self.next_random() % keys.len() as u64) as usize];
        let (queued, done) = {
            let stream = &self.streams[&chosen];
            (stream.queue.len() as u64, stream.done)
        };
        let goal = done + 1 + self.next_random() % queued;
        self.run(chosen, goal);
    }

    /// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, doi:10.1145/2660193.2660195).
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = self.random;
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

impl Event {
    pub(crate) fn is_never_recorded(&self) -> bool {
        self.recorded.is_none() && self.captured.is_none()
    }
}

impl Stream {
    pub(crate) fn is_blocking(&self) -> bool {
        self.blocking
    }

    pub(crate) fn new(slot: usize, blocking: bool) -> Self {
        Self {
            slot,
            blocking,
            queue: VecDeque::new(),
            enqueued: 0,
            done: 0,
            clock: Clock::default(),
            destroyed: false,
            capture: None,
        }
    }
}

fn write(at: usize, len: usize) -> Result<Touch, Code> {
    let end = at.checked_add(len).ok_or(Code::InvalidValue)?;
    Ok(Touch {
        range: at..end,
        write: true,
    })
}

fn read(at: usize, len: usize) -> Result<Touch, Code> {
    Ok(Touch {
        write: false,
        ..write(at, len)?
    })
}

impl Action {
    fn perform(self) {
        let pointer = |address| std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: device ranges were checked against a live allocation when the work was enqueued;
        // freeing an allocation does all work first, and unmapping refuses while work is left. Host ranges are the caller's promise.
        unsafe {
            match self {
                Self::Nothing => {}
                Self::Fill { at, bytes, count } => match *bytes {
                    [byte] => pointer(at).write_bytes(byte, count),
                    _ => {
                        for index in 0..count {
                            let to = pointer(at).add(index * bytes.len());
                            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                        }
                    }
                },
                Self::Copy { from, to, len } => pointer(to).copy_from(pointer(from), len),
                Self::FromHost { from, to, len } => pointer(to).copy_from(from.0, len),
                Self::ToHost { from, to, len } => to.0.copy_from(pointer(from), len),
            }
        }
    }
}
