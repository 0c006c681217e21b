//! What is to be planned: buffers with sizes and lifetimes.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};

use crate::PlanError;

/// An array that needs bytes for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Buffer {
    /// What it is called in messages, pictures and files.
    pub name: String,
    /// How many bytes it needs. None is legal: it lies anywhere.
    pub size: u64,
    /// Its offset is a multiple of this, at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub alignment: u64,
    /// When it is needed: from the first time on, until before the second. An empty lifetime is legal.
    #[serde(with = "pair")]
    pub lifetime: Range<u64>,
    /// Times within the lifetime at which its bytes are not needed.
    #[serde(default, with = "pairs", skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Range<u64>>,
    /// The offset that it must have, for a buffer that must not move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

fn one() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_one(alignment: &u64) -> bool {
    *alignment == 1
}

impl Buffer {
    /// A buffer of `size` bytes that lives in the half-open range of times.
    pub fn new(name: impl Into<String>, size: u64, lifetime: Range<u64>) -> Self {
        Self {
            name: name.into(),
            size,
            alignment: 1,
            lifetime,
            gaps: Vec::new(),
            offset: None,
        }
    }

    /// With an offset that is a multiple of `alignment`.
    #[must_use]
    pub fn aligned(mut self, alignment: u64) -> Self {
        self.alignment = alignment;
        self
    }

    /// With this offset and no other.
    #[must_use]
    pub fn fixed(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// The ranges of time in which its bytes are needed, in order; none for a buffer without bytes.
    pub(crate) fn spans(&self) -> SmallVec<[Range<u64>; 1]> {
        if self.size == 0 || self.lifetime.is_empty() {
            return SmallVec::new();
        }
        if self.gaps.is_empty() {
            return smallvec![self.lifetime.clone()];
        }
        let mut gaps = self.gaps.clone();
        gaps.sort_by_key(|gap| gap.start);
        let mut spans = SmallVec::new();
        let mut at = self.lifetime.start;
        for gap in gaps.iter().filter(|gap| !gap.is_empty()) {
            if at < gap.start.min(self.lifetime.end) {
                spans.push(at..gap.start.min(self.lifetime.end));
            }
            at = at.max(gap.end);
        }
        if at < self.lifetime.end {
            spans.push(at..self.lifetime.end);
        }
        spans
    }
}

/// Buffers that share one block of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Instance {
    /// The buffers. A plan has their offsets in this order.
    pub buffers: Vec<Buffer>,
}

impl Instance {
    /// An instance of these buffers.
    #[must_use]
    pub fn new(buffers: Vec<Buffer>) -> Self {
        Self { buffers }
    }

    /// Checks that everything makes sense and that no sum can overflow.
    ///
    /// # Errors
    /// [`PlanError::BadBuffer`], which names the buffer; [`PlanError::TooLarge`].
    pub fn check(&self) -> Result<(), PlanError> {
        let mut sum: u64 = 0;
        for (index, buffer) in self.buffers.iter().enumerate() {
            let bad = |problem: String| PlanError::BadBuffer {
                buffer: label(index, &buffer.name),
                problem,
            };
            if buffer.alignment == 0 {
                return Err(bad("has an alignment of 0; it must be at least 1".into()));
            }
            if buffer.lifetime.start > buffer.lifetime.end {
                return Err(bad(format!(
                    "ends at {} before it starts at {}",
                    buffer.lifetime.end, buffer.lifetime.start
                )));
            }
            if let Some(gap) = buffer.gaps.iter().find(|gap| gap.start > gap.end) {
                return Err(bad(format!(
                    "has a gap that ends at {} before it starts at {}",
                    gap.end, gap.start
                )));
            }
            if let Some(offset) = buffer.offset {
                if !offset.is_multiple_of(buffer.alignment) {
                    return Err(bad(format!(
                        "must be at offset {offset}, which is no multiple of its alignment, {}",
                        buffer.alignment
                    )));
                }
                let end = offset.checked_add(buffer.size).ok_or(PlanError::TooLarge)?;
                sum = sum.checked_add(end).ok_or(PlanError::TooLarge)?;
            }
            // Above every buffer there may be as much waste as its alignment.
            let most = buffer.size.checked_add(buffer.alignment);
            let most = most.ok_or(PlanError::TooLarge)?;
            sum = sum.checked_add(most).ok_or(PlanError::TooLarge)?;
        }
        Ok(())
    }

    /// The most bytes that are live at once: no plan is smaller.
    ///
    /// # Errors
    /// As [`Instance::check`].
    pub fn lower_bound(&self) -> Result<u64, PlanError> {
        self.check()?;
        let mut changes: Vec<(u64, bool, u64)> = Vec::new();
        let mut fixed = 0;
        for buffer in &self.buffers {
            for span in buffer.spans() {
                changes.push((span.start, true, buffer.size));
                changes.push((span.end, false, buffer.size));
                fixed = fixed.max(buffer.offset.map_or(0, |offset| offset + buffer.size));
            }
        }
        // At one time, what ends goes before what starts.
        changes.sort_unstable();
        let mut live: u64 = 0;
        let mut most = fixed;
        for (_, starts, size) in changes {
            if starts {
                live += size;
                most = most.max(live);
            } else {
                live -= size;
            }
        }
        Ok(most)
    }

    /// All sizes added up: what it takes when nothing is shared.
    ///
    /// # Errors
    /// As [`Instance::check`].
    pub fn total(&self) -> Result<u64, PlanError> {
        self.check()?;
        Ok(self.buffers.iter().map(|buffer| buffer.size).sum())
    }
}

/// A buffer's name, or its number where it has none.
pub(crate) fn label(index: usize, name: &str) -> String {
    if name.is_empty() {
        format!("number {index}")
    } else {
        format!("'{name}'")
    }
}

mod pair {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ops::Range;

    pub(super) fn serialize<S: Serializer>(range: &Range<u64>, to: S) -> Result<S::Ok, S::Error> {
        (range.start, range.end).serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Range<u64>, D::Error> {
        <(u64, u64)>::deserialize(from).map(|(start, end)| start..end)
    }
}

mod pairs {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::ops::Range;

    pub(super) fn serialize<S: Serializer>(
        ranges: &[Range<u64>],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(ranges.iter().map(|range| (range.start, range.end)))
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(
        from: D,
    ) -> Result<Vec<Range<u64>>, D::Error> {
        let pairs = Vec::<(u64, u64)>::deserialize(from)?;
        Ok(pairs.into_iter().map(|(start, end)| start..end).collect())
    }
}
