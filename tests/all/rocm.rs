//! What is special to ROCm: the caller's current device, the driver's codes, and drivers that are
//! missing, too old, or without a device.

use std::path::Path;

use rstest::rstest;
use workslab::rocm::Rocm;
use workslab::{Error, ExternalWorkspaceAllocator, Pattern, Platform, SlabOptions, Stream};
use workslab_tests::{Backend, Emulator, RocmBackend};

use crate::support::{allocator, size};

/// Everything that a backend does, on device 1; the first error ends it.
fn everything(rocm: Rocm) -> Result<(), Error> {
    let device = 1.into();
    rocm.device_count()?;
    rocm.device_info(device)?;
    let mut touched = SlabOptions::default();
    touched.prefault = true;
    drop(rocm.allocate_slab(device, size(4096), touched)?);
    let allocator = ExternalWorkspaceAllocator::new(rocm);
    let own = rocm.create_stream(device)?;
    for stream in [rocm.default_stream(device)?, own] {
        let workspace = allocator.allocate(device, &size(1 << 16))?;
        let mut lease = workspace.lease(&stream)?;
        let frame = lease.frame();
        let mut array = frame.array::<u8>(1001)?;
        let mut other = frame.array::<u8>(1001)?;
        for pattern in [
            Pattern::U8(1),
            Pattern::U16(0x0102),
            Pattern::U32(0x0102_0304),
            Pattern::U64(0x0102_0304_0506_0708),
        ] {
            array.fill_pattern(pattern)?;
        }
        array.write(&[7; 1001])?;
        other.copy_from(&array)?;
        assert_eq!(other.to_vec()?, [7; 1001]);
        stream.synchronize()?;
    }
    Ok(())
}

/// Every function of HIP's that the backend calls and that can fail.
const CALLS: [&str; 19] = [
    "hipGetDeviceCount",
    "hipGetDevice",
    "hipSetDevice",
    "hipDeviceGetName",
    "hipDeviceGetPCIBusId",
    "hipDeviceGetAttribute",
    "hipMemGetInfo",
    "hipMalloc",
    "hipFree",
    "hipStreamCreateWithFlags",
    "hipStreamDestroy",
    "hipStreamSynchronize",
    "hipStreamWaitEvent",
    "hipEventCreateWithFlags",
    "hipEventDestroy",
    "hipEventRecord",
    "hipMemcpyAsync",
    "hipMemsetD8Async",
    "hipMemsetD32Async",
];

#[test]
fn invariant_7_the_current_device_is_left_as_it_was_on_every_path() {
    let emulator = Emulator::hip();
    println!("on {}", emulator.rocm.driver());
    for before in [0, 1] {
        emulator.set_current_device(before);
        everything(emulator.rocm).expect("nothing fails");
        assert_eq!(emulator.current_device(), before);
    }
    emulator.set_current_device(0);
    for call in CALLS {
        for after in 0..6 {
            emulator.fail(call, after, 999);
            let outcome = everything(emulator.rocm);
            emulator.clear_faults();
            assert_eq!(
                emulator.current_device(),
                0,
                "{call} failed after {after}: {outcome:?}"
            );
        }
    }
}

#[test]
fn the_drivers_code_and_name_are_kept_also_when_hip_sys_does_not_know_them() {
    let emulator = Emulator::hip();
    let rocm = emulator.rocm;
    // 911 came after the bindings of hip-sys were made; as its enum it would be undefined behaviour.
    for (code, name) in [
        (2, "hipErrorOutOfMemory"),
        (911, "hipErrorUnknown"),
        (4_000_000, "hipErrorUnknown"),
    ] {
        emulator.fail("hipMalloc", 0, code);
        let error = rocm
            .allocate_slab(0.into(), size(4096), SlabOptions::default())
            .expect_err("the fault shows");
        let Error::Driver {
            call: "hipMalloc",
            code: found,
            name: found_name,
            ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!((*found, found_name.as_str()), (i64::from(code), name));
        assert!(error.to_string().contains("4 KiB"), "{error}");
    }
}

#[test]
fn every_fault_is_an_error_with_a_type_and_leaves_nothing_allocated() {
    let emulator = Emulator::hip();
    for call in CALLS {
        for after in 0..4 {
            emulator.fail(call, after, 719);
            let outcome = everything(emulator.rocm);
            emulator.clear_faults();
            match outcome {
                Ok(()) | Err(Error::Driver { code: 719, .. } | Error::Unavailable { .. }) => {}
                Err(other) => panic!("{call} failed after {after}: {other}"),
            }
        }
    }
    everything(emulator.rocm).expect("nothing is left over");
}

#[test]
fn invariant_5_the_warm_path_makes_no_call_of_the_drivers() {
    let emulator = Emulator::hip();
    let allocator = allocator(&RocmBackend);
    let rocm = emulator.rocm;
    let request = size(1 << 20);
    for stream in [
        rocm.default_stream(0.into()).expect("device 0"),
        rocm.create_stream(0.into()).expect("device 0"),
    ] {
        let program = || {
            let workspace = allocator.allocate(0, &request).expect("it fits");
            let mut lease = workspace.lease(&stream).expect("free");
            let frame = lease.frame();
            for _ in 0..24 {
                frame.array::<f64>(1000).expect("it fits");
            }
        };
        program();
        let before = emulator.thread_calls();
        (0..100).for_each(|_| program());
        assert_eq!(emulator.thread_calls(), before);
    }
}

#[test]
fn invariant_4_a_hand_over_is_two_calls_of_the_drivers() {
    let emulator = Emulator::hip();
    let allocator = allocator(&RocmBackend);
    let rocm = emulator.rocm;
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let streams = [0, 1].map(|_| rocm.create_stream(0.into()).expect("device 0"));
    drop(workspace.lease(&streams[0]).expect("free"));
    for turn in 1..10 {
        let before = emulator.thread_calls();
        drop(workspace.lease(&streams[turn % 2]).expect("free"));
        assert_eq!(emulator.thread_calls() - before, 2);
    }
}

#[rstest]
#[case(Pattern::U8(0xAB))]
#[case(Pattern::U16(0xABCD))]
#[case(Pattern::U32(0x0123_4567))]
#[case(Pattern::U64(0x0123_4567_89AB_CDEF))]
#[case(Pattern::U64(0x0123_4567_0123_4567))]
fn a_pattern_fills_every_length_and_offset(#[case] pattern: Pattern) {
    use workslab::DeviceSlab;
    let rocm = RocmBackend.platform();
    let slab = rocm
        .allocate_slab(0.into(), size(512), SlabOptions::default())
        .expect("it fits");
    let stream = rocm.create_stream(0.into()).expect("device 0");
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
            assert_eq!(
                pattern.first_mismatch(filled),
                None,
                "{offset} {len} {filled:x?}"
            );
            assert!(before.iter().chain(after).all(|byte| *byte == 0));
        }
    }
}

#[test]
fn a_library_that_is_missing_or_no_driver_says_so() {
    let error = Rocm::from_library("/no/such/libamdhip64.so").expect_err("it is not there");
    assert!(
        error.to_string().contains("/no/such/libamdhip64.so"),
        "{error}"
    );
    // A library that is there, but an older one than is needed, or another one altogether.
    let libc = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6"]
        .into_iter()
        .find(|path| Path::new(path).is_file());
    if let Some(path) = libc {
        let error = Rocm::from_library(path).expect_err("it is no HIP library");
        let text = error.to_string();
        assert!(
            text.contains("lacks the function hip") && text.contains("HIP 5.0"),
            "{text}"
        );
    } else {
        println!("skipped: this system keeps its libm elsewhere");
    }
}
