//! 04: the configuration comes from the environment and an experiment file, and every value
//! remembers where it came from.
//!
//! Run with `cargo run -p workslab-examples --example 04_configuration`.

use std::error::Error;

use workslab::host::Host;
use workslab::{BackendConfig, ExternalWorkspaceAllocator};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::temp_dir().join(format!("workslab-example-{}.yaml", std::process::id()));
    std::fs::write(
        &file,
        "name: a weather forecast\nbackend_config:\n  workspace_size: 64MiB\n  size_check: at-least\n",
    )?;

    // A program would call `process_environment()`; the example brings its own variables.
    let variables = [
        ("ICON4PY_BACKEND_WORKSPACE_SIZE", "32MiB"),
        ("WORKSLAB_GUARD", "on"),
        ("SLURM_LOCALID", "0"),
    ];
    let builder = BackendConfig::builder()
        .environment(variables.map(|(name, value)| (name.into(), value.into())))
        .experiment_file(&file);
    let config = builder.resolve();
    let overridden = builder.set("guard=off", "--set").resolve();
    std::fs::remove_file(&file)?;
    let (config, overridden) = (config?, overridden?);

    // The file goes before the environment, and an override before both.
    for entry in overridden.entries() {
        println!(
            "{:15} {:27} from {}",
            entry.field, entry.value, entry.origin
        );
    }
    assert!(config.guard && !overridden.guard);

    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let device = overridden.device_for(1)?;
    let workspace = allocator.allocate(device, &overridden)?;
    println!("made {workspace:?}");

    // Without a size there is no external workspace, and a program keeps its own allocation.
    let nothing = BackendConfig::builder().resolve()?;
    assert!(nothing.request().is_none());

    // What is wrong says what, where from, and what to do.
    let wrong = BackendConfig::builder()
        .environment([("WORKSLAB_WORKSPACE_SIZE".into(), "12 parsecs".into())])
        .resolve();
    if let Err(error) = wrong {
        println!("refused: {error}");
    }
    Ok(())
}
