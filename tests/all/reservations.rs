//! Named parts that no lease covers.

use rstest::rstest;
use rstest_reuse::apply;
use workslab::{Error, Pattern, Platform};
use workslab_tests::Backend;

use crate::matrix::backends;
use crate::support::{allocator, default_stream, size};

#[apply(backends)]
fn invariant_4_leases_see_only_what_is_not_reserved<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(8192)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut first = workspace.reserve("rocblas", 1000).expect("it fits");
    let mut second = workspace.reserve("rocsolver", 256).expect("it fits");
    assert!(first.as_device_ptr().is_aligned_to(256));
    assert_eq!((first.offset(), second.offset()), (7168, 6912));
    assert_eq!(workspace.statistics().reserved, 8192 - 6912);
    first.fill(&stream, Pattern::U8(1)).expect("its own bytes");
    second.fill(&stream, Pattern::U8(2)).expect("its own bytes");
    {
        let mut lease = workspace.lease(&stream).expect("free");
        assert_eq!(lease.size(), 6912);
        let frame = lease.frame();
        let mut all = frame.array::<u8>(6912).expect("all that is left");
        all.fill(3).expect("enqueued");
        assert!(matches!(frame.array::<u8>(1), Err(Error::Exhausted { .. })));
    }
    let mut bytes = [0; 1000];
    first.read(&stream, 0, &mut bytes).expect("in bounds");
    assert_eq!(bytes, [1; 1000]);
    second
        .read(&stream, 0, &mut bytes[..256])
        .expect("in bounds");
    assert_eq!(bytes[..256], [2; 256]);
    first.write(&stream, 998, &[5, 6]).expect("in bounds");
    first
        .read(&stream, 998, &mut bytes[..2])
        .expect("in bounds");
    assert_eq!(bytes[..2], [5, 6]);
    assert!(matches!(
        first.write(&stream, 999, &[5, 6]),
        Err(Error::OutOfBounds { .. })
    ));
}

#[apply(backends)]
fn invariant_3_a_reservation_is_made_while_no_lease_is_held<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(8192)).expect("it fits");
    let stream = default_stream(&allocator);
    let lease = workspace.program("solver").lease(&stream).expect("free");
    let error = workspace.reserve("blas", 256).expect_err("a lease is held");
    assert!(
        matches!(error, Error::ReservationWhileLeased { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("'solver'"), "{error}");
    drop(lease);
    workspace.reserve("blas", 256).expect("now it can be made");
}

#[apply(backends)]
fn a_name_has_one_size_and_one_user_at_a_time<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(8192)).expect("it fits");
    let held = workspace.reserve("blas", 512).expect("it fits");
    let offset = held.offset();
    assert!(matches!(
        workspace.reserve("blas", 512),
        Err(Error::ReservationTaken { .. })
    ));
    drop(held);
    let error = workspace.reserve("blas", 1024).expect_err("another size");
    assert!(
        matches!(
            error,
            Error::ReservationMismatch {
                cached: 512,
                requested: 1024,
                ..
            }
        ),
        "{error}"
    );
    let again = workspace.reserve("blas", 512).expect("nobody holds it");
    assert_eq!(again.offset(), offset);
    assert_eq!(workspace.statistics().reserved, 512);
}

#[apply(backends)]
fn a_reservation_that_does_not_fit_says_how_large_the_workspace_must_be<B: Backend>(
    #[case] backend: B,
) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(1000)).expect("it fits");
    let error = workspace.reserve("blas", 1001).expect_err("too large");
    let Error::Exhausted { needed_size, .. } = error else {
        panic!("{error}");
    };
    let stream = default_stream(&allocator);
    let other = allocator.allocate(1, &size(needed_size)).expect("it fits");
    assert_eq!(
        other.reserve("blas", 1001).expect("as it said").size(),
        1001
    );
    assert!(matches!(workspace.reserve("none", 0), Err(Error::ZeroSize)));
    assert!(matches!(
        workspace.reserve("huge", usize::MAX),
        Err(Error::Exhausted { .. })
    ));
    drop(workspace.lease(&stream).expect("nothing is held"));
}

#[apply(backends)]
fn a_stream_of_another_device_may_not_touch_it<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let mut reservation = workspace.reserve("blas", 256).expect("it fits");
    let stream = allocator
        .platform()
        .create_stream(1.into())
        .expect("device 1 has streams");
    let error = reservation
        .fill(&stream, Pattern::U8(1))
        .expect_err("wrong");
    assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
}
