//! What is special to CUDA: the caller's current context, the driver's codes, and drivers that are
//! missing or too old.

use workslab::cuda::Cuda;
use workslab::{Error, Platform, SlabOptions, Stream};
use workslab_tests::Emulator;

use crate::support::{
    every_fault_is_typed, everything, hand_over_is_two_calls, size, warm_path_is_free,
};

/// Every function of CUDA's that the backend calls and that can fail.
const CALLS: [&str; 31] = [
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetPCIBusId",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuMemGetInfo",
    "cuMemAlloc",
    "cuMemFree",
    "cuStreamCreate",
    "cuStreamDestroy",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventDestroy",
    "cuEventRecord",
    "cuMemcpyHtoDAsync",
    "cuMemcpyDtoHAsync",
    "cuMemcpyDtoDAsync",
    "cuMemsetD8Async",
    "cuMemsetD32Async",
    "cuMemGetAllocationGranularity",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
];

#[test]
fn invariant_7_the_current_context_is_left_as_it_was_on_every_path() {
    let emulator = Emulator::cuda();
    println!("on {}", emulator.platform.driver());
    for before in [None, Some(0), Some(1)] {
        emulator.set_current_context(before);
        let context = emulator.current_context();
        everything(&emulator.platform).expect("nothing fails");
        assert_eq!(emulator.current_context(), context);
        for call in CALLS {
            for after in 0..6 {
                emulator.fail(call, after, 999);
                let outcome = everything(&emulator.platform);
                emulator.clear_faults();
                assert_eq!(
                    emulator.current_context(),
                    context,
                    "{call} failed after {after}: {outcome:?}"
                );
            }
        }
    }
}

#[test]
fn the_drivers_code_and_name_are_kept_also_when_cust_does_not_know_them() {
    let emulator = Emulator::cuda();
    // cust's enum ends long before 46 and 912 were added; to receive them as it would be undefined
    // behaviour.
    for (code, name) in [
        (2, "CUDA_ERROR_OUT_OF_MEMORY"),
        (46, "CUDA_ERROR_DEVICE_UNAVAILABLE"),
        (912, "unknown error"),
    ] {
        emulator.fail("cuMemAlloc", 0, code);
        let error = emulator
            .platform
            .allocate_slab(0.into(), size(4096), SlabOptions::default())
            .expect_err("the fault shows");
        let Error::Driver {
            call: "cuMemAlloc",
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
    every_fault_is_typed(Emulator::cuda(), &CALLS);
}

#[test]
fn invariant_5_the_warm_path_makes_no_call_of_the_drivers() {
    warm_path_is_free(Emulator::cuda());
}

#[test]
fn invariant_4_a_hand_over_is_two_calls_of_the_drivers() {
    hand_over_is_two_calls(Emulator::cuda());
}

#[test]
fn a_special_stream_is_not_taken_for_a_default_one() {
    let emulator = Emulator::cuda();
    for device in 0..2 {
        let default = emulator
            .platform
            .default_stream(device.into())
            .expect("a device");
        for number in [1, 2] {
            // CU_STREAM_PER_THREAD is 2; handle 1 and device 1 must not be mixed up either.
            let handle = std::ptr::without_provenance_mut(number);
            // SAFETY: the stream is asked for its name and nothing else.
            let lent = unsafe {
                emulator
                    .platform
                    .lent_stream(device, handle)
                    .expect("a device")
            };
            assert_ne!(lent.id(), default.id());
        }
    }
}

#[test]
fn a_library_that_is_missing_or_another_one_says_so() {
    let error = Cuda::from_library("/no/such/libcuda.so.1").expect_err("it is not there");
    assert!(
        error.to_string().contains("/no/such/libcuda.so.1"),
        "{error}"
    );
}
