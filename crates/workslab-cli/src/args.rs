//! The command line.

use std::path::PathBuf;

use clap::builder::Styles;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use workslab::{BackendConfig, ConfigError};

use crate::grid::{Grid, GridError};

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
    /// Finds offsets at which buffers that never live at once share bytes, and says how good they are
    #[command(after_help = "Examples:\n  \
            workslab plan buffers.csv --svg plan.svg -o plan.csv\n  \
            workslab plan buffers.csv --capacity 1MiB\n  \
            workslab plan buffers.csv --effort exhaustive --budget 600 --html plan.html\n  \
            workslab plan examples/data/icon4py-dycore.json --program apply_diffusion_to_theta_and_exner\n\n\
            Ctrl-C ends the search, and the best plan so far is printed and written. Exit code 0: the \
            buffers fit; 1: it is proved that they do not; 3: that is not known; 2: input that cannot \
            be used.")]
    Plan(PlanArgs),
    /// Says what to set WORKSLAB_WORKSPACE_SIZE to, grid by grid
    #[command(after_help = "Examples:\n  \
            workslab size examples/data/icon4py-dycore.json\n  \
            workslab size examples/data/icon4py-dycore.json --grid R02B07 --levels 90 --margin 10\n  \
            workslab size examples/data/icon4py-dycore.json --platform rocm --markdown\n  \
            workslab size --from-runs runs.jsonl --grid R02B07 --levels 90\n\n\
            Runs are recorded by workslab replay --record, or by any program with \
            workslab::plan::runs::append.")]
    Size(SizeArgs),
    /// Says what a library that DaCe compiled takes, and what memory it needs from its caller
    #[command(after_help = "Examples:\n  \
            workslab inspect .dacecache/smooth/build/libsmooth.so\n  \
            workslab inspect .dacecache/smooth/build/libsmooth.so --symbol N=1000\n\n\
            With a value for each symbol the library is loaded, and asked how many bytes it needs; \
            otherwise nothing of it runs.")]
    Inspect(InspectArgs),
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
pub struct InspectArgs {
    /// The library, in the build folder that DaCe left it in
    pub library: PathBuf,
    /// A symbol's value; give each of them
    #[arg(long = "symbol", value_name = "NAME=VALUE")]
    pub symbols: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
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
    #[command(flatten)]
    pub grid: GridArgs,
    /// The number of time steps
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: u32,
    /// Let arrays that never live at once share bytes, by plan
    #[arg(long, conflicts_with = "guard")]
    pub planned: bool,
    /// Add what the workspace needed to this file, for workslab size --from-runs
    #[arg(long, value_name = "RUNS")]
    pub record: Option<PathBuf>,
    #[command(flatten)]
    pub settings: Settings,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// On which grid shapes are sized.
#[derive(Debug, Args)]
pub struct GridArgs {
    /// The grid by name: R02B04 to R02B10, or any RnnBkk [default: R02B04]
    #[arg(long, conflicts_with_all = ["cells", "edges"])]
    pub grid: Option<String>,
    /// The number of cells, instead of a grid
    #[arg(long, value_name = "N")]
    pub cells: Option<usize>,
    /// The number of edges; one and a half times the cells if not given
    #[arg(long, value_name = "N", requires = "cells")]
    pub edges: Option<usize>,
    /// The number of vertical levels
    #[arg(long, value_name = "N", default_value_t = 65)]
    pub levels: usize,
}

impl GridArgs {
    /// What was asked for, with its name; nothing if nothing was.
    pub fn chosen(&self) -> Result<Option<(String, Grid)>, GridError> {
        if let Some(cells) = self.cells {
            let name = format!("{cells} cells");
            let grid = Grid::with_cells(cells, self.levels)
                .ok_or_else(|| GridError::TooLarge(format!("of {name}")))?;
            let edges = self.edges.unwrap_or(grid.edges);
            return Ok(Some((name, Grid { edges, ..grid })));
        }
        let Some(name) = &self.grid else {
            return Ok(None);
        };
        let grid = Grid::named(name, self.levels)?;
        Ok(Some((name.clone(), grid)))
    }

    /// What was asked for, or the smallest of the usual grids.
    pub fn named(&self) -> Result<(String, Grid), GridError> {
        match self.chosen()? {
            Some(chosen) => Ok(chosen),
            None => Ok(("R02B04".into(), Grid::named("R02B04", self.levels)?)),
        }
    }

    /// The same without its name.
    pub fn grid(&self) -> Result<Grid, GridError> {
        self.named().map(|(_, grid)| grid)
    }
}

/// How much to try.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum EffortArg {
    /// One pass
    Instant,
    /// About a second
    Balanced,
    /// Until it is proved, or --budget is over
    Exhaustive,
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The buffers: CSV of MiniMalloc, idealloc or RMM's log, or JSON
    pub file: PathBuf,
    /// How much to try
    #[arg(long, value_enum, default_value_t = EffortArg::Balanced)]
    pub effort: EffortArg,
    /// Find a plan within this size, or prove that there is none
    #[arg(long, value_name = "SIZE", conflicts_with = "effort")]
    pub capacity: Option<String>,
    /// How many seconds --effort exhaustive and --capacity may take
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60.0,
        allow_negative_numbers = true
    )]
    pub budget: f64,
    /// How many threads; 0 is one per core
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
    /// Another seed may find another plan
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Write the plan as CSV, with a column of offsets
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Draw the plan
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Draw the plan in pixels
    #[arg(long, value_name = "FILE")]
    pub png: Option<PathBuf>,
    /// Draw the plan as a page that can be zoomed
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Of a file of programs, the one to plan
    #[arg(long, value_name = "NAME")]
    pub program: Option<String>,
    #[command(flatten)]
    pub grid: GridArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct SizeArgs {
    /// The file of programs with their transients (JSON)
    #[arg(required_unless_present = "from_runs")]
    pub file: Option<PathBuf>,
    /// Predict from recorded runs instead, a line of JSON each
    #[arg(long, value_name = "RUNS", conflicts_with = "file")]
    pub from_runs: Option<PathBuf>,
    /// Predict also outside the runs
    #[arg(long)]
    pub extrapolate: bool,
    #[command(flatten)]
    pub grid: GridArgs,
    /// How many percent to add
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub margin: f64,
    /// Say what share of a device of this platform it is
    #[arg(long)]
    pub platform: Option<String>,
    /// Of which device
    #[arg(long, value_name = "N", default_value_t = 0, requires = "platform")]
    pub device: u32,
    /// Print a table in Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
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
