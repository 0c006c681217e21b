//! The command line.

use std::path::PathBuf;

use clap::builder::Styles;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use workslab::{BackendConfig, ConfigError};

/// One preallocated workspace per device, shared safely by every program in the process.
#[derive(Debug, Parser)]
#[command(
    name = "workslab",
    version,
    styles = Styles::plain(),
    after_help = "Examples:\n  \
        workslab devices\n  \
        workslab config --config experiment.yaml --set guard=true\n  \
        workslab replay examples/data/icon4py-dycore.json --grid R02B04 --levels 65 --steps 20\n\n\
        Set WORKSLAB_LOG (info, debug, workslab_core=trace) to see what happens inside."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists every device of every platform, its memory and what is free
    #[command(after_help = "Examples:\n  workslab devices\n  workslab devices --json")]
    Devices(DevicesArgs),
    /// Shows every resolved value and where it came from
    #[command(after_help = "Examples:\n  \
            WORKSLAB_WORKSPACE_SIZE=2GiB workslab config\n  \
            workslab config --config experiment.yaml --set workspace_size=512MiB --json\n\n\
            A value given by --workspace-size, --platform or --device goes before --set, that before \
            the experiment file, that before the environment.")]
    Config(ConfigArgs),
    /// Runs programs' transients through one workspace, checks every byte, and times it against an
    /// allocation per call
    #[command(after_help = "Examples:\n  \
            workslab replay examples/data/icon4py-dycore.json --grid R02B04 --levels 65 --steps 20\n  \
            workslab replay programs.json --cells 5000 --levels 40 --guard\n  \
            workslab replay programs.json --grid R02B05 --workspace-size 2GiB --json\n\n\
            Without a configured size the workspace is made as large as the largest program needs. \
            Exit code 1 names the array whose bytes are wrong; 2 is for input that cannot be used.")]
    Replay(ReplayArgs),
    /// Prints a completion script for a shell
    #[command(
        after_help = "Example:\n  workslab completions bash > /etc/bash_completion.d/workslab"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(flatten)]
    pub settings: Settings,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Where settings come from, beyond the environment.
#[derive(Debug, Default, Args)]
pub struct Settings {
    /// An experiment file (YAML or TOML) with a field `backend_config`
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Override a field, for example workspace_size=512MiB; may be repeated
    #[arg(long, value_name = "FIELD=VALUE")]
    pub set: Vec<String>,
    /// The workspace's size: a number of bytes, or one with a unit (512MiB, 4GB)
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub workspace_size: Option<String>,
    /// The platform: rocm, cuda or host
    #[arg(long)]
    pub platform: Option<String>,
    /// The device's number, or local-rank
    #[arg(long, allow_hyphen_values = true)]
    pub device: Option<String>,
    /// Put red zones around arrays, and check them
    #[arg(long)]
    pub guard: bool,
}

impl Settings {
    /// Resolves them together with the environment.
    pub fn resolve(&self) -> Result<BackendConfig, ConfigError> {
        let mut builder = BackendConfig::builder().process_environment();
        if let Some(path) = &self.config {
            builder = builder.experiment_file(path);
        }
        for text in &self.set {
            builder = builder.set(text, "--set");
        }
        let explicit = [
            ("workspace_size", &self.workspace_size, "--workspace-size"),
            ("platform", &self.platform, "--platform"),
            ("device", &self.device, "--device"),
        ];
        for (field, value, origin) in explicit {
            if let Some(value) = value {
                builder = builder.explicit(field, value, origin);
            }
        }
        if self.guard {
            builder = builder.explicit("guard", "true", "--guard");
        }
        builder.resolve()
    }
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The file of programs with their transients (JSON)
    pub file: PathBuf,
    /// The grid by name: R02B04 to R02B10, or any RnnBkk
    #[arg(long, conflicts_with_all = ["cells", "edges"], default_value = "R02B04")]
    pub grid: String,
    /// The number of cells, instead of a grid
    #[arg(long, value_name = "N")]
    pub cells: Option<usize>,
    /// The number of edges; one and a half times the cells if not given
    #[arg(long, value_name = "N", requires = "cells")]
    pub edges: Option<usize>,
    /// The number of vertical levels
    #[arg(long, value_name = "N", default_value_t = 65)]
    pub levels: usize,
    /// The number of time steps
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: u32,
    #[command(flatten)]
    pub settings: Settings,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints a completion script.
pub fn completions(shell: Shell) {
    clap_complete::generate(
        shell,
        &mut Cli::command(),
        "workslab",
        &mut std::io::stdout(),
    );
}
