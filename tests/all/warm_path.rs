//! After warm-up, on one stream, nothing calls the driver.

use rstest::rstest;
use rstest_reuse::apply;
use workslab::{Error, ExternalWorkspaceAllocator, Platform, SlabSize};
use workslab_tests::Backend;

use crate::matrix::backends;
use crate::support::{counted, default_stream, new_stream, size};

fn one_program<P: Platform>(
    allocator: &ExternalWorkspaceAllocator<P>,
    size: SlabSize,
    stream: &P::Stream,
) -> Result<(), Error> {
    let workspace = allocator.allocate(0, &size)?;
    let mut lease = workspace.lease(stream)?;
    let frame = lease.frame();
    let outer: Vec<_> = (0..12)
        .map(|_| frame.array::<f64>(1000))
        .collect::<Result<_, _>>()?;
    let inner = frame.frame()?;
    let nested: Vec<_> = (0..12)
        .map(|_| inner.array::<f32>(1000))
        .collect::<Result<_, _>>()?;
    assert_eq!(outer.len() + nested.len(), 24);
    Ok(())
}

#[apply(backends)]
fn invariant_5_a_warm_program_of_24_arrays_calls_no_driver<B: Backend>(#[case] backend: B) {
    let (allocator, calls) = counted(&backend);
    for stream in [default_stream(&allocator), new_stream(&allocator)] {
        one_program(&allocator, size(1 << 20), &stream).expect("the first run");
        calls.clear();
        for _ in 0..100 {
            one_program(&allocator, size(1 << 20), &stream).expect("a warm run");
        }
        assert!(calls.all().is_empty(), "{:?}", calls.all());
    }
}

#[apply(backends)]
fn invariant_5_the_first_program_costs_one_allocation_and_one_event<B: Backend>(
    #[case] backend: B,
) {
    let (allocator, calls) = counted(&backend);
    let stream = default_stream(&allocator);
    calls.clear();
    one_program(&allocator, size(1 << 20), &stream).expect("the first run");
    let expected = [
        ("allocate_slab", 1),
        ("create_event", 1),
        ("device_count", 1),
        ("device_info", 1),
    ];
    assert_eq!(calls.all(), expected.into());
}
