//! What the counts say.

use rstest::rstest;
use rstest_reuse::apply;
use workslab_tests::Backend;

use crate::matrix::backends;
use crate::support::{allocator, default_stream, size};

#[apply(backends)]
fn counts_say_what_happened<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let stream = default_stream(&allocator);
    for (program, bytes) in [("diffusion", 1000), ("solver", 3000), ("diffusion", 2000)] {
        let workspace = allocator.allocate(0, &size(8192)).expect("it fits");
        let mut lease = workspace.program(program).lease(&stream).expect("free");
        assert_eq!(workspace.statistics().leased, 8192);
        let frame = lease.frame();
        frame.array::<u8>(bytes).expect("it fits");
        drop(frame);
        lease.frame().array::<u8>(1).expect("it fits");
    }
    let workspace = allocator.allocate(0, &size(8192)).expect("it fits");
    drop(workspace.lease(&stream).expect("free"));
    let statistics = workspace.statistics();
    assert_eq!((statistics.hits, statistics.misses), (3, 1));
    assert_eq!((statistics.leases, statistics.leased), (4, 0));
    assert_eq!((statistics.high_water, statistics.size), (3000, 8192));
    let programs: Vec<_> = statistics
        .programs
        .iter()
        .map(|program| (program.name.as_str(), program.leases, program.high_water))
        .collect();
    assert_eq!(programs, [("diffusion", 2, 2000), ("solver", 1, 3000)]);
    let table = statistics.to_string();
    for part in ["high-water mark", "2.93 KiB", "diffusion", "solver"] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
}

#[apply(backends)]
fn waiting_is_counted<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(8192)).expect("it fits");
    let stream = default_stream(&allocator);
    let lease = workspace.lease(&stream).expect("free");
    std::thread::scope(|scope| {
        scope.spawn(|| drop(workspace.lease(&stream).expect("its turn comes")));
        while workspace.statistics().waits == 0 {
            std::thread::yield_now();
        }
        drop(lease);
    });
    let statistics = workspace.statistics();
    assert_eq!((statistics.waits, statistics.leases), (1, 2));
    assert!(!statistics.waited.is_zero());
}
