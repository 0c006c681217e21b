//! What the command can fail with, and the exit code for it.

use thiserror::Error;
use workslab::{ConfigError, Error as CoreError, OpenError};

use crate::grid::GridError;
use crate::plan::PlanFailure;
use crate::programs::ProgramsError;
use crate::replay::ReplayError;

/// An error of the command.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CliError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No platform could be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The grid cannot be used.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// The file of programs cannot be used.
    #[error(transparent)]
    Programs(#[from] ProgramsError),
    /// Nothing could be planned.
    #[error(transparent)]
    Plan(#[from] PlanFailure),
    /// The replay failed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A compiled library cannot be used.
    #[error(transparent)]
    Compiled(#[from] workslab_dace::Error),
    /// A value of a symbol cannot be used.
    #[error("--symbol {given:?}: {reason}")]
    Symbol {
        /// What was given.
        given: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A platform or its driver refused.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(String),
}

impl CliError {
    /// 1 for a wrong byte, 2 for everything that the user can mend.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Replay(ReplayError::WrongByte { .. }) => 1,
            Self::Replay(ReplayError::Core(CoreError::Guard(_))) => 1,
            _ => 2,
        }
    }
}
