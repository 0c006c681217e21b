//! 02: a conjugate-gradient solver, generic over the platform, whose work vectors come from a
//! frame. The solution is known, and compared.
//!
//! Run with `cargo run --release -p workslab-examples --example 02_conjugate_gradient`.

use std::error::Error;

use workslab::host::Host;
use workslab::{DryFrame, ExternalWorkspaceAllocator, Platform, SlabSize};
use workslab_examples::solver::{
    HostKernels, Kernels, Laplacian, known_problem, largest_difference, set_up, solve,
};

/// Nothing in here knows which platform it runs on.
fn run<P: Platform>(platform: P, kernels: &impl Kernels<P>) -> Result<(), Box<dyn Error>> {
    let operator = Laplacian { side: 100 };
    let (expected, b) = known_problem(operator, 1.0);

    let dry = DryFrame::new();
    set_up(&dry, operator.unknowns())?;
    let allocator = ExternalWorkspaceAllocator::new(platform);
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

fn main() -> Result<(), Box<dyn Error>> {
    run(Host::new(), &HostKernels)
}
