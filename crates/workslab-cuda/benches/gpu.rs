//! What workslab costs on a real GPU, beside the driver's own allocators, in one run.
//!
//! `cargo xtask gpu-bundle` packs it together with the peers (`peers/`); it prints one JSON object: the
//! device, and for each case the median, the least and the most of its samples in nanoseconds. The cases
//! of a group take turns, so that whatever else the machine does meets all of them.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::hint::black_box;
use std::process::ExitCode;
use std::ptr;
use std::time::Instant;

use serde_json::{Map, Value, json};
use workslab_core::{ExternalWorkspaceAllocator, Platform, SlabSize};
use workslab_cuda::{Cuda, CudaStream};
use workslab_driver::{Search, driver_functions};

/// The program of the comparison: arrays, and bytes of each.
const ARRAYS: usize = 24;
const BYTES: usize = 8 << 20;

const SAMPLES: usize = 41;

type AnyError = Box<dyn std::error::Error>;

/// A kernel that writes one number into every 4 bytes.
const KERNEL: &str = "\
.version 6.3
.target sm_75
.address_size 64
.visible .entry put(.param .u64 array, .param .u32 number)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [array];
    ld.param.u32 %r1, [number];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    mul.wide.u32 %rd2, %r5, 4;
    cvta.to.global.u64 %rd3, %rd1;
    add.u64 %rd4, %rd3, %rd2;
    st.global.u32 [%rd4], %r1;
    ret;
}
\0";

// The driver's functions that the backend does not have, and some that it has.
driver_functions! {
    platform "cuda", needs "CUDA 11.2";
    fn cuMemAlloc_v2(pointer: *mut u64, size: usize) -> c_int;
    fn cuMemFree_v2(pointer: u64) -> c_int;
    fn cuMemAllocAsync(pointer: *mut u64, size: usize, stream: *mut c_void) -> c_int;
    fn cuMemFreeAsync(pointer: u64, stream: *mut c_void) -> c_int;
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int;
    fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int) -> c_int;
    fn cuCtxSetCurrent(context: *mut c_void) -> c_int;
    fn cuDeviceGetDefaultMemPool(pool: *mut *mut c_void, device: c_int) -> c_int;
    fn cuMemPoolSetAttribute(pool: *mut c_void, attribute: c_int, value: *mut u64) -> c_int;
    fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_char) -> c_int;
    fn cuModuleGetFunction(function: *mut *mut c_void, module: *mut c_void, name: *const c_char) -> c_int;
    fn cuLaunchKernel(
        function: *mut c_void, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared: c_uint, stream: *mut c_void,
        arguments: *mut *mut c_void, extra: *mut *mut c_void,
    ) -> c_int;
    fn cuStreamSynchronize(stream: *mut c_void) -> c_int;
    fn cuEventCreate(event: *mut *mut c_void, flags: c_uint) -> c_int;
    fn cuEventRecord(event: *mut c_void, stream: *mut c_void) -> c_int;
    fn cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, flags: c_uint) -> c_int;
    optional;
}

fn ok(call: &str, code: c_int) -> Result<(), AnyError> {
    match code {
        0 => Ok(()),
        code => Err(format!("{call}: code {code}").into()),
    }
}

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
    for (case, mut samples) in cases.into_iter().zip(samples) {
        samples.sort_by(f64::total_cmp);
        let of = json!({"median": samples[SAMPLES / 2], "least": samples[0], "most": samples[SAMPLES - 1]});
        results.insert(case.name.into(), of);
    }
    Ok(())
}

struct Bench {
    driver: Functions,
    function: *mut c_void,
}

impl Bench {
    /// With the device's primary context current, in which the backend works too.
    fn new() -> Result<Self, AnyError> {
        let driver = Functions::find(Search::cuda("cuda").open()?)?;
        let (mut device, mut context, mut pool) = (0, ptr::null_mut(), ptr::null_mut());
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        let mut all = u64::MAX;
        // SAFETY: every pointer is to a variable of its own, and the texts end with a zero. 4 is
        // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: the pool gives nothing back by itself.
        unsafe {
            ok("cuDeviceGet", (driver.cuDeviceGet)(&raw mut device, 0))?;
            let code = (driver.cuDevicePrimaryCtxRetain)(&raw mut context, device);
            ok("cuDevicePrimaryCtxRetain", code)?;
            ok("cuCtxSetCurrent", (driver.cuCtxSetCurrent)(context))?;
            let code = (driver.cuDeviceGetDefaultMemPool)(&raw mut pool, device);
            ok("cuDeviceGetDefaultMemPool", code)?;
            let code = (driver.cuMemPoolSetAttribute)(pool, 4, &raw mut all);
            ok("cuMemPoolSetAttribute", code)?;
            let code = (driver.cuModuleLoadData)(&raw mut module, KERNEL.as_ptr().cast());
            ok("cuModuleLoadData", code)?;
            let code = (driver.cuModuleGetFunction)(&raw mut function, module, c"put".as_ptr());
            ok("cuModuleGetFunction", code)?;
        }
        Ok(Self { driver, function })
    }

    /// Writes a number into the whole array at `address`, of BYTES bytes.
    fn kernel(&self, stream: &CudaStream, address: u64, number: u32) -> Result<(), AnyError> {
        let (mut address, mut number) = (address, number);
        let mut arguments = [(&raw mut address).cast(), (&raw mut number).cast()];
        // SAFETY: the grid has a thread for every 4 of the array's bytes, which the caller holds; the
        // arguments are of the kernel's types, and are read before the call returns.
        let code = unsafe {
            (self.driver.cuLaunchKernel)(
                self.function,
                (BYTES / 4 / 256) as c_uint,
                1,
                1,
                256,
                1,
                1,
                0,
                stream.as_raw(),
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        ok("cuLaunchKernel", code)
    }

    fn synchronize(&self, stream: &CudaStream) -> Result<(), AnyError> {
        // SAFETY: the stream lives.
        ok("cuStreamSynchronize", unsafe {
            (self.driver.cuStreamSynchronize)(stream.as_raw())
        })
    }

    fn allocate(&self, bytes: usize) -> Result<u64, AnyError> {
        let mut address = 0;
        // SAFETY: the call writes to `address` only.
        ok("cuMemAlloc", unsafe {
            (self.driver.cuMemAlloc_v2)(&raw mut address, bytes)
        })?;
        Ok(address)
    }

    fn free(&self, address: u64) -> Result<(), AnyError> {
        // SAFETY: `allocate` gave the address, and it is given back once.
        ok("cuMemFree", unsafe { (self.driver.cuMemFree_v2)(address) })
    }

    fn allocate_async(&self, stream: &CudaStream) -> Result<u64, AnyError> {
        let mut address = 0;
        // SAFETY: the call writes to `address` only, and the stream lives.
        ok("cuMemAllocAsync", unsafe {
            (self.driver.cuMemAllocAsync)(&raw mut address, BYTES, stream.as_raw())
        })?;
        Ok(address)
    }

    fn free_async(&self, stream: &CudaStream, address: u64) -> Result<(), AnyError> {
        // SAFETY: `allocate_async` gave the address, and it is given back once, after its last use on
        // the same stream.
        ok("cuMemFreeAsync", unsafe {
            (self.driver.cuMemFreeAsync)(address, stream.as_raw())
        })
    }
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
                    *address = bench.allocate_async(&one)?;
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
            Case::new("hand-over/workslab, there and back", 200, || {
                drop(program.lease(&one)?);
                drop(program.lease(&other)?);
                Ok(())
            }),
            Case::new("hand-over/event record + wait, there and back", 200, || {
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
            }),
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
                    *address = bench.allocate_async(&one)?;
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
