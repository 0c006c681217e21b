//! Every interleaving of a few threads that lease, hand over and race to be first, by loom.
//!
//! Run with `cargo xtask loom`, which sets `--cfg loom`; without it this file is empty.
//!
//! What is explored is our own protocol: the gate with its queue, the hand-over between streams,
//! and what happens around the first use. The once-cell itself is trusted; under loom a mutex
//! stands in for it. Loom's clock does not run, so timeouts are left to the ordinary tests.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use workslab_core::{
    DeviceId, DeviceInfo, DevicePtr, DeviceSlab, Error, ExternalWorkspaceAllocator, Pattern,
    Platform, SlabOptions, SlabSize, Stream, StreamId,
};

/// A device whose memory is one loom cell: two accesses at once, or without a happens-before
/// between them, are a failure.
struct Model {
    allocations: Arc<AtomicUsize>,
    /// How many allocations shall fail before one succeeds.
    failures: AtomicUsize,
    events: Arc<Events>,
}

#[derive(Default)]
struct Events {
    records: AtomicUsize,
    waits: AtomicUsize,
}

struct ModelSlab {
    memory: UnsafeCell<u64>,
}

// SAFETY: loom checks every access to the cell; that there is no race is what is being tested.
unsafe impl Send for ModelSlab {}
// SAFETY: as above.
unsafe impl Sync for ModelSlab {}

#[derive(Clone)]
struct ModelStream {
    id: u64,
    owned: bool,
    events: Arc<Events>,
}

// SAFETY: nothing runs on these streams but in the calling thread, at once.
unsafe impl Stream for ModelStream {
    type Event = ();

    fn id(&self) -> StreamId {
        StreamId(self.id)
    }

    fn device(&self) -> DeviceId {
        DeviceId::new(0)
    }

    fn is_owned(&self) -> bool {
        self.owned
    }

    fn record(&self, (): &()) -> Result<(), Error> {
        self.events.records.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn wait(&self, (): &()) -> Result<(), Error> {
        self.events.waits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }
}

// SAFETY: nobody follows the address; the memory behind the calls is the cell.
unsafe impl DeviceSlab for ModelSlab {
    type Stream = ModelStream;

    fn device(&self) -> DeviceId {
        DeviceId::new(0)
    }

    fn base(&self) -> DevicePtr {
        DevicePtr::new(4096)
    }

    fn len(&self) -> usize {
        4096
    }

    unsafe fn write(&self, _: &ModelStream, _: usize, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    unsafe fn read(&self, _: &ModelStream, _: usize, to: &mut [u8]) -> Result<(), Error> {
        // SAFETY: loom checks the access.
        let value = self.memory.with(|memory| unsafe { *memory });
        to.fill(value as u8);
        Ok(())
    }

    unsafe fn fill(
        &self,
        _: &ModelStream,
        _: usize,
        _: usize,
        pattern: Pattern,
    ) -> Result<(), Error> {
        let value = u64::from_ne_bytes(pattern.widened());
        // SAFETY: loom checks the access.
        self.memory.with_mut(|memory| unsafe { *memory = value });
        Ok(())
    }

    unsafe fn copy(&self, _: &ModelStream, _: usize, _: usize, _: usize) -> Result<(), Error> {
        Ok(())
    }
}

impl Platform for Model {
    const NAME: &'static str = "model";
    type Slab = ModelSlab;
    type Stream = ModelStream;
    type Event = ();

    fn device_count(&self) -> Result<u32, Error> {
        Ok(1)
    }

    fn device_info(&self, _: DeviceId) -> Result<DeviceInfo, Error> {
        Ok(DeviceInfo::new("model", 4096, 4096, 1))
    }

    fn allocate_slab(
        &self,
        device: DeviceId,
        _: SlabSize,
        _: SlabOptions,
    ) -> Result<ModelSlab, Error> {
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::NoSuchDevice {
                platform: Self::NAME,
                device,
                count: 0,
            });
        }
        self.allocations.fetch_add(1, Ordering::Relaxed);
        Ok(ModelSlab {
            memory: UnsafeCell::new(0),
        })
    }

    fn create_event(&self, _: DeviceId) -> Result<(), Error> {
        Ok(())
    }

    fn create_stream(&self, _: DeviceId) -> Result<ModelStream, Error> {
        Ok(self.stream(1, true))
    }

    fn default_stream(&self, _: DeviceId) -> Result<ModelStream, Error> {
        Ok(self.stream(0, true))
    }
}

impl Model {
    fn new(failures: usize) -> Self {
        Self {
            allocations: Arc::new(AtomicUsize::new(0)),
            failures: AtomicUsize::new(failures),
            events: Arc::default(),
        }
    }

    fn stream(&self, id: u64, owned: bool) -> ModelStream {
        ModelStream {
            id,
            owned,
            events: Arc::clone(&self.events),
        }
    }
}

fn size() -> SlabSize {
    SlabSize::new(4096).expect("not zero")
}

/// Leases, writes a pattern, and reads it back: nobody else may have written meanwhile.
fn use_workspace(allocator: &ExternalWorkspaceAllocator<Model>, stream: &ModelStream, byte: u8) {
    let workspace = allocator.allocate(0, &size()).expect("it fits");
    let mut lease = workspace.lease(stream).expect("its turn comes");
    let frame = lease.frame();
    let mut array = frame.array::<u8>(1).expect("it fits");
    array.fill(byte).expect("the model does not fail");
    assert_eq!(array.to_vec().expect("the model does not fail"), [byte]);
}

#[test]
fn racing_first_uses_make_one_allocation_and_leases_exclude_each_other() {
    loom::model(|| {
        let model = Model::new(0);
        let allocations = Arc::clone(&model.allocations);
        let streams = [model.stream(0, true), model.stream(1, true)];
        let events = Arc::clone(&model.events);
        let allocator = Arc::new(ExternalWorkspaceAllocator::new(model));
        let threads: Vec<_> = (1u8..)
            .zip(streams)
            .map(|(byte, stream)| {
                let allocator = Arc::clone(&allocator);
                thread::spawn(move || use_workspace(&allocator, &stream, byte))
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!(allocations.load(Ordering::Relaxed), 1);
        // Two streams, one hand-over, whoever came first.
        assert_eq!(events.records.load(Ordering::Relaxed), 1);
        assert_eq!(events.waits.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn three_threads_all_get_their_turn() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let platform = Model::new(0);
        let stream = platform.stream(0, true);
        let allocator = Arc::new(ExternalWorkspaceAllocator::new(platform));
        let threads: Vec<_> = [1u8, 2]
            .into_iter()
            .map(|byte| {
                let allocator = Arc::clone(&allocator);
                let stream = stream.clone();
                thread::spawn(move || use_workspace(&allocator, &stream, byte))
            })
            .collect();
        use_workspace(&allocator, &stream, 3);
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!(allocator.statistics()[0].leases, 3);
    });
}

#[test]
fn a_lent_stream_is_marked_before_the_next_holder_waits() {
    loom::model(|| {
        let model = Model::new(0);
        let streams = [model.stream(7, false), model.stream(8, false)];
        let events = Arc::clone(&model.events);
        let allocator = Arc::new(ExternalWorkspaceAllocator::new(model));
        let threads: Vec<_> = (1u8..)
            .zip(streams)
            .map(|(byte, stream)| {
                let allocator = Arc::clone(&allocator);
                thread::spawn(move || use_workspace(&allocator, &stream, byte))
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!(events.records.load(Ordering::Relaxed), 2);
        assert_eq!(events.waits.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_failed_first_use_is_tried_again_by_whoever_comes_next() {
    loom::model(|| {
        let model = Model::new(1);
        let allocations = Arc::clone(&model.allocations);
        let allocator = Arc::new(ExternalWorkspaceAllocator::new(model));
        let other = {
            let allocator = Arc::clone(&allocator);
            thread::spawn(move || allocator.allocate(0, &size()).is_ok())
        };
        let here = allocator.allocate(0, &size()).is_ok();
        let there = other.join().expect("no panic");
        assert!(here != there, "one fails, the other finds nothing cached");
        assert_eq!(allocations.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn try_lease_gets_it_or_names_the_holder() {
    loom::model(|| {
        let model = Model::new(0);
        let stream = model.stream(0, true);
        let allocator = Arc::new(ExternalWorkspaceAllocator::new(model));
        let other = {
            let allocator = Arc::clone(&allocator);
            let stream = stream.clone();
            thread::spawn(move || use_workspace(&allocator, &stream, 1))
        };
        let workspace = allocator.allocate(0, &size()).expect("it fits");
        match workspace.try_lease(&stream) {
            Ok(lease) => drop(lease),
            Err(Error::Busy { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        other.join().expect("no panic");
        drop(workspace.try_lease(&stream).expect("nobody is left"));
    });
}

#[test]
fn the_loser_of_a_race_to_be_first_is_checked() {
    loom::model(|| {
        let allocator = Arc::new(ExternalWorkspaceAllocator::new(Model::new(0)));
        let ask = |allocator: &ExternalWorkspaceAllocator<Model>, bytes| {
            let size = SlabSize::new(bytes).expect("not zero");
            allocator
                .allocate(0, &size)
                .map(|workspace| workspace.size())
        };
        let other = {
            let allocator = Arc::clone(&allocator);
            thread::spawn(move || ask(&allocator, 2048))
        };
        let here = ask(&allocator, 4096);
        let there = other.join().expect("no panic");
        assert!(
            here.is_ok() != there.is_ok(),
            "one size is cached, the other refused"
        );
        assert!(!matches!(here, Ok(size) if size != 4096));
        assert!(!matches!(there, Ok(size) if size != 2048));
    });
}
