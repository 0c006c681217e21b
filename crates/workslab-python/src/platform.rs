//! The platforms, behind traits without type parameters.

use std::sync::{Arc, LazyLock, PoisonError, RwLock};
use std::time::Duration;

use workslab::{
    DeviceId, Error, ExternalWorkspaceAllocator, Lease, Platform, Reservation, SharedWorkspace,
    SlabRequest, Statistics, Stream,
};

/// What a platform's streams are outside of Rust: numbers.
pub(crate) trait Streams: Platform {
    /// The stream of this number, which is another library's; 0 is the default stream.
    ///
    /// # Safety
    /// It is a stream of the device, and lives as long as it is used here.
    unsafe fn lent(&self, device: DeviceId, raw: usize) -> Result<Self::Stream, Error>;

    /// The number of a stream.
    fn raw(stream: &Self::Stream) -> usize;

    /// One of this platform's among those of any.
    fn find(stream: &AnyStream) -> Option<&Self::Stream>;

    fn wrap(stream: Self::Stream) -> AnyStream;
}

/// A stream of any platform.
#[derive(Clone)]
pub(crate) enum AnyStream {
    #[cfg(feature = "host")]
    Host(workslab::host::HostStream),
    #[cfg(feature = "rocm")]
    Rocm(workslab::rocm::RocmStream),
    #[cfg(feature = "cuda")]
    Cuda(workslab::cuda::CudaStream),
}

macro_rules! on_stream {
    ($any:expr, $stream:ident => $work:expr) => {
        match $any {
            #[cfg(feature = "host")]
            AnyStream::Host($stream) => $work,
            #[cfg(feature = "rocm")]
            AnyStream::Rocm($stream) => $work,
            #[cfg(feature = "cuda")]
            AnyStream::Cuda($stream) => $work,
        }
    };
}

impl AnyStream {
    pub(crate) fn platform(&self) -> &'static str {
        match self {
            #[cfg(feature = "host")]
            Self::Host(_) => workslab::host::Host::NAME,
            #[cfg(feature = "rocm")]
            Self::Rocm(_) => workslab::rocm::Rocm::NAME,
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => workslab::cuda::Cuda::NAME,
        }
    }

    pub(crate) fn device(&self) -> u32 {
        on_stream!(self, stream => stream.device().ordinal())
    }

    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        on_stream!(self, stream => stream.synchronize())
    }

    pub(crate) fn raw(&self) -> usize {
        match self {
            #[cfg(feature = "host")]
            Self::Host(stream) => <workslab::host::Host as Streams>::raw(stream),
            #[cfg(feature = "rocm")]
            Self::Rocm(stream) => <workslab::rocm::Rocm as Streams>::raw(stream),
            #[cfg(feature = "cuda")]
            Self::Cuda(stream) => <workslab::cuda::Cuda as Streams>::raw(stream),
        }
    }
}

#[cfg(feature = "host")]
impl Streams for workslab::host::Host {
    unsafe fn lent(&self, device: DeviceId, raw: usize) -> Result<Self::Stream, Error> {
        if raw == 0 {
            return self.default_stream(device);
        }
        Err(Error::WrongDevice {
            platform: Self::NAME,
            workspace: device,
            stream: device,
        })
    }

    fn raw(_: &Self::Stream) -> usize {
        0
    }

    fn find(stream: &AnyStream) -> Option<&Self::Stream> {
        match stream {
            AnyStream::Host(stream) => Some(stream),
            #[allow(unreachable_patterns, reason = "with one platform there is no other")]
            _ => None,
        }
    }

    fn wrap(stream: Self::Stream) -> AnyStream {
        AnyStream::Host(stream)
    }
}

#[cfg(feature = "rocm")]
impl Streams for workslab::rocm::Rocm {
    unsafe fn lent(&self, device: DeviceId, raw: usize) -> Result<Self::Stream, Error> {
        if raw == 0 {
            return self.default_stream(device);
        }
        // SAFETY: the caller's.
        Ok(unsafe { self.lent_stream(device, std::ptr::with_exposed_provenance_mut(raw)) })
    }

    fn raw(stream: &Self::Stream) -> usize {
        stream.as_raw().addr()
    }

    fn find(stream: &AnyStream) -> Option<&Self::Stream> {
        match stream {
            AnyStream::Rocm(stream) => Some(stream),
            #[allow(unreachable_patterns, reason = "with one platform there is no other")]
            _ => None,
        }
    }

    fn wrap(stream: Self::Stream) -> AnyStream {
        AnyStream::Rocm(stream)
    }
}

#[cfg(feature = "cuda")]
impl Streams for workslab::cuda::Cuda {
    unsafe fn lent(&self, device: DeviceId, raw: usize) -> Result<Self::Stream, Error> {
        if raw == 0 {
            return self.default_stream(device);
        }
        // SAFETY: the caller's.
        unsafe { self.lent_stream(device, std::ptr::with_exposed_provenance_mut(raw)) }
    }

    fn raw(stream: &Self::Stream) -> usize {
        stream.as_raw().addr()
    }

    fn find(stream: &AnyStream) -> Option<&Self::Stream> {
        match stream {
            AnyStream::Cuda(stream) => Some(stream),
            #[allow(unreachable_patterns, reason = "with one platform there is no other")]
            _ => None,
        }
    }

    fn wrap(stream: Self::Stream) -> AnyStream {
        AnyStream::Cuda(stream)
    }
}

/// How long a caller waits for a lease.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    None,
    For(Duration),
}

/// A workspace of any platform.
pub(crate) trait AnyWorkspace: Send + Sync {
    fn platform(&self) -> &'static str;
    fn device(&self) -> u32;
    fn base(&self) -> usize;
    fn size(&self) -> usize;
    fn cap(&self) -> Option<usize>;
    /// Refuses in a child of `fork`: the memory is its parent's.
    fn check_process(&self) -> Result<(), Error>;
    fn reserved(&self) -> usize;
    fn statistics(&self) -> Statistics;
    fn grow(&self, bytes: usize) -> Result<(), Error>;
    fn reserve(&self, name: &str, size: usize) -> Result<Box<dyn AnyReservation>, Error>;
    /// Leases it on a stream, or on the default stream. A stream of another platform is none.
    fn lease(
        &self,
        stream: Option<&AnyStream>,
        program: Option<&str>,
        patience: Patience,
    ) -> Result<Box<dyn AnyLease>, Error>;
    /// # Safety
    /// As [`Streams::lent`].
    unsafe fn lent_stream(&self, raw: usize) -> Result<AnyStream, Error>;
}

/// A lease of any platform.
pub(crate) trait AnyLease {
    fn base(&self) -> usize;
    fn size(&self) -> usize;
    fn raw_stream(&self) -> usize;
    /// Waits for what is enqueued on its stream.
    fn synchronize(&self) -> Result<(), Error>;
    fn finish(self: Box<Self>) -> Result<(), Error>;
}

/// A reservation of any platform.
pub(crate) trait AnyReservation: Send + Sync {
    fn base(&self) -> usize;
    fn size(&self) -> usize;
}

/// A platform's allocator.
pub(crate) trait AnyAllocator: Send + Sync {
    fn platform(&self) -> &'static str;
    fn device_count(&self) -> Result<u32, Error>;
    fn allocate(
        &self,
        device: u32,
        request: &SlabRequest<'_>,
    ) -> Result<Arc<dyn AnyWorkspace>, Error>;
    /// Checks a request against the workspace that there is. Calls no driver, and blocks for nobody.
    fn hit(&self, device: u32, request: &SlabRequest<'_>) -> Result<bool, Error>;
    fn release(&self, device: u32) -> Result<(), Error>;
    fn statistics(&self) -> Vec<Statistics>;
    fn create_stream(&self, device: u32) -> Result<AnyStream, Error>;
}

struct Shared<P: Streams> {
    workspace: SharedWorkspace<P>,
    platform: P,
    default: Arc<P::Stream>,
}

impl<P: Streams> Shared<P> {
    fn stream(&self, stream: Option<&AnyStream>) -> Result<Arc<P::Stream>, Error> {
        match stream {
            None => Ok(Arc::clone(&self.default)),
            Some(stream) => match P::find(stream) {
                Some(stream) => Ok(Arc::new(stream.clone())),
                None => Err(Error::Unavailable {
                    platform: P::NAME,
                    reason: format!("a stream of {} is none of its", stream.platform()),
                }),
            },
        }
    }
}

impl<P: Streams> AnyWorkspace for Shared<P> {
    fn platform(&self) -> &'static str {
        P::NAME
    }

    fn device(&self) -> u32 {
        self.workspace.device().ordinal()
    }

    fn base(&self) -> usize {
        self.workspace.base().address()
    }

    fn reserved(&self) -> usize {
        self.workspace.reserved()
    }

    fn check_process(&self) -> Result<(), Error> {
        self.workspace.check_process()
    }

    fn size(&self) -> usize {
        self.workspace.size()
    }

    fn cap(&self) -> Option<usize> {
        self.workspace.cap()
    }

    fn statistics(&self) -> Statistics {
        self.workspace.statistics()
    }

    fn grow(&self, bytes: usize) -> Result<(), Error> {
        self.workspace.grow(bytes)
    }

    fn reserve(&self, name: &str, size: usize) -> Result<Box<dyn AnyReservation>, Error> {
        let reservation = self.workspace.reserve(name, size)?;
        // SAFETY: only the lifetime changes, and what it borrows, the workspace behind the owner, is
        // kept by `Kept` until the reservation is dropped.
        let reservation = unsafe {
            std::mem::transmute::<Reservation<'_, P>, Reservation<'static, P>>(reservation)
        };
        Ok(Box::new(Kept {
            reservation,
            _workspace: self.workspace.clone(),
        }))
    }

    fn lease(
        &self,
        stream: Option<&AnyStream>,
        program: Option<&str>,
        patience: Patience,
    ) -> Result<Box<dyn AnyLease>, Error> {
        let stream = self.stream(stream)?;
        let workspace = &self.workspace;
        let lease = match (program, patience) {
            (None, Patience::None) => workspace.try_lease(&stream),
            (None, Patience::For(time)) => workspace.lease_timeout(&stream, time),
            (Some(program), patience) => {
                let program = workspace.program(program);
                let lease = match patience {
                    Patience::None => program.try_lease(&stream),
                    Patience::For(time) => program.lease_timeout(&stream, time),
                };
                // SAFETY: as below; the lease borrows the workspace and not the program.
                lease.map(|lease| unsafe {
                    std::mem::transmute::<Lease<'_, P>, Lease<'static, P>>(lease)
                })
            }
        }?;
        // SAFETY: only the lifetime changes. What the lease borrows are the workspace and the stream
        // behind two owners, which `Open` keeps until the lease is dropped.
        let lease = unsafe { std::mem::transmute::<Lease<'_, P>, Lease<'static, P>>(lease) };
        Ok(Box::new(Open {
            lease,
            stream,
            _workspace: workspace.clone(),
        }))
    }

    unsafe fn lent_stream(&self, raw: usize) -> Result<AnyStream, Error> {
        // SAFETY: the caller's.
        unsafe { self.platform.lent(self.workspace.device(), raw) }.map(P::wrap)
    }
}

/// A lease and what it borrows, in the order in which they are dropped.
struct Open<P: Streams> {
    lease: Lease<'static, P>,
    stream: Arc<P::Stream>,
    _workspace: SharedWorkspace<P>,
}

impl<P: Streams> AnyLease for Open<P> {
    fn base(&self) -> usize {
        self.lease.base().address()
    }

    fn size(&self) -> usize {
        self.lease.size()
    }

    fn raw_stream(&self) -> usize {
        P::raw(&self.stream)
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.stream.synchronize()
    }

    fn finish(self: Box<Self>) -> Result<(), Error> {
        let Self {
            lease,
            stream,
            _workspace,
        } = *self;
        let finished = lease.finish();
        drop(stream);
        finished
    }
}

/// A reservation and what it borrows, in the order in which they are dropped.
struct Kept<P: Streams> {
    reservation: Reservation<'static, P>,
    _workspace: SharedWorkspace<P>,
}

impl<P: Streams> AnyReservation for Kept<P> {
    fn base(&self) -> usize {
        self.reservation.as_device_ptr().address()
    }

    fn size(&self) -> usize {
        self.reservation.size()
    }
}

struct PerProcess<P: Streams + Clone> {
    platform: P,
    allocator: RwLock<ExternalWorkspaceAllocator<P>>,
}

impl<P: Streams + Clone> PerProcess<P> {
    fn new(platform: P) -> Self {
        Self {
            allocator: RwLock::new(ExternalWorkspaceAllocator::new(platform.clone())),
            platform,
        }
    }
}

impl<P: Streams + Clone> AnyAllocator for PerProcess<P> {
    fn platform(&self) -> &'static str {
        P::NAME
    }

    fn device_count(&self) -> Result<u32, Error> {
        self.platform.device_count()
    }

    fn allocate(
        &self,
        device: u32,
        request: &SlabRequest<'_>,
    ) -> Result<Arc<dyn AnyWorkspace>, Error> {
        let allocator = self
            .allocator
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let workspace = allocator.allocate_shared(device, request)?;
        let default = self.platform.default_stream(workspace.device())?;
        Ok(Arc::new(Shared {
            workspace,
            platform: self.platform.clone(),
            default: Arc::new(default),
        }))
    }

    fn hit(&self, device: u32, request: &SlabRequest<'_>) -> Result<bool, Error> {
        let Ok(allocator) = self.allocator.try_read() else {
            return Ok(false);
        };
        match allocator.cached(device) {
            Ok(Some(workspace)) if workspace.size() >= request.size.bytes() => {
                allocator.allocate(device, request).map(|_| true)
            }
            _ => Ok(false),
        }
    }

    fn release(&self, device: u32) -> Result<(), Error> {
        let mut allocator = self
            .allocator
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        allocator.release(device)
    }

    fn statistics(&self) -> Vec<Statistics> {
        let allocator = self
            .allocator
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        allocator.statistics()
    }

    fn create_stream(&self, device: u32) -> Result<AnyStream, Error> {
        self.platform.create_stream(device.into()).map(P::wrap)
    }
}

/// The process's allocator of a platform, made when it is first asked for. A failure is not kept.
pub(crate) fn open(name: Option<&str>) -> Result<Arc<dyn AnyAllocator>, workslab::OpenError> {
    type Made = Vec<Arc<dyn AnyAllocator>>;
    static MADE: LazyLock<RwLock<Made>> = LazyLock::new(RwLock::default);
    let opened = workslab::AnyAllocator::open(name)?;
    let name = workslab::Allocator::platform_name(&opened);
    let mut made = MADE.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(allocator) = made.iter().find(|allocator| allocator.platform() == name) {
        return Ok(Arc::clone(allocator));
    }
    let allocator: Arc<dyn AnyAllocator> = match opened {
        #[cfg(feature = "host")]
        workslab::AnyAllocator::Host(allocator) => {
            Arc::new(PerProcess::new(allocator.platform().clone()))
        }
        #[cfg(feature = "rocm")]
        workslab::AnyAllocator::Rocm(allocator) => Arc::new(PerProcess::new(*allocator.platform())),
        #[cfg(feature = "cuda")]
        workslab::AnyAllocator::Cuda(allocator) => Arc::new(PerProcess::new(*allocator.platform())),
        _ => {
            return Err(workslab::OpenError::Unknown {
                name: name.to_owned(),
            });
        }
    };
    made.push(Arc::clone(&allocator));
    Ok(allocator)
}
