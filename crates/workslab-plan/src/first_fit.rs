//! First fit: one buffer after the other, each into the lowest gap that takes it.

use std::cmp::Reverse;

use crate::sections::Problem;
use crate::skyline::area;

/// Places what must not move, and then the rest from the largest area or size down.
pub(crate) fn plan(problem: &Problem, by_area: bool) -> Vec<u64> {
    let items = &problem.items;
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_cached_key(|&index| {
        let item = &items[index];
        let weight = if by_area {
            area(item)
        } else {
            u128::from(item.size)
        };
        (item.fixed.is_none(), Reverse(weight), Reverse(item.width()))
    });
    let mut offsets = vec![0; items.len()];
    // What has been placed, by offset, so that one pass finds the gaps.
    let mut placed: Vec<(u64, u64, u32, u32, usize)> = Vec::with_capacity(items.len());
    for index in order {
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
                let meets = |span: &std::ops::Range<u32>| {
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
