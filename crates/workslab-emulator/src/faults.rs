//! Faults on demand.

use std::thread::ThreadId;

/// A call that shall fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// How many of the calls pass before.
    pub after: u64,
    /// How many fail then.
    pub times: u64,
    /// The driver's code that they fail with.
    pub code: i32,
    /// Whether only the calls of the thread that asks for it fail.
    pub this_thread: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Faults {
    armed: Vec<Armed>,
}

#[derive(Debug)]
struct Armed {
    call: String,
    fault: Fault,
    thread: ThreadId,
}

impl Faults {
    pub(crate) fn add(&mut self, call: &str, fault: Fault) {
        self.armed.push(Armed {
            call: call.to_owned(),
            fault,
            thread: std::thread::current().id(),
        });
    }

    /// Forgets the faults that the calling thread asked for.
    pub(crate) fn clear(&mut self) {
        let here = std::thread::current().id();
        self.armed.retain(|armed| armed.thread != here);
    }

    /// The code that this call fails with, if it shall.
    pub(crate) fn strike(&mut self, call: &str) -> Option<i32> {
        let here = std::thread::current().id();
        let index = self.armed.iter().position(|armed| {
            armed.call == call && (!armed.fault.this_thread || armed.thread == here)
        })?;
        let fault = &mut self.armed[index].fault;
        if fault.after > 0 {
            fault.after -= 1;
            return None;
        }
        let code = fault.code;
        fault.times = fault.times.saturating_sub(1);
        if fault.times == 0 {
            self.armed.remove(index);
        }
        Some(code)
    }
}
