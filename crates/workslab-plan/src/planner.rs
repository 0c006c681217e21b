//! How much to try, in which order, and when to stop.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

#[cfg(feature = "parallel")]
use rayon::prelude::*;

use crate::exact::{Outcome, Preference, Search};
use crate::first_fit::Order;
use crate::repair::{Budget, repair};
use crate::sections::Problem;
use crate::skyline::{self, TIES, Tie};
use crate::until::Until;
use crate::{Instance, Plan, PlanError, first_fit, online};

/// How much to try.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Effort {
    /// One pass, for plans that are made while a program runs.
    Instant,
    /// Several orders and a short exact search: about a second at most for thousands of buffers. How
    /// much is counted in steps, not in time, so the plan is the same on every machine.
    Balanced,
    /// Until the plan is proved to be the smallest, or the time is over.
    Exhaustive {
        /// How long.
        budget: Duration,
    },
    /// Until there is a plan within the capacity, or a proof that there is none, or the time is over.
    Fit {
        /// How many bytes there are.
        capacity: u64,
        /// How long.
        budget: Duration,
    },
}

/// What came of planning.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Planned {
    /// The best plan that was found.
    pub plan: Plan,
    /// Whether it fits into the capacity that was asked for.
    pub verdict: Verdict,
}

/// Whether the buffers fit into a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The plan does, or no capacity was asked for.
    Fits,
    /// It is proved that no plan does.
    DoesNotFit,
    /// The time was over.
    Unknown,
}

/// Makes plans.
pub struct Planner<'c> {
    seed: u64,
    threads: usize,
    stop: Option<&'c AtomicBool>,
    #[allow(clippy::type_complexity, reason = "a callback")]
    improved: Option<Box<dyn Fn(&Plan) + Sync + 'c>>,
}

impl Default for Planner<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Above this many buffers the exact search would not get far.
const EXACT: usize = 3000;
/// Above this many buffers first fit takes too long.
const FIRST_FIT: usize = 20_000;
/// From this many buffers on only the fastest ways are tried.
const MANY: usize = 200_000;
/// How many nodes of the exact search are as good as a second.
const NODES_A_SECOND: u64 = 300_000;
/// How many pairs of buffers repairs look at in about a second.
const PAIRS_A_SECOND: u64 = 1_500_000_000;
/// And how many more for each buffer.
const PAIRS_A_BUFFER: u64 = 4000;

impl<'c> Planner<'c> {
    /// A planner with one thread and seed 0.
    #[must_use]
    pub fn new() -> Self {
        Self {
            seed: 0,
            threads: 1,
            stop: None,
            improved: None,
        }
    }

    /// With another seed, which may find another plan.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// With so many threads; 0 is one per core. A plan depends on their number, but not on their luck.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        self
    }

    /// Which ends early, with the best plan so far, when `stop` becomes true.
    #[must_use]
    pub fn with_stop(mut self, stop: &'c AtomicBool) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Which calls `improved` with the first plan and each better one.
    #[must_use]
    pub fn on_improvement(mut self, improved: impl Fn(&Plan) + Sync + 'c) -> Self {
        self.improved = Some(Box::new(improved));
        self
    }

    /// Plans.
    ///
    /// # Errors
    /// [`PlanError::BadBuffer`], [`PlanError::TooLarge`]; [`PlanError::FixedOverlap`] if buffers that
    /// must not move are in each other's way.
    pub fn plan(&self, instance: &Instance, effort: Effort) -> Result<Planned, PlanError> {
        let problem = Problem::new(instance)?;
        check_fixed(instance, &problem)?;
        let own_stop = AtomicBool::new(false);
        let mut work = Work {
            planner: self,
            instance,
            problem: &problem,
            effort,
            until: Until {
                stop: self.stop.unwrap_or(&own_stop),
                deadline: match effort {
                    Effort::Exhaustive { budget } | Effort::Fit { budget, .. } => {
                        Instant::now().checked_add(budget)
                    }
                    Effort::Instant | Effort::Balanced => None,
                },
            },
            offsets: Vec::new(),
            makespan: u64::MAX,
            excluded_below: problem.lower_bound,
        };
        work.run();
        Ok(work.finish())
    }
}

/// Two buffers that must not move and cannot both be where they must.
fn check_fixed(instance: &Instance, problem: &Problem) -> Result<(), PlanError> {
    if !problem.has_fixed {
        return Ok(());
    }
    let fixed: Vec<usize> = (0..instance.buffers.len())
        .filter(|&index| instance.buffers[index].offset.is_some())
        .collect();
    let only = Instance::new(fixed.iter().map(|&i| instance.buffers[i].clone()).collect());
    let offsets = only
        .buffers
        .iter()
        .filter_map(|buffer| buffer.offset)
        .collect();
    match Plan::of(&only, offsets) {
        Ok(_) => Ok(()),
        Err(PlanError::BadPlan { buffer, problem }) => {
            let second = problem
                .strip_prefix("shares bytes with ")
                .and_then(|rest| rest.strip_suffix(" while both live"));
            Err(PlanError::FixedOverlap {
                second: second.unwrap_or(&problem).to_owned(),
                first: buffer,
            })
        }
        Err(other) => Err(other),
    }
}

/// One call of `plan`.
struct Work<'w, 'c> {
    planner: &'w Planner<'c>,
    instance: &'w Instance,
    problem: &'w Problem,
    effort: Effort,
    until: Until<'w>,
    /// The best offsets so far, in units, by item.
    offsets: Vec<u64>,
    makespan: u64,
    /// No plan has a makespan below this.
    excluded_below: u64,
}

impl Work<'_, '_> {
    fn run(&mut self) {
        let problem = self.problem;
        if problem.items.is_empty() {
            self.makespan = 0;
            self.report();
            return;
        }
        self.greedy();
        if matches!(self.effort, Effort::Instant) || self.done() {
            return;
        }
        let parts = problem.split();
        if parts.iter().any(|(members, _)| members.len() > EXACT) {
            if !problem.has_fixed {
                self.repair();
            }
            return;
        }
        let mut parts: Vec<(Vec<usize>, Problem)> = parts
            .into_iter()
            .map(|(members, range)| {
                let part = problem.part(&members, range);
                (members, part)
            })
            .collect();
        parts.sort_by_key(|(_, part)| std::cmp::Reverse(part.lower_bound));
        self.exact(&parts);
    }

    /// The makespan that is good enough.
    fn goal(&self) -> u64 {
        match self.effort {
            Effort::Fit { capacity, .. } => (capacity / self.problem.unit).max(self.excluded_below),
            _ => self.excluded_below,
        }
    }

    fn done(&self) -> bool {
        let out_of_reach = match self.effort {
            Effort::Fit { capacity, .. } => self.excluded_below > capacity / self.problem.unit,
            _ => false,
        };
        out_of_reach || self.makespan <= self.goal() || self.until.is_over()
    }

    fn take(&mut self, offsets: Vec<u64>) {
        let makespan = self.problem.makespan(&offsets);
        if makespan < self.makespan {
            self.makespan = makespan;
            self.offsets = offsets;
            self.report();
        }
    }

    fn report(&self) {
        if let Some(improved) = &self.planner.improved {
            improved(&self.plan());
        }
    }

    fn plan(&self) -> Plan {
        let problem = self.problem;
        let mut offsets = vec![0; self.instance.buffers.len()];
        for (item, offset) in problem.items.iter().zip(&self.offsets) {
            offsets[item.index] = offset * problem.unit;
        }
        for (buffer, offset) in self.instance.buffers.iter().zip(&mut offsets) {
            // Also one without bytes is where it must be.
            *offset = buffer.offset.unwrap_or(*offset);
        }
        Plan {
            offsets,
            makespan: self.makespan * problem.unit,
            lower_bound: problem.lower_bound * problem.unit,
            optimal: self.makespan == self.excluded_below,
        }
    }

    fn finish(self) -> Planned {
        let verdict = match self.effort {
            Effort::Fit { capacity, .. } => {
                if self.makespan * self.problem.unit <= capacity {
                    Verdict::Fits
                } else if self.excluded_below * self.problem.unit > capacity {
                    Verdict::DoesNotFit
                } else {
                    Verdict::Unknown
                }
            }
            _ => Verdict::Fits,
        };
        Planned {
            plan: self.plan(),
            verdict,
        }
    }

    /// Plans from below and by first fit, in several orders.
    fn greedy(&mut self) {
        let problem = self.problem;
        let instant = matches!(self.effort, Effort::Instant);
        if problem.has_fixed {
            self.take(first_fit::plan(problem, Order::Area));
        }
        let many = problem.items.len() > MANY;
        if many && instant && !problem.has_fixed {
            self.take(online::plan(problem));
        }
        let ties: &[Tie] = match (problem.has_fixed, instant, many) {
            (true, _, _) | (false, true, true) => &[],
            (false, false, false) => &TIES,
            (false, false, true) => &[Tie::Peak],
            _ => &TIES[..1],
        };
        for batch in ties.chunks(self.planner.threads) {
            let limit = self.makespan;
            let found: Vec<Option<Vec<u64>>> = self.each(batch, |tie| {
                skyline::plan(problem, &tie.ranks(problem), limit)
            });
            found
                .into_iter()
                .flatten()
                .for_each(|offsets| self.take(offsets));
            if self.done() {
                return;
            }
        }
        if !instant && problem.items.len() <= FIRST_FIT {
            for order in [first_fit::TALL, Order::Area, Order::Size] {
                self.take(first_fit::plan(problem, order));
                if self.done() {
                    return;
                }
            }
        }
    }

    /// Plans the highest parts anew, for as long as the effort allows.
    fn repair(&mut self) {
        let balanced = matches!(self.effort, Effort::Balanced);
        let pairs = match balanced {
            true => PAIRS_A_SECOND + PAIRS_A_BUFFER * self.problem.items.len() as u64,
            false => u64::MAX,
        };
        let budget = Budget {
            pairs,
            until: self.until,
            random: (!balanced).then_some(self.planner.seed),
        };
        let (problem, offsets, goal) = (self.problem, self.offsets.clone(), self.goal());
        repair(problem, offsets, goal, budget, |better| {
            self.take(better.to_vec());
        });
    }

    /// The results in the order of what was given, on as many threads as there may be.
    fn each<T: Sync, R: Send>(&self, all: &[T], work: impl Fn(&T) -> R + Send + Sync) -> Vec<R> {
        #[cfg(feature = "parallel")]
        if self.planner.threads > 1 && all.len() > 1 {
            return all.par_iter().map(work).collect();
        }
        all.iter().map(work).collect()
    }

    /// Narrows the makespan between what is excluded and what was found, by exact search.
    fn exact(&mut self, parts: &[(Vec<usize>, Problem)]) {
        let balanced = matches!(self.effort, Effort::Balanced);
        let mut nodes = match self.effort {
            Effort::Balanced => NODES_A_SECOND,
            _ => u64::MAX,
        };
        // How many nodes a makespan gets before a larger one is tried.
        let mut patience: u64 = if balanced {
            NODES_A_SECOND / 4
        } else {
            NODES_A_SECOND
        };
        loop {
            let mut low = self.excluded_below;
            while low < self.makespan && !self.done() && nodes > 0 {
                let goal = match self.effort {
                    Effort::Fit { capacity, .. } => capacity / self.problem.unit,
                    // The bound itself first: it is often met. Then halves.
                    _ if low == self.excluded_below => low,
                    _ => low + (self.makespan - 1 - low) / 2,
                };
                match self.search(parts, goal, patience.min(nodes), &mut nodes) {
                    Outcome::Found(offsets) => self.take(offsets),
                    Outcome::None => {
                        self.excluded_below = self.excluded_below.max(goal + 1);
                        low = low.max(goal + 1);
                    }
                    Outcome::Unknown => low = goal + 1,
                }
                if matches!(self.effort, Effort::Fit { .. }) {
                    break;
                }
            }
            if self.done() || nodes == 0 {
                return;
            }
            patience = patience.saturating_mul(2);
        }
    }

    /// Searches every part for a plan within `goal`, with at most so many nodes together.
    fn search(
        &self,
        parts: &[(Vec<usize>, Problem)],
        goal: u64,
        patience: u64,
        nodes: &mut u64,
    ) -> Outcome {
        let mut offsets = self.offsets.clone();
        let mut left = patience;
        let mut outcome = Outcome::Found(Vec::new());
        for (members, part) in parts {
            let now = members
                .iter()
                .map(|&member| offsets[member] + self.problem.items[member].size);
            if now.max().unwrap_or(0) <= goal {
                continue; // good enough as it is
            }
            match self.search_part(part, goal, &mut left) {
                Outcome::Found(found) => {
                    for (&member, offset) in members.iter().zip(found) {
                        offsets[member] = offset;
                    }
                }
                Outcome::None => {
                    outcome = Outcome::None;
                    break;
                }
                Outcome::Unknown => {
                    outcome = Outcome::Unknown;
                    break;
                }
            }
        }
        *nodes = nodes.saturating_sub(patience - left);
        match outcome {
            Outcome::Found(_) => Outcome::Found(offsets),
            other => other,
        }
    }

    /// Tries one order after the other, or several at once, each with its own number of nodes.
    fn search_part(&self, part: &Problem, goal: u64, left: &mut u64) -> Outcome {
        let threads = self.planner.threads as u64;
        let mut searches: Vec<Search<'_>> = (0..threads)
            .map(|_| Search::new(part, self.until))
            .collect();
        let mut round = 0;
        loop {
            let first = round * threads;
            let run = |(thread, search): (usize, &mut Search<'_>)| {
                let n = first + thread as u64;
                let preference = Preference::of_try(n, self.planner.seed);
                let limit = Preference::nodes_of_try(n).min(*left);
                (search.run(goal, preference, limit), search.nodes())
            };
            let outcomes = run_all(&mut searches, run);
            let used: u64 = outcomes.iter().map(|(_, nodes)| nodes).sum();
            *left = left.saturating_sub(used);
            let answer = outcomes
                .into_iter()
                .map(|(outcome, _)| outcome)
                .find(|outcome| *outcome != Outcome::Unknown);
            match answer {
                Some(outcome) => return outcome,
                None if *left == 0 || self.until.is_over() => return Outcome::Unknown,
                None => round += 1,
            }
        }
    }
}

/// Runs all searches, on as many threads as there are if there may be several.
fn run_all<'s>(
    searches: &mut [Search<'s>],
    run: impl Fn((usize, &mut Search<'s>)) -> (Outcome, u64) + Send + Sync,
) -> Vec<(Outcome, u64)> {
    #[cfg(feature = "parallel")]
    if searches.len() > 1 {
        return searches.par_iter_mut().enumerate().map(run).collect();
    }
    searches.iter_mut().enumerate().map(run).collect()
}

impl fmt::Debug for Planner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner")
            .field("seed", &self.seed)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}
