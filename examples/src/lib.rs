//! What the examples share: the choice of a platform, and a conjugate-gradient solver for any of them.

use std::error::Error;

use workslab::{AnyAllocator, OnPlatform};

#[cfg(feature = "cuda")]
pub mod kernels;
pub mod solver;

/// What an example comes to.
pub type Outcome = Result<(), Box<dyn Error>>;

/// The allocator of the platform that the first argument names, or else `WORKSLAB_PLATFORM`; the host's
/// if neither does.
///
/// # Errors
/// When the platform cannot be opened.
pub fn chosen_allocator() -> Result<AnyAllocator, workslab::OpenError> {
    let named = std::env::args()
        .nth(1)
        .or_else(|| std::env::var("WORKSLAB_PLATFORM").ok());
    AnyAllocator::open(Some(named.as_deref().unwrap_or("host")))
}

/// Runs an example on the platform that was chosen.
///
/// # Errors
/// The example's, or why the platform cannot be opened.
pub fn run_on_chosen_platform(example: impl OnPlatform<Output = Outcome>) -> Outcome {
    chosen_allocator()?.with(example)
}
