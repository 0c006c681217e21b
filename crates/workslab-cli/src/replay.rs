//! `workslab replay`: real programs' transients through one workspace, checked byte by byte and
//! timed against an allocation per call.
//!
//! Both ways do the same work. In every step every program gets its arrays, and goes through their
//! uses in order: at its first use an array is written with a pattern of its own, after its last
//! use it is compared with it. If two arrays that live at the same time shared a byte, the later
//! one's pattern would stand in the earlier one.
//!
//! Writing and comparing every byte takes the same time both ways and would hide what is compared,
//! so the time that it takes to get the memory, and to give it back, is also measured on its own.
//! Where the device's memory is the host's, getting it includes touching every page once: that is
//! when the system really provides it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use thiserror::Error;
use workslab::{
    Allocator, AnyAllocator, BackendConfig, Bytes, DeviceId, DeviceInfo, DeviceSlab, DryFrame,
    Effort, Error, ExternalWorkspaceAllocator, Layout, LayoutPlan, OnPlatform, Pattern, Platform,
    Scratch, SizeCheck, SlabOptions, SlabRequest, SlabSize, Slot, Statistics, Stream,
};
use workslab_plan::runs;

use crate::args::ReplayArgs;
use crate::programs::{Programs, ProgramsError, SizedProgram, SizedTransient};
use crate::{CliError, table};

/// How many bytes are compared at a time: few enough to stay in a cache.
const CHUNK: usize = 256 * 1024;

/// The command.
pub(crate) fn run(args: &ReplayArgs) -> Result<(), CliError> {
    let config = args.settings.resolve()?;
    let (grid_name, grid) = args.grid.named()?;
    let programs = Programs::read(&args.file)?.size_on(&grid, &args.file)?;
    if programs.iter().all(|program| program.bytes() == 0) {
        return Err(ProgramsError::Empty {
            path: args.file.clone(),
        }
        .into());
    }
    let allocator = AnyAllocator::open(config.platform.as_deref())?;
    let device = config.device_for(allocator.device_count()?)?;
    let calls = 2 * u64::from(args.steps) * programs.len() as u64;
    let progress = ProgressBar::new(calls).with_style(
        ProgressStyle::with_template("{msg:26} {wide_bar} {pos}/{len} programs, {eta} left")
            .map_err(|error| CliError::Output(error.to_string()))?,
    );
    let report = allocator.with(Replay {
        programs: &programs,
        config: &config,
        device,
        steps: args.steps,
        planned: args.planned,
        progress: &progress,
    });
    progress.finish_and_clear();
    let report = report?;
    if let Some(path) = &args.record {
        let (cells, levels) = (grid.cells as u64, grid.nlev as u64);
        runs::append(path, cells, levels, &report.statistics).map_err(|error| {
            ReplayError::NotRecorded {
                path: path.clone(),
                reason: error.to_string(),
            }
        })?;
    }
    if args.json {
        return table::print_json(&report);
    }
    table::print(&report.table(&grid_name, args.grid.levels))
}

/// What a replay can fail with.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The configured workspace is too small; nothing was run.
    #[error(
        "program '{program}' needs {}, but the workspace has {} (set by {origin}); set WORKSLAB_WORKSPACE_SIZE, workspace_size or --workspace-size to at least {need}",
        Bytes(*need), Bytes(*have)
    )]
    TooSmall {
        /// The program that needs most.
        program: String,
        /// The bytes it needs.
        need: usize,
        /// The bytes that were configured.
        have: usize,
        /// Where the size was configured.
        origin: String,
    },
    /// An array does not hold what was written to it.
    #[error(
        "array '{array}' of program '{program}' is wrong in step {step} ({way}): byte {offset} is {found:#04x} instead of {expected:#04x}"
    )]
    WrongByte {
        /// The program.
        program: String,
        /// The array.
        array: String,
        /// The step, from 1.
        step: u32,
        /// Which of the two ways was running.
        way: &'static str,
        /// The wrong byte's index in the array.
        offset: usize,
        /// What was written.
        expected: u8,
        /// What was read.
        found: u8,
    },
    /// The run could not be added to the file of runs.
    #[error("cannot add to {}: {reason}", path.display())]
    NotRecorded {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A platform or its driver refused.
    #[error(transparent)]
    Core(#[from] Error),
}

/// A replay on whichever platform.
#[derive(Debug)]
pub struct Replay<'a> {
    /// The programs of one time step.
    pub programs: &'a [SizedProgram],
    /// Which workspace to use.
    pub config: &'a BackendConfig,
    /// On which device.
    pub device: DeviceId,
    /// How many time steps to run.
    pub steps: u32,
    /// Whether arrays that never live at once share bytes, by plan.
    pub planned: bool,
    /// Advanced by one for each program that was run.
    pub progress: &'a ProgressBar,
}

/// What a replay found.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The platform.
    pub platform: &'static str,
    /// The device.
    pub device: DeviceId,
    /// The device's name.
    pub device_name: String,
    /// How many time steps were run each way.
    pub steps: u32,
    /// The programs.
    pub programs: Vec<ProgramReport>,
    /// The workspace's size in bytes.
    pub workspace: usize,
    /// The bytes that the largest program needs.
    pub needed: usize,
    /// The bytes that keeping every program's arrays for ever would need.
    pub sum: usize,
    /// Array bytes that were written and compared, in each of the two ways.
    pub checked: u128,
    /// The runs in the workspace.
    pub in_workspace: WayReport,
    /// The runs with an allocation per array and call.
    pub per_call: WayReport,
    /// What the allocator counted.
    pub statistics: Statistics,
}

/// One program of a replay.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ProgramReport {
    /// Its name.
    pub name: String,
    /// How many temporary arrays it has.
    pub transients: usize,
    /// The bytes of a workspace in which they fit.
    pub bytes: usize,
}

/// One of the two ways of a replay.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct WayReport {
    /// The driver's allocations.
    pub allocations: u64,
    /// The median over the steps of the time to get the memory and to give it back.
    #[serde(rename = "memory_seconds_per_step", serialize_with = "as_seconds")]
    pub memory: Duration,
    /// The median of the steps' times, with every byte written and compared.
    #[serde(rename = "seconds_per_step", serialize_with = "as_seconds")]
    pub whole: Duration,
}

fn as_seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

impl Report {
    fn table(&self, grid: &str, levels: usize) -> String {
        let mut programs = table::new(["program", "transients", "bytes"], &[1, 2]);
        for program in &self.programs {
            programs.add_row([
                program.name.clone(),
                program.transients.to_string(),
                Bytes(program.bytes).short(),
            ]);
        }
        let mut sums = table::new(["", "one workspace", "allocate per call"], &[1, 2]);
        let ratio = self.per_call.memory.as_secs_f64() / self.in_workspace.memory.as_secs_f64();
        let milliseconds = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
        sums.add_row([
            "driver allocations",
            &self.in_workspace.allocations.to_string(),
            &self.per_call.allocations.to_string(),
        ]);
        sums.add_row([
            "getting memory, per step",
            &milliseconds(self.in_workspace.memory),
            &milliseconds(self.per_call.memory),
        ]);
        sums.add_row([
            "whole step, bytes checked",
            &milliseconds(self.in_workspace.whole),
            &milliseconds(self.per_call.whole),
        ]);
        format!(
            "{steps} step{s} on {grid} with {levels} levels, {platform} device {device} ({name})\n\
             {programs}\n\
             workspace needed (largest program)  {needed}\n\
             workspace used                      {used}\n\
             keeping every program's arrays      {sum}\n\
             {sums}\n\
             times are medians; getting memory is {ratio:.0} times as fast from one workspace\n\
             every byte right: {checked} written and compared each way",
            steps = self.steps,
            s = if self.steps == 1 { "" } else { "s" },
            platform = self.platform,
            device = self.device,
            name = self.device_name,
            needed = Bytes(self.needed),
            used = Bytes(self.workspace),
            sum = Bytes(self.sum),
            checked = Bytes(usize::try_from(self.checked).unwrap_or(usize::MAX)).short(),
        )
    }
}

impl OnPlatform for Replay<'_> {
    type Output = Result<Report, ReplayError>;

    fn run<P: Platform>(self, allocator: &ExternalWorkspaceAllocator<P>) -> Self::Output {
        let plans = self.plans()?;
        let needs = self.needs(&plans)?;
        let (largest, needed) = needs
            .iter()
            .enumerate()
            .max_by_key(|(_, bytes)| **bytes)
            .map_or((0, 0), |(index, bytes)| (index, *bytes));
        let request = self.request(largest, needed)?;
        let info = allocator.platform().device_info(self.device)?;
        let touch = Touch::on(&info);
        let (in_workspace, statistics) = self.in_workspace(allocator, &request, &plans, touch)?;
        let per_call = self.per_call(allocator.platform(), request.options, touch)?;
        let written: usize = self.programs.iter().map(SizedProgram::bytes).sum();
        Ok(Report {
            platform: P::NAME,
            device: self.device,
            device_name: info.name,
            steps: self.steps,
            programs: self
                .programs
                .iter()
                .zip(&needs)
                .map(|(program, &bytes)| ProgramReport {
                    name: program.name.clone(),
                    transients: program.transients.len(),
                    bytes,
                })
                .collect(),
            workspace: request.size.bytes(),
            needed,
            sum: needs
                .iter()
                .try_fold(0usize, |sum, &bytes| sum.checked_add(bytes))
                .unwrap_or(usize::MAX),
            checked: written as u128 * u128::from(self.steps),
            in_workspace,
            per_call,
            statistics,
        })
    }
}

impl Replay<'_> {
    /// The programs' arrays in planned offsets.
    fn plans(&self) -> Result<Vec<PlannedProgram>, Error> {
        let programs = if self.planned { self.programs } else { &[] };
        programs.iter().map(PlannedProgram::new).collect()
    }

    /// The bytes that each program needs, by the same code that places its arrays later.
    fn needs(&self, plans: &[PlannedProgram]) -> Result<Vec<usize>, Error> {
        if self.planned {
            return Ok(plans.iter().map(|planned| planned.plan.bytes()).collect());
        }
        self.programs
            .iter()
            .map(|program| {
                let dry = if self.config.guard {
                    DryFrame::guarded()
                } else {
                    DryFrame::new()
                };
                place(&dry, program)?;
                Ok(dry.bytes_needed())
            })
            .collect()
    }

    /// The workspace to ask for: the one that is configured, if the largest program fits in it, or
    /// else one in which it just fits.
    fn request(&self, largest: usize, needed: usize) -> Result<SlabRequest<'_>, ReplayError> {
        let Some(request) = self.config.request() else {
            let mut options = SlabOptions::default();
            options.prefault = self.config.prefault;
            options.lock = self.config.lock;
            return Ok(SlabRequest {
                options,
                ..SlabRequest::exact(SlabSize::new(needed)?).with_guard(self.config.guard)
            });
        };
        if request.check != SizeCheck::Grow && request.size.bytes() < needed {
            return Err(ReplayError::TooSmall {
                program: self.programs[largest].name.clone(),
                need: needed,
                have: request.size.bytes(),
                origin: request.origin.unwrap_or("code").to_owned(),
            });
        }
        Ok(request)
    }

    fn in_workspace<P: Platform>(
        &self,
        allocator: &ExternalWorkspaceAllocator<P>,
        request: &SlabRequest<'_>,
        plans: &[PlannedProgram],
        touch: Touch,
    ) -> Result<(WayReport, Statistics), ReplayError> {
        const WAY: &str = "one workspace";
        self.progress.set_message(WAY);
        let stream = allocator.platform().default_stream(self.device)?;
        let workspace = allocator.allocate(self.device, request)?;
        let names: Vec<_> = self
            .programs
            .iter()
            .map(|program| workspace.program(&program.name))
            .collect();
        let mut checker = Checker::new(WAY);
        let (memory, whole) = self.steps(|step, memory| {
            for (index, program) in self.programs.iter().enumerate() {
                memory.start();
                let workspace = allocator.allocate(self.device, request)?;
                let mut lease = names[index].lease(&stream)?;
                if let Some(planned) = plans.get(index) {
                    let mut bound = lease.bind(&planned.plan)?;
                    // SAFETY: the lease is this function's, and its bytes are written only later.
                    unsafe { touch.pages(workspace.slab(), &stream, 0, planned.plan.bytes()) }?;
                    memory.stop();
                    for event in schedule(program) {
                        let phase = bound.phase(event.position);
                        let mut array = phase.array(planned.slots[event.transient])?;
                        let transient = &program.transients[event.transient];
                        let pattern = pattern(step, index, event.transient, transient);
                        if event.action == Action::Write {
                            array.fill_pattern(pattern)?;
                        } else {
                            let read = |offset, chunk: &mut [u8]| array.read_bytes(offset, chunk);
                            checker.compare(program, transient, step, pattern, read)?;
                        }
                    }
                    memory.start();
                    lease.finish()?;
                    memory.stop();
                    self.progress.inc(1);
                    continue;
                }
                let frame = lease.named_frame(&program.name);
                let mut arrays = place(&frame, program)?;
                for array in &arrays {
                    // SAFETY: the array is this function's, and is written only later.
                    unsafe { touch.pages(workspace.slab(), &stream, array.offset(), array.len()) }?;
                }
                memory.stop();
                for event in schedule(program) {
                    let array = &mut arrays[event.transient];
                    let transient = &program.transients[event.transient];
                    let pattern = pattern(step, index, event.transient, transient);
                    if event.action == Action::Write {
                        array.fill_pattern(pattern)?;
                    } else {
                        let read = |offset, chunk: &mut [u8]| array.read_bytes(offset, chunk);
                        checker.compare(program, transient, step, pattern, read)?;
                    }
                }
                memory.start();
                drop(arrays);
                frame.finish()?;
                lease.finish()?;
                memory.stop();
                self.progress.inc(1);
            }
            Ok(())
        })?;
        let allocations = allocator
            .statistics()
            .iter()
            .map(|statistics| statistics.misses)
            .sum();
        let way = WayReport {
            allocations,
            memory,
            whole,
        };
        Ok((way, workspace.statistics()))
    }

    fn per_call<P: Platform>(
        &self,
        platform: &P,
        options: SlabOptions,
        touch: Touch,
    ) -> Result<WayReport, ReplayError> {
        const WAY: &str = "allocate per call";
        self.progress.set_message(WAY);
        let stream = platform.default_stream(self.device)?;
        let mut checker = Checker::new(WAY);
        let mut allocations = 0;
        let (memory, whole) = self.steps(|step, memory| {
            for (index, program) in self.programs.iter().enumerate() {
                memory.start();
                let mut slabs = Vec::with_capacity(program.transients.len());
                for transient in &program.transients {
                    slabs.push(match SlabSize::new(transient.bytes) {
                        Ok(size) => {
                            let slab = platform.allocate_slab(self.device, size, options)?;
                            allocations += 1;
                            // SAFETY: the slab has no other user.
                            unsafe { touch.pages(&slab, &stream, 0, transient.bytes) }?;
                            Some(slab)
                        }
                        Err(_) => None, // of no bytes: there is nothing to allocate
                    });
                }
                memory.stop();
                for event in schedule(program) {
                    let Some(slab) = &slabs[event.transient] else {
                        continue;
                    };
                    let transient = &program.transients[event.transient];
                    let pattern = pattern(step, index, event.transient, transient);
                    if event.action == Action::Write {
                        // SAFETY: the slab was made above and has no other user.
                        unsafe { slab.fill(&stream, 0, transient.bytes, pattern) }?;
                    } else {
                        // SAFETY: as above; the fill was enqueued on the same stream.
                        let read =
                            |offset, chunk: &mut [u8]| unsafe { slab.read(&stream, offset, chunk) };
                        checker.compare(program, transient, step, pattern, read)?;
                    }
                }
                memory.start();
                stream.synchronize()?;
                drop(slabs);
                memory.stop();
                self.progress.inc(1);
            }
            Ok(())
        })?;
        Ok(WayReport {
            allocations,
            memory,
            whole,
        })
    }

    /// Runs every step, and gives the medians of the time for memory and of the whole.
    fn steps(
        &self,
        mut run: impl FnMut(u32, &mut Stopwatch) -> Result<(), ReplayError>,
    ) -> Result<(Duration, Duration), ReplayError> {
        let mut memory_times = Vec::with_capacity(self.steps as usize);
        let mut whole_times = Vec::with_capacity(self.steps as usize);
        for step in 1..=self.steps {
            let mut memory = Stopwatch::default();
            let start = Instant::now();
            run(step, &mut memory)?;
            whole_times.push(start.elapsed());
            memory_times.push(memory.sum);
        }
        Ok((median(memory_times), median(whole_times)))
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Adds up the time between starts and stops.
#[derive(Default)]
struct Stopwatch {
    sum: Duration,
    since: Option<Instant>,
}

impl Stopwatch {
    fn start(&mut self) {
        self.since = Some(Instant::now());
    }

    fn stop(&mut self) {
        if let Some(since) = self.since.take() {
            self.sum += since.elapsed();
        }
    }
}

/// How memory is touched so that it is really there.
#[derive(Clone, Copy)]
struct Touch {
    /// The distance between the bytes to touch; `None` where the driver provides memory at once.
    page: Option<usize>,
}

impl Touch {
    fn on(info: &DeviceInfo) -> Self {
        Self {
            page: info.shares_host_memory.then_some(info.granularity.max(1)),
        }
    }

    /// Writes one byte a page.
    ///
    /// # Safety
    /// As [`DeviceSlab::fill`], for `len` bytes at `offset`.
    unsafe fn pages<S: DeviceSlab>(
        self,
        slab: &S,
        stream: &S::Stream,
        offset: usize,
        len: usize,
    ) -> Result<(), Error> {
        let Some(page) = self.page else {
            return Ok(());
        };
        for at in (0..len).step_by(page) {
            // SAFETY: the byte is in the caller's range.
            unsafe { slab.fill(stream, offset + at, 1, Pattern::U8(0)) }?;
        }
        Ok(())
    }
}

/// A program's arrays in offsets at which those that never live at once share bytes.
struct PlannedProgram {
    slots: Vec<Slot<u8>>,
    plan: LayoutPlan,
}

impl PlannedProgram {
    fn new(program: &SizedProgram) -> Result<Self, Error> {
        let mut layout = Layout::new();
        let mut slots = Vec::with_capacity(program.transients.len());
        for transient in &program.transients {
            // A last use at the last number there is leaves no number for the end; it is not needed.
            let phases = transient.first_use..transient.last_use.saturating_add(1);
            slots.push(layout.array(&transient.name, [transient.bytes], phases)?);
        }
        let plan = layout.plan(Effort::Balanced)?;
        Ok(Self { slots, plan })
    }
}

/// Places a program's arrays; also dry, to learn how many bytes they need.
fn place<'s, S: Scratch>(
    scratch: &'s S,
    program: &SizedProgram,
) -> Result<Vec<S::Array<'s, u8, 1>>, Error> {
    program
        .transients
        .iter()
        .map(|transient| scratch.named_array::<u8>(&transient.name, transient.bytes))
        .collect()
}

/// One thing that happens to an array while its program runs. Events sort in the order in which
/// they happen: at one position all is written before anything is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    position: u64,
    action: Action,
    transient: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    Write,
    Compare,
}

/// What happens in a program, in order.
fn schedule(program: &SizedProgram) -> Vec<Event> {
    let mut events: Vec<Event> = program
        .transients
        .iter()
        .enumerate()
        .flat_map(|(transient, uses)| {
            [
                (uses.first_use, Action::Write),
                (uses.last_use, Action::Compare),
            ]
            .map(|(position, action)| Event {
                position,
                action,
                transient,
            })
        })
        .collect();
    events.sort_unstable();
    events
}

/// A pattern of the array's own: no other array of the program has it in this step.
fn pattern(step: u32, program: usize, index: usize, transient: &SizedTransient) -> Pattern {
    let seed = (u64::from(step) << 40) | ((program as u64) << 20) | index as u64;
    let mixed = mix(seed);
    match transient.itemsize.trailing_zeros() {
        // One byte cannot hold a hash that is sure to differ, so the index is in it as it is.
        0 => Pattern::U8((index as u8).wrapping_add((step as u8).wrapping_mul(31))),
        1 => Pattern::U16((index as u16).wrapping_add((step as u16).wrapping_mul(257))),
        2 => Pattern::U32(mixed as u32),
        _ => Pattern::U64(mixed),
    }
}

/// Steele, Lea and Flood's SplitMix64 finaliser (OOPSLA 2014, doi:10.1145/2660193.2660195): a
/// bijection, so that two seeds never give the same pattern.
fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Compares arrays with their patterns.
struct Checker {
    way: &'static str,
    buffer: Vec<u8>,
}

impl Checker {
    fn new(way: &'static str) -> Self {
        Self {
            way,
            buffer: vec![0; CHUNK],
        }
    }

    fn compare(
        &mut self,
        program: &SizedProgram,
        transient: &SizedTransient,
        step: u32,
        pattern: Pattern,
        read: impl Fn(usize, &mut [u8]) -> Result<(), Error>,
    ) -> Result<(), ReplayError> {
        for start in (0..transient.bytes).step_by(CHUNK) {
            let chunk = &mut self.buffer[..CHUNK.min(transient.bytes - start)];
            read(start, chunk)?;
            if let Some(index) = pattern.first_mismatch(chunk) {
                return Err(ReplayError::WrongByte {
                    program: program.name.clone(),
                    array: transient.name.clone(),
                    step,
                    way: self.way,
                    offset: start + index,
                    expected: pattern.widened()[index % 8],
                    found: chunk[index],
                });
            }
        }
        Ok(())
    }
}
