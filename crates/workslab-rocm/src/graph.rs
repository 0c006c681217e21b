//! Captures of streams into graphs, and what graphs keep alive.
//!
//! For programs that launch the same work again and again. A lease that is taken on a stream during
//! its capture is ordered within the graph; the launch is work under a lease of its own.

use std::ffi::{c_uint, c_void};
use std::fmt;
use std::marker::PhantomData;

use workslab_core::{DeviceId, Error, Platform, SharedWorkspace};

use crate::NAME;
use crate::call::{Current, DEINITIALIZED};
use crate::device::Rocm;
use crate::stream::RocmStream;
use crate::sys::{Functions, Handle};

/// `hipUserObjectNoDestructorSync`, which must be given.
const NO_DESTRUCTOR_SYNC: c_uint = 1;
/// `hipGraphUserObjectMove`: the graph takes the caller's reference.
const MOVE: c_uint = 1;

/// A capture that goes on: what is enqueued on the stream becomes part of a graph, and does not run.
/// Ends on the thread on which it began. When it is dropped, what it took down is thrown away.
pub struct RocmCapture<'s> {
    stream: &'s RocmStream,
    not_send: PhantomData<*mut ()>,
}

impl<'s> RocmCapture<'s> {
    pub(crate) fn new(stream: &'s RocmStream) -> Self {
        Self {
            stream,
            not_send: PhantomData,
        }
    }

    /// Ends the capture, and gives its graph.
    ///
    /// # Errors
    /// The driver's, if something spoilt the capture, or work of another stream was not joined again.
    pub fn finish(self) -> Result<RocmGraph, Error> {
        let stream = self.stream;
        std::mem::forget(self);
        let raw = stream.end_capture()?;
        Ok(RocmGraph {
            functions: stream.functions(),
            device: stream.device_id(),
            raw,
        })
    }
}

impl Drop for RocmCapture<'_> {
    fn drop(&mut self) {
        // A capture that was spoilt gives no graph, and there is nothing else to do about it.
        if let Ok(raw) = self.stream.end_capture() {
            drop(RocmGraph {
                functions: self.stream.functions(),
                device: self.stream.device_id(),
                raw,
            });
        }
    }
}

/// A graph that was captured; a `hipGraph_t`.
pub struct RocmGraph {
    functions: &'static Functions,
    device: DeviceId,
    raw: Handle,
}

// SAFETY: a graph is not tied to a thread, and nothing changes it through a shared reference but
// `keep`, which the driver allows on one thread at a time; so it is not `Sync`.
unsafe impl Send for RocmGraph {}

impl RocmGraph {
    /// The graph's `hipGraph_t`.
    #[must_use]
    pub fn as_raw(&self) -> *mut c_void {
        self.raw
    }

    /// Keeps a workspace alive for as long as the graph, or anything that is made of it, lives.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the driver is too old for it; or the driver's.
    pub fn keep<P: Platform>(&self, workspace: SharedWorkspace<P>) -> Result<(), Error> {
        keep(self.functions, self.device, self.raw, workspace)
    }

    /// Makes something of the graph that can be launched.
    ///
    /// # Errors
    /// The driver's.
    pub fn instantiate(&self) -> Result<RocmExecutable, Error> {
        let functions = self.functions;
        let instantiate = functions.later(functions.hipGraphInstantiate, "hipGraphInstantiate")?;
        let _current = Current::set(functions, self.device)?;
        let mut raw: Handle = std::ptr::null_mut();
        let (bad, log) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the graph is alive, and the call writes to `raw` only.
        let code = unsafe { instantiate(&raw mut raw, self.raw, bad, log, 0) };
        functions.check(self.device, "hipGraphInstantiate", code)?;
        Ok(RocmExecutable {
            functions,
            device: self.device,
            raw,
        })
    }
}

impl Drop for RocmGraph {
    fn drop(&mut self) {
        destroy(self.functions.hipGraphDestroy, self.raw, "hipGraphDestroy");
    }
}

/// A graph that can be launched; a `hipGraphExec_t`.
pub struct RocmExecutable {
    functions: &'static Functions,
    device: DeviceId,
    raw: Handle,
}

// SAFETY: as for `RocmGraph`.
unsafe impl Send for RocmExecutable {}

impl RocmExecutable {
    /// The `hipGraphExec_t`.
    #[must_use]
    pub fn as_raw(&self) -> *mut c_void {
        self.raw
    }

    /// Enqueues the graph's work on a stream.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The caller holds a lease on this stream of every workspace that the captured work uses, and each
    /// covers at least as many bytes as the lease did under which the work was captured: a reservation
    /// that was made since then would be written over. All else that the work uses is alive.
    pub unsafe fn launch(&self, stream: &RocmStream) -> Result<(), Error> {
        let functions = self.functions;
        let launch = functions.later(functions.hipGraphLaunch, "hipGraphLaunch")?;
        let _current = Current::set(functions, self.device)?;
        // SAFETY: both handles are alive; what the work uses is the caller's promise.
        let code = unsafe { launch(self.raw, stream.raw()) };
        functions.check(self.device, "hipGraphLaunch", code)
    }
}

impl Drop for RocmExecutable {
    fn drop(&mut self) {
        destroy(
            self.functions.hipGraphExecDestroy,
            self.raw,
            "hipGraphExecDestroy",
        );
    }
}

fn destroy(
    function: Option<unsafe extern "C" fn(Handle) -> crate::sys::Code>,
    raw: Handle,
    name: &'static str,
) {
    // SAFETY: the handle was made by the driver and is used by nobody any more. Work that was launched
    // goes on.
    let code = function.map(|function| unsafe { function(raw) });
    if let Some(code) = code
        && code != 0
        && code != DEINITIALIZED
    {
        tracing::error!(code, "{name} failed");
    }
}

impl Rocm {
    /// Keeps a workspace alive for as long as a graph of another library's, a `hipGraph_t`, or anything
    /// that is made of it from now on.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the driver is too old for it; or the driver's.
    ///
    /// # Safety
    /// The handle is a graph of this driver, and nobody else changes it during the call.
    pub unsafe fn keep_alive<P: Platform>(
        &self,
        graph: *mut c_void,
        workspace: SharedWorkspace<P>,
    ) -> Result<(), Error> {
        let device = workspace.device();
        keep(self.functions(), device, graph, workspace)
    }
}

fn keep<P: Platform>(
    functions: &'static Functions,
    device: DeviceId,
    graph: Handle,
    workspace: SharedWorkspace<P>,
) -> Result<(), Error> {
    let create = functions.later(functions.hipUserObjectCreate, "hipUserObjectCreate")?;
    let retain = functions.later(
        functions.hipGraphRetainUserObject,
        "hipGraphRetainUserObject",
    )?;
    let release = functions.later(functions.hipUserObjectRelease, "hipUserObjectRelease")?;
    let owner = Box::into_raw(Box::new(workspace));
    let mut object: Handle = std::ptr::null_mut();
    // SAFETY: the call writes to `object` only; `let_go` takes what it is called with.
    let code = unsafe {
        create(
            &raw mut object,
            owner.cast(),
            let_go::<P>,
            1,
            NO_DESTRUCTOR_SYNC,
        )
    };
    if code != 0 {
        // SAFETY: the driver did not take it, so it is still this function's alone.
        drop(unsafe { Box::from_raw(owner) });
        return functions.check(device, "hipUserObjectCreate", code);
    }
    // SAFETY: both handles are alive; the graph takes the one reference.
    let code = unsafe { retain(graph, object, 1, MOVE) };
    if code != 0 {
        // SAFETY: the reference is still the caller's. With it goes the owner, by `let_go`.
        let released = unsafe { release(object, 1) };
        if released != 0 {
            tracing::error!(
                released,
                "hipUserObjectRelease failed: a workspace is never freed"
            );
        }
    }
    functions.check(device, "hipGraphRetainUserObject", code)
}

/// The driver's call when no graph needs the workspace any more. It comes on a thread of the driver's
/// or in the middle of a call, and must not call the driver.
unsafe extern "C" fn let_go<P: Platform>(owner: *mut c_void) {
    // SAFETY: made by `keep` from a box of this type, and called once.
    let owner = unsafe { Box::from_raw(owner.cast::<SharedWorkspace<P>>()) };
    owner.release_elsewhere();
}

impl Functions {
    /// A function that came to the driver later.
    pub(crate) fn later<F>(&self, function: Option<F>, name: &'static str) -> Result<F, Error> {
        let needs = "for captures and graphs HIP 5.3";
        function.ok_or_else(|| workslab_driver::missing(NAME, &self.library, name, needs))
    }
}

impl fmt::Debug for RocmCapture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RocmCapture").field(self.stream).finish()
    }
}

impl fmt::Debug for RocmGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RocmGraph").field(&self.raw).finish()
    }
}

impl fmt::Debug for RocmExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RocmExecutable").field(&self.raw).finish()
    }
}
