//! Slabs: memory of a device, by `hipMalloc`, or by `hipMemMap` where it grows.

use std::ffi::{c_uint, c_void};
use std::fmt;

use hip_sys::hiprt::hipMemcpyKind;
use workslab_core::{
    DeviceId, DevicePtr, DeviceSlab, End, Error, GrowableSlab, Growth, MemsetCalls, Pattern,
    SlabSize, Stream, check_disjoint, check_range, fill_by_memset, settle,
};
use workslab_driver::DevicePages;

use crate::call::{Current, DEINITIALIZED};
use crate::memory::Memory;
use crate::stream::RocmStream;
use crate::sys::Functions;

/// One allocation of a device's memory, or a range of addresses that gets memory as it grows.
pub struct RocmSlab {
    functions: &'static Functions,
    device: DeviceId,
    base: *mut c_void,
    extent: Extent,
}

enum Extent {
    /// `hipMalloc` gave so many bytes.
    Fixed(usize),
    Growing(Box<Growth<DevicePages<Memory>>>),
}

// SAFETY: device memory is not tied to a thread, and the driver's calls may come from any.
unsafe impl Send for RocmSlab {}
// SAFETY: as above; what is done to the memory through shared references goes through `unsafe` calls
// whose contract is exclusive use.
unsafe impl Sync for RocmSlab {}

impl RocmSlab {
    pub(crate) fn allocate(
        functions: &'static Functions,
        device: DeviceId,
        size: SlabSize,
        touch: bool,
    ) -> Result<Self, Error> {
        let current = Current::set(functions, device)?;
        let mut base: *mut c_void = std::ptr::null_mut();
        // SAFETY: the call writes to `base` only.
        let code = unsafe { (functions.hipMalloc)(&raw mut base, size.bytes()) };
        if code != 0 {
            let detail = Some(format!("{size} were asked for"));
            return Err(functions.error(device, "hipMalloc", code, detail));
        }
        drop(current);
        // From here on, dropping `slab` takes everything back.
        let slab = Self {
            functions,
            device,
            base,
            extent: Extent::Fixed(size.bytes()),
        };
        if touch {
            let stream = RocmStream::default_of(functions, device);
            // SAFETY: nobody else knows of the slab yet.
            unsafe { slab.fill(&stream, 0, size.bytes(), Pattern::U8(0)) }?;
            stream.synchronize()?;
        }
        Ok(slab)
    }

    /// A slab that grows up to `cap` bytes, and has none yet.
    pub(crate) fn reserve(
        functions: &'static Functions,
        device: DeviceId,
        memory: Memory,
        cap: SlabSize,
        touch: bool,
    ) -> Result<Self, Error> {
        let (base, growth) = DevicePages::reserve(memory, cap, touch)?;
        Ok(Self {
            functions,
            device,
            base: std::ptr::with_exposed_provenance_mut(base as usize),
            extent: Extent::Growing(Box::new(growth)),
        })
    }

    fn check(&self, offset: usize, len: usize) -> Result<(), Error> {
        match &self.extent {
            Extent::Fixed(size) => check_range(offset, len, *size),
            Extent::Growing(growth) => growth.check(offset, len),
        }
    }

    fn at(&self, offset: usize) -> *mut c_void {
        self.base.wrapping_byte_add(offset)
    }

    /// Copies, with this device current, as HIP wants it for work on memory.
    fn copy_async(
        &self,
        stream: &RocmStream,
        to: *mut c_void,
        from: *const c_void,
        len: usize,
        kind: hipMemcpyKind,
    ) -> Result<(), Error> {
        if len == 0 {
            return Ok(());
        }
        let _current = Current::set(self.functions, self.device)?;
        // SAFETY: the callers have checked the slab's side, and keep the host's side alive.
        let code =
            unsafe { (self.functions.hipMemcpyAsync)(to, from, len, kind as c_uint, stream.raw()) };
        self.functions.check(self.device, "hipMemcpyAsync", code)
    }
}

/// A slab's driver calls on one stream.
struct Calls<'s> {
    slab: &'s RocmSlab,
    stream: &'s RocmStream,
}

impl MemsetCalls for Calls<'_> {
    fn at(&self, offset: usize) -> *mut c_void {
        self.slab.at(offset)
    }

    fn set8(&self, offset: usize, value: u8, count: usize) -> Result<(), Error> {
        let functions = self.slab.functions;
        // SAFETY: `fill` has checked the range.
        let code = unsafe {
            (functions.hipMemsetD8Async)(self.at(offset), value, count, self.stream.raw())
        };
        functions.check(self.slab.device, "hipMemsetD8Async", code)
    }

    fn set16(&self, offset: usize, value: u16, count: usize) -> Result<(), Error> {
        let functions = self.slab.functions;
        // SAFETY: as in `set8`, and the address is a multiple of 2.
        let code = unsafe {
            (functions.hipMemsetD16Async)(self.at(offset), value, count, self.stream.raw())
        };
        functions.check(self.slab.device, "hipMemsetD16Async", code)
    }

    fn set32(&self, offset: usize, value: u32, count: usize) -> Result<(), Error> {
        let functions = self.slab.functions;
        // SAFETY: as in `set8`, and the address is a multiple of 4.
        let code = unsafe {
            (functions.hipMemsetD32Async)(
                self.at(offset),
                value.cast_signed(),
                count,
                self.stream.raw(),
            )
        };
        functions.check(self.slab.device, "hipMemsetD32Async", code)
    }

    fn copy(&self, from: usize, to: usize, len: usize) -> Result<(), Error> {
        let kind = hipMemcpyKind::hipMemcpyDeviceToDevice;
        self.slab
            .copy_async(self.stream, self.at(to), self.at(from), len, kind)
    }
}

// SAFETY: hipMalloc's memory stays where it is until hipFree, and `Growth` keeps what was mapped.
unsafe impl DeviceSlab for RocmSlab {
    type Stream = RocmStream;

    fn device(&self) -> DeviceId {
        self.device
    }

    fn base(&self) -> DevicePtr {
        DevicePtr::new(self.base.expose_provenance())
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

    unsafe fn write(&self, stream: &RocmStream, offset: usize, source: &[u8]) -> Result<(), Error> {
        self.check(offset, source.len())?;
        stream.refuse_capture("memory cannot be copied from the host")?;
        let from = source.as_ptr().cast();
        let kind = hipMemcpyKind::hipMemcpyHostToDevice;
        self.copy_async(stream, self.at(offset), from, source.len(), kind)?;
        // The driver may read pageable memory late, so the source is given back only now.
        settle(stream)
    }

    unsafe fn read(
        &self,
        stream: &RocmStream,
        offset: usize,
        destination: &mut [u8],
    ) -> Result<(), Error> {
        self.check(offset, destination.len())?;
        stream.refuse_capture("memory cannot be copied to the host")?;
        let to = destination.as_mut_ptr().cast();
        let kind = hipMemcpyKind::hipMemcpyDeviceToHost;
        self.copy_async(stream, to, self.at(offset), destination.len(), kind)?;
        settle(stream)
    }

    unsafe fn fill(
        &self,
        stream: &RocmStream,
        offset: usize,
        len: usize,
        pattern: Pattern,
    ) -> Result<(), Error> {
        self.check(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        let _current = Current::set(self.functions, self.device)?;
        fill_by_memset(&Calls { slab: self, stream }, offset, len, pattern)
    }

    unsafe fn copy(
        &self,
        stream: &RocmStream,
        from: usize,
        to: usize,
        len: usize,
    ) -> Result<(), Error> {
        self.check(from, len)?;
        self.check(to, len)?;
        check_disjoint(from, to, len)?;
        let kind = hipMemcpyKind::hipMemcpyDeviceToDevice;
        self.copy_async(stream, self.at(to), self.at(from), len, kind)
    }
}

impl Drop for RocmSlab {
    fn drop(&mut self) {
        if matches!(self.extent, Extent::Growing(_)) {
            return; // which gives back what it has
        }
        // SAFETY: the memory is this slab's, and nobody may use it any more.
        let code = unsafe { (self.functions.hipFree)(self.base) };
        if code != 0 && code != DEINITIALIZED {
            let name = self.functions.name_of(code);
            tracing::error!(code, name, "hipFree of a slab failed");
        }
    }
}

impl fmt::Debug for RocmSlab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocmSlab")
            .field("device", &self.device)
            .field("base", &self.base)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
