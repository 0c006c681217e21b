//! Plans built from below: again and again the buffer goes next that can lie lowest.
//!
//! Everything rests on what lies below it, and never in a gap, so the top of what has been placed is one
//! number per section: a skyline. Only what lives within the lowest step can lie as low as that; when
//! there is nothing, the step is filled up to its lower neighbour. A buffer with gaps counts as one
//! without.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::sections::{Item, Problem};

/// What goes first of what can lie equally low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tie {
    /// The most bytes times sections.
    Area,
    /// The most that is live in the buffer's busiest section, roughly, then the area.
    Peak,
    /// The longest life.
    Width,
    /// The largest size.
    Size,
}

/// How finely peaks are told apart.
const STEPS: u64 = 33;

pub(crate) const TIES: [Tie; 4] = [Tie::Area, Tie::Peak, Tie::Width, Tie::Size];

impl Tie {
    /// The rank of each item: a lower one goes first.
    pub(crate) fn ranks(self, problem: &Problem) -> Vec<u32> {
        let items = &problem.items;
        let mut order: Vec<u32> = (0..items.len() as u32).collect();
        match self {
            Self::Area => {
                order.sort_by_cached_key(|&i| Reverse(area(&items[i as usize])));
            }
            Self::Peak => {
                let peaks = Peaks::new(&problem.live);
                let step = (problem.lower_bound / STEPS).max(1);
                order.sort_by_cached_key(|&i| {
                    let item = &items[i as usize];
                    Reverse((peaks.of(item) / step, area(item)))
                });
            }
            Self::Width => {
                order.sort_by_cached_key(|&i| {
                    let item = &items[i as usize];
                    Reverse((item.width(), item.size))
                });
            }
            Self::Size => {
                order.sort_by_cached_key(|&i| {
                    let item = &items[i as usize];
                    Reverse((item.size, item.width()))
                });
            }
        }
        let mut ranks = vec![0; items.len()];
        for (rank, &item) in order.iter().enumerate() {
            ranks[item as usize] = rank as u32;
        }
        ranks
    }
}

pub(crate) fn area(item: &Item) -> u128 {
    u128::from(item.size) * u128::from(item.width())
}

/// The largest value in a range, by powers of two.
pub(crate) struct Peaks {
    levels: Vec<Vec<u64>>,
}

impl Peaks {
    pub(crate) fn new(values: &[u64]) -> Self {
        let mut levels = vec![values.to_vec()];
        let mut step = 1;
        while 2 * step <= values.len() {
            let last = &levels[levels.len() - 1];
            let next = (0..=values.len() - 2 * step)
                .map(|at| last[at].max(last[at + step]))
                .collect();
            levels.push(next);
            step *= 2;
        }
        Self { levels }
    }

    pub(crate) fn of(&self, item: &Item) -> u64 {
        let ranges = item.spans.iter().map(|span| {
            let (start, end) = (span.start as usize, span.end as usize);
            let level = (end - start).ilog2() as usize;
            let values = &self.levels[level];
            values[start].max(values[end - (1 << level)])
        });
        ranges.max().unwrap_or(0)
    }
}

/// Who is left, by where it starts; answers who of those within a range goes first.
struct Left {
    /// Items by start.
    order: Vec<u32>,
    starts: Vec<u32>,
    leaves: usize,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy)]
struct Node {
    first_end: u32,
    last_end: u32,
    rank: u32,
    item: u32,
}

const NOBODY: Node = Node {
    first_end: u32::MAX,
    last_end: 0,
    rank: u32::MAX,
    item: u32::MAX,
};

impl Node {
    fn join(self, other: Self) -> Self {
        let better = if self.rank <= other.rank { self } else { other };
        Self {
            first_end: self.first_end.min(other.first_end),
            last_end: self.last_end.max(other.last_end),
            ..better
        }
    }
}

impl Left {
    fn new(problem: &Problem, ranks: &[u32]) -> Self {
        let items = &problem.items;
        let mut order: Vec<u32> = (0..items.len() as u32).collect();
        order.sort_by_key(|&item| (items[item as usize].first(), items[item as usize].last()));
        let starts = order
            .iter()
            .map(|&item| items[item as usize].first())
            .collect();
        let leaves = order.len().next_power_of_two();
        let mut nodes = vec![NOBODY; 2 * leaves];
        for (place, &item) in order.iter().enumerate() {
            let end = items[item as usize].last();
            nodes[leaves + place] = Node {
                first_end: end,
                last_end: end,
                rank: ranks[item as usize],
                item: place as u32,
            };
        }
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node].join(nodes[2 * node + 1]);
        }
        Self {
            order,
            starts,
            leaves,
            nodes,
        }
    }

    /// The place of whoever goes first of those that live within the range.
    fn first_within(&self, from: u32, to: u32) -> Option<usize> {
        let begin = self.starts.partition_point(|start| *start < from);
        let end = self.starts.partition_point(|start| *start < to);
        let mut best = NOBODY;
        let (mut left, mut right) = (self.leaves + begin, self.leaves + end);
        while left < right {
            if !left.is_multiple_of(2) {
                self.look_below(left, to, &mut best);
                left += 1;
            }
            if !right.is_multiple_of(2) {
                right -= 1;
                self.look_below(right, to, &mut best);
            }
            left /= 2;
            right /= 2;
        }
        (best.rank != u32::MAX).then_some(best.item as usize)
    }

    fn look_below(&self, node: usize, to: u32, best: &mut Node) {
        let found = self.nodes[node];
        if found.first_end > to || found.rank >= best.rank {
            return;
        }
        if found.last_end <= to {
            *best = found;
            return;
        }
        self.look_below(2 * node, to, best);
        self.look_below(2 * node + 1, to, best);
    }

    fn remove(&mut self, place: usize) {
        let mut node = self.leaves + place;
        self.nodes[node] = NOBODY;
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node].join(self.nodes[2 * node + 1]);
        }
    }
}

/// A stretch of sections with one top.
#[derive(Clone, Copy)]
struct Step {
    from: u32,
    to: u32,
    top: u64,
    before: u32,
    after: u32,
}

const NO_STEP: u32 = u32::MAX;
/// The top of a step that has become part of another.
const GONE: u64 = u64::MAX;

/// The tops of all sections, as steps.
struct Skyline {
    steps: Vec<Step>,
    /// Steps by top, the lowest first; some are outdated.
    queue: BinaryHeap<Reverse<(u64, u32, u32)>>,
}

impl Skyline {
    fn new(sections: usize) -> Self {
        let mut skyline = Self {
            steps: Vec::new(),
            queue: BinaryHeap::new(),
        };
        skyline.add(Step {
            from: 0,
            to: sections as u32,
            top: 0,
            before: NO_STEP,
            after: NO_STEP,
        });
        skyline
    }

    fn add(&mut self, step: Step) -> u32 {
        let number = self.steps.len() as u32;
        self.queue.push(Reverse((step.top, step.from, number)));
        self.steps.push(step);
        number
    }

    fn link(&mut self, before: u32, after: u32) {
        if let Some(step) = self.steps.get_mut(before as usize) {
            step.after = after;
        }
        if let Some(step) = self.steps.get_mut(after as usize) {
            step.before = before;
        }
    }

    /// The lowest step.
    fn lowest(&mut self) -> Option<u32> {
        while let Some(Reverse((top, from, number))) = self.queue.pop() {
            let step = self.steps[number as usize];
            if step.top == top && step.from == from {
                return Some(number);
            }
        }
        None
    }

    fn top(&self, number: u32) -> u64 {
        self.steps
            .get(number as usize)
            .map_or(GONE, |step| step.top)
    }

    /// Raises a step to the lower one of its neighbours and joins what is level then. False if there is
    /// no neighbour.
    fn raise(&mut self, number: u32) -> bool {
        let step = self.steps[number as usize];
        let top = self.top(step.before).min(self.top(step.after));
        if top == GONE {
            return false;
        }
        self.steps[number as usize].top = top;
        self.join(number);
        true
    }

    /// Joins a step with neighbours of the same top, and queues it.
    fn join(&mut self, number: u32) {
        let step = self.steps[number as usize];
        if self.top(step.before) == step.top {
            let before = self.steps[step.before as usize];
            self.steps[step.before as usize].top = GONE;
            self.steps[number as usize].from = before.from;
            self.link(before.before, number);
        }
        if self.top(step.after) == step.top {
            let after = self.steps[step.after as usize];
            self.steps[step.after as usize].top = GONE;
            self.steps[number as usize].to = after.to;
            self.link(number, after.after);
        }
        let step = self.steps[number as usize];
        self.queue.push(Reverse((step.top, step.from, number)));
    }

    /// Puts something on a part of a step.
    fn build(&mut self, number: u32, from: u32, to: u32, top: u64) {
        let step = self.steps[number as usize];
        self.steps[number as usize].top = GONE;
        let (mut before, after) = (step.before, step.after);
        if step.from < from {
            let left = self.add(Step { to: from, ..step });
            self.link(before, left);
            before = left;
        }
        let middle = self.steps.len() as u32;
        self.steps.push(Step {
            from,
            to,
            top,
            ..step
        });
        self.link(before, middle);
        if to < step.to {
            let right = self.add(Step { from: to, ..step });
            self.link(middle, right);
            self.link(right, after);
        } else {
            self.link(middle, after);
        }
        self.join(middle);
    }
}

/// Places everything, lowest first. Gives nothing as soon as the makespan reaches `limit`. For problems
/// in which everything may move.
pub(crate) fn plan(problem: &Problem, ranks: &[u32], limit: u64) -> Option<Vec<u64>> {
    let mut offsets = vec![0; problem.items.len()];
    let mut left = Left::new(problem, ranks);
    let mut skyline = Skyline::new(problem.sections);
    while let Some(number) = skyline.lowest() {
        let step = skyline.steps[number as usize];
        match left.first_within(step.from, step.to) {
            Some(place) => {
                left.remove(place);
                let index = left.order[place] as usize;
                let item = &problem.items[index];
                let offset = item.align(step.top);
                let top = offset + item.size;
                if top >= limit {
                    return None;
                }
                offsets[index] = offset;
                skyline.build(number, item.first(), item.last(), top);
            }
            None => {
                if !skyline.raise(number) {
                    break;
                }
            }
        }
    }
    Some(offsets)
}
