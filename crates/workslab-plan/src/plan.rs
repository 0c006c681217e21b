//! Where buffers go, and the proof that it is right.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::instance::label;
use crate::{Instance, PlanError};

/// Offsets of an instance's buffers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Plan {
    /// The offset of each buffer, in bytes, in the instance's order.
    pub offsets: Vec<u64>,
    /// How many bytes the block must have.
    pub makespan: u64,
    /// No plan is smaller than this.
    pub lower_bound: u64,
    /// Whether it is proved that no plan is smaller than this one.
    pub optimal: bool,
}

impl Plan {
    /// A plan of offsets that came from elsewhere.
    ///
    /// # Errors
    /// As [`Plan::verify`].
    pub fn of(instance: &Instance, offsets: Vec<u64>) -> Result<Self, PlanError> {
        let lower_bound = instance.lower_bound()?;
        let mut plan = Self {
            offsets,
            makespan: u64::MAX,
            lower_bound,
            optimal: false,
        };
        plan.makespan = plan.verify(instance)?;
        plan.optimal = plan.makespan == lower_bound;
        Ok(plan)
    }

    /// The makespan as a multiple of the lower bound; 1 for a plan without bytes.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.lower_bound == 0 {
            1.0
        } else {
            self.makespan as f64 / self.lower_bound as f64
        }
    }

    /// Checks everything anew, by a sweep over time that knows nothing of how the plan was made: no two
    /// buffers that live at once share a byte, alignments and fixed offsets are kept, and all fits into
    /// the makespan. O(n log n) for n buffers. Gives how many bytes the plan really needs.
    ///
    /// # Errors
    /// What is wrong, with the buffers' names.
    pub fn verify(&self, instance: &Instance) -> Result<u64, PlanError> {
        instance.check()?;
        let buffers = &instance.buffers;
        if self.offsets.len() != buffers.len() {
            return Err(PlanError::WrongLength {
                buffers: buffers.len(),
                offsets: self.offsets.len(),
            });
        }
        let name = |index: usize| label(index, &buffers[index].name);
        let mut changes: Vec<(u64, bool, usize)> = Vec::new();
        let mut needed = 0;
        for (index, (buffer, &offset)) in buffers.iter().zip(&self.offsets).enumerate() {
            let bad = |problem: String| PlanError::BadPlan {
                buffer: name(index),
                problem,
            };
            if !offset.is_multiple_of(buffer.alignment) {
                return Err(bad(format!(
                    "is at {offset}, no multiple of {}",
                    buffer.alignment
                )));
            }
            if buffer.offset.is_some_and(|fixed| fixed != offset) {
                return Err(bad(format!("is at {offset}, and must not move there")));
            }
            let spans = buffer.spans();
            if spans.is_empty() {
                continue;
            }
            let end = offset.checked_add(buffer.size).ok_or(PlanError::TooLarge)?;
            if end > self.makespan {
                return Err(bad(format!(
                    "ends at {end}, beyond the plan's {}",
                    self.makespan
                )));
            }
            needed = needed.max(end);
            for span in spans {
                changes.push((span.start, true, index));
                changes.push((span.end, false, index));
            }
        }
        // At one time, what ends goes before what starts. What is live never overlaps, so each needs
        // comparing with its two neighbours only.
        changes.sort_unstable();
        let mut live: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, starts, index) in changes {
            let offset = self.offsets[index];
            if !starts {
                live.remove(&offset);
                continue;
            }
            let end = offset + buffers[index].size;
            let below = live.range(..=offset).next_back();
            let above = live.range(offset..).next();
            for (&other_offset, &other) in below.into_iter().chain(above) {
                if other_offset < end && offset < other_offset + buffers[other].size {
                    return Err(PlanError::BadPlan {
                        buffer: name(index),
                        problem: format!("shares bytes with {} while both live", name(other)),
                    });
                }
            }
            live.insert(offset, index);
        }
        Ok(needed)
    }
}
