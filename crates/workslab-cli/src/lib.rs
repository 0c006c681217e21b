//! The command `workslab`: which devices there are, what is configured, and a replay of real
//! programs through one workspace.
//!
//! Exit codes: 0 when all is well, 1 when a replay found a wrong byte or a plan is proved not to fit, 2
//! for input that cannot be used, with one line that says what, where from and what to do, 3 when the
//! time ran out before it was known whether a plan fits.

mod args;
mod config;
mod devices;
mod error;
mod inspect;
pub mod plan;
pub mod replay;
mod size;
mod table;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
pub use crate::error::CliError;
pub use workslab_plan::{grid, programs};

/// Runs the command with this process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("WORKSLAB_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("off")),
        )
        .with_writer(std::io::stderr)
        .init();
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("workslab: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode, CliError> {
    match cli.command {
        Command::Plan(args) => return plan::run(&args),
        Command::Size(args) => return size::run(&args),
        Command::Devices(args) => devices::run(&args)?,
        Command::Inspect(args) => inspect::run(&args)?,
        Command::Config(args) => config::run(&args)?,
        Command::Replay(args) => replay::run(&args)?,
        Command::Completions { shell } => {
            args::completions(shell);
        }
    }
    Ok(ExitCode::SUCCESS)
}
