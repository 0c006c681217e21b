use std::ffi::c_void;
use std::fmt;

use libffi::middle::Arg;

use crate::signature::CType;

/// An argument of a compiled program.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "each is of the type that it is called by")]
pub enum Value {
    Bool(bool),
    I8(i8),
    U8(u8),
    I16(i16),
    U16(u16),
    I32(i32),
    U32(u32),
    I64(i64),
    U64(u64),
    F32(f32),
    F64(f64),
    /// An address, on the host or the device.
    Pointer(*mut c_void),
}

impl Value {
    /// The address of an array.
    #[must_use]
    pub fn of<T>(pointer: *const T) -> Self {
        Self::Pointer(pointer.cast_mut().cast())
    }

    /// Its type in C.
    #[must_use]
    pub fn ctype(&self) -> CType {
        match self {
            Self::Bool(_) => CType::Bool,
            Self::I8(_) => CType::I8,
            Self::U8(_) => CType::U8,
            Self::I16(_) => CType::I16,
            Self::U16(_) => CType::U16,
            Self::I32(_) => CType::I32,
            Self::U32(_) => CType::U32,
            Self::I64(_) => CType::I64,
            Self::U64(_) => CType::U64,
            Self::F32(_) => CType::F32,
            Self::F64(_) => CType::F64,
            Self::Pointer(_) => CType::Pointer,
        }
    }

    pub(crate) fn argument(&self) -> Arg<'_> {
        match self {
            Self::Bool(value) => Arg::new(value),
            Self::I8(value) => Arg::new(value),
            Self::U8(value) => Arg::new(value),
            Self::I16(value) => Arg::new(value),
            Self::U16(value) => Arg::new(value),
            Self::I32(value) => Arg::new(value),
            Self::U32(value) => Arg::new(value),
            Self::I64(value) => Arg::new(value),
            Self::U64(value) => Arg::new(value),
            Self::F32(value) => Arg::new(value),
            Self::F64(value) => Arg::new(value),
            Self::Pointer(value) => Arg::new(value),
        }
    }

    /// The value as an array's size may use it.
    pub(crate) fn whole(&self) -> Option<i128> {
        match *self {
            Self::I8(value) => Some(value.into()),
            Self::U8(value) => Some(value.into()),
            Self::I16(value) => Some(value.into()),
            Self::U16(value) => Some(value.into()),
            Self::I32(value) => Some(value.into()),
            Self::U32(value) => Some(value.into()),
            Self::I64(value) => Some(value.into()),
            Self::U64(value) => Some(value.into()),
            Self::Bool(_) | Self::F32(_) | Self::F64(_) | Self::Pointer(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ctype())
    }
}
