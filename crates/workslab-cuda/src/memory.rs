//! Virtual memory, for slabs that grow.

use std::ffi::c_int;

use workslab_core::{Error, Stream};
use workslab_driver::{Code, MemoryFunctions, VirtualMemory};

use crate::call::{Context, Current, DEINITIALIZED};
use crate::stream::CudaStream;

/// A device with virtual memory.
pub(crate) struct Memory {
    pub(crate) context: Context,
    pub(crate) functions: MemoryFunctions,
    pub(crate) ordinal: c_int,
}

impl VirtualMemory for Memory {
    type Current = Current;

    fn functions(&self) -> &MemoryFunctions {
        &self.functions
    }

    fn ordinal(&self) -> c_int {
        self.ordinal
    }

    fn enter(&self) -> Result<Current, Error> {
        Current::set(&self.context)
    }

    fn check(&self, call: &'static str, code: Code) -> Result<(), Error> {
        self.context.check(call, code)
    }

    fn is_shut_down(&self, error: &Error) -> bool {
        matches!(error, Error::Driver { code, .. } if *code == i64::from(DEINITIALIZED))
    }

    unsafe fn clear(&self, address: u64, len: usize) -> Result<(), Error> {
        let stream = CudaStream::default_of(self.context);
        let fill = self.context.functions.cuMemsetD8Async;
        // SAFETY: the caller's.
        let code = unsafe { fill(address, 0, len, stream.raw()) };
        self.check("cuMemsetD8Async", code)?;
        stream.synchronize()
    }
}
