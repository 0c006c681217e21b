//! CUDA's functions for captures and graphs.

use std::ffi::{c_int, c_uint, c_void};

use workslab_emulator::abi::{INVALID_VALUE, store};
use workslab_emulator::process::{count_call, driver};
use workslab_emulator::{CaptureMode, CaptureStatus, Destructor};

use crate::cuda::{begin, begin_for, device_for, handle, stream_of};
use crate::error::{INVALID_CONTEXT, NOT_INITIALIZED, code, result};
use crate::state::is_started;

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`, the only flag there is, and a must.
const NO_DESTRUCTOR_SYNC: c_uint = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`.
const USER_OBJECT_MOVE: c_uint = 1;

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(stream: *mut c_void, mode: c_uint) -> c_int {
    let device = begin_for!(stream);
    let begin =
        |mode| driver().begin_capture("cuStreamBeginCapture", device, stream_of(stream), mode);
    result(CaptureMode::of(mode).and_then(begin))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) -> c_int {
    let device = begin_for!(stream);
    let outcome = driver()
        .end_capture("cuStreamEndCapture", device, stream_of(stream))
        .map(handle);
    // SAFETY: the caller's pointer.
    unsafe { store(graph, outcome, code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetCaptureInfo_v2(
    stream: *mut c_void,
    status: *mut c_int,
    id: *mut u64,
    _graph: *mut *mut c_void,
    _nodes: *mut *const *mut c_void,
    _node_count: *mut usize,
) -> c_int {
    let device = begin_for!(stream);
    let outcome = driver()
        .capture_status("cuStreamGetCaptureInfo", device, stream_of(stream))
        .map(CaptureStatus::numbers);
    if let (Ok((_, number)), false) = (outcome, id.is_null()) {
        // SAFETY: the caller's pointer, and it is not null.
        unsafe { id.write(number) };
    }
    // SAFETY: the caller's pointer.
    unsafe { store(status, outcome.map(|(status, _)| status), code) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(
    executable: *mut *mut c_void,
    graph: *mut c_void,
    flags: u64,
) -> c_int {
    begin!();
    if flags != 0 {
        return INVALID_VALUE;
    }
    let outcome = driver()
        .instantiate("cuGraphInstantiate", graph.addr() as u64)
        .map(handle);
    // SAFETY: the caller's pointer.
    unsafe { store(executable, outcome, code) }
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(executable: *mut c_void, stream: *mut c_void) -> c_int {
    let device = begin_for!(stream);
    let executable = executable.addr() as u64;
    result(driver().launch("cuGraphLaunch", device, executable, stream_of(stream)))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(executable: *mut c_void) -> c_int {
    begin!();
    result(driver().destroy_executable("cuGraphExecDestroy", executable.addr() as u64))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(graph: *mut c_void) -> c_int {
    begin!();
    result(driver().destroy_graph("cuGraphDestroy", graph.addr() as u64))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuUserObjectCreate(
    object: *mut *mut c_void,
    argument: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    references: c_uint,
    flags: c_uint,
) -> c_int {
    begin!();
    let Some(function) = destroy.filter(|_| flags == NO_DESTRUCTOR_SYNC) else {
        return INVALID_VALUE;
    };
    let destructor = Destructor { function, argument };
    // SAFETY: the caller's destructor, to be called with the caller's argument.
    let outcome = unsafe { driver().create_object("cuUserObjectCreate", destructor, references) };
    // SAFETY: the caller's pointer.
    unsafe { store(object, outcome.map(handle), code) }
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphRetainUserObject(
    graph: *mut c_void,
    object: *mut c_void,
    count: c_uint,
    flags: c_uint,
) -> c_int {
    begin!();
    let (graph, object) = (graph.addr() as u64, object.addr() as u64);
    let moves = match flags {
        0 => false,
        USER_OBJECT_MOVE => true,
        _ => return INVALID_VALUE,
    };
    result(driver().retain_in_graph("cuGraphRetainUserObject", graph, object, count, moves))
}

#[unsafe(no_mangle)]
extern "C" fn cuUserObjectRelease(object: *mut c_void, count: c_uint) -> c_int {
    begin!();
    result(driver().release_object("cuUserObjectRelease", object.addr() as u64, count))
}
