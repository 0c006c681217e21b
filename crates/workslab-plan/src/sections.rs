//! Instances in the form that planners work on: time cut into sections, sizes in their largest unit.
//!
//! Between one start that follows an end and the next, the buffers that live only become more, so the
//! last moment before something ends stands for all of it. Those moments are the sections.

use std::ops::Range;

use smallvec::SmallVec;

use crate::{Instance, PlanError};

/// Ranges of sections; one, nearly always.
pub(crate) type Spans = SmallVec<[Range<u32>; 1]>;

/// One buffer. All numbers are in the problem's unit.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) size: u64,
    pub(crate) alignment: u64,
    pub(crate) fixed: Option<u64>,
    /// The sections in which it lives; more than one range if it has gaps.
    pub(crate) spans: Spans,
    /// Its number in the instance.
    pub(crate) index: usize,
}

impl Item {
    pub(crate) fn first(&self) -> u32 {
        self.spans[0].start
    }

    pub(crate) fn last(&self) -> u32 {
        self.spans[self.spans.len() - 1].end
    }

    pub(crate) fn align(&self, offset: u64) -> u64 {
        match self.alignment {
            1 => offset,
            alignment => offset.next_multiple_of(alignment),
        }
    }

    pub(crate) fn sections(&self) -> impl Iterator<Item = usize> + '_ {
        let ranges = self.spans.iter();
        ranges.flat_map(|range| range.start as usize..range.end as usize)
    }

    /// How many sections it lives in.
    pub(crate) fn width(&self) -> u64 {
        self.spans
            .iter()
            .map(|span| u64::from(span.end - span.start))
            .sum()
    }
}

/// An instance in sections. Buffers without bytes or without a lifetime are left out.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) items: Vec<Item>,
    /// How many sections there are.
    pub(crate) sections: usize,
    /// Bytes per unit.
    pub(crate) unit: u64,
    /// How much is live in each section, in units.
    pub(crate) live: Vec<u64>,
    pub(crate) lower_bound: u64,
    pub(crate) has_fixed: bool,
}

impl Problem {
    pub(crate) fn new(instance: &Instance) -> Result<Self, PlanError> {
        instance.check()?;
        let mut unit = 0;
        let mut spans_of: Vec<u32> = Vec::with_capacity(instance.buffers.len());
        // Every start and end, with the number of its span.
        let mut events: Vec<(u64, bool, u32)> = Vec::with_capacity(2 * instance.buffers.len());
        let mut ranges: Vec<Range<u32>> = Vec::with_capacity(instance.buffers.len());
        for buffer in &instance.buffers {
            let spans = buffer.spans();
            if !spans.is_empty() {
                unit = gcd(unit, buffer.size);
                unit = gcd(unit, buffer.offset.unwrap_or(0));
            }
            spans_of.push(spans.len() as u32);
            for span in spans {
                events.push((span.start, true, ranges.len() as u32));
                events.push((span.end, false, ranges.len() as u32));
                ranges.push(0..0);
            }
        }
        let unit = aligned_unit(unit.max(1), instance);
        // At one time ends go before starts.
        events.sort_unstable();
        let mut section: u32 = 0;
        let mut after_end = false;
        for &(_, starts, number) in &events {
            let range = &mut ranges[number as usize];
            if starts {
                section += u32::from(after_end);
                range.start = section;
            } else {
                // What ends here ends after the section before.
                range.end = section + 1;
            }
            after_end = !starts;
        }
        let sections = if events.is_empty() {
            0
        } else {
            section as usize + 1
        };
        drop(events);
        let mut ranges = ranges.into_iter();
        let mut items = Vec::with_capacity(instance.buffers.len());
        for (index, (buffer, &spans)) in instance.buffers.iter().zip(&spans_of).enumerate() {
            if spans == 0 {
                continue;
            }
            let mut own = Spans::new();
            for range in ranges.by_ref().take(spans as usize) {
                match own.last_mut() {
                    Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
                    _ => own.push(range),
                }
            }
            items.push(Item {
                size: buffer.size / unit,
                // In units, an offset is aligned if its product with the unit is.
                alignment: buffer.alignment / gcd(buffer.alignment, unit),
                fixed: buffer.offset.map(|offset| offset / unit),
                spans: own,
                index,
            });
        }
        let mut change = vec![0i128; sections + 1];
        for item in &items {
            for span in &item.spans {
                change[span.start as usize] += i128::from(item.size);
                change[span.end as usize] -= i128::from(item.size);
            }
        }
        let mut sum: i128 = 0;
        let live: Vec<u64> = change[..sections]
            .iter()
            .map(|change| {
                sum += change;
                u64::try_from(sum).unwrap_or(u64::MAX)
            })
            .collect();
        let fixed = items
            .iter()
            .filter_map(|item| Some(item.fixed? + item.size));
        let lower_bound = live.iter().copied().chain(fixed).max().unwrap_or(0);
        Ok(Self {
            sections,
            unit,
            lower_bound,
            live,
            has_fixed: items.iter().any(|item| item.fixed.is_some()),
            items,
        })
    }

    /// The makespan of offsets.
    pub(crate) fn makespan(&self, offsets: &[u64]) -> u64 {
        let ends = self.items.iter().zip(offsets);
        ends.map(|(item, offset)| offset + item.size)
            .max()
            .unwrap_or(0)
    }

    /// The same for a part of the items, with sections renumbered from 0.
    pub(crate) fn part(&self, members: &[usize], range: Range<u32>) -> Self {
        let items: Vec<Item> = members
            .iter()
            .map(|&member| {
                let mut item = self.items[member].clone();
                for span in &mut item.spans {
                    span.start -= range.start;
                    span.end -= range.start;
                }
                item
            })
            .collect();
        let live = self.live[range.start as usize..range.end as usize].to_vec();
        let fixed = items
            .iter()
            .filter_map(|item| Some(item.fixed? + item.size));
        Self {
            sections: live.len(),
            unit: self.unit,
            lower_bound: live.iter().copied().chain(fixed).max().unwrap_or(0),
            live,
            has_fixed: items.iter().any(|item| item.fixed.is_some()),
            items,
        }
    }

    /// Splits where nothing lives across a boundary of sections: the parts have nothing to do with each
    /// other. Each part has its items' numbers.
    pub(crate) fn split(&self) -> Vec<(Vec<usize>, Range<u32>)> {
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        order.sort_by_key(|&item| self.items[item].first());
        let mut parts: Vec<(Vec<usize>, Range<u32>)> = Vec::new();
        for item in order {
            let (first, last) = (self.items[item].first(), self.items[item].last());
            match parts.last_mut() {
                Some((members, range)) if first < range.end => {
                    members.push(item);
                    range.end = range.end.max(last);
                }
                _ => parts.push((vec![item], first..last)),
            }
        }
        parts
    }
}

/// The largest part of a unit such that every alignment divides it or is a multiple of it. Then some
/// smallest plan has all offsets at multiples of the unit: push everything down, and each offset is an
/// end, a multiple of the unit, rounded up to an alignment, which leaves it one.
fn aligned_unit(mut unit: u64, instance: &Instance) -> u64 {
    loop {
        let before = unit;
        for buffer in &instance.buffers {
            if !unit.is_multiple_of(buffer.alignment) {
                unit = gcd(unit, buffer.alignment);
            }
        }
        if unit == before {
            return unit;
        }
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    #[test]
    fn sections_are_the_moments_before_something_ends() {
        let buffers = vec![
            Buffer::new("a", 4, 0..10),
            Buffer::new("b", 8, 3..5),
            Buffer::new("c", 8, 5..7),
            Buffer::new("nothing", 0, 0..9),
            Buffer::new("never", 8, 4..4),
        ];
        let problem = Problem::new(&Instance::new(buffers)).expect("it makes sense");
        assert_eq!(problem.sections, 2);
        assert_eq!(problem.unit, 4);
        let spans: Vec<_> = problem
            .items
            .iter()
            .map(|item| item.spans[0].clone())
            .collect();
        assert_eq!(spans, [0..2, 0..1, 1..2]);
        assert_eq!(problem.live, [3, 3]);
        assert_eq!(problem.lower_bound, 3);
    }

    #[test]
    fn parts_share_no_section() {
        let buffers = vec![
            Buffer::new("a", 1, 0..4),
            Buffer::new("b", 1, 2..6),
            Buffer::new("c", 1, 6..8),
        ];
        let problem = Problem::new(&Instance::new(buffers)).expect("it makes sense");
        let parts = problem.split();
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0].0, [0, 1]);
        let last = problem.part(&parts[1].0, parts[1].1.clone());
        assert_eq!((last.sections, last.items[0].spans[0].clone()), (1, 0..1));
    }
}
