//! An emulated `libamdhip64`: the part of HIP's C interface that workslab's ROCm backend uses, with
//! values that are the same in HIP 5, 6 and 7, over [`workslab_emulator`].
//!
//! Set up by environment variables when it is first called: see
//! [`Options::from_env`](workslab_emulator::Options::from_env). Beside HIP's functions it exports
//! `workslab_emulator_*`, by which tests count calls and inject faults.

mod error;
mod graph;
mod hip;
mod state;
mod virtual_memory;

workslab_emulator::export_control!();
