//! `workslab size`: what to put into the environment variable for a grid.

mod runs;

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use workslab::{Allocator, AnyAllocator, Bytes};
use workslab_plan::{Effort, Planner};

use crate::args::SizeArgs;
use crate::grid::Grid;
use crate::plan::PlanFailure;
use crate::programs::Programs;
use crate::{CliError, table};

/// The grids of the rule of thumb.
const GRIDS: [&str; 7] = [
    "R02B04", "R02B05", "R02B06", "R02B07", "R02B08", "R02B09", "R02B10",
];

/// What holds for all grids of a report.
#[derive(Serialize)]
struct Setting {
    levels: usize,
    margin_percent: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<Device>,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    setting: Setting,
    grids: Vec<OnGrid>,
}

#[derive(Serialize)]
struct Device {
    name: String,
    bytes: usize,
}

#[derive(Serialize)]
struct OnGrid {
    grid: String,
    cells: usize,
    edges: usize,
    programs: Vec<Sized>,
    /// The program that needs most.
    largest: String,
    /// What its arrays take without sharing.
    sum: u64,
    /// What to put into WORKSLAB_WORKSPACE_SIZE, the margin included.
    workspace_size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    share_of_device: Option<f64>,
}

#[derive(Serialize)]
struct Sized {
    program: String,
    sum: u64,
    planned: u64,
    lower_bound: u64,
    optimal: bool,
}

/// The command.
pub(crate) fn run(args: &SizeArgs) -> Result<ExitCode, CliError> {
    if !(0.0..=1000.0).contains(&args.margin) {
        return Err(PlanFailure::Option {
            option: "--margin",
            problem: format!("{} is no percentage from 0 to 1000", args.margin),
        }
        .into());
    }
    if args.extrapolate && args.from_runs.is_none() {
        return Err(PlanFailure::Option {
            option: "--extrapolate",
            problem: "it goes with --from-runs; programs are sized exactly on any grid".into(),
        }
        .into());
    }
    let device = match &args.platform {
        Some(platform) => {
            let allocator = AnyAllocator::open(Some(platform))?;
            let info = allocator.device_info(args.device.into())?;
            Some(Device {
                name: info.name,
                bytes: info.total,
            })
        }
        None => None,
    };
    let setting = Setting {
        levels: args.grid.levels,
        margin_percent: args.margin,
        device,
    };
    match (&args.from_runs, &args.file) {
        (Some(path), _) => runs::run(args, path, setting)?,
        (None, Some(path)) => from_programs(args, path, setting)?,
        // clap has seen to it that one of them is there.
        (None, None) => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// The grids that were asked for, by name.
fn grids(args: &SizeArgs) -> Result<Vec<(String, Grid)>, CliError> {
    match args.grid.chosen()? {
        Some(chosen) => Ok(vec![chosen]),
        None => GRIDS
            .iter()
            .map(|name| Ok((name.to_string(), Grid::named(name, args.grid.levels)?)))
            .collect(),
    }
}

fn from_programs(args: &SizeArgs, path: &Path, setting: Setting) -> Result<(), CliError> {
    let programs = Programs::read(path)?;
    let report = Report {
        grids: grids(args)?
            .into_iter()
            .map(|(name, grid)| on_grid(path, &setting, &programs, name, &grid))
            .collect::<Result<_, _>>()?,
        setting,
    };
    print(args, &report, &HEADS, &report.rows(), || report.text())
}

/// Prints a report in the form that was asked for.
fn print<const N: usize>(
    args: &SizeArgs,
    report: &impl Serialize,
    heads: &[&str; N],
    rows: &[[String; N]],
    text: impl FnOnce() -> String,
) -> Result<(), CliError> {
    if args.json {
        table::print_json(report)
    } else if args.markdown {
        table::print(&markdown(heads, rows))
    } else {
        table::print(&text())
    }
}

fn on_grid(
    path: &Path,
    setting: &Setting,
    programs: &Programs,
    name: String,
    grid: &Grid,
) -> Result<OnGrid, CliError> {
    let failed = |error| PlanFailure::Plan {
        path: path.to_owned(),
        error,
    };
    let mut all = Vec::new();
    for program in programs.size_on(grid, path)? {
        let instance = program.instance(workslab::ARRAY_ALIGNMENT as u64);
        let instance = instance.map_err(failed)?;
        let plan = Planner::new().plan(&instance, Effort::Balanced);
        let plan = plan.map_err(failed)?.plan;
        plan.verify(&instance).map_err(failed)?;
        all.push(Sized {
            program: program.name,
            sum: instance.total().map_err(failed)?,
            planned: plan.makespan,
            lower_bound: plan.lower_bound,
            optimal: plan.optimal,
        });
    }
    let largest = all.iter().max_by_key(|program| program.planned);
    let (largest, planned) = match largest {
        Some(program) => (program.program.clone(), program.planned),
        None => (String::new(), 0),
    };
    let sum = all.iter().map(|program| program.sum).max().unwrap_or(0);
    let workspace_size = setting.with_margin(planned);
    Ok(OnGrid {
        grid: name,
        cells: grid.cells,
        edges: grid.edges,
        programs: all,
        largest,
        sum,
        workspace_size,
        share_of_device: setting.share_of_device(workspace_size),
    })
}

impl Setting {
    /// So many percent more.
    fn with_margin(&self, bytes: u64) -> u64 {
        // Without one not a byte may be lost to rounding.
        match self.margin_percent {
            0.0 => bytes,
            percent => (bytes as f64 * (1.0 + percent / 100.0)).ceil() as u64,
        }
    }

    fn share_of_device(&self, bytes: u64) -> Option<f64> {
        let device = self.device.as_ref();
        device.map(|device| bytes as f64 / device.bytes as f64)
    }

    /// What stands below a table of sizes.
    fn remarks(&self) -> String {
        let margin = match self.margin_percent {
            0.0 => String::new(),
            percent => format!(" Sizes include a margin of {percent} %."),
        };
        let device = self.device.as_ref().map_or_else(String::new, |device| {
            format!(" Device: {}, {}.", device.name, Bytes(device.bytes))
        });
        format!("{} levels.{margin}{device}", self.levels)
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.2} %", 100.0 * share))
}

/// A table in Markdown whose first column is text.
fn markdown<const N: usize>(heads: &[&str; N], rows: &[[String; N]]) -> String {
    let mut lines = vec![
        format!("| {} |", heads.join(" | ")),
        format!("| --- |{}", " ---: |".repeat(N - 1)),
    ];
    lines.extend(rows.iter().map(|row| format!("| {} |", row.join(" | "))));
    lines.join("\n")
}

fn words(bytes: u64) -> String {
    Bytes(usize::try_from(bytes).unwrap_or(usize::MAX)).short()
}

const HEADS: [&str; 6] = [
    "grid",
    "cells",
    "without sharing",
    "WORKSLAB_WORKSPACE_SIZE",
    "largest program",
    "of the device",
];

impl Report {
    fn rows(&self) -> Vec<[String; 6]> {
        self.grids
            .iter()
            .map(|grid| {
                [
                    grid.grid.clone(),
                    grid.cells.to_string(),
                    words(grid.sum),
                    grid.workspace_size.to_string(),
                    grid.largest.clone(),
                    percent(grid.share_of_device),
                ]
            })
            .collect()
    }

    /// The programs of one grid, or the rule of thumb for all.
    fn text(&self) -> String {
        let mut text = String::new();
        if let [only] = &self.grids[..] {
            let mut programs = table::new(
                ["program", "sum", "planned", "lower bound", "", "saved"],
                &[1, 2, 3, 5],
            );
            for program in &only.programs {
                programs.add_row([
                    program.program.clone(),
                    words(program.sum),
                    words(program.planned),
                    words(program.lower_bound),
                    if program.optimal {
                        "optimal".into()
                    } else {
                        String::new()
                    },
                    saved(program),
                ]);
            }
            text = format!("{programs}\n");
        }
        let mut all = table::new(HEADS, &[1, 2, 3, 5]);
        for row in self.rows() {
            all.add_row(row);
        }
        format!("{text}{all}\n{}", self.setting.remarks())
    }
}

fn saved(program: &Sized) -> String {
    if program.sum == 0 {
        return "-".into();
    }
    let share = 1.0 - program.planned as f64 / program.sum as f64;
    format!("{:.0} %", 100.0 * share)
}
