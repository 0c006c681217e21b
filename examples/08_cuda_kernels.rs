//! 08: the solver of 02 with kernels of its own, compiled when the program runs; its vectors come from a
//! frame, and the solution is compared with the host's.
//!
//! Run with `cargo run --release -p workslab-examples --example 08_cuda_kernels -- cuda`. It needs an NVIDIA GPU
//! and NVRTC, and says what is missing where they are not there.

use workslab::{Allocator, AnyAllocator};
use workslab_examples::{Outcome, chosen_allocator};

fn main() -> Outcome {
    match chosen_allocator()? {
        #[cfg(feature = "cuda")]
        AnyAllocator::Cuda(allocator) => cuda::solve_on(&allocator),
        other => {
            println!(
                "skipped: the kernels are CUDA's, and this is {}",
                other.platform_name()
            );
            Ok(())
        }
    }
}

#[cfg(feature = "cuda")]
mod cuda {
    use workslab::cuda::Cuda;
    use workslab::{DryFrame, Error, ExternalWorkspaceAllocator, Platform, SlabSize};
    use workslab_examples::Outcome;
    use workslab_examples::kernels::Loaded;
    use workslab_examples::solver::{
        HostKernels, Laplacian, Solution, known_problem, largest_difference, set_up, solve,
    };

    const TOLERANCE: f64 = 1e-10;

    /// The same solver, with the host's loops.
    fn on_the_host(operator: Laplacian, b: &[f64]) -> Result<Solution, Error> {
        let host = ExternalWorkspaceAllocator::new(workslab::host::Host::new());
        let workspace = host.allocate(0, &SlabSize::new(bytes(operator)?)?)?;
        let stream = host.platform().default_stream(workspace.device())?;
        let mut lease = workspace.lease(&stream)?;
        solve(&HostKernels, &lease.frame(), operator, b, TOLERANCE)
    }

    /// Bytes of the solver's vectors, and of the parts of dot products.
    fn bytes(operator: Laplacian) -> Result<usize, Error> {
        let dry = DryFrame::new();
        set_up(&dry, operator.unknowns())?;
        Ok(dry.bytes_needed() + Loaded::bytes())
    }

    pub fn solve_on(allocator: &ExternalWorkspaceAllocator<Cuda>) -> Outcome {
        let kernels = match Loaded::on(0) {
            Err(error @ Error::Unavailable { .. }) => {
                println!("skipped: {error}");
                return Ok(());
            }
            kernels => kernels?,
        };
        let operator = Laplacian { side: 200 };
        let (expected, b) = known_problem(operator, 1.0);
        let host = on_the_host(operator, &b)?;

        let workspace = allocator.allocate(0, &SlabSize::new(bytes(operator)?)?)?;
        let stream = allocator.platform().create_stream(workspace.device())?;
        for call in 1..=3 {
            let mut lease = workspace.program("conjugate gradient").lease(&stream)?;
            let frame = lease.frame();
            let found = solve(&kernels.within(&frame)?, &frame, operator, &b, TOLERANCE)?;
            let error = largest_difference(&found.x, &expected);
            let apart = largest_difference(&found.x, &host.x);
            println!(
                "call {call}: {} unknowns, {} iterations (the host: {}), relative residual {:.1e}, error \
                 {error:.1e}, from the host's {apart:.1e}",
                operator.unknowns(),
                found.iterations,
                host.iterations,
                found.residual,
            );
            if error > 1e-6 || apart > 1e-6 {
                return Err(
                    format!("the solution is wrong by {error}, the host's by {apart}").into(),
                );
            }
        }
        println!("{}", workspace.statistics());
        Ok(())
    }
}
