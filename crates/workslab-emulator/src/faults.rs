//! Faults on demand, and how often each call was made.

use std::collections::BTreeMap;

/// A call that shall fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// How many of the calls pass before.
    pub after: u64,
    /// How many fail then.
    pub times: u64,
    /// The driver's code that they fail with.
    pub code: i32,
}

#[derive(Debug, Default)]
pub(crate) struct Faults {
    by_call: BTreeMap<String, Fault>,
}

impl Faults {
    pub(crate) fn add(&mut self, call: &str, fault: Fault) {
        self.by_call.insert(call.to_owned(), fault);
    }

    pub(crate) fn clear(&mut self) {
        self.by_call.clear();
    }

    /// The code that this call fails with, if it shall.
    pub(crate) fn strike(&mut self, call: &str) -> Option<i32> {
        let fault = self.by_call.get_mut(call)?;
        if fault.after > 0 {
            fault.after -= 1;
            return None;
        }
        let code = fault.code;
        fault.times = fault.times.saturating_sub(1);
        if fault.times == 0 {
            self.by_call.remove(call);
        }
        Some(code)
    }
}
