//! Guard mode: writes outside arrays are found and named, reads before writes show.

use rstest::rstest;
use rstest_reuse::apply;
use workslab::{DeviceSlab, Error, Frame, GuardViolation, Pattern, Platform, Side};
use workslab_tests::Backend;

use crate::matrix::backends;
use crate::support::{allocator, counted, default_stream, guarded, size};

/// Writes a byte at an offset of the slab behind everybody's back, as a faulty kernel would.
fn stray_write<P: Platform>(frame: &Frame<'_, P>, offset: usize, byte: u8) {
    let lease = frame.lease();
    let slab = lease.workspace().slab();
    // SAFETY: the lease is held, and the test takes no view of the bytes around the offset.
    let written = unsafe { slab.fill(lease.stream(), offset, 1, Pattern::U8(byte)) };
    written.expect("the offset is in the slab");
}

fn violation(error: Error) -> GuardViolation {
    match error {
        Error::Guard(violation) => *violation,
        other => panic!("{other}"),
    }
}

#[apply(backends)]
fn a_clean_frame_passes<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &guarded(1 << 16)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    for length in [1, 0, 255, 256, 257] {
        let mut array = frame.array::<u8>(length).expect("it fits");
        array.fill(0xFF).expect("all of it, and nothing else");
        assert!(array.as_device_ptr().is_aligned_to(256));
    }
    let inner = frame.frame().expect("none is open");
    inner
        .array::<f64>(10)
        .and_then(|mut array| array.fill(1.0))
        .expect("it fits");
    inner.finish().expect("nothing went astray");
    frame.finish().expect("nothing went astray");
    lease.finish().expect("nothing went astray");
    assert_eq!(workspace.statistics().guard_violations, 0);
}

#[apply(backends)]
fn a_write_one_byte_past_the_end_is_named<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &guarded(1 << 16)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.program("diffusion").lease(&stream).expect("free");
    let frame = lease.named_frame("step");
    let end = {
        let theta = frame.named("theta").array::<u8>(1001).expect("it fits");
        let _exner = frame.named("exner").array::<u8>(10).expect("it fits");
        theta.offset() + theta.bytes()
    };
    stray_write(&frame, end, 0x2A);
    let error = frame.finish().expect_err("it was overrun");
    let text = error.to_string();
    for part in [
        "'theta'",
        "'step'",
        "'diffusion'",
        "1 byte after the last",
        "0x2a",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let found = violation(error);
    assert_eq!(found.side, Side::After(1));
    assert_eq!((found.offset, found.damaged, found.found), (end, 1, 0x2A));
    lease.finish().expect("it was told already");
    assert_eq!(workspace.statistics().guard_violations, 1);
}

#[apply(backends)]
fn a_write_before_the_first_byte_is_named<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &guarded(1 << 16)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    let start = {
        let _first = frame.array::<u8>(100).expect("it fits");
        frame.array::<u8>(100).expect("it fits").offset()
    };
    stray_write(&frame, start - 3, 0);
    let found = violation(frame.finish().expect_err("it was underrun"));
    assert_eq!(found.side, Side::Before(3));
    assert_eq!(found.array, "number 1");
}

#[apply(backends)]
fn the_last_arrays_end_is_guarded_also_against_an_inner_frame<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &guarded(1 << 16)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    let end = {
        let array = frame.named("rho").array::<u8>(256).expect("it fits");
        array.offset() + array.bytes()
    };
    {
        let inner = frame.frame().expect("none is open");
        inner
            .array::<u8>(100)
            .and_then(|mut array| array.fill(9))
            .expect("it fits");
        stray_write(&inner, end + 255, 1);
        inner.finish().expect("its own arrays are whole");
    }
    let found = violation(frame.finish().expect_err("the outer one's is not"));
    assert_eq!(
        (found.array.as_str(), found.side),
        ("'rho'", Side::After(256))
    );
}

#[apply(backends)]
fn a_violation_that_nobody_asked_for_is_told_by_the_lease_or_the_next_one<B: Backend>(
    #[case] backend: B,
) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &guarded(1 << 16)).expect("it fits");
    let stream = default_stream(&allocator);
    let overrun = |lease: &mut workslab::Lease<'_, B::P>| {
        let frame = lease.frame();
        let end = {
            let array = frame.named("theta").array::<u8>(10).expect("it fits");
            array.offset() + array.bytes()
        };
        stray_write(&frame, end, 1);
    };

    let mut lease = workspace.lease(&stream).expect("free");
    overrun(&mut lease);
    let error = lease.finish().expect_err("the frame could not tell");
    assert_eq!(violation(error).array, "'theta'");

    let mut lease = workspace.lease(&stream).expect("it was told");
    overrun(&mut lease);
    drop(lease);
    let error = workspace.lease(&stream).expect_err("nobody was told");
    assert_eq!(violation(error).array, "'theta'");
    drop(workspace.lease(&stream).expect("now it was"));
    assert_eq!(workspace.statistics().guard_violations, 2);
}

#[apply(backends)]
fn a_new_array_is_poisoned<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &guarded(1 << 16)).expect("it fits");
    let stream = default_stream(&allocator);
    for _ in 0..2 {
        let mut lease = workspace.lease(&stream).expect("free");
        let frame = lease.frame();
        let mut doubles = frame.array::<f64>(100).expect("it fits");
        let values = doubles.to_vec().expect("read");
        assert!(values.iter().all(|value| value.is_nan()));
        let floats = frame.array::<f32>(7).expect("it fits");
        assert!(
            floats
                .to_vec()
                .expect("read")
                .iter()
                .all(|value| value.is_nan())
        );
        let integers = frame.array::<i32>(7).expect("it fits");
        assert_eq!(
            integers.to_vec().expect("read"),
            [0xA5A5_A5A5_u32 as i32; 7]
        );
        doubles.fill(1.0).expect("enqueued");
        frame.finish().expect("nothing went astray");
    }
}

#[apply(backends)]
fn zones_that_cannot_be_read_are_an_error_and_not_a_pass<B: Backend>(#[case] backend: B) {
    let (allocator, calls) = counted(&backend);
    let workspace = allocator.allocate(0, &guarded(1 << 16)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    frame.array::<u8>(10).expect("it fits");
    calls.fail("read", 0);
    let error = frame.finish().expect_err("nothing is known");
    assert!(
        matches!(error, Error::Driver { call: "read", .. }),
        "{error}"
    );
}

#[apply(backends)]
fn a_guarded_array_that_does_not_fit_with_its_zones_is_refused<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &guarded(1024)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    let error = frame.array::<u8>(513).expect_err("two zones are 512 bytes");
    assert!(
        matches!(
            error,
            Error::Exhausted {
                needed_size: 1025,
                ..
            }
        ),
        "{error}"
    );
    frame.array::<u8>(512).expect("just so");
}

#[apply(backends)]
fn without_guard_nothing_is_filled_or_read<B: Backend>(#[case] backend: B) {
    let (allocator, calls) = counted(&backend);
    let workspace = allocator.allocate(0, &size(1 << 16)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    frame.array::<u8>(10).expect("it fits");
    frame.finish().expect("nothing to check");
    assert_eq!((calls.count("fill"), calls.count("read")), (0, 0));
}
