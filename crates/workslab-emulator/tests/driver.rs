//! The emulated driver is strict: late, suspicious, and exact about misuse.

use proptest::prelude::*;
use workslab_emulator::{Code, Driver, EventId, Fault, Options, StreamId, Violation};

/// A driver that keeps violations instead of ending the process.
fn driver() -> Driver {
    seeded(0)
}

fn seeded(seed: u64) -> Driver {
    Driver::new(Options {
        devices: 2,
        memory: 1 << 20,
        seed,
        abort: false,
        ..Options::default()
    })
}

struct Bench<'d> {
    driver: &'d Driver,
}

/// Calls on device 0, which tests make most.
impl Bench<'_> {
    fn stream(&self) -> StreamId {
        self.driver
            .create_stream("create", 0, false)
            .expect("a stream")
    }

    fn event(&self) -> EventId {
        self.driver.create_event("event", 0).expect("an event")
    }

    fn allocate(&self, len: usize) -> usize {
        self.driver.allocate("malloc", 0, len).expect("it fits")
    }

    fn fill(&self, stream: StreamId, at: usize, byte: u8, len: usize) {
        self.driver
            .fill("fill", 0, stream, at, &[byte], len)
            .expect("enqueued");
    }

    fn read(&self, stream: StreamId, at: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        // SAFETY: the vector lives until the stream is synchronised below.
        unsafe {
            self.driver
                .copy_to_host("read", 0, stream, at, bytes.as_mut_ptr(), len)
                .expect("enqueued");
        }
        self.driver
            .synchronize_stream("sync", 0, stream)
            .expect("a stream");
        bytes
    }

    fn hand_over(&self, from: StreamId, to: StreamId) {
        let event = self.event();
        self.driver
            .record("record", 0, event, from)
            .expect("recorded");
        self.driver.wait("wait", 0, to, event).expect("enqueued");
        self.driver
            .destroy_event("destroy", event)
            .expect("an event");
    }
}

#[test]
fn new_memory_holds_garbage_and_freed_memory_is_gone() {
    let driver = driver();
    let bench = Bench { driver: &driver };
    let stream = bench.stream();
    let at = bench.allocate(16);
    assert_eq!(bench.read(stream, at, 16), [0xEB; 16]);
    assert_eq!(driver.memory("info", 0), Ok(((1 << 20) - 16, 1 << 20)));
    driver.free("free", at).expect("allocated");
    assert_eq!(driver.memory("info", 0), Ok((1 << 20, 1 << 20)));
    let late = driver.fill("fill", 0, stream, at, &[1], 16);
    assert_eq!(late, Err(Code::InvalidValue));
    assert!(matches!(
        driver.violations()[..],
        [Violation::OutOfBounds { .. }]
    ));
}

#[test]
fn work_waits_until_somebody_needs_it_and_a_missing_wait_gives_wrong_data() {
    let driver = driver();
    let bench = Bench { driver: &driver };
    let (first, second) = (bench.stream(), bench.stream());
    let at = bench.allocate(64);
    bench.fill(first, at, 1, 64);
    bench.fill(second, at, 2, 64);
    driver
        .synchronize_stream("sync", 0, second)
        .expect("a stream");
    // Nothing ordered the first fill before the second, and so it may come last.
    assert_eq!(bench.read(first, at, 64), [1; 64]);
    let races = driver.violations();
    assert!(
        matches!(
            races[..],
            [
                Violation::Race {
                    first: "fill",
                    second: "fill",
                    from: 0,
                    to: 64,
                    ..
                },
                ..
            ]
        ),
        "{races:?}"
    );
}

#[test]
fn an_event_orders_what_was_before_it_and_nothing_else() {
    let driver = driver();
    let bench = Bench { driver: &driver };
    let (first, second) = (bench.stream(), bench.stream());
    let at = bench.allocate(64);
    bench.fill(first, at, 1, 64);
    bench.hand_over(first, second);
    bench.fill(second, at, 2, 32);
    assert!(driver.violations().is_empty(), "{:?}", driver.violations());
    // This one comes after the record, and nobody has synchronised.
    bench.fill(first, at + 16, 3, 1);
    assert!(matches!(
        driver.violations()[..],
        [Violation::Race {
            from: 16,
            to: 17,
            ..
        }]
    ));
}

#[test]
fn what_the_host_has_waited_for_is_ordered() {
    let driver = driver();
    let bench = Bench { driver: &driver };
    let (first, second) = (bench.stream(), bench.stream());
    let at = bench.allocate(64);
    bench.fill(first, at, 1, 64);
    driver
        .synchronize_stream("sync", 0, first)
        .expect("a stream");
    bench.fill(second, at, 2, 64);
    driver.synchronize_device("device", 0).expect("a device");
    bench.fill(first, at, 3, 64);
    assert_eq!(bench.read(first, at, 64), [3; 64]);
    assert!(driver.violations().is_empty(), "{:?}", driver.violations());
}

#[test]
fn reads_do_not_race_with_reads() {
    let driver = driver();
    let bench = Bench { driver: &driver };
    let (first, second) = (bench.stream(), bench.stream());
    let at = bench.allocate(128);
    bench.fill(first, at, 1, 128);
    bench.hand_over(first, second);
    driver
        .copy("copy", 0, first, at, at + 64, 32)
        .expect("enqueued");
    driver
        .copy("copy", 0, second, at, at + 96, 32)
        .expect("enqueued");
    assert!(driver.violations().is_empty(), "{:?}", driver.violations());
    bench.fill(first, at, 2, 1);
    assert!(matches!(
        driver.violations()[..],
        [Violation::Race {
            first_kind: "reads",
            second_kind: "writes",
            ..
        }]
    ));
    assert_eq!(bench.read(second, at + 96, 32), [1; 32]);
}

#[test]
fn the_default_stream_is_ordered_with_blocking_streams_only() {
    let driver = driver();
    let bench = Bench { driver: &driver };
    let blocking = driver.create_stream("create", 0, true).expect("a stream");
    let free = bench.stream();
    let at = bench.allocate(64);
    bench.fill(blocking, at, 1, 64);
    bench.fill(StreamId(0), at, 2, 64);
    bench.fill(blocking, at, 3, 64);
    assert_eq!(bench.read(StreamId(0), at, 64), [3; 64]);
    assert!(driver.violations().is_empty(), "{:?}", driver.violations());
    bench.fill(free, at, 4, 64);
    bench.fill(StreamId(0), at, 5, 64);
    assert_eq!(driver.violations().len(), 1);
}

#[test]
fn a_destroyed_streams_work_is_still_done_and_its_handle_is_dead() {
    let driver = driver();
    let bench = Bench { driver: &driver };
    let (first, second) = (bench.stream(), bench.stream());
    let at = bench.allocate(64);
    bench.fill(first, at, 1, 64);
    bench.hand_over(first, second);
    driver.destroy_stream("destroy", first).expect("a stream");
    assert_eq!(bench.read(second, at, 64), [1; 64]);
    let dead = driver.synchronize_stream("sync", 0, first);
    assert_eq!(dead, Err(Code::InvalidHandle));
    assert_eq!(
        driver.destroy_stream("destroy", first),
        Err(Code::InvalidHandle)
    );
    let texts: Vec<String> = driver
        .violations()
        .iter()
        .map(Violation::to_string)
        .collect();
    assert_eq!(texts.len(), 2);
    assert!(
        texts[0].contains("sync") && texts[1].contains("destroy"),
        "{texts:?}"
    );
}

#[test]
fn destroyed_streams_with_work_left_are_finished_with_the_device() {
    let driver = driver();
    let bench = Bench { driver: &driver };
    let at = bench.allocate(64);
    for byte in 0..10 {
        let stream = bench.stream();
        bench.fill(stream, at + byte, 7, 1);
        driver.destroy_stream("destroy", stream).expect("a stream");
    }
    driver.free("free", at).expect("all work is done first");
    assert!(driver.violations().is_empty(), "{:?}", driver.violations());
}

#[test]
fn every_misuse_is_named_with_its_call() {
    let driver = driver();
    let bench = Bench { driver: &driver };
    let stream = bench.stream();
    let event = bench.event();
    let at = bench.allocate(64);
    let other = driver.allocate("malloc", 1, 64).expect("device 1");
    assert_eq!(driver.free("free inner", at + 8), Err(Code::InvalidValue));
    assert_eq!(
        driver.fill("too long", 0, stream, at + 60, &[1], 5),
        Err(Code::InvalidValue)
    );
    assert_eq!(
        driver.fill("other device", 0, stream, other, &[1], 5),
        Err(Code::InvalidValue)
    );
    assert_eq!(
        driver.fill("wrong current", 1, stream, other, &[1], 5),
        Err(Code::InvalidHandle)
    );
    driver.destroy_event("destroy", event).expect("an event");
    assert_eq!(
        driver.record("dead event", 0, event, stream),
        Err(Code::InvalidHandle)
    );
    driver.free("free", at).expect("allocated");
    assert_eq!(driver.free("double free", at), Err(Code::InvalidValue));
    let texts: Vec<String> = driver
        .violations()
        .iter()
        .map(Violation::to_string)
        .collect();
    let expected = [
        ("free inner", "lies inside"),
        ("too long", "ends behind"),
        ("other device", "belongs to device 1"),
        ("wrong current", "stream of device 0"),
        ("dead event", "was destroyed"),
        ("double free", "was freed before"),
    ];
    assert_eq!(texts.len(), expected.len(), "{texts:?}");
    for (text, (call, why)) in texts.iter().zip(expected) {
        assert!(text.contains(call) && text.contains(why), "{text}");
    }
    assert_eq!(driver.leaks().len(), 1);
    assert!(driver.leaks()[0].to_string().contains("never freed"));
}

#[test]
fn memory_and_devices_run_out() {
    let driver = driver();
    assert_eq!(
        driver.allocate("malloc", 0, (1 << 20) + 1),
        Err(Code::OutOfMemory)
    );
    let most = driver.allocate("malloc", 0, 1 << 20).expect("just so");
    assert_eq!(driver.allocate("malloc", 0, 1), Err(Code::OutOfMemory));
    driver.free("free", most).expect("allocated");
    assert_eq!(driver.allocate("malloc", 0, 0), Ok(0));
    assert_eq!(driver.free("free", 0), Ok(()));
    assert_eq!(driver.allocate("malloc", 2, 1), Err(Code::InvalidDevice));
    let none = Driver::new(Options {
        devices: 0,
        ..Options::default()
    });
    assert_eq!(none.device_count("count"), Err(Code::NoDevice));
    assert_eq!(none.memory("info", 0), Err(Code::NoDevice));
    assert!(driver.violations().is_empty());
}

#[test]
fn faults_strike_at_the_call_that_was_asked_for() {
    let driver = driver();
    driver.fail(
        "malloc",
        Fault {
            after: 1,
            times: 2,
            code: 719,
            this_thread: true,
        },
    );
    let outcomes: Vec<_> = (0..4)
        .map(|_| driver.allocate("malloc", 0, 16).err())
        .collect();
    let injected = Some(Code::Injected(719));
    assert_eq!(outcomes, [None, injected, injected, None]);
    let bench = Bench { driver: &driver };
    let stream = bench.stream();
    let at = bench.allocate(16);
    let mut never = [0; 16];
    // SAFETY: the work is lost with the device before the array is gone.
    unsafe {
        driver
            .copy_to_host("read", 0, stream, at, never.as_mut_ptr(), 16)
            .expect("enqueued");
    }
    driver.lose_device(0);
    assert_eq!(
        driver.synchronize_stream("sync", 0, stream),
        Err(Code::DeviceLost)
    );
    assert_eq!(never, [0; 16]);
    assert_eq!(driver.memory("info", 0), Err(Code::DeviceLost));
    assert_eq!(driver.allocate("malloc", 0, 16), Err(Code::DeviceLost));
    driver.memory("info", 1).expect("the other is still there");
    assert_eq!(driver.counts()["malloc"], 6);
}

/// What a random, correct program does: every stream is handed the memory before it uses it.
#[derive(Clone, Debug)]
struct Turn {
    stream: usize,
    from: usize,
    len: usize,
    byte: u8,
    sync: bool,
}

proptest! {
    #[test]
    fn correct_programs_run_right_whatever_the_seed(
        seed: u64,
        turns in prop::collection::vec(
            (0usize..3, 0usize..50, 0usize..50, any::<u8>(), any::<bool>())
                .prop_map(|(stream, from, len, byte, sync)| Turn { stream, from, len, byte, sync }),
            0..40,
        ),
    ) {
        let driver = seeded(seed);
        let bench = Bench { driver: &driver };
        let streams = [bench.stream(), bench.stream(), bench.stream()];
        let at = bench.allocate(100);
        let mut expected = [0u8; 100];
        bench.fill(streams[0], at, 0, 100);
        let mut holder = streams[0];
        for turn in &turns {
            let stream = streams[turn.stream];
            bench.hand_over(holder, stream);
            holder = stream;
            bench.fill(stream, at + turn.from, turn.byte, turn.len);
            expected[turn.from..turn.from + turn.len].fill(turn.byte);
            if turn.sync {
                driver.synchronize_stream("sync", 0, stream).expect("a stream");
            }
        }
        prop_assert_eq!(bench.read(holder, at, 100), expected);
        prop_assert!(driver.violations().is_empty(), "{:?}", driver.violations());
    }

    #[test]
    fn a_hand_over_that_is_left_out_is_always_found(
        seed: u64,
        turns in 2usize..20,
        missing in 1usize..20,
    ) {
        let missing = missing % (turns - 1) + 1;
        let driver = seeded(seed);
        let bench = Bench { driver: &driver };
        let streams = [bench.stream(), bench.stream()];
        let at = bench.allocate(16);
        bench.fill(streams[0], at, 0, 16);
        for turn in 1..turns {
            if turn != missing {
                bench.hand_over(streams[(turn - 1) % 2], streams[turn % 2]);
            }
            bench.fill(streams[turn % 2], at, 1, 16);
        }
        prop_assert!(!driver.violations().is_empty());
    }
}
