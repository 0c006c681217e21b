//! What the examples share: a conjugate-gradient solver for any platform.

pub mod solver;
