//! Planning anew where a plan is highest: a window in time around the highest buffer, in which what lives
//! within the window may move, and what reaches out of it may not.

use crate::first_fit::{self, Order, TALL};
use crate::random::Random;
use crate::sections::{Problem, Spans};
use crate::until::Until;

/// How many buffers may move in the smallest window that is tried.
const SMALLEST: usize = 5000;
/// And in the largest.
const LARGEST: usize = 40_000;

/// How much is tried.
pub(crate) struct Budget<'b> {
    /// How many pairs of buffers may be looked at, about: each try in a window takes the square of what
    /// may move in it.
    pub(crate) pairs: u64,
    pub(crate) until: Until<'b>,
    /// Whether to go on with orders at random when nothing else helps.
    pub(crate) random: Option<u64>,
}

/// Betters a plan in which everything may move, until nothing is above the goal or the budget is spent.
/// `improved` is called with each plan of a smaller makespan.
pub(crate) fn repair(
    problem: &Problem,
    mut offsets: Vec<u64>,
    goal: u64,
    mut budget: Budget<'_>,
    mut improved: impl FnMut(&[u64]),
) {
    let mut starts: Vec<u32> = problem.items.iter().map(|item| item.first()).collect();
    starts.sort_unstable();
    let mut random = budget.random.map(Random::new);
    let mut best = problem.makespan(&offsets);
    let mut moving = SMALLEST;
    while !budget.until.is_over() {
        let top = |item: usize| offsets[item] + problem.items[item].size;
        let highest = (0..problem.items.len()).max_by_key(|&item| (top(item), item));
        let Some(highest) = highest.filter(|&item| top(item) > goal) else {
            return;
        };
        let limit = top(highest);
        let window = Window::around(problem, &starts, highest, moving);
        let part = window.problem(problem, &offsets);
        let members = part.items.len() as u64;
        if budget.pairs < members * members {
            return;
        }
        budget.pairs -= members * members;
        let order = match &mut random {
            // The first time in a window the order that is best on the whole.
            Some(random) if moving != SMALLEST => Order::Weight {
                width: 0.4 * random.fraction(),
                peak: 16.0 * random.fraction(),
            },
            _ => TALL,
        };
        let found = first_fit::plan(&part, order);
        let height = |item: usize| found[item] + part.items[item].size;
        let moved = (0..part.items.len()).filter(|&item| part.items[item].fixed.is_none());
        if moved.clone().all(|item| height(item) < limit) {
            for item in moved {
                offsets[part.items[item].index] = found[item];
            }
            let makespan = problem.makespan(&offsets);
            if makespan < best {
                best = makespan;
                improved(&offsets);
            }
            moving = SMALLEST;
        } else if moving < LARGEST.min(problem.items.len()) {
            moving *= 2;
        } else if random.is_none() {
            return;
        }
    }
}

/// A range of sections.
struct Window {
    from: u32,
    to: u32,
}

impl Window {
    /// One in which an item lives that has about so many starts.
    fn around(problem: &Problem, starts: &[u32], item: usize, moving: usize) -> Self {
        let item = &problem.items[item];
        let sections = problem.sections as u32;
        let reach = |margin: u32| Self {
            from: item.first().saturating_sub(margin),
            to: item.last().saturating_add(margin).min(sections),
        };
        let count = |window: &Self| {
            starts.partition_point(|&start| start < window.to)
                - starts.partition_point(|&start| start < window.from)
        };
        let (mut low, mut high) = (0, sections);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if count(&reach(middle)) <= moving {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        reach(low)
    }

    /// What lives in it; an item's index is its number in the whole.
    fn problem(&self, whole: &Problem, offsets: &[u64]) -> Problem {
        let items = whole.items.iter().enumerate();
        let items = items.filter(|(_, item)| item.first() < self.to && item.last() > self.from);
        let items = items.map(|(number, item)| {
            let within = item.first() >= self.from && item.last() <= self.to;
            let clipped: Spans = item
                .spans
                .iter()
                .map(|span| span.start.max(self.from)..span.end.min(self.to))
                .filter(|span| span.start < span.end)
                .map(|span| span.start - self.from..span.end - self.from)
                .collect();
            let mut item = item.clone();
            item.fixed = (!within).then_some(offsets[number]);
            item.index = number;
            item.spans = clipped;
            item
        });
        let items: Vec<_> = items.filter(|item| !item.spans.is_empty()).collect();
        let live = whole.live[self.from as usize..self.to as usize].to_vec();
        Problem {
            sections: live.len(),
            unit: whole.unit,
            lower_bound: live.iter().copied().max().unwrap_or(0),
            live,
            has_fixed: true,
            items,
        }
    }
}
