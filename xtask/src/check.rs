//! The slower checks: lints, model checks, sanitizers.

use std::path::PathBuf;

use serde_json::Value;

use crate::command::{cargo, output, run, target};

/// Formatting, clippy and documentation; a warning is an error.
pub fn lint() -> Result<(), String> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo()
        .args(["clippy", "--workspace", "--all-targets", "--locked"])
        .args(["--", "-D", "warnings"]))?;
    run(cargo()
        .args(["doc", "--workspace", "--no-deps", "--locked"])
        .env("RUSTDOCFLAGS", "-D warnings"))
}

/// The interleavings, in a build of its own: `--cfg loom` changes what every crate is built from.
pub fn loom() -> Result<(), String> {
    run(cargo()
        .args(["test", "--release", "--locked", "-p", "workslab-core"])
        .args(["--test", "loom"])
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", target().join("loom")))
}

/// Tests that the memory checkers leave out: one compiles programs, and one loses a slab on purpose,
/// as a workspace does whose last work cannot be known to be done.
const SKIPPED: [&str; 4] = ["--skip", "compile_fail", "--skip", "loses_the_slab"];

/// The crates with unsafe code, and the matrix that drives them, under AddressSanitizer.
pub fn asan() -> Result<(), String> {
    const TARGET: &str = "x86_64-unknown-linux-gnu";
    // A shared library with the sanitizer in it cannot be loaded into a Rust program, which keeps the
    // sanitizer's symbols to itself; so the emulated driver is an ordinary one.
    run(cargo()
        .args(["build", "--locked", "-p", "workslab-emulator-hip"])
        .args(["-p", "workslab-emulator-cuda"]))?;
    let emulated = |name: &str| target().join("debug").join(name);
    // The sanitizer is a compiler flag that stable Rust has but guards.
    run(cargo()
        .args(["test", "--locked", "--target", TARGET])
        .args([
            "-p",
            "workslab-core",
            "-p",
            "workslab-host",
            "-p",
            "workslab-tests",
        ])
        .args(["--lib", "--test", "all", "--"])
        .args(SKIPPED)
        // The sanitizer has mlock do nothing, and so there is nothing to see of it.
        .args(["--skip", "locked_slab", "--skip", "lock_beyond"])
        .env(
            "WORKSLAB_HIP_LIBRARY",
            emulated("libworkslab_emulator_hip.so"),
        )
        .env(
            "WORKSLAB_CUDA_LIBRARY",
            emulated("libworkslab_emulator_cuda.so"),
        )
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("PROPTEST_CASES", "64")
        .env("CARGO_TARGET_DIR", target().join("asan")))
}

/// The same tests under valgrind's memory checker.
pub fn valgrind() -> Result<(), String> {
    let built = output(
        cargo()
            .args(["test", "--no-run", "--locked", "--message-format=json"])
            .args([
                "-p",
                "workslab-core",
                "-p",
                "workslab-host",
                "-p",
                "workslab-tests",
            ])
            .args(["--lib", "--test", "all"]),
    )?;
    let binaries: Vec<PathBuf> = built
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["profile"]["test"] == true)
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .collect();
    if binaries.is_empty() {
        return Err("cargo built no test".into());
    }
    for binary in binaries {
        run(std::process::Command::new("valgrind")
            .args(["--quiet", "--error-exitcode=9", "--leak-check=full"])
            // What the test harness and lazily made statics keep to the end is not lost.
            .args([
                "--show-leak-kinds=definite",
                "--errors-for-leak-kinds=definite",
            ])
            .arg(binary)
            .arg("--test-threads=2")
            .args(SKIPPED)
            // In a forked child what the other threads held is lost, and valgrind says so.
            .args(["--skip", "forked_child"])
            .env("PROPTEST_CASES", "8"))?;
    }
    Ok(())
}
