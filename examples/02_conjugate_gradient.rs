//! 02: a conjugate-gradient solver, generic over the platform, whose work vectors come from a
//! frame. The solution is known, and compared.
//!
//! Run with `cargo run --release -p workslab-examples --example 02_conjugate_gradient`, and perhaps a
//! platform's name (`-- cuda`).

use workslab::{
    AnyAllocator, DryFrame, ExternalWorkspaceAllocator, OnPlatform, Platform, SlabSize,
};
use workslab_examples::solver::{
    HostKernels, Kernels, Laplacian, StagedKernels, known_problem, largest_difference, set_up,
    solve,
};
use workslab_examples::{Outcome, chosen_allocator};

/// Nothing in here knows which platform it runs on.
fn solve_thrice<P: Platform>(
    allocator: &ExternalWorkspaceAllocator<P>,
    kernels: &impl Kernels<P>,
) -> Outcome {
    let operator = Laplacian { side: 100 };
    let (expected, b) = known_problem(operator, 1.0);

    let dry = DryFrame::new();
    set_up(&dry, operator.unknowns())?;
    let workspace = allocator.allocate(0, &SlabSize::new(dry.bytes_needed())?)?;
    let stream = allocator.platform().default_stream(workspace.device())?;

    // A solver is called again and again: from the second time on nothing is allocated.
    for call in 1..=3 {
        let mut lease = workspace.program("conjugate gradient").lease(&stream)?;
        let frame = lease.frame();
        let found = solve(kernels, &frame, operator, &b, 1e-10)?;
        let error = largest_difference(&found.x, &expected);
        println!(
            "call {call}: {} unknowns, {} iterations, relative residual {:.1e}, error {error:.1e}",
            operator.unknowns(),
            found.iterations,
            found.residual,
        );
        if error > 1e-6 {
            return Err(format!("the solution is wrong by {error}").into());
        }
    }
    println!("{}", workspace.statistics());
    Ok(())
}

/// On a device whose memory the host cannot reach, the loops work on copies.
struct OnDevice;

impl OnPlatform for OnDevice {
    type Output = Outcome;

    fn run<P: Platform>(self, allocator: &ExternalWorkspaceAllocator<P>) -> Outcome {
        solve_thrice(allocator, &StagedKernels)
    }
}

fn main() -> Outcome {
    match chosen_allocator()? {
        AnyAllocator::Host(allocator) => solve_thrice(&allocator, &HostKernels),
        device => device.with(OnDevice),
    }
}
