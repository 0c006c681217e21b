//! Lifetimes to offsets: where arrays go in one block of memory, so that those which never live at the
//! same time share bytes, and the block is as small as can be.
//!
//! An [`Instance`] is a set of [`Buffer`]s with sizes and half-open lifetimes; a [`Planner`] makes a
//! [`Plan`] of it, which says how good it is: its makespan (the bytes it takes), a lower bound that no
//! plan can beat, and whether it is proved to be the smallest. [`Plan::verify`] checks a plan without
//! knowing how it was made. Sizes, offsets and alignments are bytes; times are any numbers.
//!
//! Nothing here knows a device.
//!
//! ```
//! use workslab_plan::{Buffer, Effort, Instance, Planner};
//!
//! let instance = Instance::new(vec![
//!     Buffer::new("flux", 400, 0..3),
//!     Buffer::new("divergence", 300, 2..5),
//!     Buffer::new("tendency", 400, 3..6),
//! ]);
//! let plan = Planner::new().plan(&instance, Effort::Balanced)?.plan;
//! assert_eq!((plan.makespan, plan.optimal), (700, true));
//! assert_eq!(plan.verify(&instance)?, 700);
//! # Ok::<(), workslab_plan::PlanError>(())
//! ```

mod error;
mod exact;
#[cfg(feature = "files")]
pub mod file;
mod first_fit;
#[cfg(feature = "files")]
pub mod grid;
mod instance;
mod online;
#[cfg(feature = "files")]
pub mod picture;
mod plan;
mod planner;
#[cfg(feature = "files")]
pub mod programs;
mod random;
mod repair;
#[cfg(feature = "files")]
pub mod runs;
mod sections;
mod skyline;
mod until;

pub use error::PlanError;
pub use instance::{Buffer, Instance};
pub use plan::Plan;
pub use planner::{Effort, Planned, Planner, Verdict};
