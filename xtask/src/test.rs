//! All tests, with nothing installed but Rust.

use crate::command::{self, cargo, root};

/// Unit tests, the matrix, documentation tests, and every example to its end.
pub fn run() -> Result<(), String> {
    println!("backends: host; rocm on an emulated libamdhip64; cuda on an emulated libcuda");
    command::run(cargo().args(["test", "--workspace", "--locked"]))?;
    for example in examples()? {
        command::run(
            cargo()
                .args(["run", "--quiet", "--locked", "-p", "workslab-examples"])
                .args(["--example", &example]),
        )?;
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
