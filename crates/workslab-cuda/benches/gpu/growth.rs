//! From 1 to 8 GiB in steps of 64 MiB, with all bytes kept: growing where one is, against allocating
//! anew, copying, and giving back.

use std::time::Instant;

use serde_json::{Map, Value};
use workslab_core::{ExternalWorkspaceAllocator, Platform, SlabRequest, SlabSize};
use workslab_cuda::{Cuda, CudaStream};

use crate::driver::Bench;
use crate::{AnyError, BYTES, summary};

const FROM: usize = 1 << 30;
const TO: usize = 8 << 30;
const STEP: usize = 64 << 20;

/// One warms up.
const ROUNDS: usize = 10;

fn sizes() -> impl Iterator<Item = usize> {
    (FROM + STEP..=TO).step_by(STEP)
}

fn nanoseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e9
}

/// A growing workspace; its bytes at both ends of the first GiB are written before and read after.
fn grow(bench: &Bench) -> Result<f64, AnyError> {
    let allocator = ExternalWorkspaceAllocator::new(Cuda::open()?);
    let request = SlabRequest::exact(SlabSize::new(FROM)?).growing(Some(SlabSize::new(TO)?));
    let workspace = allocator.allocate(0, &request)?;
    let stream = allocator.platform().create_stream(workspace.device())?;
    let base = workspace.base().address() as u64;
    {
        let _lease = workspace.lease(&stream)?;
        bench.kernel(&stream, base, 7)?;
        bench.synchronize(&stream)?;
    }
    let since = Instant::now();
    for size in sizes() {
        workspace.grow(size)?;
    }
    let took = nanoseconds(since);
    let mut lease = workspace.lease(&stream)?;
    let frame = lease.frame();
    let kept = frame.array::<u32>(BYTES / 4)?.to_vec()?;
    if workspace.base().address() as u64 != base || kept.iter().any(|&number| number != 7) {
        return Err("growth moved or lost bytes".into());
    }
    Ok(took)
}

/// The same by the calls of a program that has no workspace.
fn replace(
    stream: &CudaStream,
    bench: &Bench,
    allocate: impl Fn(usize) -> Result<u64, AnyError>,
    free: impl Fn(u64) -> Result<(), AnyError>,
) -> Result<f64, AnyError> {
    let mut address = allocate(FROM)?;
    bench.synchronize(stream)?;
    let since = Instant::now();
    let mut size = FROM;
    for next in sizes() {
        let larger = allocate(next)?;
        bench.copy(stream, larger, address, size)?;
        // Before it is given back the copy must be done; the pool orders that by itself, and then
        // waiting costs next to nothing more.
        bench.synchronize(stream)?;
        free(address)?;
        (address, size) = (larger, next);
    }
    let took = nanoseconds(since);
    free(address)?;
    bench.synchronize(stream)?;
    Ok(took)
}

pub(crate) fn measure(results: &mut Map<String, Value>, bench: &Bench) -> Result<(), AnyError> {
    let cuda = Cuda::open()?;
    let stream = cuda.create_stream(0.into())?;
    let mut samples = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let took = [
            grow(bench)?,
            replace(
                &stream,
                bench,
                |bytes| bench.allocate(bytes),
                |address| bench.free(address),
            )?,
            replace(
                &stream,
                bench,
                |bytes| bench.allocate_async(&stream, bytes),
                |address| bench.free_async(&stream, address),
            )?,
        ];
        if round > 0 {
            for (samples, took) in samples.iter_mut().zip(took) {
                samples.push(took);
            }
        }
    }
    let names = [
        "growth/workslab",
        "growth/cuMemAlloc and copy",
        "growth/cuMemAllocAsync, kept pool, and copy",
    ];
    for (name, samples) in names.into_iter().zip(samples) {
        results.insert(name.into(), summary(samples));
    }
    Ok(())
}
