//! What is special to ROCm: the caller's current device, the driver's codes, and drivers that are
//! missing, too old, or without a device.

use std::path::Path;

use workslab::rocm::Rocm;
use workslab::{Error, Platform, SlabOptions, Stream};
use workslab_tests::Emulator;

use crate::support::{
    every_fault_is_typed, everything, hand_over_is_two_calls, size, warm_path_is_free,
};

/// Every function of HIP's that the backend calls and that can fail.
const CALLS: [&str; 27] = [
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
    "hipMemGetAllocationGranularity",
    "hipMemAddressReserve",
    "hipMemAddressFree",
    "hipMemCreate",
    "hipMemRelease",
    "hipMemMap",
    "hipMemUnmap",
    "hipMemSetAccess",
];

#[test]
fn invariant_7_the_current_device_is_left_as_it_was_on_every_path() {
    let emulator = Emulator::hip();
    println!("on {}", emulator.platform.driver());
    for before in [0, 1] {
        emulator.set_current_device(before);
        everything(&emulator.platform).expect("nothing fails");
        assert_eq!(emulator.current_device(), before);
    }
    emulator.set_current_device(0);
    for call in CALLS {
        for after in 0..6 {
            emulator.fail(call, after, 999);
            let outcome = everything(&emulator.platform);
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
    let rocm = emulator.platform;
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
    every_fault_is_typed(Emulator::hip(), &CALLS);
}

#[test]
fn invariant_5_the_warm_path_makes_no_call_of_the_drivers() {
    warm_path_is_free(Emulator::hip());
}

#[test]
fn invariant_4_a_hand_over_is_two_calls_of_the_drivers() {
    hand_over_is_two_calls(Emulator::hip());
}

#[test]
fn a_special_stream_is_not_taken_for_a_default_one() {
    let emulator = Emulator::hip();
    for device in 0..2 {
        let default = emulator
            .platform
            .default_stream(device.into())
            .expect("a device");
        for number in [1, 2] {
            // hipStreamPerThread is 2; handle 1 and device 1 must not be mixed up either.
            let handle = std::ptr::without_provenance_mut(number);
            // SAFETY: the stream is asked for its name and nothing else.
            let lent = unsafe { emulator.platform.lent_stream(device, handle) };
            assert_ne!(lent.id(), default.id());
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
