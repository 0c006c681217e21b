//! All tests, with nothing installed but Rust.

use crate::command::{self, cargo, root, target};

/// Unit tests, the matrix, documentation tests, and every example to its end on every platform.
pub fn run() -> Result<(), String> {
    println!("backends: host; rocm on an emulated libamdhip64; cuda on an emulated libcuda");
    command::run(
        cargo()
            .args(["test", "--workspace", "--locked"])
            .args(["--exclude", "workslab-tests"]),
    )?;
    // The matrix tells of each case which driver it ran on.
    command::run(
        cargo()
            .args(["test", "--locked", "-p", "workslab-tests"])
            .args(["--", "--show-output"]),
    )?;
    // Apart, since `--examples` would leave the packages' libraries out.
    command::run(
        cargo()
            .args(["build", "--locked", "-p", "workslab-emulator-hip"])
            .args([
                "-p",
                "workslab-emulator-cuda",
                "-p",
                "workslab-hip-over-cuda",
            ]),
    )?;
    let folder = target().join("debug");
    let emulated_cuda = folder.join("libworkslab_emulator_cuda.so");
    // The ROCm backend over CUDA's driver, as it runs on an NVIDIA GPU.
    command::run(
        cargo()
            .args(["test", "--locked", "-p", "workslab-tests", "--test", "all"])
            .args(["--", "case_2_rocm"])
            .env(
                "WORKSLAB_HIP_LIBRARY",
                folder.join("libworkslab_hip_over_cuda.so"),
            )
            .env("WORKSLAB_CUDA_LIBRARY", &emulated_cuda),
    )?;
    command::run(
        cargo()
            .args(["build", "--locked", "-p", "workslab-examples"])
            .arg("--examples"),
    )?;
    for example in examples()? {
        for platform in ["host", "rocm", "cuda"] {
            command::run(
                std::process::Command::new(folder.join("examples").join(&example))
                    .arg(platform)
                    .env(
                        "WORKSLAB_HIP_LIBRARY",
                        folder.join("libworkslab_emulator_hip.so"),
                    )
                    .env("WORKSLAB_CUDA_LIBRARY", &emulated_cuda),
            )?;
        }
    }
    Ok(())
}

/// The names of the numbered examples, in order.
fn examples() -> Result<Vec<String>, String> {
    let folder = root().join("examples");
    let entries =
        std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let stem = name.strip_suffix(".rs")?;
            stem.starts_with(|c: char| c.is_ascii_digit())
                .then(|| stem.to_owned())
        })
        .collect();
    names.sort();
    Ok(names)
}
