//! Short cuts that most tests take.

use workslab::{DeviceId, ExternalWorkspaceAllocator, Platform, SlabRequest, SlabSize};
use workslab_tests::{Backend, Calls, Counted};

/// An allocator over the backend's devices, and where its driver's calls are counted.
pub fn counted<B: Backend>(backend: &B) -> (ExternalWorkspaceAllocator<Counted<B::P>>, Calls) {
    println!("on {}", backend.driver());
    let (platform, calls) = Counted::new(backend.platform());
    (ExternalWorkspaceAllocator::new(platform), calls)
}

/// An allocator over the backend's devices.
pub fn allocator<B: Backend>(backend: &B) -> ExternalWorkspaceAllocator<B::P> {
    println!("on {}", backend.driver());
    ExternalWorkspaceAllocator::new(backend.platform())
}

pub fn size(bytes: usize) -> SlabSize {
    SlabSize::new(bytes).expect("tests ask for some bytes")
}

pub fn guarded(bytes: usize) -> SlabRequest<'static> {
    SlabRequest::exact(size(bytes)).with_guard(true)
}

pub fn default_stream<P: Platform>(allocator: &ExternalWorkspaceAllocator<P>) -> P::Stream {
    allocator
        .platform()
        .default_stream(DeviceId::new(0))
        .expect("device 0 has a default stream")
}

pub fn new_stream<P: Platform>(allocator: &ExternalWorkspaceAllocator<P>) -> P::Stream {
    allocator
        .platform()
        .create_stream(DeviceId::new(0))
        .expect("device 0 can have another stream")
}
