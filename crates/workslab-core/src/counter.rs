//! A counter that many threads can bump without passing a cache line around.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

const SHARDS: usize = 16;

/// Counts events. Adding touches a cache line that few threads share; reading sums them up.
#[derive(Default)]
pub(crate) struct ShardedCounter {
    shards: [CachePadded<AtomicU64>; SHARDS],
}

impl ShardedCounter {
    #[inline]
    pub(crate) fn increment(&self) {
        self.shards[shard()].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.load(Ordering::Relaxed))
            .sum()
    }
}

/// The calling thread's shard: threads are dealt out in turn.
#[inline]
fn shard() -> usize {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const UNASSIGNED: u32 = u32::MAX;
    thread_local! {
        static SHARD: std::cell::Cell<u32> = const { std::cell::Cell::new(UNASSIGNED) };
    }
    let mine = SHARD.get();
    let mine = if mine == UNASSIGNED {
        let assigned = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS as u32;
        SHARD.set(assigned);
        assigned
    } else {
        mine
    };
    mine as usize % SHARDS
}
