//! The Python package: its wheel, built and installed into an environment of its own, and its tests.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::{cargo, root, run, target};

/// The best first: GT4Py 1.2 needs at least 3.12, and its wheels are tried most with that.
const VERSIONS: [&str; 2] = ["3.12", "3.13"];

/// What builds the wheel.
const BUILDERS: [&str; 1] = ["maturin==1.16.0"];

/// What the tests need beside the wheel; the compilers' programs are built by cmake.
const TESTS: [&str; 7] = [
    "pytest==9.2.0",
    "mypy==2.4.1",
    "numpy==2.5.5",
    "cmake==4.4.5",
    "ninja==1.13.0",
    "gt4py==1.2.1",
    "dace==2.0.0a10",
];

/// Builds, installs and tests the package.
pub fn run_tests() -> Result<(), String> {
    let python = find()?;
    println!("Python: {}", python.display());
    let folder = target().join("python");
    let (building, testing) = (folder.join("build"), folder.join("test"));
    environment(&python, &building, &BUILDERS)?;
    environment(&python, &testing, &TESTS)?;

    let package = root().join("crates/workslab-python");
    let wheels = folder.join("wheels");
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels).map_err(|error| said(&wheels, &error))?;
    }
    run(Command::new(building.join("bin/maturin"))
        .args(["build", "--release", "--locked", "--out"])
        .arg(&wheels)
        .arg("--interpreter")
        .arg(testing.join("bin/python"))
        .current_dir(&package))?;
    let wheel = std::fs::read_dir(&wheels)
        .map_err(|error| said(&wheels, &error))?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or_else(|| format!("{}: maturin left no wheel", wheels.display()))?;
    run(pip(&testing)
        .args(["--force-reinstall", "--no-deps"])
        .arg(wheel))?;

    run(cargo()
        .args(["build", "--locked", "-p", "workslab-emulator-hip"])
        .args(["-p", "workslab-emulator-cuda"]))?;
    let emulated = |name: &str| target().join("debug").join(name);
    run(Command::new(testing.join("bin/python"))
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .arg(package.join("tests"))
        .env(
            "WORKSLAB_HIP_LIBRARY",
            emulated("libworkslab_emulator_hip.so"),
        )
        .env(
            "WORKSLAB_CUDA_LIBRARY",
            emulated("libworkslab_emulator_cuda.so"),
        )
        .env("PATH", before_path(&testing.join("bin"))?)
        // What is compiled stays out of the checkout.
        .current_dir(&folder))?;
    for example in examples()? {
        run(Command::new(testing.join("bin/python"))
            .args(["-W", "ignore"])
            .arg(example)
            .env("PATH", before_path(&testing.join("bin"))?)
            .current_dir(&folder))?;
    }
    run(Command::new(testing.join("bin/python"))
        .args(["-m", "mypy", "--config-file"])
        .arg(package.join("pyproject.toml"))
        .arg("--python-executable")
        .arg(testing.join("bin/python"))
        .arg(package.join("python/workslab"))
        .current_dir(&folder))?;
    run(Command::new(testing.join("bin/python"))
        .args([
            "-m",
            "mypy.stubtest",
            "workslab._workslab",
            "--mypy-config-file",
        ])
        .arg(package.join("pyproject.toml"))
        .arg("--allowlist")
        .arg(package.join("tests/stubtest.txt"))
        .current_dir(&folder))
}

/// The examples in Python, in their order.
fn examples() -> Result<Vec<PathBuf>, String> {
    let folder = root().join("examples/python");
    let listed = std::fs::read_dir(&folder).map_err(|error| said(&folder, &error))?;
    let mut found: Vec<PathBuf> = listed
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .collect();
    found.sort();
    Ok(found)
}

/// A Python that is new enough: of the name with its version, or one of pyenv's, or python3 itself.
fn find() -> Result<PathBuf, String> {
    let mut candidates: Vec<PathBuf> = std::env::var_os("WORKSLAB_PYTHON")
        .map(PathBuf::from)
        .into_iter()
        .collect();
    if candidates.is_empty() {
        candidates.extend(
            VERSIONS
                .iter()
                .map(|version| format!("python{version}").into()),
        );
        candidates.push("python3".into());
        candidates.extend(of_pyenv());
    }
    candidates
        .into_iter()
        .find(|python| is_new_enough(python))
        .ok_or_else(|| {
            "no Python 3.12 or 3.13 was found, by its name or among pyenv's versions; install one, \
             or set WORKSLAB_PYTHON to it"
                .to_owned()
        })
}

/// Whether it runs, is of one of the versions, and can make environments.
fn is_new_enough(python: &Path) -> bool {
    let asked = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])";
    let answer = Command::new(python)
        .args(["-c", asked])
        .stderr(Stdio::null())
        .output();
    answer.is_ok_and(|output| {
        let version = String::from_utf8_lossy(&output.stdout);
        output.status.success() && VERSIONS.contains(&version.trim())
    })
}

fn of_pyenv() -> Vec<PathBuf> {
    let Ok(listed) = Command::new("pyenv").args(["versions", "--bare"]).output() else {
        return Vec::new(); // there is no pyenv
    };
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let prefixes = listed.lines().filter_map(|version| {
        let prefix = Command::new("pyenv")
            .args(["prefix", version])
            .output()
            .ok()?;
        let prefix = String::from_utf8_lossy(&prefix.stdout).trim().to_owned();
        (!prefix.is_empty()).then(|| Path::new(&prefix).join("bin/python"))
    });
    prefixes.collect()
}

/// An environment with these packages, made if it is not there.
fn environment(python: &Path, folder: &Path, packages: &[&str]) -> Result<(), String> {
    if !folder.join("bin/python").exists() {
        run(Command::new(python).args(["-m", "venv"]).arg(folder))?;
    }
    run(pip(folder).args(packages))
}

fn pip(environment: &Path) -> Command {
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    pip
}

fn before_path(folder: &Path) -> Result<OsString, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path)))
        .map_err(|error| format!("PATH: {error}"))
}

fn said(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
