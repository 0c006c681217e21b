//! 05: how large must the workspace be? Run the set-up code dry, and it says.
//!
//! Run with `cargo run --release -p workslab-examples --example 05_size_by_dry_run`.

use std::error::Error;

use workslab::host::Host;
use workslab::{Bytes, DryFrame, ExternalWorkspaceAllocator, Platform, SlabSize};
use workslab_examples::solver::{HostKernels, Laplacian, known_problem, set_up, solve};

fn main() -> Result<(), Box<dyn Error>> {
    println!("side   unknowns   workspace");
    for side in [32, 64, 128, 256, 512] {
        let dry = DryFrame::new();
        set_up(&dry, side * side)?;
        println!(
            "{side:4}   {:8}   {}",
            side * side,
            Bytes(dry.bytes_needed())
        );
    }

    // A byte less would not do: the same code asks for the same arrays.
    let operator = Laplacian { side: 64 };
    let dry = DryFrame::new();
    set_up(&dry, operator.unknowns())?;
    let needed = dry.bytes_needed();
    let (_, b) = known_problem(operator, 1.0);
    for (device, bytes) in [(0, needed), (1, needed - 1)] {
        let allocator = ExternalWorkspaceAllocator::new(Host::builder().devices(2).build());
        let workspace = allocator.allocate(device, &SlabSize::new(bytes)?)?;
        let stream = allocator.platform().default_stream(workspace.device())?;
        let mut lease = workspace.lease(&stream)?;
        match solve(&HostKernels, &lease.frame(), operator, &b, 1e-8) {
            Ok(found) => println!("{bytes} bytes: solved in {} iterations", found.iterations),
            Err(error) => println!("{bytes} bytes: {error}"),
        }
    }
    Ok(())
}
