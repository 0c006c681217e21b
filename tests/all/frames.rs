//! Arrays in frames: where they lie, how long they live, what they hold.

use rstest::rstest;
use rstest_reuse::apply;
use workslab::{ARRAY_ALIGNMENT, DeviceSlab, Error, Pattern, Platform, SlabOptions};
use workslab_tests::Backend;

use crate::matrix::backends;
use crate::support::{allocator, counted, default_stream, size};

#[apply(backends)]
fn invariant_6_the_base_and_every_array_are_aligned<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(1 << 20)).expect("it fits");
    assert!(workspace.base().is_aligned_to(ARRAY_ALIGNMENT));
    const { assert!(ARRAY_ALIGNMENT >= 256) };
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    for length in [1, 3, 0, 255, 257, 1000] {
        let bytes = frame.array::<u8>(length).expect("it fits");
        assert!(bytes.as_device_ptr().is_aligned_to(ARRAY_ALIGNMENT));
        let floats = frame.array::<f64>(length).expect("it fits");
        assert!(floats.as_device_ptr().is_aligned_to(ARRAY_ALIGNMENT));
    }
    for alignment in [1, 8, 64, 512, 4096, 65536] {
        let array = frame.aligned(alignment).array::<u8>(3).expect("it fits");
        assert!(array.as_device_ptr().is_aligned_to(alignment));
    }
    // Less than the element type's own alignment would be undefined behaviour, so it is not given.
    let array = frame.aligned(1).array::<f64>(3).expect("it fits");
    assert!(array.as_device_ptr().is_aligned_to(8));
}

#[apply(backends)]
fn three_floats_before_a_double_leave_the_double_aligned<B: Backend>(#[case] backend: B) {
    // DaCe adds sizes up without padding: there the doubles would begin at byte 12.
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    let floats = frame.array::<f32>(3).expect("it fits");
    let doubles = frame.array::<f64>(5).expect("it fits");
    assert_eq!(floats.offset(), 0);
    assert_eq!(doubles.offset(), 256);
}

#[apply(backends)]
fn an_alignment_that_is_no_power_of_two_is_refused<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    for alignment in [0, 3, 48] {
        let error = frame
            .named("theta")
            .aligned(alignment)
            .array::<u8>(1)
            .expect_err("no power of two");
        assert!(matches!(error, Error::BadAlignment { .. }), "{error}");
        assert!(error.to_string().contains("'theta'"), "{error}");
    }
}

#[apply(backends)]
fn arrays_hold_what_is_written_and_share_no_byte<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(1 << 20)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    let mut arrays: Vec<_> = (0..20)
        .map(|i| frame.array::<f64>(100 + i).expect("it fits"))
        .collect();
    for (i, array) in arrays.iter_mut().enumerate() {
        array.fill(i as f64).expect("enqueued");
    }
    for (i, array) in arrays.iter().enumerate() {
        assert_eq!(array.to_vec().expect("read"), vec![i as f64; 100 + i]);
    }
    let (first, rest) = arrays.split_at_mut(1);
    rest[0].write(&vec![2.5; 101]).expect("as long as it is");
    let error = first[0].copy_from(&rest[0]).expect_err("another length");
    assert!(matches!(
        error,
        Error::LengthMismatch {
            expected: 100,
            found: 101,
            ..
        }
    ));
    let mut same = frame.array::<f64>(101).expect("it fits");
    same.copy_from(&rest[0]).expect("as long as it is");
    assert_eq!(same.to_vec().expect("read"), vec![2.5; 101]);
    let mut short = [0.0; 7];
    assert!(matches!(
        same.read(&mut short),
        Err(Error::LengthMismatch {
            expected: 101,
            found: 7,
            ..
        })
    ));
    assert!(matches!(
        same.read_bytes(800, &mut [0; 16]),
        Err(Error::OutOfBounds { .. })
    ));
}

#[apply(backends)]
fn elements_of_any_width_can_be_filled<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    let mut complex = frame.array::<[f64; 2]>(5).expect("it fits");
    complex
        .fill([1.0, -1.0])
        .expect("no driver fills 16 bytes at once");
    assert_eq!(complex.to_vec().expect("read"), [[1.0, -1.0]; 5]);
    let mut shorts = frame.array::<i16>(5).expect("it fits");
    shorts.fill(-2).expect("two bytes");
    assert_eq!(shorts.to_vec().expect("read"), [-2; 5]);
}

#[apply(backends)]
fn zero_length_arrays_are_legal_even_where_nothing_is_left<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(1000)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    let full = frame.array::<u8>(1000).expect("it fits just so");
    let mut empty = frame.array::<f64>(0).expect("no byte is needed");
    assert!(empty.is_empty() && empty.bytes() == 0);
    assert!(empty.as_device_ptr().is_aligned_to(ARRAY_ALIGNMENT));
    empty.fill(1.0).expect("nothing to do");
    assert!(empty.to_vec().expect("nothing to read").is_empty());
    let flat = frame
        .shaped::<f64, 3>([usize::MAX, 0, usize::MAX])
        .expect("an empty dimension makes it empty");
    assert_eq!(flat.len(), 0);
    assert_eq!(full.len(), 1000);
}

#[apply(backends)]
fn shapes_are_kept<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(1 << 20)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    let field = frame
        .named("theta")
        .shaped::<f64, 2>([20, 65])
        .expect("it fits");
    assert_eq!(field.shape(), [20, 65]);
    assert_eq!((field.len(), field.bytes()), (1300, 10_400));
}

#[apply(backends)]
fn all_bytes_come_back_when_a_frame_ends<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    for _ in 0..3 {
        let frame = lease.frame();
        let array = frame.array::<u8>(4096).expect("all of it");
        assert_eq!(array.offset(), 0);
    }
}

#[apply(backends)]
fn an_inner_frame_gives_its_bytes_back_and_keeps_off_the_outer_ones<B: Backend>(
    #[case] backend: B,
) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(1 << 16)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let outer = lease.named_frame("step");
    let mut kept = outer.array::<u8>(1000).expect("it fits");
    kept.fill_pattern(Pattern::U8(1)).expect("enqueued");
    let first = {
        let inner = outer.named_frame("solver").expect("none is open");
        let mut array = inner.array::<u8>(1000).expect("it fits");
        array.fill_pattern(Pattern::U8(2)).expect("enqueued");
        let error = outer.array::<u8>(1).expect_err("an inner frame is open");
        assert!(matches!(error, Error::FrameShadowed { .. }), "{error}");
        outer.frame().expect_err("an inner frame is open");
        let innermost = inner.frame().expect("none is open");
        assert_eq!(innermost.array::<u8>(1).expect("it fits").offset(), 2048);
        array.offset()
    };
    assert_eq!(kept.to_vec().expect("read"), [1; 1000]);
    let next = outer.array::<u8>(1).expect("the inner frame has ended");
    assert_eq!(next.offset(), first);
}

#[apply(backends)]
fn an_array_that_does_not_fit_says_what_is_needed_and_where_to_set_it<B: Backend>(
    #[case] backend: B,
) {
    let allocator = allocator(&backend);
    let config = workslab::BackendConfig::builder()
        .environment([("ICON4PY_BACKEND_WORKSPACE_SIZE".into(), "4096".into())])
        .resolve()
        .expect("a size");
    let workspace = allocator.allocate(0, &config).expect("it fits");
    let stream = default_stream(&allocator);
    let needed = {
        let mut lease = workspace.program("solver").lease(&stream).expect("free");
        let frame = lease.named_frame("step");
        let _first = frame.array::<f64>(100).expect("it fits");
        let error = frame
            .named("theta")
            .array::<f64>(1000)
            .expect_err("4096 bytes are too few");
        let message = error.to_string();
        for part in [
            "'theta'",
            "'step'",
            "'solver'",
            "4 KiB (4096 bytes)",
            "set by ICON4PY_BACKEND_WORKSPACE_SIZE",
        ] {
            assert!(message.contains(part), "{part} is not in {message}");
        }
        let Error::Exhausted { needed_size, .. } = error else {
            panic!("{error}");
        };
        // A frame that has refused is as it was.
        frame.array::<u8>(1).expect("a small one still fits");
        needed_size
    };
    assert_eq!(needed, 1024 + 8000);
}

#[apply(backends)]
fn invariant_9_a_size_that_overflows_is_an_error_and_not_a_wrap<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    for length in [usize::MAX, usize::MAX / 8 + 1, usize::MAX / 4] {
        let error = frame.array::<f64>(length).expect_err("too many");
        assert!(matches!(error, Error::SizeOverflow { .. }), "{error}");
    }
    // 2^61 elements of 8 bytes are 2^64 bytes: zero, if it wrapped.
    let error = frame
        .shaped::<f64, 2>([1 << 31, 1 << 30])
        .expect_err("wraps");
    assert!(
        error.to_string().contains("2147483648 × 1073741824"),
        "{error}"
    );
    for length in [usize::MAX / 8, usize::MAX / 16] {
        let error = frame.array::<f64>(length).expect_err("too many");
        assert!(
            matches!(error, Error::SizeOverflow { .. } | Error::Exhausted { .. }),
            "{error}"
        );
    }
    let error = frame
        .aligned(1 << 63)
        .array::<u8>(1 << 63)
        .expect_err("too far");
    assert!(
        matches!(error, Error::SizeOverflow { .. } | Error::Exhausted { .. }),
        "{error}"
    );
}

#[apply(backends)]
fn a_fill_that_the_driver_refuses_is_an_error<B: Backend>(#[case] backend: B) {
    let (allocator, calls) = counted(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    let mut array = frame.array::<u8>(16).expect("it fits");
    for call in ["fill", "write", "read"] {
        calls.fail(call, 0);
    }
    assert!(array.fill(1).is_err());
    assert!(array.write(&[1; 16]).is_err());
    assert!(array.to_vec().is_err());
    array.fill(1).expect("the faults have passed");
}

#[apply(backends)]
fn a_pattern_fills_every_length_and_offset<B: Backend>(#[case] backend: B) {
    let platform = backend.platform();
    let slab = platform
        .allocate_slab(0.into(), size(512), SlabOptions::default())
        .expect("it fits");
    let stream = platform.create_stream(0.into()).expect("device 0");
    for pattern in [
        Pattern::U8(0xAB),
        Pattern::U16(0xABCD),
        Pattern::U32(0x0123_4567),
        Pattern::U64(0x0123_4567_89AB_CDEF),
        Pattern::U64(0x0123_4567_0123_4567),
    ] {
        for offset in 0..9 {
            for len in [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 100, 255] {
                let mut bytes = [0; 300];
                // SAFETY: the slab has no other user.
                unsafe {
                    slab.fill(&stream, 0, 300, Pattern::U8(0))
                        .expect("in bounds");
                    slab.fill(&stream, offset, len, pattern).expect("in bounds");
                    slab.read(&stream, 0, &mut bytes).expect("in bounds");
                }
                let (before, rest) = bytes.split_at(offset);
                let (filled, after) = rest.split_at(len);
                assert_eq!(pattern.first_mismatch(filled), None, "{offset} {len}");
                assert!(before.iter().chain(after).all(|byte| *byte == 0));
            }
        }
    }
}

#[test]
fn host_arrays_are_slices_once_the_stream_is_done() {
    use workslab::ExternalWorkspaceAllocator;
    use workslab::host::Host;

    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let workspace = allocator.allocate(0, &size(1 << 20)).expect("it fits");
    let stream = allocator
        .platform()
        .create_stream(workspace.device())
        .expect("a stream");
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    let mut array = frame.array::<f64>(1000).expect("it fits");
    for round in 0..100 {
        array.fill(f64::from(round)).expect("enqueued");
        let slice = array.host_mut().expect("the fill is done");
        assert!(slice.iter().all(|value| *value == f64::from(round)));
        slice[999] = -1.0;
        assert_eq!(array.host().expect("idle")[999], -1.0);
    }
}
