//! A million queued operations with race detection on: how long the emulator takes.
//!
//! Run with `cargo run --release -p workslab-emulator --example million`.

use std::time::Instant;

use workslab_emulator::{Driver, Options, StreamId};

fn main() {
    const OPERATIONS: usize = 1_000_000;
    const ARRAYS: usize = 24;
    let driver = Driver::new(Options {
        abort: true,
        ..Options::default()
    });
    let made = "the emulator refuses nothing here";
    let base = driver.allocate("malloc", 0, ARRAYS * 4096).expect(made);
    let streams: Vec<StreamId> = (0..4)
        .map(|_| driver.create_stream("create", 0, false).expect(made))
        .collect();
    let event = driver.create_event("event", 0).expect(made);
    let start = Instant::now();
    let mut enqueued = 0;
    let mut turn = 0;
    while enqueued < OPERATIONS {
        // A program on one stream: it fills its arrays, and hands the memory to the next stream.
        let stream = streams[turn % streams.len()];
        for array in 0..ARRAYS {
            let at = base + array * 4096;
            driver
                .fill("fill", 0, stream, at, &[turn as u8], 1 + turn % 4096)
                .expect(made);
        }
        let next = streams[(turn + 1) % streams.len()];
        driver.record("record", 0, event, stream).expect(made);
        driver.wait("wait", 0, next, event).expect(made);
        enqueued += ARRAYS + 2;
        turn += 1;
    }
    driver.synchronize_device("synchronize", 0).expect(made);
    let seconds = start.elapsed().as_secs_f64();
    println!("{enqueued} operations on 4 streams in {seconds:.2} s, no race");
}
