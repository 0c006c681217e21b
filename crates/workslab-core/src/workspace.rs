//! The slab cached for a device, with the state that orders its users.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::capture::Captures;
use crate::counter::ShardedCounter;
use crate::error::Holder;
use crate::fork;
use crate::gate::{Gate, Pass, Patience, Refusal};
use crate::guard::GuardViolation;
use crate::lease::Lease;
use crate::platform::{CaptureId, DeviceSlab, Platform, Stream};
use crate::program::{ProgramRecord, Programs};
use crate::reservation::ReservationRecord;
use crate::sync;
use crate::{
    ARRAY_ALIGNMENT, DeviceId, DevicePtr, End, Error, GrowableSlab, ProgramStatistics, SizeCheck,
    SlabRequest, SlabSize, Statistics,
};

/// One slab and the state that orders its users.
///
/// A workspace is leased to one program at a time ([`Workspace::lease`]); parts of it can be set
/// aside for good ([`Workspace::reserve`](crate::Workspace::reserve)).
///
/// In **guard mode** (a request's `guard`, off by default) every array stands between red zones
/// that are checked when its frame ends, and new arrays are filled with a poison pattern, for
/// floats a signalling NaN. A write outside an array is reported by the frame's or the lease's
/// `finish`, or, where neither is called, by the next lease.
pub struct Workspace<P: Platform> {
    platform: Arc<P>,
    /// Dropped by hand: in a forked child the driver behind it must not be called.
    slab: ManuallyDrop<P::Slab>,
    device: DeviceId,
    base: usize,
    /// Bytes that the slab has from its base on: all of a fixed one.
    front: AtomicUsize,
    /// Bytes at the end of the address range, where a growable slab has its reservations.
    back: AtomicUsize,
    /// Offset at which the addresses end: a fixed slab's size, or how far a growable one may grow.
    range: usize,
    growths: AtomicU64,
    /// Held while the slab grows or shrinks.
    growing: Mutex<()>,
    settings: Settings,
    fork_generation: u32,
    /// Used by whoever is inside the gate, and by nobody else.
    event: P::Event,
    gate: Gate<Order<P>>,
    reservations: sync::Mutex<Vec<ReservationRecord>>,
    /// Offset at which the reservations begin; leases see what is below. Changed inside the gate alone.
    reserved_from: AtomicUsize,
    programs: Programs,
    counts: Counts,
    hits: ShardedCounter,
    misses: AtomicU64,
}

/// What the request that made the workspace said.
pub(crate) struct Settings {
    pub(crate) guard: bool,
    pub(crate) lock: bool,
    /// How it grows, if it does: without a cap, or to one.
    pub(crate) growth: Option<Option<usize>>,
    pub(crate) origin: Option<String>,
}

/// What the last holder left behind on the device.
enum Tail<P: Platform> {
    /// Nothing that could still run.
    Idle,
    /// Perhaps work on this stream, which this handle keeps alive.
    Stream(P::Stream),
    /// Perhaps work on a stream that may be gone; the workspace's event was recorded behind it.
    Recorded,
    /// Work whose end can no longer be known.
    Lost(Box<Error>),
}

/// What is inside the gate: what orders one holder's work after another's.
pub(crate) struct Order<P: Platform> {
    tail: Tail<P>,
    captures: Captures<P>,
    /// What guard mode found at the end of a lease, and nobody has been told of.
    untold: Option<Box<Error>>,
}

/// Statistics that whoever is inside the gate counts and anybody reads.
#[derive(Default)]
struct Counts {
    leases: AtomicU64,
    high_water: AtomicUsize,
    cross_stream_waits: AtomicU64,
    violations: AtomicU64,
}

/// Adds to a count that no other thread changes meanwhile, which is cheaper than where one may.
#[inline]
fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// Raises a mark that no other thread changes meanwhile.
#[inline]
fn raise(mark: &AtomicUsize, to: usize) {
    if mark.load(Ordering::Relaxed) < to {
        mark.store(to, Ordering::Relaxed);
    }
}

impl<P: Platform> Workspace<P> {
    /// Allocates the slab that `request` describes.
    pub(crate) fn make(
        platform: &Arc<P>,
        device: DeviceId,
        request: &SlabRequest<'_>,
    ) -> Result<Self, Error> {
        fork::watch();
        let size = request.size.bytes();
        let info = platform.device_info(device)?;
        if size > info.free {
            return Err(Error::OutOfMemory {
                platform: P::NAME,
                device,
                requested: size,
                available: info.free,
                total: info.total,
            });
        }
        let event = platform.create_event(device)?;
        let growth = growth_of(request);
        let slab = match growth {
            None => platform.allocate_slab(device, request.size, request.options)?,
            Some(cap) => {
                let cap = cap.unwrap_or(info.total);
                if size > cap {
                    return Err(Error::CapReached {
                        platform: P::NAME,
                        device,
                        what: "the request".into(),
                        needed: size,
                        cap,
                        cap_given: request.cap.is_some(),
                    });
                }
                let slab = platform.reserve_slab(device, SlabSize::new(cap)?, request.options)?;
                if let Some(growable) = slab.growable() {
                    growable.commit(End::Front, size)?;
                }
                slab
            }
        };
        let bad = |what: String| Error::BadSlab {
            platform: P::NAME,
            device,
            what,
        };
        if slab.len() < size {
            return Err(bad(format!("has {} bytes instead of {size}", slab.len())));
        }
        if !slab.base().is_aligned_to(ARRAY_ALIGNMENT) {
            return Err(bad(format!(
                "begins at {:?}, which is no multiple of {ARRAY_ALIGNMENT}",
                slab.base()
            )));
        }
        let base = slab.base().address();
        let (front, range) = match (growth, slab.growable()) {
            (None, _) => (size, size),
            (Some(_), Some(growable)) => (growable.committed(End::Front), growable.range()),
            (Some(_), None) => return Err(bad("does not grow".into())),
        };
        if base.checked_add(range).is_none() {
            return Err(bad("ends beyond the address space".into()));
        }
        tracing::info!(
            platform = P::NAME,
            device = device.ordinal(),
            bytes = front,
            range,
            origin = request.origin,
            guard = request.guard,
            "workspace allocated"
        );
        Ok(Self {
            platform: Arc::clone(platform),
            slab: ManuallyDrop::new(slab),
            device,
            base,
            front: AtomicUsize::new(front),
            back: AtomicUsize::new(0),
            range,
            growths: AtomicU64::new(0),
            growing: Mutex::new(()),
            settings: Settings {
                guard: request.guard,
                lock: request.options.lock,
                growth,
                origin: request.origin.map(str::to_owned),
            },
            fork_generation: fork::generation(),
            event,
            gate: Gate::new(Order {
                tail: Tail::Idle,
                captures: Captures::default(),
                untold: None,
            }),
            reservations: sync::Mutex::new(Vec::new()),
            reserved_from: AtomicUsize::new(range),
            programs: Programs::new(),
            counts: Counts::default(),
            hits: ShardedCounter::default(),
            misses: AtomicU64::new(0),
        })
    }

    /// The device the slab is on.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// The slab's size in bytes, reservations included.
    #[inline]
    pub fn size(&self) -> usize {
        self.front.load(Ordering::Acquire) + self.back.load(Ordering::Acquire)
    }

    /// How far the slab may grow in place, in bytes; none for one of fixed size.
    pub fn cap(&self) -> Option<usize> {
        self.settings.growth.map(|_| self.range)
    }

    /// Grows the slab in place until leases have at least `bytes`; does nothing if they have. Addresses
    /// stay, nothing is copied, and it may be done while others hold a lease or a reservation.
    ///
    /// # Errors
    /// [`Error::NoGrowth`] for a slab of fixed size that is too small; [`Error::CapReached`];
    /// [`Error::OutOfMemory`]; [`Error::Forked`]; or the driver's. The old size stays.
    pub fn grow(&self, bytes: usize) -> Result<(), Error> {
        self.check_process()?;
        let front = self.front.load(Ordering::Acquire);
        if bytes <= front {
            return Ok(());
        }
        if !self.grows() {
            return Err(Error::NoGrowth {
                platform: P::NAME,
                device: self.device,
                reason: format!("it was made with a fixed size of {} bytes", self.size()),
            });
        }
        self.grow_front(bytes, || "the request".into())
    }

    /// Gives memory that leases have back to the device, but keeps at least `bytes`, and says how many
    /// bytes went. A step of growth goes as a whole or not at all. Waits for the last lease's work.
    /// Does nothing on a slab of fixed size.
    ///
    /// # Errors
    /// [`Error::Busy`] while somebody holds a lease, [`Error::AlreadyLeased`] if it is this thread;
    /// [`Error::Forked`]; or the driver's, and then what
    /// could not be given back stays.
    ///
    /// # Safety
    /// No graph will be launched that was captured under a lease of this workspace and uses bytes
    /// beyond those that are left, and nobody uses a pointer to them that was passed on.
    pub unsafe fn trim(&self, bytes: usize) -> Result<usize, Error> {
        self.check_process()?;
        let Some(growable) = self.slab.growable() else {
            return Ok(0);
        };
        let inside = self.settle()?;
        let growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = growable.committed(End::Front);
        // SAFETY: no lease is held, all work of the last one is done, and the caller vouches for
        // graphs and pointers.
        let outcome = unsafe { growable.trim(bytes) };
        let left = growable.committed(End::Front);
        self.front.store(left, Ordering::Release);
        drop((growing, inside));
        let trimmed = outcome.map(|()| before - left);
        if let Ok(bytes @ 1..) = trimmed {
            tracing::info!(
                platform = P::NAME,
                device = self.device.ordinal(),
                bytes,
                "workspace trimmed"
            );
        }
        trimmed
    }

    /// Where the addresses end: a fixed slab's size, or how far a growable one may grow.
    pub(crate) fn range(&self) -> usize {
        self.range
    }

    /// Bytes that a growable slab has committed for reservations.
    pub(crate) fn back(&self) -> usize {
        self.back.load(Ordering::Acquire)
    }

    /// Whether the slab grows.
    pub(crate) fn grows(&self) -> bool {
        self.settings.growth.is_some()
    }

    /// Address after the last byte that a lease may use now.
    #[inline]
    pub(crate) fn limit(&self) -> usize {
        let front = self.front.load(Ordering::Acquire);
        self.base + front.min(self.reserved_from())
    }

    /// Grows the front to `bytes` at least.
    #[cold]
    pub(crate) fn grow_front(
        &self,
        bytes: usize,
        what: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        self.commit(End::Front, bytes, what)
    }

    /// Commits `bytes` at an end of a growable slab, and keeps the books. Nothing on another slab.
    pub(crate) fn commit(
        &self,
        end: End,
        bytes: usize,
        what: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        let Some(growable) = self.slab.growable() else {
            return Ok(());
        };
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let have = growable.committed(end);
        if bytes <= have {
            return Ok(());
        }
        let other = match end {
            End::Front => growable.committed(End::Back),
            End::Back => growable.committed(End::Front),
        };
        let wanted = bytes.checked_next_multiple_of(growable.granularity());
        if wanted.is_none_or(|wanted| wanted > self.range - other) {
            return Err(Error::CapReached {
                platform: P::NAME,
                device: self.device,
                what: what(),
                needed: bytes.saturating_add(other),
                cap: self.range,
                cap_given: matches!(self.settings.growth, Some(Some(_))),
            });
        }
        self.check_free(growable, bytes - have)?;
        growable.commit(end, bytes)?;
        let now = growable.committed(end);
        match end {
            End::Front => self.front.store(now, Ordering::Release),
            End::Back => self.back.store(now, Ordering::Release),
        }
        self.growths.fetch_add(1, Ordering::Relaxed);
        tracing::info!(
            platform = P::NAME,
            device = self.device.ordinal(),
            from = have + other,
            to = now + other,
            "workspace grown"
        );
        Ok(())
    }

    /// Whether the device has so many bytes free, in whole pieces.
    fn check_free(&self, growable: &dyn GrowableSlab, bytes: usize) -> Result<(), Error> {
        let requested = bytes.next_multiple_of(growable.granularity());
        let info = self.platform.device_info(self.device)?;
        if requested <= info.free {
            return Ok(());
        }
        Err(Error::OutOfMemory {
            platform: P::NAME,
            device: self.device,
            requested,
            available: info.free,
            total: info.total,
        })
    }

    /// The slab's first byte. To pass it on is to promise that whoever gets it uses it only under
    /// a lease.
    pub fn base(&self) -> DevicePtr {
        DevicePtr::new(self.base)
    }

    /// Where the size came from, if the request said.
    pub fn size_origin(&self) -> Option<&str> {
        self.settings.origin.as_deref()
    }

    /// Whether arrays get red zones and a poison pattern.
    pub fn guard(&self) -> bool {
        self.settings.guard
    }

    /// Leases the workspace for work on `stream`; blocks while somebody else has it. Those who
    /// wait are served in the order in which they came.
    ///
    /// Work that the new holder enqueues on `stream` starts after everything that the last holder
    /// enqueued on its own. On the same stream that costs no driver call, on another one event
    /// record and one wait; the host does not block for it.
    ///
    /// On a stream that is **captured** into a graph nothing runs yet, so nothing is waited for, and
    /// the next holder outside of the capture does not wait either. Within one capture a lease on
    /// another stream adds an edge to the graph. Whoever launches the graph does so under a lease of
    /// the same workspace: to the workspace, the launch is the work.
    ///
    /// # Errors
    /// [`Error::AlreadyLeased`] if this thread has it already; [`Error::WrongDevice`] for a stream
    /// of another device; [`Error::Guard`] for a violation that nobody was told of;
    /// [`Error::Forked`]; [`Error::Capturing`] in guard mode on a stream that is captured, or if the
    /// last holder's work is on such a stream; or the driver's, and then no lease is held.
    #[inline]
    pub fn lease<'w>(&'w self, stream: &'w P::Stream) -> Result<Lease<'w, P>, Error> {
        self.enter(stream, None, Patience::Endless)
    }

    /// As [`Workspace::lease`], but does not wait.
    ///
    /// # Errors
    /// Also [`Error::Busy`], which names the holder.
    #[inline]
    pub fn try_lease<'w>(&'w self, stream: &'w P::Stream) -> Result<Lease<'w, P>, Error> {
        self.enter(stream, None, Patience::None)
    }

    /// As [`Workspace::lease`], but waits for `timeout` at most.
    ///
    /// # Errors
    /// Also [`Error::LeaseTimeout`], which names the holder.
    pub fn lease_timeout<'w>(
        &'w self,
        stream: &'w P::Stream,
        timeout: Duration,
    ) -> Result<Lease<'w, P>, Error> {
        self.enter(stream, None, patience_of(timeout))
    }

    /// Bytes that are set aside for reservations.
    pub fn reserved(&self) -> usize {
        self.range - self.reserved_from()
    }

    /// The counts so far.
    pub fn statistics(&self) -> Statistics {
        let counts = &self.counts;
        let (waits, waited) = self.gate.waits();
        Statistics {
            platform: P::NAME,
            device: self.device,
            size: self.size(),
            cap: self.cap(),
            growths: self.growths.load(Ordering::Relaxed),
            reserved: self.reserved(),
            hits: self.hits.get(),
            misses: self.misses.load(Ordering::Relaxed),
            leases: counts.leases.load(Ordering::Relaxed),
            leased: if self.gate.is_held() {
                self.limit() - self.base
            } else {
                0
            },
            high_water: counts.high_water.load(Ordering::Relaxed),
            cross_stream_waits: counts.cross_stream_waits.load(Ordering::Relaxed),
            waits,
            waited,
            guard_violations: counts.violations.load(Ordering::Relaxed),
            programs: self
                .programs
                .in_order()
                .into_iter()
                .map(|record| ProgramStatistics {
                    name: record.name.to_string(),
                    leases: record.leases.load(Ordering::Relaxed),
                    high_water: record.high_water.load(Ordering::Relaxed),
                })
                .collect(),
        }
    }

    /// The slab itself, for code that does its own device work. Its copies and fills are unsafe:
    /// only whoever holds a lease, a frame's array or a reservation may touch the bytes.
    pub fn slab(&self) -> &P::Slab {
        &self.slab
    }

    pub(crate) fn create_event(&self) -> Result<P::Event, Error> {
        self.platform.create_event(self.device)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn gate(&self) -> &Gate<Order<P>> {
        &self.gate
    }

    pub(crate) fn programs(&self) -> &Programs {
        &self.programs
    }

    pub(crate) fn reservations(&self) -> sync::MutexGuard<'_, Vec<ReservationRecord>> {
        sync::lock(&self.reservations)
    }

    #[inline]
    pub(crate) fn reserved_from(&self) -> usize {
        self.reserved_from.load(Ordering::Relaxed)
    }

    /// Moves the beginning of the reservations, for whoever is inside the gate.
    pub(crate) fn reserve_from(&self, offset: usize) {
        self.reserved_from.store(offset, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn count_hit(&self) {
        self.hits.increment();
    }

    pub(crate) fn count_miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it is this process's, for those who hand out its address; every other method asks itself.
    /// No system call.
    ///
    /// # Errors
    /// [`Error::Forked`] in a child that was forked after the workspace was made.
    #[inline]
    pub fn check_process(&self) -> Result<(), Error> {
        if self.fork_generation == fork::generation() {
            Ok(())
        } else {
            Err(Error::Forked {
                platform: P::NAME,
                device: self.device,
            })
        }
    }

    pub(crate) fn check_stream(&self, stream: &P::Stream) -> Result<(), Error> {
        if stream.device() == self.device {
            Ok(())
        } else {
            Err(Error::WrongDevice {
                platform: P::NAME,
                workspace: self.device,
                stream: stream.device(),
            })
        }
    }

    /// Enters the gate and orders `stream` after the last holder's work.
    #[inline]
    pub(crate) fn enter<'w>(
        &'w self,
        stream: &'w P::Stream,
        program: Option<&'w ProgramRecord>,
        patience: Patience,
    ) -> Result<Lease<'w, P>, Error> {
        self.check_process()?;
        self.check_stream(stream)?;
        let captured = stream.capture()?;
        let entered = self
            .gate
            .enter(program.map(|program| program.index), patience);
        let mut pass = match entered {
            Ok(pass) => pass,
            Err(refusal) => return Err(self.refuse(refusal, patience)),
        };
        let order = &mut *pass;
        if let Some(error) = order.untold.take() {
            return Err(*error);
        }
        if let Some(capture) = captured {
            self.enter_capture(&mut order.captures, stream, capture)?;
        } else if !matches!(&order.tail, Tail::Stream(tail) if tail.id() == stream.id()) {
            self.hand_over(order, stream)?;
        }
        add(&self.counts.leases, 1);
        if let Some(program) = program {
            add(&program.leases, 1);
        }
        Ok(Lease::new(self, stream, pass, program, captured))
    }

    /// Makes `stream` wait for what the last holder left on another stream.
    fn hand_over(&self, order: &mut Order<P>, stream: &P::Stream) -> Result<(), Error> {
        let waits = match &order.tail {
            Tail::Idle => false,
            Tail::Stream(last) => {
                self.follow(stream, last)?;
                true
            }
            Tail::Recorded => {
                stream.wait(&self.event)?;
                true
            }
            Tail::Lost(error) => return Err(Error::clone(error)),
        };
        // A stream that is not owned leaves its mark when the lease ends.
        order.tail = if stream.is_owned() {
            Tail::Stream(stream.clone())
        } else {
            Tail::Idle
        };
        if waits {
            add(&self.counts.cross_stream_waits, 1);
            tracing::debug!(
                platform = P::NAME,
                device = self.device.ordinal(),
                "workspace handed to another stream"
            );
        }
        Ok(())
    }

    /// Makes `stream` wait for what is on `last`. What a capture has taken down runs with its graph.
    fn follow(&self, stream: &P::Stream, last: &P::Stream) -> Result<(), Error> {
        if last.capture()?.is_some() {
            return stream.wait_before_capture(last);
        }
        last.record(&self.event)?;
        stream.wait(&self.event)
    }

    /// Marks the end of a lease on a stream that may be gone soon, and keeps what went wrong.
    #[inline]
    pub(crate) fn end_lease(
        &self,
        order: &mut Order<P>,
        stream: &P::Stream,
        captured: Option<CaptureId>,
        trouble: Option<Box<Error>>,
    ) {
        if let Some(capture) = captured {
            order.captures.leave(stream, capture);
        } else if !stream.is_owned() {
            order.tail = self.mark_end(stream);
        }
        if trouble.is_some() {
            order.untold = trouble;
        }
    }

    /// Takes down how much a lease used, for whoever is inside the gate.
    #[inline]
    pub(crate) fn note_use(&self, program: Option<&ProgramRecord>, used: usize) {
        raise(&self.counts.high_water, used);
        if let Some(program) = program {
            raise(&program.high_water, used);
        }
    }

    #[cold]
    fn mark_end(&self, stream: &P::Stream) -> Tail<P> {
        // In a capture that began during the lease the mark would mark a point of the graph.
        let marked = match stream.capture() {
            Ok(None) => stream.record(&self.event),
            Ok(Some(_)) => Err(Error::Capturing {
                platform: P::NAME,
                device: self.device,
                what: "a lease that was taken before the capture of its stream cannot end",
                advice: "end the lease before the capture begins, or after it has ended",
            }),
            Err(error) => Err(error),
        };
        let Err(error) = marked else {
            return Tail::Recorded;
        };
        // No mark could be left, so wait here and now rather than let two users overlap.
        match stream.synchronize() {
            Ok(()) => Tail::Idle,
            Err(_) => {
                tracing::error!(%error, "the end of a lease could not be marked");
                Tail::Lost(Box::new(error))
            }
        }
    }

    /// Enters the gate, as far as it is free, and blocks until the last holder's work has finished.
    pub(crate) fn settle(&self) -> Result<Pass<'_, Order<P>>, Error> {
        let entered = self.gate.enter(None, Patience::None);
        let mut pass = entered.map_err(|refusal| self.refuse(refusal, Patience::None))?;
        self.drain(&mut pass)?;
        Ok(pass)
    }

    /// Blocks until the last holder's work has finished; then there is nothing left to wait for.
    pub(crate) fn drain(&self, order: &mut Order<P>) -> Result<(), Error> {
        order.drain(&self.platform, self.device, &self.event)
    }

    /// Counts a violation and logs it.
    pub(crate) fn note_violation(&self, violation: &GuardViolation) {
        tracing::error!(
            platform = P::NAME,
            device = self.device.ordinal(),
            "{violation}"
        );
        add(&self.counts.violations, 1);
    }

    /// Who holds a lease or is about to, for messages.
    pub(crate) fn holder(&self) -> Holder {
        let Some(occupant) = self.gate.occupant() else {
            return Holder {
                thread: "that has just come or left".into(),
                program: None,
            };
        };
        let record = occupant.program.and_then(|index| self.programs.at(index));
        Holder {
            thread: match occupant.thread.name() {
                Some(name) => format!("'{name}'"),
                None => format!("{:?}", occupant.thread.id()),
            },
            program: record.map(|record| record.name.to_string()),
        }
    }

    #[cold]
    fn refuse(&self, refusal: Refusal, patience: Patience) -> Error {
        let platform = P::NAME;
        let device = self.device;
        let holder = self.holder();
        match refusal {
            Refusal::Busy => Error::Busy {
                platform,
                device,
                holder,
            },
            Refusal::TimedOut => Error::LeaseTimeout {
                platform,
                device,
                holder,
                waited: match patience {
                    Patience::Until { timeout, .. } => timeout,
                    Patience::None | Patience::Endless => Duration::ZERO,
                },
            },
            Refusal::Own => Error::AlreadyLeased {
                platform,
                device,
                holder,
            },
        }
    }
}

impl<P: Platform> Order<P> {
    /// [`Workspace::drain`], by parts of the workspace.
    fn drain(&mut self, platform: &P, device: DeviceId, event: &P::Event) -> Result<(), Error> {
        match &self.tail {
            Tail::Idle => return Ok(()),
            Tail::Stream(last) if last.capture()?.is_none() => last.synchronize()?,
            Tail::Stream(last) => {
                let stream = platform.create_stream(device)?;
                stream.wait_before_capture(last)?;
                stream.synchronize()?;
            }
            Tail::Recorded => {
                let stream = platform.default_stream(device)?;
                stream.wait(event)?;
                stream.synchronize()?;
            }
            Tail::Lost(error) => return Err(Error::clone(error)),
        }
        self.tail = Tail::Idle;
        Ok(())
    }
}

/// How a request wants the slab to grow: not at all, without a cap, or to one.
pub(crate) fn growth_of(request: &SlabRequest<'_>) -> Option<Option<usize>> {
    (request.check == SizeCheck::Grow).then(|| request.cap.map(SlabSize::bytes))
}

/// The patience of a caller who waits for `timeout`; one too long for the clock is endless.
pub(crate) fn patience_of(timeout: Duration) -> Patience {
    match Instant::now().checked_add(timeout) {
        Some(deadline) => Patience::Until { deadline, timeout },
        None => Patience::Endless,
    }
}

impl<P: Platform> Drop for Workspace<P> {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            // The parent's driver state is not ours to touch; the kernel takes the pages back.
            return;
        }
        let order = self.gate.get_mut();
        if let Err(error) = order.drain(&self.platform, self.device, &self.event) {
            // Work may still run on these bytes. To lose them is safe, to reuse them is not.
            tracing::warn!(%error, "a workspace is not freed: its last work is not known to be done");
            return;
        }
        let bytes = self.size();
        // SAFETY: the slab is dropped here and nowhere else, and `self` is not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.slab) };
        tracing::info!(
            platform = P::NAME,
            device = self.device.ordinal(),
            bytes,
            "workspace freed"
        );
    }
}

impl<P: Platform> fmt::Debug for Workspace<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace")
            .field("platform", &P::NAME)
            .field("device", &self.device)
            .field("base", &self.base())
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}
