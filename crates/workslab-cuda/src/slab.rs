//! Slabs: memory of a device, by `cuMemAlloc`, or by `cuMemMap` where it grows.

use std::ffi::c_void;
use std::fmt;

use cust::sys::CUdeviceptr;
use workslab_core::{
    DeviceId, DevicePtr, DeviceSlab, End, Error, GrowableSlab, Growth, MemsetCalls, Pattern,
    SlabSize, Stream, check_disjoint, check_range, fill_by_memset, settle,
};
use workslab_driver::DevicePages;

use crate::call::{Context, Current, DEINITIALIZED};
use crate::memory::Memory;
use crate::stream::CudaStream;
use crate::sys::Code;

/// One allocation of a device's memory, or a range of addresses that gets memory as it grows.
pub struct CudaSlab {
    context: Context,
    base: CUdeviceptr,
    extent: Extent,
}

enum Extent {
    /// `cuMemAlloc` gave so many bytes.
    Fixed(usize),
    Growing(Box<Growth<DevicePages<Memory>>>),
}

impl CudaSlab {
    pub(crate) fn allocate(context: Context, size: SlabSize, touch: bool) -> Result<Self, Error> {
        let current = Current::set(&context)?;
        let mut base: CUdeviceptr = 0;
        // SAFETY: the call writes to `base` only.
        let code = unsafe { (context.functions.cuMemAlloc_v2)(&raw mut base, size.bytes()) };
        if code != 0 {
            let detail = Some(format!("{size} were asked for"));
            return Err(context
                .functions
                .error(context.device, "cuMemAlloc", code, detail));
        }
        drop(current);
        // From here on, dropping `slab` takes everything back.
        let slab = Self {
            context,
            base,
            extent: Extent::Fixed(size.bytes()),
        };
        if touch {
            let stream = CudaStream::default_of(context);
            // SAFETY: nobody else knows of the slab yet.
            unsafe { slab.fill(&stream, 0, size.bytes(), Pattern::U8(0)) }?;
            stream.synchronize()?;
        }
        Ok(slab)
    }

    /// A slab that grows up to `cap` bytes, and has none yet.
    pub(crate) fn reserve(memory: Memory, cap: SlabSize, touch: bool) -> Result<Self, Error> {
        let context = memory.context;
        let (base, growth) = DevicePages::reserve(memory, cap, touch)?;
        Ok(Self {
            context,
            base,
            extent: Extent::Growing(Box::new(growth)),
        })
    }

    fn check(&self, offset: usize, len: usize) -> Result<(), Error> {
        match &self.extent {
            Extent::Fixed(size) => check_range(offset, len, *size),
            Extent::Growing(growth) => growth.check(offset, len),
        }
    }

    fn at(&self, offset: usize) -> CUdeviceptr {
        self.base + offset as CUdeviceptr
    }

    /// Makes a copying call, with this device's context current, as CUDA wants it for work on memory.
    fn copy_async(
        &self,
        call: &'static str,
        len: usize,
        copy: impl FnOnce() -> Code,
    ) -> Result<(), Error> {
        if len == 0 {
            return Ok(());
        }
        let _current = Current::set(&self.context)?;
        self.context.check(call, copy())
    }
}

/// A slab's driver calls on one stream.
struct Calls<'s> {
    slab: &'s CudaSlab,
    stream: &'s CudaStream,
}

impl MemsetCalls for Calls<'_> {
    fn at(&self, offset: usize) -> *mut c_void {
        std::ptr::without_provenance_mut(self.slab.at(offset) as usize)
    }

    fn set8(&self, offset: usize, value: u8, count: usize) -> Result<(), Error> {
        let CudaSlab { context, .. } = self.slab;
        let to = self.slab.at(offset);
        // SAFETY: `fill` has checked the range.
        let code =
            unsafe { (context.functions.cuMemsetD8Async)(to, value, count, self.stream.raw()) };
        context.check("cuMemsetD8Async", code)
    }

    fn set16(&self, offset: usize, value: u16, count: usize) -> Result<(), Error> {
        let CudaSlab { context, .. } = self.slab;
        let to = self.slab.at(offset);
        // SAFETY: as in `set8`, and the address is a multiple of 2.
        let code =
            unsafe { (context.functions.cuMemsetD16Async)(to, value, count, self.stream.raw()) };
        context.check("cuMemsetD16Async", code)
    }

    fn set32(&self, offset: usize, value: u32, count: usize) -> Result<(), Error> {
        let CudaSlab { context, .. } = self.slab;
        let to = self.slab.at(offset);
        // SAFETY: as in `set8`, and the address is a multiple of 4.
        let code =
            unsafe { (context.functions.cuMemsetD32Async)(to, value, count, self.stream.raw()) };
        context.check("cuMemsetD32Async", code)
    }

    fn copy(&self, from: usize, to: usize, len: usize) -> Result<(), Error> {
        let CudaSlab { context, .. } = self.slab;
        let (from, to) = (self.slab.at(from), self.slab.at(to));
        self.slab.copy_async("cuMemcpyDtoDAsync", len, || {
            // SAFETY: the callers have checked both ranges.
            unsafe { (context.functions.cuMemcpyDtoDAsync_v2)(to, from, len, self.stream.raw()) }
        })
    }
}

// SAFETY: cuMemAlloc's memory stays where it is until cuMemFree, and `Growth` keeps what was mapped.
unsafe impl DeviceSlab for CudaSlab {
    type Stream = CudaStream;

    fn device(&self) -> DeviceId {
        self.context.device
    }

    fn base(&self) -> DevicePtr {
        DevicePtr::new(self.base as usize)
    }

    fn len(&self) -> usize {
        match &self.extent {
            Extent::Fixed(size) => *size,
            Extent::Growing(growth) => growth.committed(End::Front),
        }
    }

    fn growable(&self) -> Option<&dyn GrowableSlab> {
        match &self.extent {
            Extent::Fixed(_) => None,
            Extent::Growing(growth) => Some(&**growth),
        }
    }

    unsafe fn write(&self, stream: &CudaStream, offset: usize, source: &[u8]) -> Result<(), Error> {
        self.check(offset, source.len())?;
        stream.refuse_capture("memory cannot be copied from the host")?;
        let (to, from, len) = (self.at(offset), source.as_ptr().cast(), source.len());
        self.copy_async("cuMemcpyHtoDAsync", len, || {
            // SAFETY: the range has been checked, and the source is kept until the copy is done.
            unsafe { (self.context.functions.cuMemcpyHtoDAsync_v2)(to, from, len, stream.raw()) }
        })?;
        // The driver may read the source late, so it is given back only now.
        settle(stream)
    }

    unsafe fn read(
        &self,
        stream: &CudaStream,
        offset: usize,
        destination: &mut [u8],
    ) -> Result<(), Error> {
        self.check(offset, destination.len())?;
        stream.refuse_capture("memory cannot be copied to the host")?;
        let len = destination.len();
        let (to, from) = (destination.as_mut_ptr().cast(), self.at(offset));
        self.copy_async("cuMemcpyDtoHAsync", len, || {
            // SAFETY: the range has been checked, and the destination is kept until the copy is done.
            unsafe { (self.context.functions.cuMemcpyDtoHAsync_v2)(to, from, len, stream.raw()) }
        })?;
        settle(stream)
    }

    unsafe fn fill(
        &self,
        stream: &CudaStream,
        offset: usize,
        len: usize,
        pattern: Pattern,
    ) -> Result<(), Error> {
        self.check(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        let _current = Current::set(&self.context)?;
        fill_by_memset(&Calls { slab: self, stream }, offset, len, pattern)
    }

    unsafe fn copy(
        &self,
        stream: &CudaStream,
        from: usize,
        to: usize,
        len: usize,
    ) -> Result<(), Error> {
        self.check(from, len)?;
        self.check(to, len)?;
        check_disjoint(from, to, len)?;
        Calls { slab: self, stream }.copy(from, to, len)
    }
}

impl Drop for CudaSlab {
    fn drop(&mut self) {
        if matches!(self.extent, Extent::Growing(_)) {
            return; // which gives back what it has
        }
        let functions = self.context.functions;
        // A thread without a context cannot free; one whose context cannot be set has lost it.
        let _current = Current::set(&self.context);
        // SAFETY: the memory is this slab's, and nobody may use it any more.
        let code = unsafe { (functions.cuMemFree_v2)(self.base) };
        if code != 0 && code != DEINITIALIZED {
            let name = functions.name_of(code);
            tracing::error!(code, name, "cuMemFree of a slab failed");
        }
    }
}

impl fmt::Debug for CudaSlab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaSlab")
            .field("device", &self.context.device)
            .field("base", &self.base)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
