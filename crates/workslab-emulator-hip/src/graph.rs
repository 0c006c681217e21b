//! HIP's functions for captures and graphs.

use std::ffi::{c_char, c_int, c_uint, c_void};

use workslab_emulator::abi::{INVALID_VALUE, store};
use workslab_emulator::process::{count_call, driver};
use workslab_emulator::{CaptureMode, CaptureStatus, Destructor};

use crate::error::{code, result};
use crate::hip::{handle, stream_of};
use crate::state::current;

/// `hipUserObjectNoDestructorSync`, the only flag there is, and a must.
const NO_DESTRUCTOR_SYNC: c_uint = 1;
/// `hipGraphUserObjectMove`.
const USER_OBJECT_MOVE: c_uint = 1;

#[unsafe(no_mangle)]
extern "C" fn hipStreamBeginCapture(stream: *mut c_void, mode: c_uint) -> c_int {
    count_call();
    let begin =
        |mode| driver().begin_capture("hipStreamBeginCapture", current(), stream_of(stream), mode);
    result(CaptureMode::of(mode).and_then(begin))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) -> c_int {
    count_call();
    let outcome = driver()
        .end_capture("hipStreamEndCapture", current(), stream_of(stream))
        .map(handle);
    // SAFETY: the caller's pointer.
    unsafe { store(graph, outcome, code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamGetCaptureInfo(
    stream: *mut c_void,
    status: *mut c_int,
    id: *mut u64,
) -> c_int {
    count_call();
    let outcome = driver()
        .capture_status("hipStreamGetCaptureInfo", current(), stream_of(stream))
        .map(CaptureStatus::numbers);
    if let (Ok((_, number)), false) = (outcome, id.is_null()) {
        // SAFETY: the caller's pointer, and it is not null.
        unsafe { id.write(number) };
    }
    // SAFETY: the caller's pointer.
    unsafe { store(status, outcome.map(|(status, _)| status), code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGraphInstantiate(
    executable: *mut *mut c_void,
    graph: *mut c_void,
    _bad_node: *mut *mut c_void,
    _log: *mut c_char,
    _log_len: usize,
) -> c_int {
    count_call();
    let outcome = driver()
        .instantiate("hipGraphInstantiate", graph.addr() as u64)
        .map(handle);
    // SAFETY: the caller's pointer.
    unsafe { store(executable, outcome, code) }
}

#[unsafe(no_mangle)]
extern "C" fn hipGraphLaunch(executable: *mut c_void, stream: *mut c_void) -> c_int {
    count_call();
    let executable = executable.addr() as u64;
    result(driver().launch("hipGraphLaunch", current(), executable, stream_of(stream)))
}

#[unsafe(no_mangle)]
extern "C" fn hipGraphExecDestroy(executable: *mut c_void) -> c_int {
    count_call();
    result(driver().destroy_executable("hipGraphExecDestroy", executable.addr() as u64))
}

#[unsafe(no_mangle)]
extern "C" fn hipGraphDestroy(graph: *mut c_void) -> c_int {
    count_call();
    result(driver().destroy_graph("hipGraphDestroy", graph.addr() as u64))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipUserObjectCreate(
    object: *mut *mut c_void,
    argument: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    references: c_uint,
    flags: c_uint,
) -> c_int {
    count_call();
    let Some(function) = destroy.filter(|_| flags == NO_DESTRUCTOR_SYNC) else {
        return INVALID_VALUE;
    };
    let destructor = Destructor { function, argument };
    // SAFETY: the caller's destructor, to be called with the caller's argument.
    let outcome = unsafe { driver().create_object("hipUserObjectCreate", destructor, references) };
    // SAFETY: the caller's pointer.
    unsafe { store(object, outcome.map(handle), code) }
}

#[unsafe(no_mangle)]
extern "C" fn hipGraphRetainUserObject(
    graph: *mut c_void,
    object: *mut c_void,
    count: c_uint,
    flags: c_uint,
) -> c_int {
    count_call();
    let (graph, object) = (graph.addr() as u64, object.addr() as u64);
    let moves = match flags {
        0 => false,
        USER_OBJECT_MOVE => true,
        _ => return INVALID_VALUE,
    };
    result(driver().retain_in_graph("hipGraphRetainUserObject", graph, object, count, moves))
}

#[unsafe(no_mangle)]
extern "C" fn hipUserObjectRelease(object: *mut c_void, count: c_uint) -> c_int {
    count_call();
    result(driver().release_object("hipUserObjectRelease", object.addr() as u64, count))
}
