//! Sizes learnt from runs: what workspaces needed on some grids, and what they will on another.
//!
//! A file of runs has a line of JSON for each: the grid, and the statistics of the run's allocator.
//!
//! ```json
//! {"cells": 20480, "levels": 65, "statistics": {"high_water": 163020800,
//!   "programs": [{"name": "diffusion", "high_water": 163020800}]}}
//! ```
//!
//! [`append`] adds a line to it, [`read`] reads it, and a [`Model`] is fitted to it: for each program
//! `bytes = a + b·cells + c·cells·levels`, by least squares, since a program's arrays lie on cells (or on
//! edges, one and a half times as many) or on those times the levels. Where the runs have one number of
//! levels only, the last term is left out, and where they have one number of cells only, it is
//! `bytes = a + b·levels`. The interval is Student's prediction interval (Draper and Smith, Applied
//! Regression Analysis, 3rd edition, section 3.1).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{BufRead, Write};
use std::path::Path;

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use thiserror::Error;

use crate::file::FileError;

/// What one run needed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Run {
    /// The cells of its grid.
    pub cells: u64,
    /// The vertical levels.
    pub levels: u64,
    /// The statistics of its allocator.
    pub statistics: Needs,
}

/// The part of an allocator's statistics that says how much was needed. All else is passed over.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Needs {
    /// The most bytes that one lease used.
    pub high_water: u64,
    /// The same for each program with a name.
    #[serde(default)]
    pub programs: Vec<ProgramNeeds>,
}

/// What one program needed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ProgramNeeds {
    /// Its name.
    pub name: String,
    /// The most bytes that one of its leases used.
    pub high_water: u64,
}

/// Adds a run to a file, which is made if it is not there: `statistics` are those of the run's
/// allocator (`Workspace::statistics`).
///
/// # Errors
/// What the file system says. A line is written at once, so that processes can share a file.
pub fn append(
    path: &Path,
    cells: u64,
    levels: u64,
    statistics: &impl Serialize,
) -> std::io::Result<()> {
    #[derive(Serialize)]
    struct Line<'s, S> {
        cells: u64,
        levels: u64,
        statistics: &'s S,
    }
    let mut line = serde_json::to_vec(&Line {
        cells,
        levels,
        statistics,
    })?;
    line.push(b'\n');
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(&line)
}

/// Reads a file of runs. Empty lines are passed over.
///
/// # Errors
/// [`FileError`], with the number of the line.
pub fn read(from: impl BufRead) -> Result<Vec<Run>, FileError> {
    let mut runs = Vec::new();
    for (number, line) in (1..).zip(from.lines()) {
        let line = line.map_err(|error| FileError::Unreadable(error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        let bad = |problem: String| FileError::Line {
            line: number,
            problem,
        };
        let run: Run = serde_json::from_str(&line).map_err(|error| bad(error.to_string()))?;
        if run.cells == 0 || run.levels == 0 {
            return Err(bad("a run has at least one cell and one level".into()));
        }
        runs.push(run);
    }
    Ok(runs)
}

/// Why there is no prediction.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelError {
    /// There are no runs.
    #[error("it holds no runs")]
    NoRuns,
    /// There are too few to tell how far the model is off.
    #[error(
        "program '{program}' ran on {grids} different grids, and the model needs at least {needed}; record runs on more grids"
    )]
    TooFew {
        /// The program.
        program: String,
        /// How many grids there are.
        grids: usize,
        /// How many there must be.
        needed: usize,
    },
    /// The grid lies outside what was measured.
    #[error(
        "{asked} {what} lie outside the runs of program '{program}', which have {from} to {to}; record a run there, or ask for an extrapolation (--extrapolate)"
    )]
    Outside {
        /// The program.
        program: String,
        /// Cells or levels.
        what: &'static str,
        /// How many were asked for.
        asked: u64,
        /// The least that were measured.
        from: u64,
        /// The most that were measured.
        to: u64,
    },
    /// The runs all have the same number of something, so that it is not known how others count.
    #[error(
        "all runs of program '{program}' have {only} {what}, so nothing is known of {asked}; record runs there"
    )]
    Unknown {
        /// The program.
        program: String,
        /// Cells or levels.
        what: &'static str,
        /// How many were asked for.
        asked: u64,
        /// How many all runs have.
        only: u64,
    },
    /// The prediction cannot be expressed in bytes.
    #[error("the prediction exceeds 64 bits")]
    TooLarge,
}

/// What a program will need.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Prediction {
    /// The program.
    pub program: String,
    /// The most likely number of bytes.
    pub bytes: u64,
    /// With a probability of 97.5 % it is no less than this.
    pub lower: u64,
    /// With a probability of 97.5 % it is no more than this.
    pub upper: u64,
    /// How many runs this rests on.
    pub runs: usize,
    /// Whether the grid lies outside these runs.
    pub extrapolated: bool,
}

/// A straight-line model of every program.
#[derive(Clone, Debug)]
pub struct Model {
    programs: Vec<ProgramModel>,
}

/// What stands for the leases of programs without a name.
const UNNAMED: &str = "(without a name)";

impl Model {
    /// Fits one to runs.
    ///
    /// # Errors
    /// [`ModelError::NoRuns`]; [`ModelError::TooFew`] if there are not more different grids than the
    /// model has terms, so that nothing could be said of its error.
    pub fn fit(runs: &[Run]) -> Result<Self, ModelError> {
        let mut points: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
        for run in runs {
            let named = &run.statistics.programs;
            let largest = named.iter().map(|program| program.high_water).max();
            let unnamed = largest.is_none_or(|largest| run.statistics.high_water > largest);
            let all = named
                .iter()
                .map(|program| (program.name.as_str(), program.high_water))
                .chain(unnamed.then_some((UNNAMED, run.statistics.high_water)));
            for (name, bytes) in all {
                points.entry(name).or_default().push(Point {
                    cells: run.cells,
                    levels: run.levels,
                    bytes,
                });
            }
        }
        if points.is_empty() {
            return Err(ModelError::NoRuns);
        }
        let programs = points
            .into_iter()
            .map(|(name, points)| ProgramModel::fit(name, &points))
            .collect::<Result<_, _>>()?;
        Ok(Self { programs })
    }

    /// What each program will need on a grid, by name.
    ///
    /// # Errors
    /// [`ModelError::Outside`] if the grid has fewer or more cells or levels than any run, unless
    /// `extrapolate`; [`ModelError::Unknown`] if it has another number of them than all runs;
    /// [`ModelError::TooLarge`].
    pub fn predict(
        &self,
        cells: u64,
        levels: u64,
        extrapolate: bool,
    ) -> Result<Vec<Prediction>, ModelError> {
        self.programs
            .iter()
            .map(|program| program.predict(cells, levels, extrapolate))
            .collect()
    }
}

#[derive(Clone, Copy, Debug)]
struct Point {
    cells: u64,
    levels: u64,
    bytes: u64,
}

/// What the number of bytes depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Terms {
    Cells,
    Levels,
    CellsTimesLevels,
    CellsAndTheirProduct,
}

impl Terms {
    /// The terms for grids that need not differ in both extents.
    fn of(points: &[Point]) -> &'static [Self] {
        let varies = |of: fn(&Point) -> u64| points.iter().any(|p| of(p) != of(&points[0]));
        match (varies(|p| p.cells), varies(|p| p.levels)) {
            (_, false) => &[Self::Cells],
            (false, true) => &[Self::Levels],
            // The second where the first cannot be told from the runs.
            (true, true) => &[Self::CellsAndTheirProduct, Self::CellsTimesLevels],
        }
    }

    fn row(self, cells: u64, levels: u64) -> Vec<f64> {
        let (cells, levels) = (cells as f64, levels as f64);
        match self {
            Self::Cells => vec![1.0, cells],
            Self::Levels => vec![1.0, levels],
            Self::CellsTimesLevels => vec![1.0, cells * levels],
            Self::CellsAndTheirProduct => vec![1.0, cells, cells * levels],
        }
    }

    fn count(self) -> usize {
        self.row(1, 1).len()
    }
}

#[derive(Clone, Debug)]
struct ProgramModel {
    name: String,
    runs: usize,
    cells: (u64, u64),
    levels: (u64, u64),
    terms: Terms,
    /// What each column was divided by, so that the columns are alike in size.
    scale: Vec<f64>,
    coefficients: DVector<f64>,
    /// (XᵀX)⁻¹ of the scaled columns.
    covariance: DMatrix<f64>,
    /// The standard deviation of what the model leaves over.
    deviation: f64,
    /// How far 95 % reach, in standard deviations.
    quantile: f64,
}

/// Of two columns so much alike that they are told apart by rounding errors only.
const ALIKE: f64 = 1e-9;

impl ProgramModel {
    fn fit(name: &str, points: &[Point]) -> Result<Self, ModelError> {
        let grids: BTreeSet<_> = points.iter().map(|p| (p.cells, p.levels)).collect();
        let mut needed = usize::MAX;
        for &terms in Terms::of(points) {
            // One more than terms, so that there is something left to estimate the error from.
            needed = needed.min(terms.count() + 1);
            if grids.len() > terms.count()
                && let Some(model) = Self::with(name, points, terms)
            {
                return Ok(model);
            }
        }
        Err(ModelError::TooFew {
            program: name.to_owned(),
            grids: grids.len(),
            needed,
        })
    }

    /// Nothing if the runs do not tell the terms apart.
    fn with(name: &str, points: &[Point], terms: Terms) -> Option<Self> {
        let mut columns = DMatrix::from_row_iterator(
            points.len(),
            terms.count(),
            points.iter().flat_map(|p| terms.row(p.cells, p.levels)),
        );
        let scale: Vec<f64> = columns.column_iter().map(|column| column.max()).collect();
        for (mut column, scale) in columns.column_iter_mut().zip(&scale) {
            column.unscale_mut(*scale);
        }
        let bytes = DVector::from_iterator(points.len(), points.iter().map(|p| p.bytes as f64));
        let parts = columns.clone().svd(true, true);
        let largest = parts.singular_values.max();
        if parts.singular_values.min() <= ALIKE * largest {
            return None;
        }
        let coefficients = parts.solve(&bytes, 0.0).ok()?;
        let covariance = (columns.transpose() * &columns).try_inverse()?;
        let left_over = &bytes - &columns * &coefficients;
        let freedom = (points.len() - terms.count()) as f64;
        let quantile = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.975);
        let ends = |of: fn(&Point) -> u64| {
            let all = || points.iter().map(of);
            Some((all().min()?, all().max()?))
        };
        Some(Self {
            name: name.to_owned(),
            runs: points.len(),
            cells: ends(|p| p.cells)?,
            levels: ends(|p| p.levels)?,
            terms,
            scale,
            coefficients,
            covariance,
            deviation: (left_over.norm_squared() / freedom).sqrt(),
            quantile,
        })
    }

    fn predict(
        &self,
        cells: u64,
        levels: u64,
        extrapolate: bool,
    ) -> Result<Prediction, ModelError> {
        let ranges = [
            ("cells", cells, self.cells),
            ("levels", levels, self.levels),
        ];
        let outside = ranges
            .into_iter()
            .find(|&(_, asked, (from, to))| !(from..=to).contains(&asked));
        if let Some((what, asked, (from, to))) = outside {
            let program = self.name.clone();
            if from == to {
                return Err(ModelError::Unknown {
                    program,
                    what,
                    asked,
                    only: from,
                });
            }
            if !extrapolate {
                return Err(ModelError::Outside {
                    program,
                    what,
                    asked,
                    from,
                    to,
                });
            }
        }
        let row = self.terms.row(cells, levels);
        let row = DVector::from_iterator(
            row.len(),
            row.iter()
                .zip(&self.scale)
                .map(|(value, scale)| value / scale),
        );
        let bytes = row.dot(&self.coefficients);
        let spread = 1.0 + row.dot(&(&self.covariance * &row));
        let reach = self.quantile * self.deviation * spread.max(1.0).sqrt();
        let whole = |bytes: f64| {
            // The bound is a power of two, and so exact.
            (bytes < u64::MAX as f64)
                .then_some(bytes.max(0.0) as u64)
                .ok_or(ModelError::TooLarge)
        };
        Ok(Prediction {
            program: self.name.clone(),
            bytes: whole(bytes.round())?,
            lower: whole((bytes - reach).floor())?,
            upper: whole((bytes + reach).ceil())?,
            runs: self.runs,
            extrapolated: outside.is_some(),
        })
    }
}
