//! Exact search: finds a plan within a capacity, or proves that there is none.
//!
//! Any plan can be pushed down until every buffer lies on the ground or on another one, and listed by
//! offset. So it is enough to search those lists: depth first, each next buffer at its lowest offset and
//! not below the one before. What makes it fast is seeing early that a branch is dead:
//! - in each section, the lowest offset of what is left plus the sum of what is left must fit;
//! - a buffer under which another one would fit whole cannot be next: the other one could move down;
//! - where nothing that is left lives across a boundary, the two sides are searched apart.
//!
//! The idea of the canonical order and of the floors is that of Moffitt's MiniMalloc (ASPLOS 2023,
//! doi:10.1145/3623278.3624752).

use std::ops::Range;

use crate::random::Random;
use crate::sections::Problem;
use crate::skyline::{Peaks, area};
use crate::until::Until;

/// What came of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// These offsets fit.
    Found(Vec<u64>),
    /// Nothing fits.
    None,
    /// The nodes ran out, or it was told to stop.
    Unknown,
}

/// Which of the buffers that could be next is tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preference {
    pub(crate) key: Key,
    /// Zero, or what shuffles the order a little.
    pub(crate) shuffle: u64,
}

impl Preference {
    /// The preference of the n-th try: the plain orders first, and then shuffled ones that learn from
    /// what failed.
    pub(crate) fn of_try(n: u64, seed: u64) -> Self {
        const PLAIN: [Key; 4] = [
            Key::PeakAreaWidth,
            Key::PeakWidthArea,
            Key::WidthAreaPeak,
            Key::Area,
        ];
        const LEARNING: [Key; 3] = [Key::WeightWidth, Key::WeightWidth, Key::Weight];
        match PLAIN.get(n as usize) {
            Some(&key) => Self { key, shuffle: 0 },
            None => Self {
                key: LEARNING[(n % 3) as usize],
                shuffle: seed
                    .wrapping_add(1)
                    .wrapping_mul(0x9E37_79B9)
                    .wrapping_add(n),
            },
        }
    }

    /// How many nodes the n-th try gets: mostly few, now and then many (Luby, Sinclair and Zuckerman,
    /// Information Processing Letters 47, 1993, doi:10.1016/0020-0190(93)90029-9).
    pub(crate) fn nodes_of_try(n: u64) -> u64 {
        const FEWEST: u64 = 400;
        let mut index = n / 4 + 1;
        loop {
            let bits = u64::from(64 - index.leading_zeros());
            if index + 1 == 1 << bits {
                return FEWEST << (bits - 1);
            }
            index -= (1 << (bits - 1)) - 1;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Busiest section, then area, then width.
    PeakAreaWidth,
    /// Busiest section, then width, then area.
    PeakWidthArea,
    /// Width, then area, then busiest section.
    WidthAreaPeak,
    /// Area.
    Area,
    /// How often it did not find room.
    Weight,
    /// The same times the width.
    WeightWidth,
}

pub(crate) struct Search<'p> {
    problem: &'p Problem,
    capacity: u64,
    /// Who lives at the same time as whom.
    neighbours: Vec<Vec<u32>>,
    /// Who lives in which section.
    residents: Vec<Vec<u32>>,
    /// The lowest offset of each item that is left; the offset of each that is placed.
    offsets: Vec<u64>,
    placed: Vec<bool>,
    /// How often an item did not find room.
    weights: Vec<f64>,
    /// How far above its lowest offset an item ends, if it can be moved down.
    roofs: Vec<u64>,
    /// Somebody who is left in a section and lies low enough for the section to fit, when last looked at.
    witness: Vec<u32>,
    /// The sum of what is left in a section.
    left: Vec<u64>,
    /// How many that are left live in this section and the one after.
    crossing: Vec<u32>,
    /// Which offsets were raised, and what they were.
    trail: Vec<(u32, u64)>,
    /// What was placed, in that order.
    order: Vec<u32>,
    /// The candidates of all open nodes.
    candidates: Vec<(u64, u32, u32)>,
    /// What is left at all open nodes.
    members: Vec<u32>,
    nodes: u64,
    limit: u64,
    until: Until<'p>,
    rank: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Found,
    Dead,
    OutOfNodes,
}

const NOBODY: u32 = u32::MAX;

/// By how much a shuffled order may err.
const SHUFFLE: f64 = 0.3;

impl<'p> Search<'p> {
    pub(crate) fn new(problem: &'p Problem, until: Until<'p>) -> Self {
        let count = problem.items.len();
        let mut residents = vec![Vec::new(); problem.sections];
        for (index, item) in problem.items.iter().enumerate() {
            for section in item.sections() {
                residents[section].push(index as u32);
            }
        }
        let mut neighbours: Vec<Vec<u32>> = Vec::with_capacity(count);
        let mut seen = vec![NOBODY; count];
        for (index, item) in problem.items.iter().enumerate() {
            let mut own = Vec::new();
            seen[index] = index as u32;
            for section in item.sections() {
                for &other in &residents[section] {
                    if seen[other as usize] != index as u32 {
                        seen[other as usize] = index as u32;
                        own.push(other);
                    }
                }
            }
            neighbours.push(own);
        }
        Self {
            problem,
            capacity: 0,
            neighbours,
            residents,
            offsets: vec![0; count],
            placed: vec![false; count],
            weights: vec![0.0; count],
            roofs: problem
                .items
                .iter()
                .map(|item| if item.fixed.is_some() { 1 } else { item.size })
                .collect(),
            witness: vec![NOBODY; problem.sections],
            left: vec![0; problem.sections],
            crossing: vec![0; problem.sections],
            trail: Vec::new(),
            order: Vec::new(),
            candidates: Vec::new(),
            members: Vec::new(),
            nodes: 0,
            limit: 0,
            until,
            rank: vec![0; count],
        }
    }

    /// How many nodes the last search took.
    pub(crate) fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Searches for offsets with a makespan of at most `capacity`, for `limit` nodes.
    pub(crate) fn run(&mut self, capacity: u64, preference: Preference, limit: u64) -> Outcome {
        let problem = self.problem;
        if problem.lower_bound > capacity {
            return Outcome::None;
        }
        self.capacity = capacity;
        self.limit = limit;
        self.nodes = 0;
        self.rank = ranks(problem, preference, &self.weights);
        if matches!(preference.key, Key::Weight | Key::WeightWidth) {
            // Old troubles count less than new ones.
            self.weights.iter_mut().for_each(|weight| *weight *= 0.95);
        }
        for (offset, item) in self.offsets.iter_mut().zip(&problem.items) {
            *offset = item.fixed.unwrap_or(0);
        }
        self.placed.fill(false);
        self.order.clear();
        self.left.copy_from_slice(&problem.live);
        self.crossing.fill(0);
        self.witness.fill(NOBODY);
        self.trail.clear();
        self.candidates.clear();
        for (index, item) in problem.items.iter().enumerate() {
            for section in item.sections() {
                let witness = &mut self.witness[section];
                let better = match self.offsets.get(*witness as usize) {
                    Some(lowest) => self.offsets[index] < *lowest,
                    None => true,
                };
                if better {
                    *witness = index as u32;
                }
            }
            // A gap does not part what lives on both sides of it.
            for boundary in item.first()..item.last() - 1 {
                self.crossing[boundary as usize] += 1;
            }
        }
        self.members.clear();
        self.members.extend(0..problem.items.len() as u32);
        let rank = &self.rank;
        self.members.sort_by_key(|&item| rank[item as usize]);
        match self.split(0, 0, problem.sections as u32, (0, 0)) {
            Step::Found => Outcome::Found(self.offsets.clone()),
            Step::Dead => Outcome::None,
            Step::OutOfNodes => Outcome::Unknown,
        }
    }

    /// Searches each part between two boundaries that nothing crosses, the fullest first. The members
    /// are those from `begin` on.
    fn split(&mut self, begin: usize, from: u32, to: u32, last: (u64, u32)) -> Step {
        let inner = &self.crossing[from as usize..to as usize - 1];
        if inner.iter().all(|crossing| *crossing != 0) {
            return self.search(begin, from, to, last);
        }
        let mut parts: Vec<(u64, Range<u32>, Vec<u32>)> = Vec::new();
        let mut start = from;
        for section in from..to {
            if section + 1 == to || self.crossing[section as usize] == 0 {
                let full = &self.left[start as usize..=section as usize];
                let most = full.iter().copied().max().unwrap_or(0);
                parts.push((most, start..section + 1, Vec::new()));
                start = section + 1;
            }
        }
        for &member in &self.members[begin..] {
            let first = self.problem.items[member as usize].first();
            let part = parts.partition_point(|(_, range, _)| range.end <= first);
            parts[part].2.push(member);
        }
        parts.retain(|(_, _, members)| !members.is_empty());
        parts.sort_by_key(|(most, _, members)| (std::cmp::Reverse(*most), members.len()));
        for (_, range, members) in parts {
            let begin = self.members.len();
            self.members.extend(members);
            // What was placed has nothing to do with the order inside of a part.
            let step = self.search(begin, range.start, range.end, (0, 0));
            self.members.truncate(begin);
            if step != Step::Found {
                return step;
            }
        }
        Step::Found
    }

    fn search(&mut self, begin: usize, from: u32, to: u32, last: (u64, u32)) -> Step {
        let end = self.members.len();
        if begin == end {
            return Step::Found;
        }
        self.nodes += 1;
        if self.nodes > self.limit || (self.nodes.is_multiple_of(1024) && self.until.is_over()) {
            return Step::OutOfNodes;
        }
        // Everything that is left goes no lower than the next one, which must leave room for it all.
        let left = &self.left[from as usize..to as usize];
        let most_left = left.iter().copied().max().unwrap_or(0);
        let Some(highest) = self.capacity.checked_sub(most_left) else {
            return Step::Dead;
        };
        // Under what fits whole nobody else can be next.
        let mut roof = u64::MAX;
        for &member in &self.members[begin..end] {
            roof = roof.min(self.roofs[member as usize] + self.offsets[member as usize]);
        }
        let first = self.candidates.len();
        for &member in &self.members[begin..end] {
            let lowest = self.offsets[member as usize];
            let rank = self.rank[member as usize];
            if lowest < roof && lowest <= highest && (lowest, rank) >= last {
                self.candidates.push((lowest, rank, member));
            }
        }
        self.candidates[first..].sort_unstable();
        let mut step = Step::Dead;
        for place in first..self.candidates.len() {
            let (offset, rank, member) = self.candidates[place];
            let mark = (self.order.len(), self.trail.len());
            step = Step::Dead;
            if self.place(member, offset) {
                for place in begin..end {
                    let other = self.members[place];
                    if other != member {
                        self.members.push(other);
                    }
                }
                step = self.split(end, from, to, (offset, rank));
                self.members.truncate(end);
            }
            if step == Step::Found {
                break;
            }
            self.take_back(mark);
            if step == Step::OutOfNodes {
                break;
            }
        }
        self.candidates.truncate(first);
        step
    }

    /// Places an item, and lifts what lives at the same time above it. False if something can no longer
    /// fit; the caller takes it back.
    fn place(&mut self, member: u32, offset: u64) -> bool {
        let problem = self.problem;
        let item = &problem.items[member as usize];
        let top = offset + item.size;
        if top > self.capacity {
            return false;
        }
        let mark = self.trail.len();
        self.placed[member as usize] = true;
        self.order.push(member);
        for section in item.sections() {
            self.left[section] -= item.size;
        }
        for boundary in item.first()..item.last() - 1 {
            self.crossing[boundary as usize] -= 1;
        }
        for place in 0..self.neighbours[member as usize].len() {
            let other = self.neighbours[member as usize][place];
            let known = self.offsets[other as usize];
            if known >= top || self.placed[other as usize] {
                continue;
            }
            let other_item = &problem.items[other as usize];
            if other_item.fixed.is_some() {
                return false; // it lies lower than the top, and cannot be lifted
            }
            let lifted = other_item.align(top);
            if lifted + other_item.size > self.capacity {
                self.weights[other as usize] += 1.0;
                return false;
            }
            self.trail.push((other, known));
            self.offsets[other as usize] = lifted;
        }
        // Only sections in which somebody was lifted too high for all the rest can fail now.
        for place in mark..self.trail.len() {
            let other = self.trail[place].0;
            let item = &problem.items[other as usize];
            let highest = self.capacity - self.offsets[other as usize];
            for span in &item.spans {
                for section in span.start as usize..span.end as usize {
                    if self.left[section] > highest && !self.fits(section) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Whether somebody who is left in a section lies low enough for all that are left to fit.
    fn fits(&mut self, section: usize) -> bool {
        let highest = self.capacity - self.left[section];
        let low =
            |member: u32| !self.placed[member as usize] && self.offsets[member as usize] <= highest;
        if low(self.witness[section]) {
            return true;
        }
        match self.residents[section]
            .iter()
            .copied()
            .find(|member| low(*member))
        {
            Some(witness) => {
                self.witness[section] = witness;
                true
            }
            None => {
                self.blame(section);
                false
            }
        }
    }

    /// Who did not find room in a section shall go earlier the next time.
    fn blame(&mut self, section: usize) {
        for &member in &self.residents[section] {
            if !self.placed[member as usize] {
                self.weights[member as usize] += 1.0;
            }
        }
    }

    /// Takes everything back that was done since the mark.
    fn take_back(&mut self, (order, trail): (usize, usize)) {
        for (item, offset) in self.trail.drain(trail..).rev() {
            self.offsets[item as usize] = offset;
        }
        for member in self.order.drain(order..) {
            let item = &self.problem.items[member as usize];
            self.placed[member as usize] = false;
            for section in item.sections() {
                self.left[section] += item.size;
            }
            for boundary in item.first()..item.last() - 1 {
                self.crossing[boundary as usize] += 1;
            }
        }
    }
}

/// The order in which items are preferred.
fn ranks(problem: &Problem, preference: Preference, weights: &[f64]) -> Vec<u32> {
    let peaks = Peaks::new(&problem.live);
    let mut random = Random::new(preference.shuffle);
    let mut shuffled = |value: f64| match preference.shuffle {
        0 => value,
        _ => value * (1.0 + SHUFFLE * random.fraction()),
    };
    let keys: Vec<[f64; 3]> = problem
        .items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            let (peak, area) = (peaks.of(item) as f64, area(item) as f64);
            let width = item.width() as f64;
            let key = match preference.key {
                Key::PeakAreaWidth => [peak, area, width],
                Key::PeakWidthArea => [peak, width, area],
                Key::WidthAreaPeak => [width, area, peak],
                Key::Area => [area, width, peak],
                Key::Weight => [weights[index], area, width],
                Key::WeightWidth => [weights[index] * width, area, width],
            };
            key.map(&mut shuffled)
        })
        .collect();
    let mut order: Vec<u32> = (0..problem.items.len() as u32).collect();
    order.sort_by(|&one, &two| {
        let (one, two) = (keys[one as usize], keys[two as usize]);
        let compared = one.iter().zip(&two).map(|(one, two)| two.total_cmp(one));
        compared.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
    let mut ranks = vec![0; order.len()];
    for (rank, &item) in order.iter().enumerate() {
        ranks[item as usize] = rank as u32;
    }
    ranks
}
