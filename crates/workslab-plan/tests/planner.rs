//! Whatever is planned is right, is never under the bound, and on small instances is the best there is.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use workslab_plan::{Buffer, Effort, Instance, Plan, PlanError, Planner, Verdict};

const LONG: Duration = Duration::from_secs(600);

fn efforts() -> [Effort; 3] {
    [
        Effort::Instant,
        Effort::Balanced,
        Effort::Exhaustive { budget: LONG },
    ]
}

/// Anything legal: no bytes, no lifetime, alignments, gaps.
fn buffer(times: u64) -> impl Strategy<Value = Buffer> {
    let size = prop_oneof![1 => Just(0), 9 => 1u64..40];
    let alignment = prop_oneof![6 => Just(1), 1 => Just(4), 1 => Just(7), 1 => Just(16)];
    let gap = prop_oneof![8 => Just(None), 1 => (0..times, 0..times / 2).prop_map(Some)];
    (size, alignment, 0..times, 0..times, gap).prop_map(|(size, alignment, start, len, gap)| {
        let mut buffer = Buffer::new("", size, start..start + len).aligned(alignment);
        buffer
            .gaps
            .extend(gap.map(|(start, len)| start..start + len));
        buffer
    })
}

/// Sometimes all sizes have a divisor in common, which planners make use of.
fn instance(most: usize, times: u64) -> impl Strategy<Value = Instance> {
    let unit = prop_oneof![2 => Just(1), 1 => Just(6), 1 => Just(16), 1 => Just(40)];
    (prop::collection::vec(buffer(times), 0..=most), unit).prop_map(|(mut buffers, unit)| {
        for buffer in &mut buffers {
            buffer.size *= unit;
        }
        Instance::new(buffers)
    })
}

/// The smallest makespan, by trying all orders: any plan can be pushed down until each buffer rests on
/// an earlier one, so placing in the order of offsets, each as low as it can lie, finds the best.
fn brute_force(instance: &Instance) -> u64 {
    fn overlap(one: &Buffer, two: &Buffer) -> bool {
        let lives = |buffer: &Buffer, time: u64| {
            buffer.lifetime.contains(&time) && !buffer.gaps.iter().any(|gap| gap.contains(&time))
        };
        one.size > 0 && two.size > 0 && (0..200).any(|time| lives(one, time) && lives(two, time))
    }
    fn go(
        instance: &Instance,
        clashes: &[Vec<bool>],
        placed: &mut Vec<(usize, u64)>,
        best: &mut u64,
    ) {
        let makespan = placed
            .iter()
            .map(|&(index, offset)| offset + instance.buffers[index].size);
        let makespan = makespan.max().unwrap_or(0);
        if makespan >= *best {
            return;
        }
        if placed.len() == instance.buffers.len() {
            *best = makespan;
            return;
        }
        for (index, buffer) in instance.buffers.iter().enumerate() {
            if placed.iter().any(|&(other, _)| other == index) {
                continue;
            }
            let tops = placed.iter().filter(|&&(other, _)| clashes[index][other]);
            let top = tops
                .map(|&(other, offset)| offset + instance.buffers[other].size)
                .max();
            let offset = top.unwrap_or(0).next_multiple_of(buffer.alignment);
            placed.push((index, offset));
            go(instance, clashes, placed, best);
            placed.pop();
        }
    }
    let never = Buffer::new("", 0, 0..0);
    let shown: Vec<&Buffer> = instance
        .buffers
        .iter()
        .map(|buffer| match overlap(buffer, buffer) {
            true => buffer,
            false => &never,
        })
        .collect();
    let instance = Instance::new(shown.into_iter().cloned().collect());
    let clashes: Vec<Vec<bool>> = instance
        .buffers
        .iter()
        .map(|one| {
            instance
                .buffers
                .iter()
                .map(|two| overlap(one, two))
                .collect()
        })
        .collect();
    let mut best = u64::MAX;
    go(&instance, &clashes, &mut Vec::new(), &mut best);
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_plan_is_right_and_not_under_the_bound(instance in instance(40, 30)) {
        for effort in [Effort::Instant, Effort::Balanced] {
            let plan = Planner::new().plan(&instance, effort).expect("a plan").plan;
            prop_assert_eq!(plan.verify(&instance).expect("right"), plan.makespan);
            prop_assert_eq!(plan.lower_bound, instance.lower_bound().expect("no overflow"));
            prop_assert!(plan.makespan >= plan.lower_bound);
            prop_assert!(plan.makespan > plan.lower_bound || plan.optimal);
        }
    }

    #[test]
    fn small_plans_are_the_best_there_are(instance in instance(7, 8)) {
        let best = brute_force(&instance);
        let effort = Effort::Exhaustive { budget: LONG };
        let plan = Planner::new().plan(&instance, effort).expect("a plan").plan;
        prop_assert_eq!(plan.makespan, best);
        prop_assert!(plan.optimal);
        // The default proves it too at this size.
        let plan = Planner::new().plan(&instance, Effort::Balanced).expect("a plan").plan;
        prop_assert_eq!((plan.makespan, plan.optimal), (best, true));
    }

    #[test]
    fn fit_agrees_with_exhaustive(instance in instance(7, 8), more in 0u64..3) {
        let effort = Effort::Exhaustive { budget: LONG };
        let best = Planner::new().plan(&instance, effort).expect("a plan").plan.makespan;
        for (capacity, verdict) in [
            (best + more, Verdict::Fits),
            (best.saturating_sub(1 + more), Verdict::DoesNotFit),
        ] {
            if best == 0 && verdict == Verdict::DoesNotFit {
                continue;
            }
            let effort = Effort::Fit { capacity, budget: LONG };
            let planned = Planner::new().plan(&instance, effort).expect("an answer");
            prop_assert_eq!(planned.verdict, verdict);
            prop_assert!(planned.plan.verify(&instance).is_ok());
            prop_assert_eq!(planned.plan.makespan <= capacity, verdict == Verdict::Fits);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_same_seed_and_threads_give_the_same_plan(
        instance in instance(60, 40),
        seed in 0u64..4,
        threads in 1usize..4,
    ) {
        let plan = || {
            let planner = Planner::new().with_seed(seed).with_threads(threads);
            planner.plan(&instance, Effort::Balanced).expect("a plan").plan
        };
        prop_assert_eq!(plan(), plan());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_must_not_move_does_not(
        mut instance in instance(12, 10),
        fixed in prop::collection::vec((0usize..12, 0u64..6), 0..3),
    ) {
        for (index, place) in fixed {
            if let Some(buffer) = instance.buffers.get_mut(index) {
                buffer.offset = Some(place * 16 * 7);
            }
        }
        for effort in efforts() {
            match Planner::new().plan(&instance, effort) {
                Ok(planned) => {
                    let needed = planned.plan.verify(&instance).expect("right");
                    prop_assert_eq!(needed, planned.plan.makespan);
                }
                Err(PlanError::FixedOverlap { .. }) => {
                    let all: Vec<u64> = instance.buffers.iter().filter_map(|b| b.offset).collect();
                    let only = instance.buffers.iter().filter(|b| b.offset.is_some()).cloned();
                    prop_assert!(Plan::of(&Instance::new(only.collect()), all).is_err());
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }

    #[test]
    fn numbers_up_to_the_largest_are_an_error_and_never_wrap(
        sizes in prop::collection::vec(prop_oneof![Just(u64::MAX), Just(u64::MAX / 2), any::<u64>()], 1..5),
        alignment in prop_oneof![Just(1u64), Just(u64::MAX), any::<u64>()],
        time in prop_oneof![Just(0u64), Just(u64::MAX - 1)],
    ) {
        let buffers = sizes.iter().map(|&size| {
            Buffer::new("", size, time..u64::MAX).aligned(alignment)
        });
        let instance = Instance::new(buffers.collect());
        match Planner::new().plan(&instance, Effort::Instant) {
            Ok(planned) => {
                prop_assert_eq!(planned.plan.verify(&instance).expect("right"), planned.plan.makespan);
            }
            Err(PlanError::TooLarge | PlanError::BadBuffer { .. }) => {}
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

#[test]
fn verify_sees_what_is_wrong() {
    let instance = Instance::new(vec![
        Buffer::new("a", 8, 0..2).aligned(8),
        Buffer::new("b", 8, 1..3),
        Buffer::new("c", 8, 2..4).fixed(0),
    ]);
    let plan = |offsets: [u64; 3], makespan| {
        let mut plan = Plan::of(&instance, vec![0, 8, 0]).expect("right");
        plan.offsets = offsets.to_vec();
        plan.makespan = makespan;
        plan.verify(&instance).map_err(|error| error.to_string())
    };
    assert_eq!(plan([0, 8, 0], 16), Ok(16));
    for (offsets, makespan, word) in [
        ([0, 7, 0], 16, "'b' shares bytes with 'a'"),
        ([4, 16, 0], 24, "'a' is at 4, no multiple of 8"),
        ([0, 8, 16], 24, "must not move"),
        ([0, 8, 0], 15, "beyond the plan's 15"),
    ] {
        let error = plan(offsets, makespan).expect_err("it is wrong");
        assert!(error.contains(word), "{error}");
    }
    let mut short = Plan::of(&instance, vec![0, 8, 0]).expect("right");
    short.offsets.pop();
    assert!(short.verify(&instance).is_err());
}

#[test]
fn buffers_that_must_not_move_into_each_other_are_both_named() {
    let instance = Instance::new(vec![
        Buffer::new("a", 8, 0..2).fixed(0),
        Buffer::new("b", 8, 1..3).fixed(4),
    ]);
    let error = Planner::new()
        .plan(&instance, Effort::Instant)
        .expect_err("they clash");
    let text = error.to_string();
    assert!(text.contains("'a'") && text.contains("'b'"), "{text}");
}

#[test]
fn improvements_are_told_and_each_is_better() {
    let told = Mutex::new(Vec::new());
    let buffers = (0..60u64).map(|i| {
        let start = i * 7 % 31;
        Buffer::new(format!("b{i}"), 1 + i * 13 % 17, start..start + 3 + i % 9)
    });
    let instance = Instance::new(buffers.collect());
    let planner = Planner::new().on_improvement(|plan| {
        told.lock().expect("no panic").push(plan.makespan);
    });
    let plan = planner
        .plan(&instance, Effort::Balanced)
        .expect("a plan")
        .plan;
    let told = told.lock().expect("no panic");
    assert!(told.windows(2).all(|pair| pair[1] < pair[0]), "{told:?}");
    assert_eq!(told.last(), Some(&plan.makespan));
}

#[test]
fn stopping_gives_the_best_so_far() {
    let stop = AtomicBool::new(true);
    let buffers = (0..200u64).map(|i| {
        let start = i * 37 % 101;
        Buffer::new("", 1000 + i * 7919 % 997, start..start + 5 + i * 11 % 23)
    });
    let instance = Instance::new(buffers.collect());
    let planner = Planner::new().with_stop(&stop);
    let planned = planner
        .plan(&instance, Effort::Exhaustive { budget: LONG })
        .expect("a plan");
    planned.plan.verify(&instance).expect("right");
    assert!(stop.load(Ordering::Relaxed));
}

/// Too many for the exact search, and all of the bound is live at all times: greedy plans miss it.
fn large(number: usize) -> Instance {
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut live: Vec<(u64, u64)> = (0..300).map(|_| (1 + random(10_000), 0)).collect();
    let mut buffers = Vec::new();
    let mut time = 0;
    while buffers.len() < number {
        time += 1;
        let mut freed = 0;
        for _ in 0..2 {
            let (size, start) = live.swap_remove(random(live.len() as u64) as usize);
            let alignment = [1, 1, 1, 8][random(4) as usize];
            let mut buffer = Buffer::new("", size, start..time).aligned(alignment);
            if random(20) == 0 && time - start > 2 {
                buffer.gaps.push(start + 1..time - 1);
            }
            buffers.push(buffer);
            freed += size;
        }
        let first = 1 + random(freed - 1);
        live.extend([(first, time), (freed - first, time)]);
        live.retain(|(size, _)| *size > 0);
    }
    Instance::new(buffers)
}

#[test]
fn many_buffers_are_planned_anew_where_they_are_highest() {
    let instance = large(8000);
    let seen = Mutex::new(Vec::new());
    let plan = |effort, threads| {
        let planner = Planner::new().with_threads(threads);
        let planner = planner.on_improvement(|plan| {
            plan.verify(&instance).expect("each is right");
            seen.lock().expect("nobody panicked").push(plan.makespan);
        });
        let plan = planner.plan(&instance, effort).expect("a plan").plan;
        assert_eq!(plan.verify(&instance), Ok(plan.makespan));
        let seen = std::mem::take(&mut *seen.lock().expect("nobody panicked"));
        assert!(seen.is_sorted_by(|one, next| one > next), "{seen:?}");
        assert_eq!(seen.last(), Some(&plan.makespan));
        plan
    };
    let instant = plan(Effort::Instant, 1);
    let balanced = plan(Effort::Balanced, 1);
    assert!(balanced.makespan < instant.makespan);
    assert_eq!(plan(Effort::Balanced, 2), balanced);
    // With time it goes on from there, and stops at the end of it.
    let budget = Duration::from_secs(2);
    plan(Effort::Exhaustive { budget }, 1);
}

#[test]
fn many_small_parts_are_searched_one_by_one() {
    // 300 times the twelve buffers of examples/data/tight.csv, one after the other: 12 bytes live at
    // most, and 13 are needed. All together are too many for the exact search; each part is not.
    let tight = [
        (0, 1, 2),
        (0, 1, 2),
        (0, 2, 6),
        (1, 2, 1),
        (2, 3, 5),
        (0, 3, 2),
        (3, 4, 6),
        (1, 4, 3),
        (3, 5, 1),
        (2, 5, 2),
        (4, 5, 8),
        (4, 5, 1),
    ];
    let buffers = (0..300).flat_map(|part| {
        tight.map(|(start, end, size)| Buffer::new("", size, 5 * part + start..5 * part + end))
    });
    let instance = Instance::new(buffers.collect());
    let effort = Effort::Exhaustive { budget: LONG };
    let plan = Planner::new().plan(&instance, effort).expect("a plan").plan;
    assert_eq!(plan.verify(&instance), Ok(13));
    assert_eq!((plan.lower_bound, plan.optimal), (12, true));
    let effort = Effort::Fit {
        capacity: 12,
        budget: LONG,
    };
    let planned = Planner::new().plan(&instance, effort).expect("an answer");
    assert_eq!(planned.verdict, Verdict::DoesNotFit);
}

#[test]
fn an_alignment_costs_no_more_than_its_padding() {
    // Equal sizes, not multiples of the alignment: each but the last is padded, and no more.
    let buffers = (0..13).map(|_| Buffer::new("", 2_600_000, 0..1).aligned(256));
    let instance = Instance::new(buffers.collect());
    for effort in [Effort::Instant, Effort::Balanced] {
        let plan = Planner::new().plan(&instance, effort).expect("a plan").plan;
        assert_eq!(plan.makespan, 12 * 2_600_192 + 2_600_000);
    }
}

#[test]
fn an_empty_instance_needs_nothing() {
    for effort in efforts() {
        let plan = Planner::new()
            .plan(&Instance::default(), effort)
            .expect("a plan")
            .plan;
        assert_eq!(
            (plan.makespan, plan.lower_bound, plan.optimal),
            (0, 0, true)
        );
    }
}
