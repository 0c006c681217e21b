//! First fit: one buffer after the other, each into the lowest gap that takes it.

use std::cmp::Reverse;
use std::ops::Range;

use crate::sections::Problem;
use crate::skyline::{Peaks, area};

/// What goes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    /// The most bytes times sections.
    Area,
    /// The largest size.
    Size,
    /// The largest size times powers of how long it lives and of how much is live then.
    Weight {
        /// The power of the length.
        width: f64,
        /// The power of the most that is live meanwhile, as a share of the bound.
        peak: f64,
    },
}

/// Large buffers first, and first of all those that meet the peak. Found by trying powers on random
/// instances.
pub(crate) const TALL: Order = Order::Weight {
    width: 0.1,
    peak: 8.0,
};

/// Places what must not move, and then the rest in order.
pub(crate) fn plan(problem: &Problem, order: Order) -> Vec<u64> {
    let items = &problem.items;
    let mut offsets = vec![0; items.len()];
    // What has been placed, by offset, so that one pass finds the gaps.
    let mut placed: Vec<(u64, u64, u32, u32, usize)> = Vec::with_capacity(items.len());
    for index in in_order(problem, order) {
        let item = &items[index];
        let (first, last) = (item.first(), item.last());
        let mut offset = 0;
        if let Some(fixed) = item.fixed {
            offset = fixed;
        } else {
            for &(start, end, other_first, other_last, other) in &placed {
                if end <= offset || other_last <= first || last <= other_first {
                    continue;
                }
                let spans = &items[other].spans;
                let meets = |span: &Range<u32>| {
                    spans
                        .iter()
                        .any(|o| o.start < span.end && span.start < o.end)
                };
                if !item.spans.iter().any(meets) {
                    continue;
                }
                if start >= offset + item.size {
                    break;
                }
                offset = item.align(end);
            }
        }
        offsets[index] = offset;
        let entry = (offset, offset + item.size, first, last, index);
        let place = placed.partition_point(|other| *other < entry);
        placed.insert(place, entry);
    }
    offsets
}

fn in_order(problem: &Problem, order: Order) -> Vec<usize> {
    let items = &problem.items;
    let mut all: Vec<usize> = (0..items.len()).collect();
    if let Order::Weight { width, peak } = order {
        let peaks = Peaks::new(&problem.live);
        let bound = problem.lower_bound.max(1) as f64;
        // Positive numbers, whose bits are in the order of their values.
        all.sort_by_cached_key(|&index| {
            let item = &items[index];
            let share = peaks.of(item) as f64 / bound;
            let weight = item.size as f64 * (item.width() as f64).powf(width) * share.powf(peak);
            (item.fixed.is_none(), Reverse(weight.to_bits()), index)
        });
        return all;
    }
    all.sort_by_cached_key(|&index| {
        let item = &items[index];
        let weight = match order {
            Order::Area => area(item),
            _ => u128::from(item.size),
        };
        (item.fixed.is_none(), Reverse(weight), Reverse(item.width()))
    });
    all
}
