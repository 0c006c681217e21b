//! 03: two solvers in two threads, on two streams, share one workspace. Each has it to itself
//! while it solves; whoever comes second waits its turn.
//!
//! Run with `cargo run --release -p workslab-examples --example 03_two_solvers_one_workspace`, and
//! perhaps a platform's name (`-- cuda`).

use workslab::{DryFrame, ExternalWorkspaceAllocator, OnPlatform, Platform, SlabSize, Workspace};
use workslab_examples::solver::{
    Laplacian, StagedKernels, known_problem, largest_difference, set_up, solve,
};
use workslab_examples::{Outcome, run_on_chosen_platform};

fn solver<P: Platform>(
    workspace: &Workspace<P>,
    stream: &P::Stream,
    name: &str,
    operator: Laplacian,
) -> Result<f64, workslab::Error> {
    let (expected, b) = known_problem(operator, 2.0);
    let program = workspace.program(name);
    let mut worst: f64 = 0.0;
    for _ in 0..10 {
        let mut lease = program.lease(stream)?;
        let frame = lease.frame();
        let found = solve(&StagedKernels, &frame, operator, &b, 1e-10)?;
        worst = worst.max(largest_difference(&found.x, &expected));
    }
    Ok(worst)
}

struct Example;

impl OnPlatform for Example {
    type Output = Outcome;

    fn run<P: Platform>(self, allocator: &ExternalWorkspaceAllocator<P>) -> Outcome {
        let (large, small) = (Laplacian { side: 60 }, Laplacian { side: 40 });

        // The workspace must serve the larger of the two, not both at once.
        let dry = DryFrame::new();
        set_up(&dry, large.unknowns())?;
        let workspace = allocator.allocate(0, &SlabSize::new(dry.bytes_needed())?)?;
        let platform = allocator.platform();
        let streams = [
            platform.create_stream(workspace.device())?,
            platform.create_stream(workspace.device())?,
        ];

        let (first, second) = std::thread::scope(|scope| {
            let first = scope.spawn(|| solver(workspace, &streams[0], "pressure", large));
            let second = scope.spawn(|| solver(workspace, &streams[1], "diffusion", small));
            (first.join(), second.join())
        });
        for (name, outcome) in [("pressure", first), ("diffusion", second)] {
            let error = outcome.map_err(|_| "a solver panicked")??;
            println!("{name}: largest error over 10 solves {error:.1e}");
            if error > 1e-6 {
                return Err(format!("{name} is wrong by {error}").into());
            }
        }
        println!("{}", workspace.statistics());
        Ok(())
    }
}

fn main() -> Outcome {
    run_on_chosen_platform(Example)
}
