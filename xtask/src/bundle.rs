//! One folder of tests, examples and benchmarks for a machine that has a GPU and its driver, and no Rust.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::command::{cargo, output, root, target};

/// Lays it out in `target/gpu-bundle`.
pub fn lay_out() -> Result<(), String> {
    let folder = target().join("gpu-bundle");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(failed)?;
    }
    for part in ["bin", "data", "peers"] {
        std::fs::create_dir_all(folder.join(part)).map_err(failed)?;
    }
    let matrix = build(&["test", "--no-run", "-p", "workslab-tests", "--test", "all"])?;
    let bench = build(&["build", "-p", "workslab-cuda", "--bench", "gpu"])?;
    let endurance = build(&["build", "-p", "workslab-cuda", "--bench", "endurance"])?;
    let command = build(&["build", "-p", "workslab-cli", "--bin", "workslab"])?;
    let library = build(&["build", "-p", "workslab-hip-over-cuda"])?;
    let examples = build(&["build", "-p", "workslab-examples", "--examples"])?;
    let mut programs = vec![("matrix".to_owned(), matrix), ("bench".to_owned(), bench)];
    programs.push(("endurance".to_owned(), endurance));
    programs.push(("workslab".to_owned(), command));
    programs.push(("libworkslab_hip_over_cuda.so".to_owned(), library));
    for example in examples {
        let name = example
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        programs.push((name, vec![example]));
    }
    for (name, built) in programs {
        let [program] = &built[..] else {
            return Err(format!("{name}: cargo built {} programs", built.len()));
        };
        copy(program, &folder.join("bin").join(name))?;
    }
    let files = [
        ("xtask/gpu-bundle/run.sh", "run.sh"),
        (
            "examples/data/icon4py-dycore.json",
            "data/icon4py-dycore.json",
        ),
        (
            "crates/workslab-cuda/benches/gpu/peers/pools.py",
            "peers/pools.py",
        ),
        (
            "crates/workslab-cuda/benches/gpu/peers/rmm.cpp",
            "peers/rmm.cpp",
        ),
    ];
    for (from, to) in files {
        copy(&root().join(from), &folder.join(to))?;
    }
    println!(
        "{}: copy it to the machine with the GPU, and run run.sh there",
        folder.display()
    );
    Ok(())
}

/// Builds in release, and gives the programs.
fn build(arguments: &[&str]) -> Result<Vec<PathBuf>, String> {
    let built = output(
        cargo()
            .args(arguments)
            .args(["--release", "--locked", "--message-format=json"])
            .args(["--config", "profile.release.strip=true"])
            // Not beside builds that keep their symbols.
            .env("CARGO_TARGET_DIR", target().join("gpu")),
    )?;
    Ok(built
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|message| made(&message))
        .collect())
}

/// The program or shared library that a message of cargo's is about.
fn made(message: &Value) -> Option<PathBuf> {
    if let Some(program) = message["executable"].as_str() {
        return Some(program.into());
    }
    let ours = message["target"]["name"] == "workslab_hip_over_cuda";
    let files = message["filenames"].as_array().filter(|_| ours)?;
    files
        .iter()
        .filter_map(Value::as_str)
        .find(|file| file.ends_with(".so"))
        .map(PathBuf::from)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to)
        .map(drop)
        .map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}
