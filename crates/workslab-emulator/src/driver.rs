//! The driver as its C interfaces call it: one lock, counts of calls, faults, and what happens at a
//! violation.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::capture::{CaptureMode, CaptureStatus, Destructor};
use crate::faults::{Fault, Faults};
use crate::world::{Code, Violation, World};
pub use crate::world::{EventId, StreamId};

/// How a driver is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many devices there are.
    pub devices: u32,
    /// How many bytes each of them has.
    pub memory: usize,
    /// What decides which other work gets squeezed in.
    pub seed: u64,
    /// Whether a violation ends the process, with a message on standard error.
    pub abort: bool,
    /// Whether the devices say that they share memory with the host, as MI300A does.
    pub integrated: bool,
    /// Whether memory that was never freed ends the process badly at its exit.
    pub leaks: bool,
    /// Whether the devices say that they have virtual memory.
    pub virtual_memory: bool,
    /// How long every call takes, for a driver that is slow.
    pub delay: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            devices: 2,
            memory: 64 << 20,
            seed: 0,
            abort: true,
            integrated: false,
            leaks: false,
            virtual_memory: true,
            delay: Duration::ZERO,
        }
    }
}

impl Options {
    /// The options that the environment sets: `WORKSLAB_EMULATOR_DEVICES`, `…_MEMORY` (bytes per
    /// device), `…_SEED`, `…_ON_VIOLATION` (`abort` or `record`), `…_INTEGRATED` (0 or 1),
    /// `…_LEAKS` (0 or 1), `…_VIRTUAL_MEMORY` (0 or 1) and `…_DELAY_US` (microseconds per call).
    ///
    /// # Errors
    /// A sentence that names the variable and its value.
    pub fn from_env() -> Result<Self, String> {
        let mut options = Self::default();
        if let Some(devices) = number("WORKSLAB_EMULATOR_DEVICES")? {
            options.devices = u32::try_from(devices).map_err(|_| {
                format!("WORKSLAB_EMULATOR_DEVICES is {devices}, which is too many")
            })?;
        }
        if let Some(memory) = number("WORKSLAB_EMULATOR_MEMORY")? {
            options.memory = usize::try_from(memory)
                .map_err(|_| format!("WORKSLAB_EMULATOR_MEMORY is {memory}, which is too much"))?;
        }
        if let Some(seed) = number("WORKSLAB_EMULATOR_SEED")? {
            options.seed = seed;
        }
        if let Some(integrated) = number("WORKSLAB_EMULATOR_INTEGRATED")? {
            options.integrated = integrated != 0;
        }
        if let Some(leaks) = number("WORKSLAB_EMULATOR_LEAKS")? {
            options.leaks = leaks != 0;
        }
        if let Some(virtual_memory) = number("WORKSLAB_EMULATOR_VIRTUAL_MEMORY")? {
            options.virtual_memory = virtual_memory != 0;
        }
        if let Some(delay) = number("WORKSLAB_EMULATOR_DELAY_US")? {
            options.delay = Duration::from_micros(delay);
        }
        match std::env::var("WORKSLAB_EMULATOR_ON_VIOLATION").as_deref() {
            Err(_) | Ok("abort") => {}
            Ok("record") => options.abort = false,
            Ok(other) => {
                return Err(format!(
                    "WORKSLAB_EMULATOR_ON_VIOLATION is {other:?}; it must be abort or record"
                ));
            }
        }
        Ok(options)
    }
}

fn number(variable: &str) -> Result<Option<u64>, String> {
    let Ok(text) = std::env::var(variable) else {
        return Ok(None);
    };
    text.trim()
        .parse()
        .map(Some)
        .map_err(|_| format!("{variable} is {text:?}; it must be a number"))
}

fn bad_fault(item: &str) -> String {
    format!("WORKSLAB_EMULATOR_FAULTS has {item:?}; a fault is call:after:code, with two numbers")
}

/// An emulated driver. The calls take the calling thread's current device, which the C interface
/// keeps.
pub struct Driver {
    state: Mutex<State>,
    options: Options,
}

struct State {
    world: World,
    faults: Faults,
    counts: BTreeMap<&'static str, u64>,
}

impl Driver {
    /// A driver with these options.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            state: Mutex::new(State {
                world: World::new(options.devices, options.memory, options.seed),
                faults: Faults::default(),
                counts: BTreeMap::new(),
            }),
            options,
        }
    }

    /// How the driver was made.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    /// Makes the faults that `WORKSLAB_EMULATOR_FAULTS` asks for: `call:after:code`, separated by
    /// commas. Each strikes once, on whichever thread.
    ///
    /// # Errors
    /// A sentence that names what is not of that form.
    pub fn faults_from_env(&self) -> Result<(), String> {
        let Ok(text) = std::env::var("WORKSLAB_EMULATOR_FAULTS") else {
            return Ok(());
        };
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let parts: Vec<&str> = item.split(':').collect();
            let [call, after, code] = parts[..] else {
                return Err(bad_fault(item));
            };
            let fault = Fault {
                after: after.parse().map_err(|_| bad_fault(item))?,
                times: 1,
                code: code.parse().map_err(|_| bad_fault(item))?,
                this_thread: false,
            };
            self.fail(call, fault);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call fail.
    pub fn fail(&self, call: &str, fault: Fault) {
        self.lock().faults.add(call, fault);
    }

    /// Forgets the faults that the calling thread asked for and that have not struck.
    pub fn clear_faults(&self) {
        self.lock().faults.clear();
    }

    /// Makes a device disappear: every call that needs it fails from now on.
    pub fn lose_device(&self, device: u32) {
        self.lock().world.lose_device(device);
    }

    /// How often each call was made.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.lock().counts.clone()
    }

    /// The violations so far, if they do not end the process.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().world.violations.clone()
    }

    /// What has not been freed.
    #[must_use]
    pub fn leaks(&self) -> Vec<Violation> {
        self.lock().world.leaks()
    }

    /// Makes a call: counts it, lets a fault strike, and reports what went wrong.
    pub(crate) fn call<T>(
        &self,
        name: &'static str,
        work: impl FnOnce(&mut World) -> Result<T, Code>,
    ) -> Result<T, Code> {
        if !self.options.delay.is_zero() {
            std::thread::sleep(self.options.delay); // the slow driver that was asked for
        }
        let mut state = self.lock();
        *state.counts.entry(name).or_default() += 1;
        if let Some(code) = state.faults.strike(name) {
            return Err(Code::Injected(code));
        }
        state.world.call_number += 1;
        let before = state.world.violations.len();
        let outcome = work(&mut state.world);
        if self.options.abort
            && let Some(violation) = state.world.violations.get(before)
        {
            eprintln!("workslab emulator: {violation}");
            std::process::abort();
        }
        let due = std::mem::take(&mut state.world.graphs.due);
        drop(state);
        for destructor in due {
            // SAFETY: whoever made the object promised that it may be called, once, and it is not
            // kept anywhere any more.
            unsafe { (destructor.function)(destructor.argument) };
        }
        outcome
    }

    /// How many devices there are.
    ///
    /// # Errors
    /// [`Code::NoDevice`].
    pub fn device_count(&self, name: &'static str) -> Result<u32, Code> {
        self.call(name, |world| match world.device_count() {
            0 => Err(Code::NoDevice),
            count => Ok(count),
        })
    }

    /// Does something that needs a device and nothing else of the driver.
    ///
    /// # Errors
    /// [`Code::NoDevice`], [`Code::InvalidDevice`], [`Code::DeviceLost`].
    pub fn with_device<T>(
        &self,
        name: &'static str,
        device: u32,
        work: impl FnOnce() -> T,
    ) -> Result<T, Code> {
        self.call(name, |world| {
            world.check_device(device)?;
            Ok(work())
        })
    }

    /// The device's free bytes and all its bytes.
    ///
    /// # Errors
    /// As [`Driver::with_device`].
    pub fn memory(&self, name: &'static str, device: u32) -> Result<(usize, usize), Code> {
        self.call(name, |world| world.memory(device))
    }

    /// Allocates memory and gives its address.
    ///
    /// # Errors
    /// [`Code::OutOfMemory`], and as [`Driver::with_device`].
    pub fn allocate(&self, name: &'static str, device: u32, len: usize) -> Result<usize, Code> {
        self.call(name, |world| world.allocate(device, len))
    }

    /// Frees memory, after all work of its device.
    ///
    /// # Errors
    /// [`Code::InvalidValue`] for an address that is no allocation's.
    pub fn free(&self, name: &'static str, address: usize) -> Result<(), Code> {
        self.call(name, |world| world.free(name, address))
    }

    /// Makes a stream; a blocking one is ordered with the device's default stream.
    ///
    /// # Errors
    /// As [`Driver::with_device`].
    pub fn create_stream(
        &self,
        name: &'static str,
        device: u32,
        blocking: bool,
    ) -> Result<StreamId, Code> {
        self.call(name, |world| world.create_stream(device, blocking))
    }

    /// Destroys a stream; its work goes on.
    ///
    /// # Errors
    /// [`Code::InvalidHandle`].
    pub fn destroy_stream(&self, name: &'static str, stream: StreamId) -> Result<(), Code> {
        self.call(name, |world| world.destroy_stream(name, stream))
    }

    /// Does all work of a stream.
    ///
    /// # Errors
    /// [`Code::InvalidHandle`], and as [`Driver::with_device`].
    pub fn synchronize_stream(
        &self,
        name: &'static str,
        device: u32,
        stream: StreamId,
    ) -> Result<(), Code> {
        self.call(name, |world| world.synchronize_stream(name, device, stream))
    }

    /// Does all work of a device.
    ///
    /// # Errors
    /// As [`Driver::with_device`].
    pub fn synchronize_device(&self, name: &'static str, device: u32) -> Result<(), Code> {
        self.call(name, |world| world.synchronize_device(device))
    }

    /// Makes an event.
    ///
    /// # Errors
    /// As [`Driver::with_device`].
    pub fn create_event(&self, name: &'static str, device: u32) -> Result<EventId, Code> {
        self.call(name, |world| world.create_event(device))
    }

    /// Destroys an event.
    ///
    /// # Errors
    /// [`Code::InvalidHandle`].
    pub fn destroy_event(&self, name: &'static str, event: EventId) -> Result<(), Code> {
        self.call(name, |world| world.destroy_event(name, event))
    }

    /// Marks this point of a stream in an event.
    ///
    /// # Errors
    /// [`Code::InvalidHandle`], and as [`Driver::with_device`].
    pub fn record(
        &self,
        name: &'static str,
        device: u32,
        event: EventId,
        stream: StreamId,
    ) -> Result<(), Code> {
        self.call(name, |world| world.record(name, device, event, stream))
    }

    /// Makes a stream's later work wait for an event.
    ///
    /// # Errors
    /// [`Code::InvalidHandle`], and as [`Driver::with_device`].
    pub fn wait(
        &self,
        name: &'static str,
        device: u32,
        stream: StreamId,
        event: EventId,
    ) -> Result<(), Code> {
        self.call(name, |world| world.wait(name, device, stream, event))
    }

    /// Whether an event has happened.
    ///
    /// # Errors
    /// [`Code::NotReady`] if it has not; [`Code::InvalidHandle`].
    pub fn query(&self, name: &'static str, event: EventId) -> Result<(), Code> {
        self.call(name, |world| match world.query(name, event)? {
            true => Ok(()),
            false => Err(Code::NotReady),
        })
    }

    /// Begins to capture a stream into a graph.
    ///
    /// # Errors
    /// [`Code::Capture`] for the default stream; [`Code::InvalidValue`] for one that is captured
    /// already; [`Code::InvalidHandle`].
    pub fn begin_capture(
        &self,
        name: &'static str,
        device: u32,
        stream: StreamId,
        mode: CaptureMode,
    ) -> Result<(), Code> {
        self.call(name, |world| {
            world.begin_capture(name, device, stream, mode)
        })
    }

    /// Whether a stream is captured.
    ///
    /// # Errors
    /// [`Code::InvalidHandle`].
    pub fn capture_status(
        &self,
        name: &'static str,
        device: u32,
        stream: StreamId,
    ) -> Result<CaptureStatus, Code> {
        self.call(name, |world| world.capture_status(name, device, stream))
    }

    /// Ends a capture and gives its graph.
    ///
    /// # Errors
    /// [`Code::Capture`], which says what was wrong with it; [`Code::InvalidValue`] for a stream that
    /// is not captured.
    pub fn end_capture(
        &self,
        name: &'static str,
        device: u32,
        stream: StreamId,
    ) -> Result<u64, Code> {
        self.call(name, |world| world.end_capture(name, device, stream))
    }

    /// Makes a graph that can be launched of one that was captured.
    ///
    /// # Errors
    /// [`Code::InvalidValue`] for a handle that is no graph's.
    pub fn instantiate(&self, name: &'static str, graph: u64) -> Result<u64, Code> {
        self.call(name, |world| world.instantiate(name, graph))
    }

    /// Enqueues a graph's work, behind its last launch.
    ///
    /// # Errors
    /// As [`Driver::instantiate`], and as [`Driver::fill`] for each of its nodes.
    pub fn launch(
        &self,
        name: &'static str,
        device: u32,
        executable: u64,
        stream: StreamId,
    ) -> Result<(), Code> {
        self.call(name, |world| world.launch(name, device, executable, stream))
    }

    /// Destroys a graph; what was made of it stays.
    ///
    /// # Errors
    /// As [`Driver::instantiate`].
    pub fn destroy_graph(&self, name: &'static str, graph: u64) -> Result<(), Code> {
        self.call(name, |world| world.destroy_graph(name, graph))
    }

    /// Destroys a graph that can be launched, after its last launch.
    ///
    /// # Errors
    /// As [`Driver::instantiate`].
    pub fn destroy_executable(&self, name: &'static str, executable: u64) -> Result<(), Code> {
        self.call(name, |world| world.destroy_executable(name, executable))
    }

    /// Makes an object whose destructor runs when its last reference goes, on whichever thread.
    ///
    /// # Errors
    /// [`Code::InvalidValue`] for no references.
    ///
    /// # Safety
    /// The destructor may be called with its argument, once, at any time from then on.
    pub unsafe fn create_object(
        &self,
        name: &'static str,
        destructor: Destructor,
        references: u32,
    ) -> Result<u64, Code> {
        self.call(name, |world| world.create_object(destructor, references))
    }

    /// Takes back references to an object that the caller holds.
    ///
    /// # Errors
    /// [`Code::InvalidValue`] for a handle that names nothing.
    pub fn release_object(&self, name: &'static str, object: u64, count: u32) -> Result<(), Code> {
        self.call(name, |world| world.release_object(name, object, count))
    }

    /// Gives a graph `count` references to an object, the caller's or new ones.
    ///
    /// # Errors
    /// [`Code::InvalidValue`] for a handle that names nothing.
    pub fn retain_in_graph(
        &self,
        name: &'static str,
        graph: u64,
        object: u64,
        count: u32,
        moves: bool,
    ) -> Result<(), Code> {
        self.call(name, |world| {
            world.retain_in_graph(name, graph, object, count, moves)
        })
    }

    /// Fills memory with `count` repetitions of `bytes`.
    ///
    /// # Errors
    /// [`Code::InvalidValue`] for a range outside an allocation, and as [`Driver::record`].
    pub fn fill(
        &self,
        name: &'static str,
        device: u32,
        stream: StreamId,
        at: usize,
        bytes: &[u8],
        count: usize,
    ) -> Result<(), Code> {
        self.call(name, |world| {
            world.fill(name, device, stream, at, bytes, count)
        })
    }

    /// Copies within a device's memory.
    ///
    /// # Errors
    /// As [`Driver::fill`].
    pub fn copy(
        &self,
        name: &'static str,
        device: u32,
        stream: StreamId,
        from: usize,
        to: usize,
        len: usize,
    ) -> Result<(), Code> {
        self.call(name, |world| {
            world.copy(name, device, stream, from, to, len)
        })
    }

    /// Copies from the host, when the work is done and not before.
    ///
    /// # Errors
    /// As [`Driver::fill`].
    ///
    /// # Safety
    /// `from` points to `len` bytes that stay as they are until the stream has done the copy.
    pub unsafe fn copy_from_host(
        &self,
        name: &'static str,
        device: u32,
        stream: StreamId,
        from: *const u8,
        to: usize,
        len: usize,
    ) -> Result<(), Code> {
        self.call(name, |world| {
            // SAFETY: the caller's.
            unsafe { world.copy_from_host(name, device, stream, from, to, len) }
        })
    }

    /// Copies to the host, when the work is done and not before.
    ///
    /// # Errors
    /// As [`Driver::fill`].
    ///
    /// # Safety
    /// `to` points to `len` bytes that nobody uses until the stream has done the copy.
    pub unsafe fn copy_to_host(
        &self,
        name: &'static str,
        device: u32,
        stream: StreamId,
        from: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<(), Code> {
        self.call(name, |world| {
            // SAFETY: the caller's.
            unsafe { world.copy_to_host(name, device, stream, from, to, len) }
        })
    }
}
