//! 06: guard mode catches a write past the end of an array, and names the array.
//!
//! Run with `cargo run -p workslab-examples --example 06_guard_mode`, and perhaps a platform's name
//! (`-- cuda`).

use workslab::{
    DeviceSlab, ExternalWorkspaceAllocator, OnPlatform, Pattern, Platform, SlabRequest, SlabSize,
};
use workslab_examples::{Outcome, run_on_chosen_platform};

struct Example;

impl OnPlatform for Example {
    type Output = Outcome;

    fn run<P: Platform>(self, allocator: &ExternalWorkspaceAllocator<P>) -> Outcome {
        let request = SlabRequest::exact(SlabSize::new(1 << 20)?).with_guard(true);
        let workspace = allocator.allocate(0, &request)?;
        let stream = allocator.platform().default_stream(workspace.device())?;

        let program = workspace.program("apply_diffusion_to_vn");
        let mut lease = program.lease(&stream)?;
        let frame = lease.named_frame("time step");
        let theta = frame.named("theta").array::<f64>(1000)?;
        let _exner = frame.named("exner").array::<f64>(1000)?;

        // A new array is full of signalling NaNs, so that reading before writing shows.
        println!("a new array holds {:?}", &theta.to_vec()?[..2]);

        // What a kernel with an off-by-one bound does: 1001 elements instead of 1000.
        let (offset, bytes) = (theta.offset(), 1001 * size_of::<f64>());
        // SAFETY: the lease is held, and nobody looks at the bytes meanwhile. The last eight are not
        // the array's, and that is the point: they are the red zone's, which nobody else uses.
        unsafe {
            workspace
                .slab()
                .fill(&stream, offset, bytes, Pattern::U64(1.0f64.to_bits()))?;
        }

        match frame.finish() {
            Err(error) => {
                println!("caught: {error}");
                Ok(())
            }
            Ok(()) => Err("the overrun was not caught".into()),
        }
    }
}

fn main() -> Outcome {
    run_on_chosen_platform(Example)
}
