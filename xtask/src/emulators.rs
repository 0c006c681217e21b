//! The emulated drivers under the real names, in trees that look like toolkits.
//!
//! ```text
//! target/emulators/hip/include/hip/hip_runtime_api.h   empty: hip-sys looks whether it exists
//! target/emulators/hip/lib/libamdhip64.so.5, .6, .7    with their SONAMEs and HIP's version nodes
//! target/emulators/hip/lib/libamdhip64.so              → libamdhip64.so.6
//! target/emulators/cuda/lib64/libcuda.so.1
//! target/emulators/cuda/lib64/libcuda.so               → libcuda.so.1
//! ```
//!
//! A program that was linked against a real library runs on these, and one that was linked against
//! these runs on a real one.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::{cargo, output, root, run, target};

struct Library {
    package: &'static str,
    archive: &'static str,
    /// The folder of the libraries in the tree.
    folder: &'static str,
    /// The SONAMEs.
    names: &'static [&'static str],
    plain: &'static str,
    points_to: &'static str,
    /// A linker's version script.
    script: &'static str,
    /// A program in C that uses it.
    smoke: &'static str,
}

const LIBRARIES: [Library; 2] = [
    Library {
        package: "workslab-emulator-hip",
        archive: "libworkslab_emulator_hip.a",
        folder: "hip/lib",
        names: &["libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7"],
        plain: "libamdhip64.so",
        points_to: "libamdhip64.so.6",
        // The nodes of these functions in Debian's library, by `nm -D --with-symbol-versions`.
        script: "hip_4.2 { global: hip*; workslab_emulator_*; local: *; };\n\
            hip_5.1 { global: hipMemAddressFree; hipMemAddressReserve; hipMemCreate; \
            hipMemGetAllocationGranularity; hipMemMap; hipMemRelease; hipMemSetAccess; \
            hipMemUnmap; } hip_4.2;\n",
        smoke: "crates/workslab-emulator-hip/check/smoke.c",
    },
    Library {
        package: "workslab-emulator-cuda",
        archive: "libworkslab_emulator_cuda.a",
        folder: "cuda/lib64",
        names: &["libcuda.so.1"],
        plain: "libcuda.so",
        points_to: "libcuda.so.1",
        // libcuda's symbols have no versions.
        script: "{ global: cu*; workslab_emulator_*; local: *; };\n",
        smoke: "crates/workslab-emulator-cuda/check/smoke.c",
    },
];

/// Lays the trees out and tries each library with a C program.
pub fn lay_out() -> Result<(), String> {
    let tree = target().join("emulators");
    for library in &LIBRARIES {
        run(cargo().args(["build", "--release", "--locked", "-p", library.package]))?;
        let folder = tree.join(library.folder);
        make(&folder)?;
        let script = folder.join("versions.map");
        write(&script, library.script)?;
        let archive = target().join("release").join(library.archive);
        for name in library.names {
            run(Command::new("cc")
                .args(["-shared", "-o"])
                .arg(folder.join(name))
                .arg(format!("-Wl,-soname,{name}"))
                .arg(format!("-Wl,--version-script={}", script.display()))
                .arg("-Wl,--whole-archive")
                .arg(&archive)
                .args([
                    "-Wl,--no-whole-archive",
                    "-lpthread",
                    "-ldl",
                    "-lm",
                    "-lgcc_s",
                ]))?;
        }
        remove(&script)?;
        let plain = folder.join(library.plain);
        remove(&plain)?;
        std::os::unix::fs::symlink(library.points_to, &plain)
            .map_err(|error| format!("{}: {error}", plain.display()))?;
        try_all(library, &folder)?;
    }
    let include = tree.join("hip/include/hip");
    make(&include)?;
    write(&include.join("hip_runtime_api.h"), "")?;
    println!("{} holds both trees", tree.display());
    Ok(())
}

/// Links the C program against each library in turn and runs it.
fn try_all(library: &Library, folder: &Path) -> Result<(), String> {
    let program = folder.join("smoke");
    for name in library.names {
        run(Command::new("cc")
            .current_dir(root())
            .args(["-std=c11", "-Wall", "-Werror", "-o"])
            .arg(&program)
            .arg(library.smoke)
            .arg(folder.join(name)))?;
        let said = output(Command::new(&program).env("LD_LIBRARY_PATH", folder))?;
        println!("{name}: {}", said.trim());
    }
    remove(&program)
}

fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Removes a file, or finds that it is not there.
fn remove(file: &Path) -> Result<(), String> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", file.display()))
        }
        _ => Ok(()),
    }
}
