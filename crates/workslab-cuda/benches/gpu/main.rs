//! What workslab costs on a real GPU, beside the driver's own allocators, in one run.
//!
//! `cargo xtask gpu-bundle` packs it together with the peers (`peers/`); it prints one JSON object: the
//! device, and for each case the median, the least and the most of its samples in nanoseconds. The cases
//! of a group take turns, so that whatever else the machine does meets all of them.

mod driver;
mod growth;
mod threads;

use std::hint::black_box;
use std::process::ExitCode;
use std::ptr;
use std::time::Instant;

use serde_json::{Map, Value, json};
use workslab_core::{ExternalWorkspaceAllocator, Platform, SlabSize};
use workslab_cuda::Cuda;

use crate::driver::{Bench, ok};

/// The program of the comparison: arrays, and bytes of each.
const ARRAYS: usize = 24;
const BYTES: usize = 8 << 20;

const SAMPLES: usize = 41;

type AnyError = Box<dyn std::error::Error>;

/// One thing that is measured: does it so often, and fails if the driver does.
struct Case<'c> {
    name: &'static str,
    iterations: usize,
    run: Box<dyn FnMut() -> Result<(), AnyError> + 'c>,
}

impl<'c> Case<'c> {
    fn new(
        name: &'static str,
        iterations: usize,
        run: impl FnMut() -> Result<(), AnyError> + 'c,
    ) -> Self {
        Self {
            name,
            iterations,
            run: Box::new(run),
        }
    }
}

/// Measures the cases of a group in turn.
fn group(results: &mut Map<String, Value>, mut cases: Vec<Case<'_>>) -> Result<(), AnyError> {
    let mut samples = vec![Vec::with_capacity(SAMPLES); cases.len()];
    for round in 0..=SAMPLES {
        for (case, samples) in cases.iter_mut().zip(&mut samples) {
            let since = Instant::now();
            for _ in 0..case.iterations {
                (case.run)()?;
            }
            let each = since.elapsed().as_secs_f64() * 1e9 / case.iterations as f64;
            // The first round warms up.
            if round > 0 {
                samples.push(each);
            }
        }
    }
    for (case, samples) in cases.into_iter().zip(samples) {
        results.insert(case.name.into(), summary(samples));
    }
    Ok(())
}

/// What is printed of a case's samples, in nanoseconds.
fn summary(mut samples: Vec<f64>) -> Value {
    samples.sort_by(f64::total_cmp);
    let last = samples.len() - 1;
    json!({"median": samples[last / 2], "least": samples[0], "most": samples[last]})
}

fn run() -> Result<Value, AnyError> {
    let cuda = Cuda::open()?;
    let driver = cuda.driver();
    let allocator = ExternalWorkspaceAllocator::new(cuda);
    let device = allocator.platform().device_info(0.into())?.name;
    let bench = Bench::new()?;
    let size = SlabSize::new(ARRAYS * BYTES)?;
    let workspace = allocator.allocate(0, &size)?;
    let program = workspace.program("bench");
    let new_stream = || allocator.platform().create_stream(workspace.device());
    let (one, other) = (new_stream()?, new_stream()?);
    let mut results = Map::new();

    group(
        &mut results,
        vec![
            Case::new("memory/workslab", 1000, || {
                allocator.allocate(0, black_box(&size))?;
                let mut lease = program.lease(&one)?;
                let frame = lease.frame();
                for _ in 0..ARRAYS {
                    black_box(frame.array::<u8>(BYTES)?.as_device_ptr());
                }
                Ok(())
            }),
            Case::new("memory/cuMemAllocAsync, kept pool", 100, || {
                let mut addresses = [0; ARRAYS];
                for address in &mut addresses {
                    *address = bench.allocate_async(&one, BYTES)?;
                }
                for address in addresses {
                    bench.free_async(&one, address)?;
                }
                Ok(())
            }),
            Case::new("memory/cuMemAlloc", 1, || {
                let mut addresses = [0; ARRAYS];
                for address in &mut addresses {
                    *address = bench.allocate(BYTES)?;
                }
                for address in addresses {
                    bench.free(address)?;
                }
                Ok(())
            }),
        ],
    )?;
    bench.synchronize(&one)?;

    let mut event = ptr::null_mut();
    // SAFETY: the call writes to `event` only; 2 is CU_EVENT_DISABLE_TIMING.
    ok("cuEventCreate", unsafe {
        (bench.driver.cuEventCreate)(&raw mut event, 2)
    })?;
    group(
        &mut results,
        vec![
            Case::new("hand-over/workslab, there and back", 2000, || {
                drop(program.lease(&one)?);
                drop(program.lease(&other)?);
                Ok(())
            }),
            Case::new(
                "hand-over/event record + wait, there and back",
                2000,
                || {
                    for (from, to) in [(&one, &other), (&other, &one)] {
                        // SAFETY: the streams and the event live.
                        unsafe {
                            let code = (bench.driver.cuEventRecord)(event, from.as_raw());
                            ok("cuEventRecord", code)?;
                            let code = (bench.driver.cuStreamWaitEvent)(to.as_raw(), event, 0);
                            ok("cuStreamWaitEvent", code)?;
                        }
                    }
                    Ok(())
                },
            ),
        ],
    )?;
    bench.synchronize(&one)?;
    bench.synchronize(&other)?;

    let raw = bench.allocate(ARRAYS * BYTES)?;
    let mut number = 0;
    group(
        &mut results,
        vec![
            Case::new("program/preallocated by hand", 10, || {
                for index in 0..ARRAYS {
                    bench.kernel(&one, raw + (index * BYTES) as u64, 7)?;
                }
                bench.synchronize(&one)
            }),
            Case::new("program/workslab", 10, || {
                number += 1;
                allocator.allocate(0, &size)?;
                let mut lease = program.lease(&one)?;
                let frame = lease.frame();
                for _ in 0..ARRAYS {
                    let array = frame.array::<u8>(BYTES)?;
                    bench.kernel(&one, array.as_device_ptr().address() as u64, number)?;
                }
                bench.synchronize(&one)
            }),
            Case::new("program/cuMemAllocAsync, kept pool", 10, || {
                let mut addresses = [0; ARRAYS];
                for address in &mut addresses {
                    *address = bench.allocate_async(&one, BYTES)?;
                    bench.kernel(&one, *address, 7)?;
                }
                for address in addresses {
                    bench.free_async(&one, address)?;
                }
                bench.synchronize(&one)
            }),
            Case::new("program/cuMemAlloc", 1, || {
                let mut addresses = [0; ARRAYS];
                for address in &mut addresses {
                    *address = bench.allocate(BYTES)?;
                    bench.kernel(&one, *address, 7)?;
                }
                // It waits for the device, as it must before memory is given back.
                bench.synchronize(&one)?;
                for address in addresses {
                    bench.free(address)?;
                }
                Ok(())
            }),
        ],
    )?;
    bench.free(raw)?;
    threads::measure(&mut results, &bench)?;
    growth::measure(&mut results, &bench)?;

    // The kernels really ran in the workspace.
    let mut lease = program.lease(&one)?;
    let frame = lease.frame();
    let seen = frame.array::<u32>(ARRAYS * BYTES / 4)?.to_vec()?;
    if let Some(wrong) = seen.iter().find(|&&seen| seen != number) {
        return Err(format!("the workspace holds {wrong} instead of {number}").into());
    }
    Ok(json!({"device": device, "driver": driver, "nanoseconds": results}))
}

fn main() -> ExitCode {
    match run() {
        Ok(value) => {
            println!("{value}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("gpu: {error}");
            ExitCode::FAILURE
        }
    }
}
