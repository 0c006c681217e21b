use workslab::host::Host;
use workslab::{ExternalWorkspaceAllocator, Platform, SlabSize};

fn main() {
    let mut allocator = ExternalWorkspaceAllocator::new(Host::new());
    let stream = allocator.platform().default_stream(0.into()).unwrap();
    let workspace = allocator.allocate(0, &SlabSize::new(4096).unwrap()).unwrap();
    let lease = workspace.lease(&stream).unwrap();
    allocator.release(0).unwrap();
    drop(lease);
}
