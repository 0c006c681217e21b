//! Virtual memory, for slabs that grow.

use std::ffi::c_int;

use workslab_core::{DeviceId, Error, Stream};
use workslab_driver::{Code, MemoryFunctions, VirtualMemory};

use crate::call::{Current, DEINITIALIZED, ordinal};
use crate::stream::RocmStream;
use crate::sys::Functions;

/// A device with virtual memory.
pub(crate) struct Memory {
    functions: &'static Functions,
    memory: MemoryFunctions,
    device: DeviceId,
    ordinal: c_int,
}

impl Memory {
    pub(crate) fn new(
        functions: &'static Functions,
        memory: MemoryFunctions,
        device: DeviceId,
    ) -> Result<Self, Error> {
        Ok(Self {
            functions,
            memory,
            device,
            ordinal: ordinal(device)?,
        })
    }
}

impl VirtualMemory for Memory {
    type Current = Current<'static>;

    fn functions(&self) -> &MemoryFunctions {
        &self.memory
    }

    fn ordinal(&self) -> c_int {
        self.ordinal
    }

    fn enter(&self) -> Result<Current<'static>, Error> {
        Current::set(self.functions, self.device)
    }

    fn check(&self, call: &'static str, code: Code) -> Result<(), Error> {
        self.functions.check(self.device, call, code)
    }

    fn is_shut_down(&self, error: &Error) -> bool {
        matches!(error, Error::Driver { code, .. } if *code == i64::from(DEINITIALIZED))
    }

    unsafe fn clear(&self, address: u64, len: usize) -> Result<(), Error> {
        let stream = RocmStream::default_of(self.functions, self.device);
        let to = std::ptr::with_exposed_provenance_mut(address as usize);
        // SAFETY: the caller's.
        let code = unsafe { (self.functions.hipMemsetD8Async)(to, 0, len, stream.raw()) };
        self.check("hipMemsetD8Async", code)?;
        stream.synchronize()
    }
}
