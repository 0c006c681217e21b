//! Eight threads on eight streams, against one on one.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use serde_json::{Map, Value};
use workslab_core::{ExternalWorkspaceAllocator, Platform, SlabSize, Workspace};
use workslab_cuda::{Cuda, CudaStream};

use crate::driver::Bench;
use crate::{ARRAYS, AnyError, BYTES, SAMPLES, summary};

const THREADS: usize = 8;

/// What a thread does at its turn, given its number.
type Turn<'t> = &'t (dyn Fn(usize) -> Result<(), String> + Sync);

/// A program of the comparison, on whatever workspace and stream.
fn program(workspace: &Workspace<Cuda>, stream: &CudaStream) -> Result<(), String> {
    let text = |error: workslab_core::Error| error.to_string();
    let mut lease = workspace.lease(stream).map_err(text)?;
    let frame = lease.frame();
    for _ in 0..ARRAYS {
        let array = frame.array::<u8>(BYTES).map_err(text)?;
        std::hint::black_box(array.as_device_ptr());
    }
    Ok(())
}

/// For each sample of so many turns what the slowest thread took for one, in nanoseconds.
fn samples(
    bench: &Bench,
    threads: usize,
    turns: usize,
    turn: Turn<'_>,
) -> Result<Vec<f64>, AnyError> {
    let barrier = Barrier::new(threads);
    let of_thread = |thread: usize| -> Result<Vec<f64>, String> {
        let attached = bench.attach().map_err(|error| error.to_string());
        let mut took = Vec::with_capacity(SAMPLES + 1);
        let mut outcome = attached;
        // Whoever fails still comes to the barrier, where the others wait.
        for _ in 0..=SAMPLES {
            barrier.wait();
            let since = Instant::now();
            for _ in 0..turns {
                outcome = outcome.and_then(|()| turn(thread));
            }
            took.push(since.elapsed().as_secs_f64() * 1e9 / turns as f64);
        }
        outcome.map(|()| took)
    };
    let each = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || of_thread(thread)))
            .collect();
        let joined = running.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(_) => Err("a thread panicked".into()),
        });
        joined.collect::<Result<Vec<_>, String>>()
    })?;
    // The first sample warms up.
    Ok((1..=SAMPLES)
        .map(|sample| each.iter().map(|took| took[sample]).fold(0.0, f64::max))
        .collect())
}

pub(crate) fn measure(results: &mut Map<String, Value>, bench: &Bench) -> Result<(), AnyError> {
    let size = SlabSize::new(ARRAYS * BYTES)?;
    let allocators = (0..THREADS)
        .map(|_| Ok(ExternalWorkspaceAllocator::new(Cuda::open()?)))
        .collect::<Result<Vec<_>, AnyError>>()?;
    let workspaces = allocators
        .iter()
        .map(|allocator| allocator.allocate(0, &size))
        .collect::<Result<Vec<_>, _>>()?;
    let streams = workspaces
        .iter()
        .zip(&allocators)
        .map(|(workspace, allocator)| allocator.platform().create_stream(workspace.device()))
        .collect::<Result<Vec<_>, _>>()?;
    let own = |thread: usize| program(workspaces[thread], &streams[thread]);
    let shared = |thread: usize| program(workspaces[0], &streams[thread]);
    let pool = |thread: usize| -> Result<(), String> {
        let stream = &streams[thread];
        let text = |error: AnyError| error.to_string();
        let mut addresses = [0; ARRAYS];
        for address in &mut addresses {
            *address = bench.allocate_async(stream, BYTES).map_err(text)?;
        }
        for address in addresses {
            bench.free_async(stream, address).map_err(text)?;
        }
        Ok(())
    };
    // So many turns that a sample takes more than a millisecond: the slowest of eight threads is
    // otherwise the one that woke up last, on a cold cache.
    let cases: [(&str, usize, Turn<'_>); 3] = [
        ("workslab, a workspace each", 20_000, &own),
        ("workslab, one workspace", 400, &shared),
        ("cuMemAllocAsync, kept pool", 100, &pool),
    ];
    for (name, turns, turn) in cases {
        for threads in [1, THREADS] {
            let of = summary(samples(bench, threads, turns, turn)?);
            results.insert(format!("threads/{name}, {threads} thread(s)"), of);
        }
    }
    for stream in &streams {
        bench.synchronize(stream)?;
    }
    Ok(())
}
