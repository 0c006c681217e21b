//! DLPack: memory for other libraries, without a copy (<https://dmlc.github.io/dlpack/latest/>).

use std::ffi::{CStr, c_void};
use std::ptr;

use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::memory::Memory;

#[repr(C)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    data_type: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned`, since DLPack 1.0.
#[repr(C)]
struct ManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Tensor,
}

const NAME: &CStr = c"dltensor";
const NAME_VERSIONED: &CStr = c"dltensor_versioned";

/// What a tensor keeps.
struct Context {
    shape: i64,
    stride: i64,
    owner: Option<Py<PyAny>>,
}

impl Drop for Context {
    fn drop(&mut self) {
        let owner = self.owner.take();
        // A consumer may be done without holding Python's lock, even while the interpreter ends; then
        // nobody counts any more.
        if Python::try_attach(|_| ()).is_none() {
            std::mem::forget(owner);
        } else {
            Python::attach(|_| drop(owner));
        }
    }
}

/// A capsule with the memory as one row of unsigned bytes. It keeps `owner`.
pub(crate) fn capsule(
    py: Python<'_>,
    memory: &Memory,
    owner: Py<PyAny>,
    max_version: Option<(u32, u32)>,
    copy: Option<bool>,
    wanted: Option<(i32, i32)>,
) -> PyResult<Py<PyAny>> {
    if copy == Some(true) {
        return Err(PyBufferError::new_err("a workspace cannot be copied"));
    }
    let (kind, device) = memory.dlpack_device();
    let id = i32::try_from(device).map_err(|_| PyBufferError::new_err("no such device"))?;
    if wanted.is_some_and(|wanted| wanted != (kind, id)) {
        return Err(PyBufferError::new_err(format!(
            "the memory is on DLPack's device {kind}:{id} and cannot be moved to another"
        )));
    }
    let context = Box::new(Context {
        shape: i64::try_from(memory.nbytes)
            .map_err(|_| PyBufferError::new_err("too long for DLPack"))?,
        stride: 1,
        owner: Some(owner),
    });
    let context = Box::into_raw(context);
    // SAFETY: the context was made just now.
    let (shape, strides) = unsafe { (&raw mut (*context).shape, &raw mut (*context).stride) };
    let tensor = Tensor {
        data: ptr::with_exposed_provenance_mut(memory.base),
        device: Device { kind, id },
        ndim: 1,
        data_type: DataType {
            code: 1,
            bits: 8,
            lanes: 1,
        },
        shape,
        strides,
        byte_offset: 0,
    };
    // SAFETY: the structures are DLPack's, the name says which; the capsule's destructor and the
    // consumer agree by the name on who calls the deleter.
    unsafe {
        if max_version.is_some_and(|(major, _)| major >= 1) {
            let managed = Box::into_raw(Box::new(ManagedVersioned {
                major: 1,
                minor: 0,
                context: context.cast(),
                deleter: Some(delete_versioned),
                flags: 0,
                tensor,
            }));
            let capsule = ffi::PyCapsule_New(
                managed.cast(),
                NAME_VERSIONED.as_ptr(),
                Some(destroy_versioned),
            );
            made(py, capsule, || delete_versioned(managed))
        } else {
            let managed = Box::into_raw(Box::new(Managed {
                tensor,
                context: context.cast(),
                deleter: Some(delete),
            }));
            let capsule = ffi::PyCapsule_New(managed.cast(), NAME.as_ptr(), Some(destroy));
            made(py, capsule, || delete(managed))
        }
    }
}

/// # Safety
/// `capsule` is a new reference, or null.
unsafe fn made(
    py: Python<'_>,
    capsule: *mut ffi::PyObject,
    give_up: impl FnOnce(),
) -> PyResult<Py<PyAny>> {
    // SAFETY: the caller's.
    match unsafe { Bound::from_owned_ptr_or_opt(py, capsule) } {
        Some(capsule) => Ok(capsule.unbind()),
        None => {
            give_up();
            Err(PyErr::take(py).unwrap_or_else(|| PyMemoryError::new_err("no capsule")))
        }
    }
}

/// # Safety
/// The tensor was made by [`capsule`], and this is called once.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: the caller's: both boxes were made there.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Context>()));
    }
}

/// # Safety
/// As [`delete`].
unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: as in `delete`.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Context>()));
    }
}

/// Deletes what nobody took: whoever takes it gives the capsule another name.
///
/// # Safety
/// Python calls it with a capsule of [`NAME`].
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule that still has the name has a tensor of ours.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}

/// # Safety
/// As [`destroy`], of [`NAME_VERSIONED`].
unsafe extern "C" fn destroy_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as in `destroy`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME_VERSIONED.as_ptr()) == 1 {
            let managed = ffi::PyCapsule_GetPointer(capsule, NAME_VERSIONED.as_ptr());
            delete_versioned(managed.cast());
        }
    }
}
