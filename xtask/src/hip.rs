//! The ROCm backend against the real thing: a toolkit's headers, and the real library.

use std::path::Path;
use std::process::Command;

use crate::command::{cargo, output, root, run, target};

/// Checks what the backend relies on against the headers in each folder.
pub fn headers(folders: &[&str]) -> Result<(), String> {
    if folders.is_empty() {
        return Err("hip-headers needs the folder that holds hip/hip_runtime_api.h".into());
    }
    for folder in folders {
        if !Path::new(folder).join("hip/hip_runtime_api.h").is_file() {
            return Err(format!("{folder} does not hold hip/hip_runtime_api.h"));
        }
        run(Command::new("cc")
            .current_dir(root())
            .args(["-fsyntax-only", "-std=c11", "-Wall", "-Werror"])
            .args(["-D__HIP_PLATFORM_AMD__", "-I", folder])
            .arg("crates/workslab-rocm/check/hip_abi.c"))?;
        println!("{folder}: every constant, size and prototype is as the backend has it");
    }
    Ok(())
}

/// Builds the command against a real toolkit and runs it with the real library: on a machine without
/// an AMD GPU it must say why there is no device, and end well.
pub fn library(toolkit: &str) -> Result<(), String> {
    let folder = target().join("real-hip");
    run(cargo()
        .args(["build", "--locked", "-p", "workslab-cli"])
        .env("HIP_PATH", toolkit)
        .env("CARGO_TARGET_DIR", &folder))?;
    let binary = folder.join("debug/workslab");
    let needed = output(Command::new("readelf").arg("-d").arg(&binary))?;
    if needed.contains("amdhip64") {
        return Err(format!("{} is tied to libamdhip64", binary.display()));
    }
    let devices = output(
        Command::new(&binary)
            .arg("devices")
            .env_remove("WORKSLAB_HIP_LIBRARY"),
    )?;
    println!("{devices}");
    let rocm: Vec<&str> = devices
        .lines()
        .filter(|line| line.starts_with("rocm:") || line.starts_with("│ rocm"))
        .collect();
    match rocm[..] {
        [] => Err("workslab devices says nothing of rocm".into()),
        [line] if line.contains("no HIP library could be loaded") => {
            Err(format!("the real library was not found: {line}"))
        }
        [..] => Ok(()),
    }
}
