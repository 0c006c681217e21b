use workslab::host::Host;
use workslab::{ExternalWorkspaceAllocator, Platform, SlabSize};

fn main() {
    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let workspace = allocator.allocate(0, &SlabSize::new(4096).unwrap()).unwrap();
    let stream = allocator.platform().default_stream(0.into()).unwrap();
    let mut lease = workspace.lease(&stream).unwrap();
    let array = {
        let frame = lease.frame();
        frame.array::<f64>(10).unwrap()
    };
    println!("{}", array.len());
}
