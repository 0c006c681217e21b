//! A backend as the tests see it.

use std::fmt;
use std::sync::mpsc;

use workslab::cuda::{Cuda, CudaExecutable, CudaStream};
use workslab::host::{Host, HostStream};
use workslab::rocm::{Rocm, RocmExecutable, RocmStream};
use workslab::{Error, Lease, Platform, SharedWorkspace};

use crate::emulator::Emulator;

/// How many devices a backend under test has.
pub const DEVICES: u32 = 2;
/// How many bytes each of them has.
pub const MEMORY: usize = 64 << 20;

/// Lets held-up work go on.
pub type Release = Box<dyn FnOnce() + Send>;

/// A platform with two devices of 64 MiB, and what tests need beyond the platform's own calls.
pub trait Backend: Clone + fmt::Debug + Send + Sync + 'static {
    /// The platform.
    type P: Platform;

    /// The devices, anew.
    fn platform(&self) -> Self::P;

    /// Which driver the tests run on.
    fn driver(&self) -> String;

    /// Holds up everything that is enqueued on the stream from now on, until the result is called.
    fn hold(&self, stream: &<Self::P as Platform>::Stream) -> Release;

    /// The stream as another library would lend it.
    fn lend(&self, stream: &<Self::P as Platform>::Stream) -> <Self::P as Platform>::Stream;
}

/// The host.
#[derive(Clone, Copy, Debug)]
pub struct HostBackend;

impl Backend for HostBackend {
    type P = Host;

    fn platform(&self) -> Host {
        Host::builder().devices(DEVICES).memory(MEMORY).build()
    }

    fn driver(&self) -> String {
        "the system's mmap and worker threads".into()
    }

    fn hold(&self, stream: &HostStream) -> Release {
        let (release, released) = mpsc::channel::<()>();
        stream.launch(move || {
            // A test that panics drops the sender, which lets go as well.
            let _ = released.recv();
        });
        Box::new(move || drop(release))
    }

    fn lend(&self, stream: &HostStream) -> HostStream {
        stream.lent()
    }
}

/// ROCm, on an emulated `libamdhip64`, or on the library that `WORKSLAB_HIP_LIBRARY` names.
#[derive(Clone, Copy, Debug)]
pub struct RocmBackend;

impl Backend for RocmBackend {
    type P = Rocm;

    fn platform(&self) -> Rocm {
        Emulator::hip().platform
    }

    fn driver(&self) -> String {
        Emulator::hip().platform.driver()
    }

    /// An emulated stream does nothing until it must, so there is nothing to hold up.
    fn hold(&self, _: &RocmStream) -> Release {
        Box::new(|| ())
    }

    fn lend(&self, stream: &RocmStream) -> RocmStream {
        let device = workslab::Stream::device(stream);
        // SAFETY: the stream lives as long as the one that is lent, in every test that lends one.
        unsafe { self.platform().lent_stream(device, stream.as_raw()) }
    }
}

/// CUDA, on an emulated `libcuda`, or on the library that `WORKSLAB_CUDA_LIBRARY` names.
#[derive(Clone, Copy, Debug)]
pub struct CudaBackend;

impl Backend for CudaBackend {
    type P = Cuda;

    fn platform(&self) -> Cuda {
        Emulator::cuda().platform
    }

    fn driver(&self) -> String {
        Emulator::cuda().platform.driver()
    }

    /// An emulated stream does nothing until it must, so there is nothing to hold up.
    fn hold(&self, _: &CudaStream) -> Release {
        Box::new(|| ())
    }

    fn lend(&self, stream: &CudaStream) -> CudaStream {
        let device = workslab::Stream::device(stream);
        // SAFETY: the stream lives as long as the one that is lent, in every test that lends one.
        let lent = unsafe { self.platform().lent_stream(device, stream.as_raw()) };
        lent.expect("the stream's device is there")
    }
}

/// A backend whose streams can be captured into graphs.
pub trait GraphBackend: Backend {
    /// A graph, ready to be launched.
    type Graph;

    /// Captures what `work` enqueues on the stream, and on those that it joins to it.
    ///
    /// # Errors
    /// The driver's, if the capture was spoilt.
    fn capture(
        &self,
        stream: &<Self::P as Platform>::Stream,
        work: impl FnOnce(),
    ) -> Result<Self::Graph, Error> {
        self.capture_and_keep(stream, work, None)
    }

    /// As [`capture`](Self::capture), with a graph that keeps a workspace alive.
    ///
    /// # Errors
    /// As there.
    fn capture_and_keep(
        &self,
        stream: &<Self::P as Platform>::Stream,
        work: impl FnOnce(),
        workspace: Option<SharedWorkspace<Self::P>>,
    ) -> Result<Self::Graph, Error>;

    /// Launches the graph under a lease.
    fn launch(&self, graph: &Self::Graph, lease: &Lease<'_, Self::P>);
}

macro_rules! graph_backend {
    ($backend:ty, $executable:ty) => {
        impl GraphBackend for $backend {
            type Graph = $executable;

            fn capture_and_keep(
                &self,
                stream: &<Self::P as Platform>::Stream,
                work: impl FnOnce(),
                workspace: Option<SharedWorkspace<Self::P>>,
            ) -> Result<Self::Graph, Error> {
                let capture = stream.begin_capture()?;
                work();
                let graph = capture.finish()?;
                if let Some(workspace) = workspace {
                    graph.keep(workspace)?;
                }
                graph.instantiate()
            }

            fn launch(&self, graph: &Self::Graph, lease: &Lease<'_, Self::P>) {
                // SAFETY: the tests capture and launch under leases of one workspace, and make no
                // reservations.
                let launched = unsafe { graph.launch(lease.stream()) };
                launched.expect("a graph that was captured can be launched");
            }
        }
    };
}

graph_backend!(RocmBackend, RocmExecutable);
graph_backend!(CudaBackend, CudaExecutable);
