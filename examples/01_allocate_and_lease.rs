//! 01: one workspace, one lease, one array.
//!
//! Run with `cargo run -p workslab-examples --example 01_allocate_and_lease`.

use std::error::Error;

use workslab::host::Host;
use workslab::{ExternalWorkspaceAllocator, Platform, SlabSize};

fn main() -> Result<(), Box<dyn Error>> {
    // The allocator makes one slab per device, when it is first asked.
    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let size = SlabSize::new(1 << 20)?;
    let workspace = allocator.allocate(0, &size)?;
    println!("made {workspace:?}");

    // Asked again it gives the same one, and it refuses another size.
    let again = allocator.allocate(0, &size)?;
    assert_eq!(workspace.base(), again.base());
    if let Err(error) = allocator.allocate(0, &SlabSize::new(2 << 20)?) {
        println!("refused: {error}");
    }

    // A lease is the right to use it, in the order of a stream; arrays come from a frame in it.
    let stream = allocator.platform().default_stream(workspace.device())?;
    let mut lease = workspace.lease(&stream)?;
    let frame = lease.frame();
    let mut theta = frame.named("theta").shaped::<f64, 2>([100, 65])?;
    theta.fill(300.0)?;
    theta.host_mut()?[0] = 301.5;
    println!("{theta:?} holds {:?}, …", &theta.host()?[..3]);
    drop(frame); // all its arrays are gone; the bytes serve the next frame
    drop(lease); // the next program may have the workspace

    println!("{}", workspace.statistics());
    Ok(())
}
