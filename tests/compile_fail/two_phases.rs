//! There is one phase of a bound plan at a time.

use workslab::host::Host;
use workslab::{Effort, ExternalWorkspaceAllocator, Layout, Platform, SlabSize};

fn main() {
    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let mut layout = Layout::new();
    let early = layout.array::<f64, 1>("early", [8], 0..1).unwrap();
    let late = layout.array::<f64, 1>("late", [8], 1..2).unwrap();
    let plan = layout.plan(Effort::Instant).unwrap();
    let workspace = allocator.allocate(0, &SlabSize::new(4096).unwrap()).unwrap();
    let stream = allocator.platform().default_stream(0.into()).unwrap();
    let mut lease = workspace.lease(&stream).unwrap();
    let mut bound = lease.bind(&plan).unwrap();
    let first = bound.phase(0);
    let mut kept = first.array(early).unwrap();
    let second = bound.phase(1);
    second.array(late).unwrap().fill(2.0).unwrap();
    kept.fill(1.0).unwrap();
}
