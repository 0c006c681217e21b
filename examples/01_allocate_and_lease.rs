//! 01: one workspace, one lease, one array.
//!
//! Run with `cargo run -p workslab-examples --example 01_allocate_and_lease`, and perhaps a platform's
//! name (`-- cuda`).

use workslab::{ExternalWorkspaceAllocator, OnPlatform, Platform, SlabSize};
use workslab_examples::{Outcome, run_on_chosen_platform};

struct Example;

impl OnPlatform for Example {
    type Output = Outcome;

    fn run<P: Platform>(self, allocator: &ExternalWorkspaceAllocator<P>) -> Outcome {
        // The allocator makes one slab per device, when it is first asked.
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
        println!("{theta:?} holds {:?}, …", &theta.to_vec()?[..3]);
        drop(frame); // all its arrays are gone; the bytes serve the next frame
        drop(lease); // the next program may have the workspace

        println!("{}", workspace.statistics());
        Ok(())
    }
}

fn main() -> Outcome {
    run_on_chosen_platform(Example)
}
