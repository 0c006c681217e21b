//! 05: how large must the workspace be? Run the set-up code dry, and it says.
//!
//! Run with `cargo run --release -p workslab-examples --example 05_size_by_dry_run`, and perhaps a
//! platform's name (`-- cuda`).

use workslab::{
    Bytes, DryFrame, Error, ExternalWorkspaceAllocator, OnPlatform, Platform, SlabSize,
};
use workslab_examples::solver::{Laplacian, StagedKernels, known_problem, set_up, solve};
use workslab_examples::{Outcome, run_on_chosen_platform};

struct Solve {
    bytes: usize,
}

impl OnPlatform for Solve {
    type Output = Outcome;

    fn run<P: Platform>(self, allocator: &ExternalWorkspaceAllocator<P>) -> Outcome {
        let operator = Laplacian { side: 64 };
        let (_, b) = known_problem(operator, 1.0);
        let workspace = allocator.allocate(0, &SlabSize::new(self.bytes)?)?;
        let stream = allocator.platform().default_stream(workspace.device())?;
        let mut lease = workspace.lease(&stream)?;
        match solve(&StagedKernels, &lease.frame(), operator, &b, 1e-8) {
            Ok(found) => println!(
                "{} bytes: solved in {} iterations",
                self.bytes, found.iterations
            ),
            Err(error @ Error::Exhausted { .. }) => println!("{} bytes: {error}", self.bytes),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn main() -> Outcome {
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
    let dry = DryFrame::new();
    set_up(&dry, 64 * 64)?;
    let needed = dry.bytes_needed();
    for bytes in [needed, needed - 1] {
        run_on_chosen_platform(Solve { bytes })?;
    }
    Ok(())
}
