//! `workslab size --from-runs`: what recorded runs say about another grid.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde::Serialize;
use workslab_plan::file::FileError;
use workslab_plan::runs::{self, Model, ModelError, Prediction, Run};

use super::{Device, grids, markdown, percent, remarks, share_of, with_margin, words};
use crate::args::SizeArgs;
use crate::plan::PlanFailure;
use crate::{CliError, table};

#[derive(Serialize)]
struct Report {
    runs: usize,
    levels: usize,
    margin_percent: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<Device>,
    grids: Vec<OnGrid>,
}

#[derive(Serialize)]
struct OnGrid {
    grid: String,
    cells: usize,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Predicted(Predicted),
    Refused { refused: String },
}

#[derive(Serialize)]
struct Predicted {
    programs: Vec<Prediction>,
    /// The program that needs most.
    largest: String,
    /// What to put into WORKSLAB_WORKSPACE_SIZE: the upper end of what is likely, and the margin.
    workspace_size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    share_of_device: Option<f64>,
}

pub(super) fn run(args: &SizeArgs, path: &Path, device: Option<Device>) -> Result<(), CliError> {
    let runs = read(path)?;
    let failed = |error| PlanFailure::Runs {
        path: path.to_owned(),
        error,
    };
    let model = Model::fit(&runs).map_err(failed)?;
    let chosen = args.grid.chosen()?.is_some();
    let mut all = Vec::new();
    for (name, grid) in grids(args)? {
        let predicted = model.predict(grid.cells as u64, grid.nlev as u64, args.extrapolate);
        let outcome = match predicted {
            Ok(programs) => {
                Outcome::Predicted(Predicted::of(programs, args.margin, device.as_ref()))
            }
            // Of all the usual grids some may lie outside; the one that was asked for may not.
            Err(error @ ModelError::Outside { .. }) if !chosen => Outcome::Refused {
                refused: error.to_string(),
            },
            Err(error) => return Err(failed(error).into()),
        };
        all.push(OnGrid {
            grid: name,
            cells: grid.cells,
            outcome,
        });
    }
    let report = Report {
        runs: runs.len(),
        levels: args.grid.levels,
        margin_percent: args.margin,
        device,
        grids: all,
    };
    if args.json {
        table::print_json(&report)
    } else if args.markdown {
        table::print(&markdown(&HEADS, &report.rows()))
    } else {
        table::print(&report.text())
    }
}

fn read(path: &Path) -> Result<Vec<Run>, CliError> {
    let failed = |error| PlanFailure::File {
        path: path.to_owned(),
        error,
    };
    let file =
        File::open(path).map_err(|error| failed(FileError::Unreadable(error.to_string())))?;
    Ok(runs::read(BufReader::new(file)).map_err(failed)?)
}

impl Predicted {
    fn of(programs: Vec<Prediction>, margin: f64, device: Option<&Device>) -> Self {
        let largest = programs.iter().max_by_key(|program| program.upper);
        let (largest, upper) = largest.map_or((String::new(), 0), |program| {
            (program.program.clone(), program.upper)
        });
        let workspace_size = with_margin(upper, margin);
        Self {
            programs,
            largest,
            workspace_size,
            share_of_device: share_of(workspace_size, device),
        }
    }

    fn extrapolated(&self) -> bool {
        self.programs.iter().any(|program| program.extrapolated)
    }
}

const HEADS: [&str; 5] = [
    "grid",
    "cells",
    "WORKSLAB_WORKSPACE_SIZE",
    "largest program",
    "of the device",
];

impl Report {
    fn rows(&self) -> Vec<[String; 5]> {
        let row = |grid: &OnGrid| {
            let (name, cells) = (grid.grid.clone(), grid.cells.to_string());
            match &grid.outcome {
                Outcome::Predicted(predicted) => {
                    let note = if predicted.extrapolated() {
                        " (extrapolated)"
                    } else {
                        ""
                    };
                    [
                        name,
                        cells,
                        format!("{}{note}", predicted.workspace_size),
                        predicted.largest.clone(),
                        percent(predicted.share_of_device),
                    ]
                }
                Outcome::Refused { .. } => [
                    name,
                    cells,
                    "outside the runs".into(),
                    "-".into(),
                    "-".into(),
                ],
            }
        };
        self.grids.iter().map(row).collect()
    }

    /// The programs of one grid, or the rule of thumb for all.
    fn text(&self) -> String {
        let mut text = String::new();
        if let [
            OnGrid {
                outcome: Outcome::Predicted(only),
                ..
            },
        ] = &self.grids[..]
        {
            let mut programs = table::new(
                ["program", "predicted", "95 % interval", "runs"],
                &[1, 2, 3],
            );
            for program in &only.programs {
                programs.add_row([
                    program.program.clone(),
                    words(program.bytes),
                    interval(program),
                    program.runs.to_string(),
                ]);
            }
            text = format!("{programs}\n");
        }
        let mut all = table::new(HEADS, &[1, 2, 4]);
        for row in self.rows() {
            all.add_row(row);
        }
        let remarks = remarks(self.levels, self.margin_percent, self.device.as_ref());
        format!(
            "{text}{all}\nFrom {} runs; a size is the upper end of its 95 % interval. {remarks}",
            self.runs
        )
    }
}

fn interval(program: &Prediction) -> String {
    let up = program.upper - program.bytes;
    if up == 0 {
        return "exact".into();
    }
    format!("± {}", words(up))
}
