//! The driver's own calls: what the peers of the comparison are made of.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use workslab_cuda::CudaStream;
use workslab_driver::{Search, driver_functions};

use crate::{AnyError, BYTES};

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
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, size: usize, stream: *mut c_void) -> c_int;
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

pub(crate) fn ok(call: &str, code: c_int) -> Result<(), AnyError> {
    match code {
        0 => Ok(()),
        code => Err(format!("{call}: code {code}").into()),
    }
}

/// The driver, used as a program would use it that has no workslab.
pub(crate) struct Bench {
    pub(crate) driver: Functions,
    context: *mut c_void,
    function: *mut c_void,
}

// SAFETY: CUDA's handles may be used from any thread, and by several at once.
unsafe impl Sync for Bench {}

impl Bench {
    /// With the device's primary context current, in which the backend works too.
    pub(crate) fn new() -> Result<Self, AnyError> {
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
        Ok(Self {
            driver,
            context,
            function,
        })
    }

    /// Makes the context current on a thread that was not there when it was found.
    pub(crate) fn attach(&self) -> Result<(), AnyError> {
        // SAFETY: the context is retained, and never let go.
        ok("cuCtxSetCurrent", unsafe {
            (self.driver.cuCtxSetCurrent)(self.context)
        })
    }

    /// Writes a number into the whole array at `address`, of BYTES bytes.
    pub(crate) fn kernel(
        &self,
        stream: &CudaStream,
        address: u64,
        number: u32,
    ) -> Result<(), AnyError> {
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

    pub(crate) fn synchronize(&self, stream: &CudaStream) -> Result<(), AnyError> {
        // SAFETY: the stream lives.
        ok("cuStreamSynchronize", unsafe {
            (self.driver.cuStreamSynchronize)(stream.as_raw())
        })
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64, AnyError> {
        let mut address = 0;
        // SAFETY: the call writes to `address` only.
        ok("cuMemAlloc", unsafe {
            (self.driver.cuMemAlloc_v2)(&raw mut address, bytes)
        })?;
        Ok(address)
    }

    pub(crate) fn free(&self, address: u64) -> Result<(), AnyError> {
        // SAFETY: `allocate` gave the address, and it is given back once.
        ok("cuMemFree", unsafe { (self.driver.cuMemFree_v2)(address) })
    }

    pub(crate) fn allocate_async(
        &self,
        stream: &CudaStream,
        bytes: usize,
    ) -> Result<u64, AnyError> {
        let mut address = 0;
        // SAFETY: the call writes to `address` only, and the stream lives.
        ok("cuMemAllocAsync", unsafe {
            (self.driver.cuMemAllocAsync)(&raw mut address, bytes, stream.as_raw())
        })?;
        Ok(address)
    }

    pub(crate) fn free_async(&self, stream: &CudaStream, address: u64) -> Result<(), AnyError> {
        // SAFETY: `allocate_async` gave the address, and it is given back once, after its last use on
        // the same stream.
        ok("cuMemFreeAsync", unsafe {
            (self.driver.cuMemFreeAsync)(address, stream.as_raw())
        })
    }

    /// Enqueues a copy of the first `bytes` at `from` to `to`.
    pub(crate) fn copy(
        &self,
        stream: &CudaStream,
        to: u64,
        from: u64,
        bytes: usize,
    ) -> Result<(), AnyError> {
        // SAFETY: the caller holds both ranges, and they do not overlap.
        ok("cuMemcpyDtoDAsync", unsafe {
            (self.driver.cuMemcpyDtoDAsync_v2)(to, from, bytes, stream.as_raw())
        })
    }
}
