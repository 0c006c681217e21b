//! An emulated `libcuda`: the part of CUDA's driver interface that workslab's CUDA backend uses, over
//! [`workslab_emulator`].
//!
//! Set up by environment variables when it is first called: see
//! [`Options::from_env`](workslab_emulator::Options::from_env). Beside CUDA's functions it exports
//! `workslab_emulator_*`, by which tests count calls and inject faults.

mod cuda;
mod error;
mod graph;
mod state;
mod virtual_memory;

workslab_emulator::export_control!();
