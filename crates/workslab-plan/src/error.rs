//! What can be wrong with an instance, a plan or a file.

use thiserror::Error;

/// Why there is no plan, or a plan is no good.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// A buffer makes no sense.
    #[error("buffer {buffer} {problem}")]
    BadBuffer {
        /// Which.
        buffer: String,
        /// Why.
        problem: String,
    },
    /// Offsets could leave the range of 64 bits.
    #[error("the sizes, alignments and offsets together exceed 64 bits; give them in larger units")]
    TooLarge,
    /// Buffers that must not move are in each other's way.
    #[error("buffers {first} and {second} must not move, live at once and share bytes")]
    FixedOverlap {
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// A plan of another instance.
    #[error("the plan has {offsets} offsets for {buffers} buffers")]
    WrongLength {
        /// How many buffers there are.
        buffers: usize,
        /// How many offsets.
        offsets: usize,
    },
    /// A plan that is wrong.
    #[error("the plan is wrong: buffer {buffer} {problem}")]
    BadPlan {
        /// The buffer.
        buffer: String,
        /// What is wrong with it.
        problem: String,
    },
}
