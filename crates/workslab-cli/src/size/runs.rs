//! `workslab size --from-runs`: what recorded runs say about another grid.

use std::path::Path;

use serde::Serialize;
use workslab_plan::runs::{self, Model, ModelError, Prediction, Run};

use super::{Setting, grids, percent, print, words};
use crate::args::SizeArgs;
use crate::plan::{self, PlanFailure};
use crate::{CliError, table};

#[derive(Serialize)]
struct Report {
    runs: usize,
    #[serde(flatten)]
    setting: Setting,
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

pub(super) fn run(args: &SizeArgs, path: &Path, setting: Setting) -> Result<(), CliError> {
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
            Ok(programs) => Outcome::Predicted(Predicted::of(programs, &setting)),
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
        setting,
        grids: all,
    };
    print(args, &report, &HEADS, &report.rows(), || report.text())
}

fn read(path: &Path) -> Result<Vec<Run>, CliError> {
    let runs = runs::read(plan::open(path)?);
    Ok(runs.map_err(|error| PlanFailure::in_file(path, error))?)
}

impl Predicted {
    fn of(programs: Vec<Prediction>, setting: &Setting) -> Self {
        let largest = programs.iter().max_by_key(|program| program.upper);
        let (largest, upper) = largest.map_or((String::new(), 0), |program| {
            (program.program.clone(), program.upper)
        });
        let workspace_size = setting.with_margin(upper);
        Self {
            programs,
            largest,
            workspace_size,
            share_of_device: setting.share_of_device(workspace_size),
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
        format!(
            "{text}{all}\nFrom {} runs; a size is the upper end of its 95 % interval. {}",
            self.runs,
            self.setting.remarks()
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
