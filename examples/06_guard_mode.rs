//! 06: guard mode catches a write past the end of an array, and names the array.
//!
//! Run with `cargo run -p workslab-examples --example 06_guard_mode`.

use std::error::Error;

use workslab::host::Host;
use workslab::{ExternalWorkspaceAllocator, Platform, SlabRequest, SlabSize};

fn main() -> Result<(), Box<dyn Error>> {
    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let request = SlabRequest::exact(SlabSize::new(1 << 20)?).with_guard(true);
    let workspace = allocator.allocate(0, &request)?;
    let stream = allocator.platform().default_stream(workspace.device())?;

    let program = workspace.program("apply_diffusion_to_vn");
    let mut lease = program.lease(&stream)?;
    let frame = lease.named_frame("time step");
    let mut theta = frame.named("theta").array::<f64>(1000)?;
    let _exner = frame.named("exner").array::<f64>(1000)?;

    // A new array is full of signalling NaNs, so that reading before writing shows.
    println!("a new array holds {:?}", &theta.host()?[..2]);

    // What a kernel with an off-by-one bound does.
    let levels = 1001;
    for index in 0..levels {
        // SAFETY: none is claimed for the last index, and that is the point. The byte after the
        // array is the workspace's red zone, which nobody else uses.
        unsafe { theta.as_mut_ptr().add(index).write(1.0) };
    }

    match frame.finish() {
        Err(error) => {
            println!("caught: {error}");
            Ok(())
        }
        Ok(()) => Err("the overrun was not caught".into()),
    }
}
