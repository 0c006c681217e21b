//! 07: arrays that never live at once share bytes, at offsets planned before anything is allocated.
//!
//! Run with `cargo run -p workslab-examples --example 07_planned_layout`, and perhaps a platform's name
//! (`-- cuda`).

use workslab::{
    Bytes, Effort, ExternalWorkspaceAllocator, Layout, OnPlatform, Platform, SlabRequest, SlabSize,
};
use workslab_examples::{Outcome, run_on_chosen_platform};

const SHAPE: [usize; 2] = [2000, 65];

struct Example;

impl OnPlatform for Example {
    type Output = Outcome;

    fn run<P: Platform>(self, allocator: &ExternalWorkspaceAllocator<P>) -> Outcome {
        // Phase 0 computes the flux, 1 its divergence, 2 the tendency, 3 uses that.
        let mut layout = Layout::new();
        let flux = layout.array::<f64, 2>("flux", SHAPE, 0..2)?;
        let divergence = layout.array::<f64, 2>("divergence", SHAPE, 1..3)?;
        let tendency = layout.array::<f64, 2>("tendency", SHAPE, 2..4)?;
        let plan = layout.plan(Effort::Balanced)?;
        let sum = layout.instance().total()?;
        println!(
            "planned: {} instead of {sum} bytes, {:.2} times the lower bound",
            Bytes(plan.bytes()),
            plan.plan().ratio()
        );
        assert!(plan.plan().optimal);

        // The size is known, so the workspace is made just as large.
        let request = SlabRequest::exact(SlabSize::new(plan.bytes())?);
        let workspace = allocator.allocate(0, &request)?;
        let stream = allocator.platform().default_stream(workspace.device())?;
        let mut lease = workspace.program("diffusion").lease(&stream)?;
        let mut bound = lease.bind(&plan)?;

        bound.phase(0).array(flux)?.fill(2.0)?;
        {
            let phase = bound.phase(1);
            let (flux, mut divergence) = (phase.array(flux)?, phase.array(divergence)?);
            let tripled: Vec<f64> = flux.to_vec()?.iter().map(|x| 3.0 * x).collect();
            divergence.write(&tripled)?;
        }
        {
            // The flux is gone; the tendency lies where it was, and the divergence is untouched.
            let phase = bound.phase(2);
            let (divergence, mut tendency) = (phase.array(divergence)?, phase.array(tendency)?);
            tendency.fill(1.0)?;
            assert!(divergence.to_vec()?.iter().all(|&x| x == 6.0));
        }
        let phase = bound.phase(3);
        assert!(phase.array(tendency)?.to_vec()?.iter().all(|&x| x == 1.0));
        match phase.array(flux) {
            Err(error) => println!("and in phase 3: {error}"),
            Ok(_) => return Err("the flux outlived its phases".into()),
        }
        Ok(())
    }
}

fn main() -> Outcome {
    run_on_chosen_platform(Example)
}
