//! The file of programs: what each allocates while it runs, with symbolic shapes.
//!
//! ```json
//! {"programs": [{"program": "diffusion", "transients": [
//!   {"name": "tmp_9", "shape": ["edges", "nlev-1"], "itemsize": 8, "first_use": 17, "last_use": 21}
//! ]}]}
//! ```
//!
//! A dimension is a number, `cells`, `edges` or `nlev`, or one of these plus or minus a number.
//! Uses are positions in the program's order of work, both inclusive.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::grid::Grid;
use crate::{Buffer, Instance, PlanError};

/// The programs of a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Programs {
    /// Where the programs came from.
    #[serde(default)]
    pub source: Option<String>,
    /// The grid on which they were measured. Their shapes are symbolic, so it is for information.
    #[serde(default)]
    pub grid: Option<MeasuredGrid>,
    /// The programs, in the order of a time step.
    pub programs: Vec<Program>,
}

/// The grid on which programs were measured.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredGrid {
    /// Cells.
    pub cells: u64,
    /// Edges.
    pub edges: u64,
    /// Levels.
    pub nlev: u64,
}

/// A program and its temporary arrays.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its name.
    #[serde(rename = "program")]
    pub name: String,
    /// Its temporary arrays.
    pub transients: Vec<Transient>,
}

/// A temporary array.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transient {
    /// Its name.
    pub name: String,
    /// Its dimensions.
    pub shape: Vec<Dimension>,
    /// Bytes per element.
    pub itemsize: usize,
    /// Where it is first used.
    pub first_use: u64,
    /// Where it is last used.
    pub last_use: u64,
}

/// A dimension as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Dimension {
    /// A number.
    Number(u64),
    /// A number, a symbol, or a symbol plus or minus a number.
    Text(String),
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// A file of programs that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramsError {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file is not a file of programs.
    #[error("{} is not a file of programs: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Why, and where.
        reason: String,
    },
    /// The file has nothing to replay.
    #[error("{} has no program with a transient of at least one byte on this grid", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A transient cannot be used.
    #[error("{}: transient '{transient}' of program '{program}' {problem}", path.display())]
    BadTransient {
        /// The file.
        path: PathBuf,
        /// The program.
        program: String,
        /// The transient.
        transient: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// The programs on a given grid: sizes in bytes.
#[derive(Clone, Debug)]
pub struct SizedProgram {
    /// The program's name.
    pub name: String,
    /// Its temporary arrays.
    pub transients: Vec<SizedTransient>,
}

/// A temporary array on a given grid.
#[derive(Clone, Debug)]
pub struct SizedTransient {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: usize,
    /// Bytes per element.
    pub itemsize: usize,
    /// Where it is first used.
    pub first_use: u64,
    /// Where it is last used.
    pub last_use: u64,
}

impl SizedProgram {
    /// The arrays as buffers that may share bytes: sizes are rounded up to `alignment`, at which every
    /// array begins.
    ///
    /// # Errors
    /// [`PlanError::TooLarge`] if a size overflows.
    pub fn instance(&self, alignment: u64) -> Result<Instance, PlanError> {
        let buffers = self.transients.iter().map(|transient| {
            let size = (transient.bytes as u64).checked_next_multiple_of(alignment);
            let end = transient.last_use.checked_add(1);
            let lifetime = transient.first_use..end.ok_or(PlanError::TooLarge)?;
            let size = size.ok_or(PlanError::TooLarge)?;
            Ok(Buffer::new(transient.name.clone(), size, lifetime).aligned(alignment))
        });
        buffers.collect::<Result<_, _>>().map(Instance::new)
    }

    /// The sum of its arrays' sizes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // `size_on` has checked that the sum fits.
        self.transients
            .iter()
            .map(|transient| transient.bytes)
            .sum()
    }
}

impl Programs {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ProgramsError::Unreadable`] or [`ProgramsError::Malformed`].
    pub fn read(path: &Path) -> Result<Self, ProgramsError> {
        let text = std::fs::read_to_string(path).map_err(|error| ProgramsError::Unreadable {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        Self::parse(&text, path)
    }

    /// Reads text; `path` is for messages.
    fn parse(text: &str, path: &Path) -> Result<Self, ProgramsError> {
        serde_json::from_str(text).map_err(|error| ProgramsError::Malformed {
            path: path.to_owned(),
            reason: error.to_string(),
        })
    }

    /// The programs on a grid; `path` is for messages.
    ///
    /// # Errors
    /// [`ProgramsError::BadTransient`] for one whose last use is before its first, whose dimension
    /// is unknown, or whose size overflows.
    pub fn size_on(&self, grid: &Grid, path: &Path) -> Result<Vec<SizedProgram>, ProgramsError> {
        self.programs
            .iter()
            .map(|program| {
                let mut sum = 0usize;
                let transients = program
                    .transients
                    .iter()
                    .map(|transient| {
                        let bad = |problem: String| ProgramsError::BadTransient {
                            path: path.to_owned(),
                            program: program.name.clone(),
                            transient: transient.name.clone(),
                            problem,
                        };
                        let sized = transient.size_on(grid).map_err(bad)?;
                        sum = sum.checked_add(sized.bytes).ok_or_else(|| {
                            bad("makes the sum of the program's sizes overflow".into())
                        })?;
                        Ok(sized)
                    })
                    .collect::<Result<_, _>>()?;
                Ok(SizedProgram {
                    name: program.name.clone(),
                    transients,
                })
            })
            .collect()
    }
}

impl Transient {
    fn size_on(&self, grid: &Grid) -> Result<SizedTransient, String> {
        if self.last_use < self.first_use {
            return Err(format!(
                "is last used at {}, before its first use at {}",
                self.last_use, self.first_use
            ));
        }
        if self.itemsize == 0 {
            return Err("has an itemsize of 0 bytes; it must be at least 1".into());
        }
        let mut bytes = Some(self.itemsize);
        let mut empty = false;
        for dimension in &self.shape {
            let extent = dimension.extent(grid)?;
            empty |= extent == 0;
            bytes = bytes.and_then(|bytes| bytes.checked_mul(extent));
        }
        let bytes = if empty { Some(0) } else { bytes };
        let bytes = bytes.ok_or_else(|| {
            let shape: Vec<String> = self.shape.iter().map(Dimension::to_string).collect();
            format!(
                "has a size that overflows: {} × {} bytes",
                shape.join(" × "),
                self.itemsize
            )
        })?;
        Ok(SizedTransient {
            name: self.name.clone(),
            bytes,
            itemsize: self.itemsize,
            first_use: self.first_use,
            last_use: self.last_use,
        })
    }
}

impl Dimension {
    /// The dimension's extent on a grid.
    fn extent(&self, grid: &Grid) -> Result<usize, String> {
        let text = match self {
            Self::Number(number) => {
                return usize::try_from(*number)
                    .map_err(|_| format!("has dimension {number}, which is too large"));
            }
            Self::Text(text) => text.trim(),
        };
        let unknown = || {
            format!(
                "has unknown dimension {text:?}; a dimension is a number, or cells, edges or nlev, plus or minus a number"
            )
        };
        let (symbol, offset) = match text.find(['+', '-']) {
            Some(at) => (
                text[..at].trim_end(),
                Some((&text[at..=at], &text[at + 1..])),
            ),
            None => (text, None),
        };
        let base = match symbol {
            "cells" => grid.cells,
            "edges" => grid.edges,
            "nlev" => grid.nlev,
            digits => parse_number(digits).ok_or_else(unknown)?,
        };
        let Some((sign, offset)) = offset else {
            return Ok(base);
        };
        let offset = parse_number(offset.trim_start()).ok_or_else(unknown)?;
        if sign == "+" {
            base.checked_add(offset)
                .ok_or_else(|| format!("has dimension {text:?}, which is too large"))
        } else {
            base.checked_sub(offset).ok_or_else(|| {
                format!("has dimension {text:?}, which is negative: {symbol} is {base}")
            })
        }
    }
}

fn parse_number(digits: &str) -> Option<usize> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const GRID: Grid = Grid {
        cells: 20,
        edges: 30,
        nlev: 5,
    };

    proptest::proptest! {
        /// Whatever a file holds, it gives sizes or an error of one line.
        #[test]
        fn any_file_is_sized_or_refused_in_one_line(
            shape in proptest::collection::vec("(cells|edges|nlev|[-+ 0-9]{0,20}){0,3}", 0..4),
            itemsize: usize,
            first_use: u64,
            last_use: u64,
            cut in 0usize..400,
        ) {
            let text = format!(
                r#"{{"programs": [{{"program": "p", "transients": [{{"name": "t",
                "shape": {shape:?}, "itemsize": {itemsize}, "first_use": {first_use},
                "last_use": {last_use}}}]}}]}}"#
            );
            let text = text.get(..text.len().saturating_sub(cut)).unwrap_or_default();
            let path = Path::new("any.json");
            let sized = Programs::parse(text, path)
                .and_then(|programs| programs.size_on(&GRID, path));
            if let Err(error) = sized {
                let message = error.to_string();
                proptest::prop_assert!(!message.contains('\n'), "{message}");
                proptest::prop_assert!(message.contains("any.json"), "{message}");
            }
        }
    }

    #[rstest]
    #[case("cells", Ok(20))]
    #[case("edges", Ok(30))]
    #[case("nlev-1", Ok(4))]
    #[case("nlev + 1", Ok(6))]
    #[case("8", Ok(8))]
    #[case("nlev-6", Err("negative"))]
    #[case("verts", Err("unknown dimension"))]
    #[case("", Err("unknown dimension"))]
    #[case("nlev-", Err("unknown dimension"))]
    #[case("nlev--1", Err("unknown dimension"))]
    #[case("nlev*2", Err("unknown dimension"))]
    #[case("99999999999999999999", Err("unknown dimension"))]
    fn a_dimension_has_an_extent(#[case] text: &str, #[case] extent: Result<usize, &str>) {
        let found = Dimension::Text(text.into()).extent(&GRID);
        match (found, extent) {
            (Ok(found), Ok(extent)) => assert_eq!(found, extent),
            (Err(found), Err(reason)) => assert!(found.contains(reason), "{found}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }
}
