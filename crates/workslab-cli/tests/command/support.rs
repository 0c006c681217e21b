//! The command as a person types it.

use std::path::{Path, PathBuf};

use assert_cmd::Command;

/// The command, from the project's root, in an environment with nothing of ours in it.
pub fn workslab() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("workslab"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    command.current_dir(root);
    command.env_clear();
    // Whatever drivers this machine has, these tests are about the host.
    command.env("WORKSLAB_HIP_LIBRARY", "/no/such/libamdhip64.so");
    command.env("WORKSLAB_CUDA_LIBRARY", "/no/such/libcuda.so.1");
    command
}

pub const ICON4PY: &str = "examples/data/icon4py-dycore.json";

pub struct Outcome {
    pub code: i32,
    pub out: String,
    pub err: String,
}

pub fn run(command: &mut Command) -> Outcome {
    let output = command.output().expect("the command can be run");
    Outcome {
        code: output.status.code().expect("it was not killed"),
        out: String::from_utf8(output.stdout).expect("it prints text"),
        err: String::from_utf8(output.stderr).expect("it prints text"),
    }
}

/// Runs what must be refused: exit code 2, one line on standard error, nothing on standard output.
pub fn refused(command: &mut Command) -> String {
    let outcome = run(command);
    assert_eq!(outcome.code, 2, "{}", outcome.err);
    assert_eq!(outcome.err.trim_end().lines().count(), 1, "{}", outcome.err);
    assert_eq!(outcome.out, "");
    outcome.err
}

pub fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

pub struct File {
    _folder: tempfile::TempDir,
    pub path: PathBuf,
}

pub fn file(name: &str, text: &str) -> File {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a file in it");
    File {
        _folder: folder,
        path,
    }
}
