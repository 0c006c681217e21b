//! Random programs: threads, streams, devices, leases, frames and faults. Every byte stays right,
//! every error has a type, and everything comes back.

use proptest::prelude::*;
use rstest::rstest;
use rstest_reuse::apply;
use workslab::{Error, ExternalWorkspaceAllocator, Frame, Pattern, Platform, Stream};
use workslab_tests::{Backend, Counted};

use crate::matrix::backends;
use crate::support::{counted, size};

const SIZE: usize = 1 << 16;

#[derive(Clone, Debug)]
struct Program {
    device: u32,
    stream: usize,
    lent: bool,
    arrays: Vec<usize>,
    nested: Vec<usize>,
}

fn program() -> impl Strategy<Value = Program> {
    let lengths = || prop::collection::vec(0usize..6000, 0..6);
    (0u32..2, 0usize..3, any::<bool>(), lengths(), lengths()).prop_map(
        |(device, stream, lent, arrays, nested)| Program {
            device,
            stream,
            lent,
            arrays,
            nested,
        },
    )
}

/// Writes arrays of their own patterns, and then reads them all back.
fn write_and_check<P: Platform>(
    frame: &Frame<'_, P>,
    lengths: &[usize],
    inner: &[usize],
    seed: u8,
) -> Result<(), Error> {
    let mut arrays = Vec::new();
    for (index, length) in lengths.iter().enumerate() {
        let mut array = frame.array::<u8>(*length)?;
        let byte = seed.wrapping_add(index as u8);
        array.fill_pattern(Pattern::U8(byte))?;
        arrays.push((array, byte));
    }
    if !inner.is_empty() {
        write_and_check(&frame.frame()?, inner, &[], seed.wrapping_add(100))?;
    }
    for (array, byte) in &arrays {
        let bytes = array.to_vec()?;
        assert!(bytes.iter().all(|found| found == byte), "a byte is wrong");
    }
    Ok(())
}

fn run<B: Backend>(
    backend: &B,
    allocator: &ExternalWorkspaceAllocator<Counted<B::P>>,
    programs: &[Program],
    seed: u8,
) -> Result<(), Error> {
    let platform = allocator.platform();
    let mut streams = Vec::new();
    for device in 0..2 {
        streams.push([
            platform.default_stream(device.into())?,
            platform.create_stream(device.into())?,
            platform.create_stream(device.into())?,
        ]);
    }
    let mut first_error = None;
    for (turn, program) in programs.iter().enumerate() {
        let owned = &streams[program.device as usize][program.stream];
        let stream = if program.lent {
            owned.map(|stream| backend.lend(stream))
        } else {
            owned.clone()
        };
        let outcome = (|| {
            let workspace = allocator.allocate(program.device, &size(SIZE))?;
            let mut lease = workspace.lease(&stream)?;
            let frame = lease.frame();
            let seed = seed.wrapping_mul(31).wrapping_add(turn as u8);
            write_and_check(&frame, &program.arrays, &program.nested, seed)
        })();
        if let Err(error) = outcome {
            first_error.get_or_insert(error);
        }
    }
    for stream in streams.iter().flatten() {
        stream.synchronize()?;
    }
    first_error.map_or(Ok(()), Err)
}

fn check<B: Backend>(backend: &B, threads: &[Vec<Program>], fault: Option<(&'static str, u64)>) {
    let (mut allocator, calls) = counted(backend);
    if let Some((call, after)) = fault {
        calls.fail(call, after);
    }
    std::thread::scope(|scope| {
        for (seed, programs) in threads.iter().enumerate() {
            let allocator = &allocator;
            scope.spawn(move || {
                match run(backend, allocator, programs, seed as u8) {
                    Ok(()) => {}
                    Err(Error::Driver { name, .. }) if name == "injected fault" => {
                        assert!(fault.is_some());
                    }
                    // The arrays of a program may well be more than the workspace holds.
                    Err(Error::Exhausted { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            });
        }
    });
    let in_doubt = allocator.reset().is_err();
    assert!(!in_doubt || fault.is_some());
    if in_doubt {
        // A fault in the release itself is over by the second try.
        allocator.reset().expect("nothing is in use");
    }
    assert_eq!(
        calls.count("allocate_slab"),
        calls.count("free") + failed(fault, &calls)
    );
}

/// How many allocations failed for the fault.
fn failed(fault: Option<(&'static str, u64)>, calls: &workslab_tests::Calls) -> u64 {
    match fault {
        Some(("allocate_slab", after)) => u64::from(calls.count("allocate_slab") > after),
        _ => 0,
    }
}

const CALLS: [&str; 10] = [
    "device_count",
    "device_info",
    "create_event",
    "allocate_slab",
    "create_stream",
    "record",
    "wait",
    "fill",
    "read",
    "synchronize",
];

#[apply(backends)]
fn random_programs_keep_every_byte_and_give_everything_back<B: Backend>(#[case] backend: B) {
    println!("on {}", backend.driver());
    let threads = prop::collection::vec(prop::collection::vec(program(), 0..8), 1..4);
    let fault = prop::option::of((prop::sample::select(&CALLS[..]), 0u64..20));
    proptest!(|(threads in threads, fault in fault)| {
        check(&backend, &threads, fault);
    });
}
