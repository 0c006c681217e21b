//! Captures and graphs in the emulated driver: the order that a graph has, and the faults that spoil
//! a capture.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use workslab_emulator::{
    CaptureFault, CaptureMode, CaptureStatus, Code, Destructor, Driver, EventId, Options, StreamId,
    Violation,
};

struct Bench {
    driver: Driver,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let options = Options {
            devices: 2,
            memory: 1 << 20,
            seed,
            abort: false,
            ..Options::default()
        };
        Self {
            driver: Driver::new(options),
        }
    }

    fn stream(&self) -> StreamId {
        self.driver.create_stream("create", 0, false).expect("one")
    }

    fn event(&self) -> EventId {
        self.driver.create_event("event", 0).expect("one")
    }

    fn allocate(&self, len: usize) -> usize {
        self.driver.allocate("malloc", 0, len).expect("it fits")
    }

    fn fill(&self, stream: StreamId, at: usize, byte: u8) -> Result<(), Code> {
        self.driver.fill("fill", 0, stream, at, &[byte], 16)
    }

    /// Lets `second` follow `first` through an event.
    fn follow(&self, second: StreamId, first: StreamId) -> Result<(), Code> {
        let event = self.event();
        self.driver.record("record", 0, event, first)?;
        self.driver.wait("wait", 0, second, event)
    }

    fn begin(&self, stream: StreamId) {
        self.begin_in(stream, CaptureMode::ThreadLocal);
    }

    fn begin_in(&self, stream: StreamId, mode: CaptureMode) {
        let begun = self.driver.begin_capture("begin", 0, stream, mode);
        begun.expect("a stream that is not captured");
    }

    fn end(&self, stream: StreamId) -> Result<u64, Code> {
        let graph = self.driver.end_capture("end", 0, stream)?;
        self.driver.instantiate("instantiate", graph)
    }

    fn launch(&self, graph: u64, stream: StreamId) {
        let launched = self.driver.launch("launch", 0, graph, stream);
        launched.expect("a graph");
    }

    fn sync(&self, stream: StreamId) -> Result<(), Code> {
        self.driver.synchronize_stream("sync", 0, stream)
    }

    fn byte(at: usize) -> u8 {
        // SAFETY: the emulated memory is the host's, and these tests do not free it.
        unsafe { std::ptr::with_exposed_provenance::<u8>(at).read() }
    }

    fn no_violations(&self) {
        assert_eq!(self.driver.violations(), []);
    }
}

fn fault<T>(fault: CaptureFault) -> Result<T, Code> {
    Err(Code::Capture(fault))
}

#[test]
fn captured_work_runs_at_its_launch_and_behind_the_streams_work() {
    for seed in 0..20 {
        let bench = Bench::new(seed);
        let (captured, launched) = (bench.stream(), bench.stream());
        let at = bench.allocate(16);
        bench.begin(captured);
        bench.fill(captured, at, 1).expect("captured");
        let graph = bench.end(captured).expect("nothing spoilt it");
        bench.sync(captured).expect("nothing is there");
        assert_eq!(Bench::byte(at), 0xEB, "a capture runs nothing");
        for _ in 0..3 {
            bench.fill(launched, at, 2).expect("enqueued");
            bench.launch(graph, launched);
            bench.sync(launched).expect("done");
            assert_eq!(Bench::byte(at), 1);
        }
        bench.no_violations();
    }
}

#[test]
fn nodes_without_a_path_between_them_race_and_with_one_they_do_not() {
    for ordered in [false, true] {
        let bench = Bench::new(1);
        let (first, second) = (bench.stream(), bench.stream());
        let at = bench.allocate(16);
        bench.begin(first);
        bench.follow(second, first).expect("forked");
        bench.fill(first, at, 1).expect("captured");
        if ordered {
            bench.follow(second, first).expect("an edge");
        }
        bench.fill(second, at, 2).expect("captured");
        bench.follow(first, second).expect("joined");
        let graph = bench.end(first).expect("joined");
        bench.no_violations();
        bench.launch(graph, first);
        bench.sync(first).expect("done");
        let races = bench.driver.violations();
        assert_eq!(races.is_empty(), ordered, "{races:?}");
        assert!(
            races
                .iter()
                .all(|found| matches!(found, Violation::Race { .. }))
        );
    }
}

#[test]
fn a_launch_is_unordered_with_other_streams() {
    let bench = Bench::new(2);
    let (captured, other) = (bench.stream(), bench.stream());
    let at = bench.allocate(16);
    bench.begin(captured);
    bench.fill(captured, at, 1).expect("captured");
    let graph = bench.end(captured).expect("nothing spoilt it");
    bench.launch(graph, captured);
    bench.launch(graph, captured);
    bench.no_violations();
    bench.fill(other, at, 2).expect("enqueued");
    assert!(matches!(
        bench.driver.violations()[..],
        [Violation::Race { .. }]
    ));
}

#[test]
fn each_way_to_spoil_a_capture_has_its_code() {
    let bench = Bench::new(3);
    let here = || (bench.stream(), bench.stream());

    let (first, second) = here();
    bench.begin(first);
    assert_eq!(bench.sync(first), fault(CaptureFault::Unsupported));
    assert_eq!(
        bench.fill(first, bench.allocate_elsewhere(), 1),
        fault(CaptureFault::Invalidated)
    );
    assert_eq!(bench.end(first), fault(CaptureFault::Invalidated));

    bench.begin(first);
    let event = bench.event();
    bench
        .driver
        .record("record", 0, event, second)
        .expect("outside");
    assert_eq!(
        bench.driver.wait("wait", 0, first, event),
        fault(CaptureFault::Isolation)
    );
    assert_eq!(bench.end(first), fault(CaptureFault::Invalidated));

    bench.begin(first);
    bench.begin(second);
    assert_eq!(bench.follow(second, first), fault(CaptureFault::Merge));
    bench.end(first).expect("only the second is spoilt");
    assert_eq!(bench.end(second), fault(CaptureFault::Invalidated));

    bench.begin(first);
    bench.follow(second, first).expect("forked");
    bench
        .fill(second, bench.allocate_elsewhere(), 1)
        .expect("captured");
    assert_eq!(bench.end(second), fault(CaptureFault::Unmatched));
    assert_eq!(bench.end(first), fault(CaptureFault::Invalidated));

    bench.begin(first);
    bench.follow(second, first).expect("forked");
    bench
        .fill(second, bench.allocate_elsewhere(), 1)
        .expect("captured");
    assert_eq!(bench.end(first), fault(CaptureFault::Unjoined));

    bench.begin(first);
    let event = bench.event();
    bench
        .driver
        .record("record", 0, event, first)
        .expect("captured");
    assert_eq!(
        bench.driver.query("query", event),
        fault(CaptureFault::CapturedEvent)
    );
    assert_eq!(bench.end(first), fault(CaptureFault::Invalidated));

    bench.begin(first);
    let elsewhere = std::thread::scope(|scope| scope.spawn(|| bench.end(first)).join());
    assert_eq!(
        elsewhere.expect("no panic"),
        fault(CaptureFault::WrongThread)
    );
    bench.end(first).expect("the right thread");

    let blocking = bench.driver.create_stream("create", 0, true).expect("one");
    bench.begin(blocking);
    let at = bench.allocate_elsewhere();
    assert_eq!(
        bench.fill(StreamId(0), at, 1),
        fault(CaptureFault::Implicit)
    );
    assert_eq!(bench.end(blocking), fault(CaptureFault::Invalidated));

    bench.begin(first);
    bench
        .driver
        .destroy_stream("destroy", first)
        .expect("it was there");
    bench.no_violations();
}

impl Bench {
    /// Memory that a thread makes which captures nothing.
    fn allocate_elsewhere(&self) -> usize {
        let made = std::thread::scope(|scope| scope.spawn(|| self.allocate(16)).join());
        made.expect("no panic")
    }
}

#[test]
fn calls_that_could_wait_are_ruled_out_as_the_mode_says() {
    for (mode, here, elsewhere) in [
        (CaptureMode::Global, false, false),
        (CaptureMode::ThreadLocal, false, true),
        (CaptureMode::Relaxed, true, true),
    ] {
        for (on_this_thread, allowed) in [(true, here), (false, elsewhere)] {
            let bench = Bench::new(4);
            let stream = bench.stream();
            bench.begin_in(stream, mode);
            let other = bench.stream();
            let allocate = || {
                let allocated = bench.driver.allocate("malloc", 0, 16).is_ok();
                let waited = bench.sync(other).is_ok();
                assert_eq!(allocated, waited);
                allocated
            };
            let done = match on_this_thread {
                true => allocate(),
                false => std::thread::scope(|s| s.spawn(allocate).join()).expect("no panic"),
            };
            assert_eq!(done, allowed, "{mode:?}, here: {on_this_thread}");
            assert_eq!(bench.end(stream).is_ok(), allowed);
        }
    }
}

#[test]
fn the_status_names_the_capture() {
    let bench = Bench::new(5);
    let (first, second) = (bench.stream(), bench.stream());
    let status = |stream| bench.driver.capture_status("status", 0, stream);
    assert_eq!(status(first), Ok(CaptureStatus::None));
    bench.begin(first);
    let Ok(CaptureStatus::Active(id)) = status(first) else {
        panic!("{:?}", status(first));
    };
    bench.follow(second, first).expect("forked");
    assert_eq!(status(second), Ok(CaptureStatus::Active(id)));
    assert_eq!(bench.sync(second), fault(CaptureFault::Unsupported));
    assert_eq!(status(first), Ok(CaptureStatus::Invalidated(id)));
    assert!(bench.end(first).is_err());
    assert_eq!(status(second), Ok(CaptureStatus::None));
}

static DESTROYED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn destroyed(_: *mut c_void) {
    DESTROYED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn an_object_lives_as_long_as_the_last_graph_that_has_it() {
    let bench = Bench::new(6);
    let stream = bench.stream();
    bench.begin(stream);
    let graph = bench.driver.end_capture("end", 0, stream).expect("empty");
    let destructor = Destructor {
        function: destroyed,
        argument: std::ptr::null_mut(),
    };
    // SAFETY: the function takes any argument.
    let object = unsafe { bench.driver.create_object("object", destructor, 2) }.expect("one");
    let retain = |count, moves| {
        let retained = bench
            .driver
            .retain_in_graph("retain", graph, object, count, moves);
        retained.expect("both are there");
    };
    retain(1, true);
    retain(1, false);
    let executable = bench.driver.instantiate("instantiate", graph).expect("one");
    bench
        .driver
        .release_object("release", object, 1)
        .expect("one is the caller's");
    bench.driver.destroy_graph("destroy", graph).expect("one");
    assert_eq!(DESTROYED.load(Ordering::Relaxed), 0);
    bench
        .driver
        .destroy_executable("destroy", executable)
        .expect("one");
    assert_eq!(DESTROYED.load(Ordering::Relaxed), 1);
    assert!(bench.driver.release_object("release", object, 1).is_err());
    assert!(
        bench
            .driver
            .launch("launch", 0, executable, stream)
            .is_err()
    );
    let misuse = bench.driver.violations();
    assert!(
        misuse
            .iter()
            .all(|found| matches!(found, Violation::BadHandle { .. }))
            && misuse.len() == 2,
        "{misuse:?}"
    );
}

#[test]
fn a_launch_on_memory_that_was_freed_names_the_call() {
    let bench = Bench::new(7);
    let stream = bench.stream();
    let at = bench.allocate(16);
    bench.begin(stream);
    bench.fill(stream, at, 1).expect("captured");
    let graph = bench.end(stream).expect("nothing spoilt it");
    bench.driver.free("free", at).expect("it was there");
    assert!(bench.driver.launch("launch", 0, graph, stream).is_err());
    let found = bench.driver.violations();
    let [Violation::OutOfBounds { call: "fill", .. }] = found[..] else {
        panic!("{found:?}");
    };
}
