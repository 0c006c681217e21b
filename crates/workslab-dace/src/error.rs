use std::path::PathBuf;

use workslab_core::DeviceId;

/// Why a compiled program cannot be loaded, bound or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read, or is not what it should be.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A declaration that is not understood.
    #[error("the declaration {text:?} is not understood: {reason}")]
    Declaration {
        /// The declaration.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Arguments that are not those of the program.
    #[error("program '{program}' takes {expected}, but {given} was given")]
    Arguments {
        /// The program.
        program: String,
        /// What it takes.
        expected: String,
        /// What was given.
        given: String,
    },
    /// The program said that it could not start or end.
    #[error("program '{program}' failed to {what}")]
    Program {
        /// The program.
        program: String,
        /// What it was to do.
        what: &'static str,
    },
    /// The workspace has fewer bytes than the program needs.
    #[error(
        "program '{program}' needs {needed} bytes of {storage}, but the workspace of {platform} device {device} lends \
         {available}; raise its size"
    )]
    TooSmall {
        /// The program.
        program: String,
        /// The storage, as DaCe calls it.
        storage: String,
        /// Bytes that it needs.
        needed: usize,
        /// Bytes that the workspace lends.
        available: usize,
        /// The workspace's platform.
        platform: &'static str,
        /// The workspace's device.
        device: DeviceId,
    },
    /// The workspace is not where the program's storage is.
    #[error(
        "program '{program}' needs {needed} bytes of {storage}, which the workspace of {platform} device {device} is not"
    )]
    WrongDevice {
        /// The program.
        program: String,
        /// The storage, as DaCe calls it.
        storage: String,
        /// Bytes that it needs there.
        needed: usize,
        /// The workspace's platform.
        platform: &'static str,
        /// The workspace's device.
        device: DeviceId,
    },
    /// DaCe places an array where its elements are misaligned.
    #[error(
        "DaCe places '{array}' of program '{program}' at byte {offset}, which is no multiple of {alignment}; plan the SDFG \
         with workslab.dace.plan before it is compiled"
    )]
    Misaligned {
        /// The program.
        program: String,
        /// The array.
        array: String,
        /// Its offset in the workspace.
        offset: usize,
        /// What its elements must be aligned to.
        alignment: usize,
    },
    /// A lease of another workspace than the one that the program is bound to.
    #[error("program '{program}' is bound to another workspace than the lease is of")]
    OtherWorkspace {
        /// The program.
        program: String,
    },
    /// A mode and a workspace that contradict each other.
    #[error("{0}")]
    Contradiction(String),
    /// The configuration's.
    #[error(transparent)]
    Config(#[from] workslab_config::ConfigError),
    /// The workspace's.
    #[error(transparent)]
    Workspace(#[from] workslab_core::Error),
}
