//! The device backends against the real thing: toolkits' headers, and HIP's real library.

use std::path::Path;
use std::process::Command;

use crate::command::{cargo, output, root, run, target};

/// A toolkit's header, and the C file that says what a backend relies on.
pub struct Headers {
    header: &'static str,
    define: Option<&'static str>,
    check: &'static str,
}

/// HIP's.
pub const HIP: Headers = Headers {
    header: "hip/hip_runtime_api.h",
    define: Some("-D__HIP_PLATFORM_AMD__"),
    check: "crates/workslab-rocm/check/hip_abi.c",
};

/// CUDA's.
pub const CUDA: Headers = Headers {
    header: "cuda.h",
    define: None,
    check: "crates/workslab-cuda/check/cuda_abi.c",
};

impl Headers {
    /// Checks what the backend relies on against the headers in each folder.
    pub fn check(&self, folders: &[&str]) -> Result<(), String> {
        if folders.is_empty() {
            return Err(format!("the folder that holds {} is needed", self.header));
        }
        for folder in folders {
            if !Path::new(folder).join(self.header).is_file() {
                return Err(format!("{folder} does not hold {}", self.header));
            }
            run(Command::new("cc")
                .current_dir(root())
                .args(["-fsyntax-only", "-std=c11", "-Wall", "-Werror"])
                .args(self.define)
                .args(["-I", folder])
                .arg(self.check))?;
            println!("{folder}: every constant, size and prototype is as the backend has it");
        }
        Ok(())
    }
}

/// Builds the command against a real toolkit and runs it with the real library: on a machine without
/// an AMD GPU it must say why there is no device, and end well.
pub fn hip_library(toolkit: &str) -> Result<(), String> {
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
