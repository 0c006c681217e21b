//! Drivers that the environment makes different: devices that share the host's memory, a driver with
//! no device, a slow one, one that fails when a program has hardly begun.
//!
//! A process has one driver, so each test runs itself again in a child with the variables set.

use std::process::{Command, Output};

use rstest::rstest;
use workslab::{Error, Platform, SlabOptions};
use workslab_tests::{Backend, CudaBackend, Emulator, RocmBackend};

use crate::growth::{memory_comes_and_goes, no_growth};
use crate::support::{allocator, everything, size};

/// In what units the emulated devices map memory.
const EMULATED_UNITS: [usize; 2] = [2 << 20, 64 << 10];

/// The variable that tells a child what to do.
const ROLE: &str = "WORKSLAB_TESTS_ROLE";

/// Runs `child` in a process of its own with these variables.
fn child_with(role: &str, variables: &[(&str, &str)]) -> Output {
    let binary = std::env::current_exe().expect("the tests are running");
    Command::new(binary)
        .args(["environment::child", "--exact", "--nocapture"])
        .env(ROLE, role)
        .envs(variables.iter().copied())
        .output()
        .expect("the tests can be run again")
}

/// The same, and wants it to end well.
fn in_a_child(role: &str, variables: &[(&str, &str)]) {
    let output = child_with(role, variables);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{role}: {text}{errors}");
    assert!(text.contains(&format!("child was {role}")), "{text}");
}

/// What the children do; without a role there is nothing to do, and the tests above see to it that
/// there is one.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    match role.as_str() {
        "rocm touched" => touched(&Emulator::hip().platform),
        "cuda touched" => touched(&Emulator::cuda().platform),
        "rocm without devices" => without_devices(&Emulator::hip().platform),
        "cuda without devices" => without_devices(&Emulator::cuda().platform),
        "rocm everything" => everything(&Emulator::hip().platform).expect("slow is not wrong"),
        "rocm memory" => memory_comes_and_goes(&RocmBackend, EMULATED_UNITS),
        "cuda memory" => memory_comes_and_goes(&CudaBackend, EMULATED_UNITS),
        "rocm without virtual memory" => no_growth(&RocmBackend),
        "cuda without virtual memory" => no_growth(&CudaBackend),
        "rocm leak" => {
            let slab = Emulator::hip().platform.allocate_slab(
                0.into(),
                size(1234),
                SlabOptions::default(),
            );
            std::mem::forget(slab.expect("it fits"));
        }
        "rocm device lost" => {
            let emulator = Emulator::hip();
            let workspaces = allocator(&RocmBackend);
            let stream = emulator.platform.create_stream(1.into()).expect("a stream");
            let workspace = workspaces.allocate(1, &size(4096)).expect("it fits");
            drop(workspace.lease(&stream).expect("free"));
            emulator.lose_device(1);
            let other = emulator
                .platform
                .default_stream(1.into())
                .expect("a handle");
            let error = workspace.lease(&other).expect_err("the device has gone");
            assert!(
                error.to_string().contains("hipErrorLaunchFailure"),
                "{error}"
            );
            assert!(
                workspaces.allocate(1, &size(4096)).is_ok(),
                "a hit asks no driver"
            );
            workspaces
                .allocate(0, &size(4096))
                .expect("the other device is there");
        }
        "rocm out of memory" => out_of_memory(&RocmBackend, "hipErrorOutOfMemory"),
        "cuda out of memory" => out_of_memory(&CudaBackend, "CUDA_ERROR_OUT_OF_MEMORY"),
        other => panic!("no such role: {other}"),
    }
    println!("child was {role}");
}

/// The first allocation fails with the driver's own name for it, and the next one works.
fn out_of_memory<B: Backend>(backend: &B, name: &str) {
    let allocator = allocator(backend);
    let error = allocator
        .allocate(0, &size(4096))
        .expect_err("the fault strikes");
    assert!(error.to_string().contains(name), "{error}");
    allocator.allocate(0, &size(4096)).expect("and is over");
}

/// Where host and device share memory, a slab is touched when it is allocated.
fn touched<P: Platform>(platform: &P) {
    let info = platform.device_info(0.into()).expect("device 0");
    assert!(info.shares_host_memory);
    let slab = platform
        .allocate_slab(0.into(), size(4096), SlabOptions::default())
        .expect("it fits");
    let stream = platform.create_stream(0.into()).expect("a stream");
    let mut bytes = [1; 4096];
    // SAFETY: the slab has no other user.
    unsafe { workslab::DeviceSlab::read(&slab, &stream, 0, &mut bytes) }.expect("in bounds");
    // The emulated memory is garbage until somebody writes to it.
    assert_eq!(bytes, [0; 4096]);
}

fn without_devices<P: Platform>(platform: &P) {
    let error = platform.device_count().expect_err("there is none");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("finds no device"), "{error}");
}

#[rstest]
#[case("rocm touched", &[("WORKSLAB_EMULATOR_INTEGRATED", "1")])]
#[case("cuda touched", &[("WORKSLAB_EMULATOR_INTEGRATED", "1")])]
#[case("rocm without devices", &[("WORKSLAB_EMULATOR_DEVICES", "0")])]
#[case("cuda without devices", &[("WORKSLAB_EMULATOR_DEVICES", "0")])]
#[case("rocm memory", &[("WORKSLAB_EMULATOR_LEAKS", "1")])]
#[case("cuda memory", &[("WORKSLAB_EMULATOR_LEAKS", "1")])]
#[case("rocm without virtual memory", &[("WORKSLAB_EMULATOR_VIRTUAL_MEMORY", "0")])]
#[case("cuda without virtual memory", &[("WORKSLAB_EMULATOR_VIRTUAL_MEMORY", "0")])]
#[case("rocm everything", &[("WORKSLAB_EMULATOR_DELAY_US", "200")])]
#[case("rocm device lost", &[])]
#[case("rocm out of memory", &[("WORKSLAB_EMULATOR_FAULTS", "hipMalloc:0:2")])]
#[case("cuda out of memory", &[("WORKSLAB_EMULATOR_FAULTS", "cuMemAlloc:0:2")])]
fn the_environment_makes_a_driver_different(
    #[case] role: &str,
    #[case] variables: &[(&str, &str)],
) {
    in_a_child(role, variables);
}

#[test]
fn memory_that_was_never_freed_is_named_at_exit() {
    let output = child_with("rocm leak", &[("WORKSLAB_EMULATOR_LEAKS", "1")]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        errors.contains("1234 bytes") && errors.contains("never freed"),
        "{errors}"
    );
    // What frees all it allocates ends well, with the same variable set.
    in_a_child("rocm everything", &[("WORKSLAB_EMULATOR_LEAKS", "1")]);
}
