//! A typed array in a frame.

use std::fmt;
use std::marker::PhantomData;

use crate::lease::Lease;
use crate::platform::{DeviceSlab, HostAccessible, Platform, Stream};
use crate::{DevicePtr, Element, Error, Pattern};

/// An array of `T` with `D` dimensions in a frame, the last dimension contiguous. It is the only
/// one that uses its bytes, and cannot outlive its frame.
///
/// Copies and fills are ordered on the lease's stream.
pub struct Array<'f, T: Element, P: Platform, const D: usize = 1> {
    lease: &'f Lease<'f, P>,
    address: usize,
    shape: [usize; D],
    element: PhantomData<T>,
}

impl<'f, T: Element, P: Platform, const D: usize> Array<'f, T, P, D> {
    #[inline]
    pub(crate) fn new(lease: &'f Lease<'f, P>, address: usize, shape: [usize; D]) -> Self {
        Self {
            lease,
            address,
            shape,
            element: PhantomData,
        }
    }

    /// The address of its first element.
    #[inline]
    pub fn as_device_ptr(&self) -> DevicePtr {
        DevicePtr::new(self.address)
    }

    /// How many elements it has.
    #[inline]
    pub fn len(&self) -> usize {
        // The product is known not to overflow unless a dimension is 0, and then it is 0 whatever
        // the wrapped product of the others is.
        self.shape.iter().fold(1, |n: usize, &d| n.wrapping_mul(d))
    }

    /// Whether it has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its size in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.len() * size_of::<T>()
    }

    /// Its dimensions, in elements.
    #[inline]
    pub fn shape(&self) -> [usize; D] {
        self.shape
    }

    /// Its first byte's offset in the slab.
    #[inline]
    pub fn offset(&self) -> usize {
        self.address - self.lease.base().address()
    }

    /// Copies `source` into the array; returns when `source` may be used again.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; or the driver's.
    pub fn write(&mut self, source: &[T]) -> Result<(), Error> {
        self.check_length("the source", source.len())?;
        // SAFETY: the array is the only user of its bytes: the lease is exclusive, the frame gave
        // them to nobody else, and `&mut self` rules out other views of the array. Later users of
        // the bytes are ordered after this stream.
        unsafe {
            self.slab()?.write(
                self.lease.stream(),
                self.offset(),
                bytemuck::cast_slice(source),
            )
        }
    }

    /// Copies the array into `destination` and waits for it.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; or the driver's, and then `destination` may hold anything.
    pub fn read(&self, destination: &mut [T]) -> Result<(), Error> {
        self.check_length("the destination", destination.len())?;
        self.read_bytes(0, bytemuck::cast_slice_mut(destination))
    }

    /// Copies the array to a vector, and waits for it.
    ///
    /// # Errors
    /// The driver's.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut elements = vec![T::zeroed(); self.len()];
        self.read(&mut elements)?;
        Ok(elements)
    }

    /// Copies the bytes from `offset` on into `destination`, and waits for it.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; or the driver's.
    pub fn read_bytes(&self, offset: usize, destination: &mut [u8]) -> Result<(), Error> {
        crate::check_range(offset, destination.len(), self.bytes())?;
        // SAFETY: whoever could write to the array's bytes enqueued it on this stream, before.
        unsafe {
            self.slab()?
                .read(self.lease.stream(), self.offset() + offset, destination)
        }
    }

    /// Sets every element to `value`; does not block, unless `T` has a size that no driver can
    /// fill with (other than 1, 2, 4 or 8 bytes).
    ///
    /// # Errors
    /// The driver's.
    pub fn fill(&mut self, value: T) -> Result<(), Error> {
        match Pattern::of(&value) {
            Some(pattern) => self.fill_pattern(pattern),
            None => self.write(&vec![value; self.len()]),
        }
    }

    /// Fills the array's bytes with `pattern`; does not block.
    ///
    /// # Errors
    /// The driver's.
    pub fn fill_pattern(&mut self, pattern: Pattern) -> Result<(), Error> {
        // SAFETY: as in `write`.
        unsafe {
            self.slab()?
                .fill(self.lease.stream(), self.offset(), self.bytes(), pattern)
        }
    }

    /// Copies another array of as many elements into this one; does not block.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::OutOfBounds`] for an array of another workspace; or the
    /// driver's.
    pub fn copy_from<const E: usize>(&mut self, source: &Array<'_, T, P, E>) -> Result<(), Error> {
        self.check_length("the source", source.len())?;
        if !std::ptr::eq(self.lease.workspace(), source.lease.workspace()) {
            return Err(Error::OutOfBounds {
                offset: source.offset(),
                len: source.bytes(),
                slab: self.lease.size(),
            });
        }
        // SAFETY: as in `write` for the target; both arrays are in the same lease (a workspace has
        // one at a time), so all that writes to the source is ordered on the same stream.
        unsafe {
            self.slab()?.copy(
                self.lease.stream(),
                source.offset(),
                self.offset(),
                self.bytes(),
            )
        }
    }

    /// The slab, for work on the lease's stream.
    fn slab(&self) -> Result<&'f P::Slab, Error> {
        self.lease.check_capture()?;
        Ok(self.lease.workspace().slab())
    }

    fn check_length(&self, what: &'static str, found: usize) -> Result<(), Error> {
        if found == self.len() {
            Ok(())
        } else {
            Err(Error::LengthMismatch {
                what,
                expected: self.len(),
                found,
            })
        }
    }
}

impl<T: Element, P: Platform, const D: usize> Array<'_, T, P, D>
where
    P::Slab: HostAccessible,
{
    /// The elements, once the stream has done all that was enqueued on it.
    ///
    /// # Errors
    /// The driver's, those of the enqueued work included.
    pub fn host(&self) -> Result<&[T], Error> {
        self.lease.stream().synchronize()?;
        // SAFETY: the address lies in the slab, is aligned for `T` and followed by `len` elements
        // (the frame placed it so); all bytes are initialised and any bytes are a `T` (Pod). The
        // stream is idle, everything that could touch these bytes is ordered on it, and a call
        // that enqueues a write needs `&mut self`.
        Ok(unsafe { std::slice::from_raw_parts(self.host_ptr(), self.len()) })
    }

    /// The elements, to be changed, once the stream has done all that was enqueued on it.
    ///
    /// # Errors
    /// The driver's, those of the enqueued work included.
    pub fn host_mut(&mut self) -> Result<&mut [T], Error> {
        self.lease.stream().synchronize()?;
        // SAFETY: as in `host`; `&mut self` makes this the only view.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.host_ptr(), self.len()) })
    }

    /// The first element, for foreign code. Following it needs the care that [`Array::host_mut`]
    /// takes: the stream's work must be done, and nobody else may look.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.host_ptr()
    }

    fn host_ptr(&self) -> *mut T {
        // SAFETY: the offset lies within the slab, or is its end for an empty array.
        unsafe {
            self.lease
                .workspace()
                .slab()
                .host_base()
                .as_ptr()
                .add(self.offset())
                .cast()
        }
    }
}

impl<T: Element, P: Platform, const D: usize> fmt::Debug for Array<'_, T, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Array")
            .field("address", &self.as_device_ptr())
            .field("shape", &self.shape)
            .field("element", &std::any::type_name::<T>())
            .finish_non_exhaustive()
    }
}
