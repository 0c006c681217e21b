//! What a dry run says is what the real one needs.

use proptest::prelude::*;
use rstest::rstest;
use rstest_reuse::apply;
use workslab::{ArraySpec, DryFrame, Error, Scratch};
use workslab_tests::{Backend, HostBackend};

use crate::matrix::backends;
use crate::support::{allocator, default_stream, guarded, size};

fn set_up<S: Scratch>(scratch: &S, n: usize) -> Result<(), Error> {
    let _first = scratch.named_array::<f32>("first", n)?;
    {
        let inner = scratch.inner()?;
        let _large = inner.array::<f64>(10 * n)?;
        let _aligned = inner.place::<u8, 2>(ArraySpec::default().aligned(64), [n, 3])?;
    }
    let _second = scratch.array::<f64>(n)?;
    let inner = scratch.inner()?;
    let _third = inner.array::<u8>(1)?;
    Ok(())
}

#[apply(backends)]
fn the_same_code_runs_dry_and_for_real<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let dry = DryFrame::new();
    set_up(&dry, 100).expect("dry");
    let needed = dry.bytes_needed();
    let workspace = allocator.allocate(0, &size(needed)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    set_up(&lease.frame(), 100).expect("it was sized for this");
    drop(lease);
    assert_eq!(workspace.statistics().high_water, needed);

    let dry = DryFrame::guarded();
    set_up(&dry, 100).expect("dry");
    let needed = dry.bytes_needed();
    let workspace = allocator.allocate(1, &guarded(needed)).expect("it fits");
    let stream = workslab::Platform::default_stream(allocator.platform(), 1.into())
        .expect("device 1 has streams");
    let mut lease = workspace.lease(&stream).expect("free");
    set_up(&lease.frame(), 100).expect("it was sized for this");
    drop(lease);
    assert_eq!(workspace.statistics().high_water, needed);
}

#[test]
fn a_dry_run_finds_the_same_mistakes() {
    let dry = DryFrame::new();
    assert!(matches!(
        dry.array::<f64>(usize::MAX),
        Err(Error::SizeOverflow { .. })
    ));
    assert!(matches!(
        dry.place::<u8, 1>(ArraySpec::default().aligned(3), [1]),
        Err(Error::BadAlignment { .. })
    ));
    let inner = dry.inner().expect("none is open");
    assert!(matches!(
        dry.array::<u8>(1),
        Err(Error::FrameShadowed { .. })
    ));
    drop(inner);
    dry.array::<u8>(1).expect("it has ended");
}

/// What set-up code might do.
#[derive(Clone, Debug)]
enum Step {
    Array { length: usize, alignment: u32 },
    Inner(Vec<Step>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let array =
        (0usize..2000, 0u32..14).prop_map(|(length, alignment)| Step::Array { length, alignment });
    let step = array.prop_recursive(3, 24, 6, |step| {
        prop::collection::vec(step, 0..6).prop_map(Step::Inner)
    });
    prop::collection::vec(step, 0..10)
}

fn run<S: Scratch>(scratch: &S, steps: &[Step]) -> Result<(), Error> {
    for step in steps {
        match step {
            Step::Array { length, alignment } => {
                let spec = ArraySpec::default().aligned(1 << alignment);
                scratch.place::<u16, 1>(spec, [*length])?;
            }
            Step::Inner(steps) => run(&scratch.inner()?, steps)?,
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn whatever_the_code_does_a_dry_run_is_enough(steps in steps(), guard: bool) {
        let dry = if guard { DryFrame::guarded() } else { DryFrame::new() };
        run(&dry, &steps).expect("dry");
        let needed = dry.bytes_needed().max(1);
        let allocator = allocator(&HostBackend);
        let request = workslab::SlabRequest::exact(size(needed)).with_guard(guard);
        let workspace = allocator.allocate(0, &request).expect("it fits");
        let stream = default_stream(&allocator);
        let mut lease = workspace.lease(&stream).expect("free");
        let frame = lease.frame();
        run(&frame, &steps).expect("it was sized for this");
        frame.finish().expect("nothing went astray");
        drop(lease);
        prop_assert!(workspace.statistics().high_water <= needed);
    }
}
