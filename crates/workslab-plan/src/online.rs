//! One pass in the order of time, as an allocator would do it: each buffer goes into the tightest gap
//! that takes it, or on top.

use std::collections::{BTreeMap, BTreeSet};

use crate::sections::Problem;

/// Places everything. For problems in which everything may move; gaps in lifetimes are not used.
pub(crate) fn plan(problem: &Problem) -> Vec<u64> {
    let items = &problem.items;
    let everything = 0..items.len() as u32;
    let ends = sorted(everything, problem.sections, |item| items[item].last() - 1);
    // Of what starts together, the longest first.
    let starts = sorted(ends.iter().rev().copied(), problem.sections, |item| {
        items[item].first()
    });
    let mut ends = ends.into_iter().peekable();
    let mut offsets = vec![0; items.len()];
    let mut gaps = Gaps::default();
    for index in starts {
        let item = &items[index as usize];
        while let Some(&gone) = ends.peek()
            && items[gone as usize].last() <= item.first()
        {
            gaps.free(offsets[gone as usize], items[gone as usize].size);
            ends.next();
        }
        offsets[index as usize] = gaps.take(item.size, item.alignment);
    }
    offsets
}

/// Sorted by section; what has the same one stays in order.
fn sorted(
    items: impl Iterator<Item = u32> + Clone,
    sections: usize,
    section: impl Fn(usize) -> u32,
) -> Vec<u32> {
    let mut next = vec![0u32; sections + 1];
    let mut count = 0;
    for item in items.clone() {
        next[section(item as usize) as usize + 1] += 1;
        count += 1;
    }
    for at in 1..next.len() {
        next[at] += next[at - 1];
    }
    let mut order = vec![0; count];
    for item in items {
        let place = &mut next[section(item as usize) as usize];
        order[*place as usize] = item;
        *place += 1;
    }
    order
}

/// What is free below the top.
#[derive(Default)]
struct Gaps {
    by_offset: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    top: u64,
}

impl Gaps {
    fn insert(&mut self, offset: u64, size: u64) {
        if size > 0 {
            self.by_offset.insert(offset, size);
            self.by_size.insert((size, offset));
        }
    }

    fn remove(&mut self, offset: u64, size: u64) {
        self.by_offset.remove(&offset);
        self.by_size.remove(&(size, offset));
    }

    fn take(&mut self, size: u64, alignment: u64) -> u64 {
        let fits = |&&(gap, offset): &&(u64, u64)| {
            let start = offset.next_multiple_of(alignment);
            start + size <= offset + gap
        };
        // A few tries are enough: a gap a little larger takes any alignment.
        let found = self.by_size.range((size, 0)..).take(16).find(fits).copied();
        let found = found.or_else(|| {
            let ample = self.by_size.range((size + alignment, 0)..);
            ample.take(1).find(fits).copied()
        });
        let Some((gap, offset)) = found else {
            let start = self.top.next_multiple_of(alignment);
            self.insert(self.top, start - self.top);
            self.top = start + size;
            return start;
        };
        let start = offset.next_multiple_of(alignment);
        self.remove(offset, gap);
        self.insert(offset, start - offset);
        self.insert(start + size, offset + gap - start - size);
        start
    }

    fn free(&mut self, mut offset: u64, mut size: u64) {
        if let Some((&before, &gap)) = self.by_offset.range(..offset).next_back()
            && before + gap == offset
        {
            self.remove(before, gap);
            offset = before;
            size += gap;
        }
        if let Some(&gap) = self.by_offset.get(&(offset + size)) {
            self.remove(offset + size, gap);
            size += gap;
        }
        if offset + size == self.top {
            self.top = offset;
        } else {
            self.insert(offset, size);
        }
    }
}
