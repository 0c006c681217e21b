//! What the warm path costs, beside glibc's allocator and bumpalo's, in one run.
//!
//! `cargo xtask bench` runs this and prints the ratios; docs/benchmarks.md says how to read them.

use std::alloc::Layout;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use workslab_core::{ExternalWorkspaceAllocator, Platform, SlabSize};
use workslab_host::Host;

const SIZE: usize = 64 << 20;

/// How many arrays a frame or an arena hands out before it is emptied.
const ARRAYS: usize = 24;
const LENGTH: usize = 1000;

fn lease(criterion: &mut Criterion) {
    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let size = SlabSize::new(SIZE).expect("64 MiB");
    let workspace = allocator.allocate(0, &size).expect("64 MiB fit");
    let stream = allocator
        .platform()
        .default_stream(workspace.device())
        .expect("the default stream");
    let program = workspace.program("bench");
    let mut group = criterion.benchmark_group("lease");
    group.bench_function("allocate, lease, drop", |bencher| {
        bencher.iter(|| {
            let workspace = allocator.allocate(0, black_box(&size)).expect("a hit");
            let lease = workspace.lease(&stream).expect("it is free");
            black_box(lease.base())
        });
    });
    group.bench_function("allocate, lease for a program, drop", |bencher| {
        bencher.iter(|| {
            allocator.allocate(0, black_box(&size)).expect("a hit");
            let lease = program.lease(&stream).expect("it is free");
            black_box(lease.base())
        });
    });
    for count in [1, 300] {
        let names: Vec<_> = (0..count)
            .map(|number| format!("vertical_solver_{number}"))
            .collect();
        let mut turn = names.iter().cycle();
        group.bench_function(
            format!("for a program by its name, {count} of them in turn"),
            |bencher| {
                bencher.iter(|| {
                    let name = turn.next().expect("a cycle");
                    let lease = workspace.program(name).lease(&stream).expect("it is free");
                    black_box(lease.base())
                });
            },
        );
    }
    group.bench_function("malloc and free of 64 MiB, untouched", |bencher| {
        bencher.iter(|| {
            // SAFETY: any size may be asked of malloc, and what it gave is freed once.
            unsafe {
                let pointer = libc::malloc(black_box(SIZE));
                assert!(!black_box(pointer).is_null());
                libc::free(pointer);
            }
        });
    });
    group.finish();
}

fn hit(criterion: &mut Criterion) {
    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let size = SlabSize::new(SIZE).expect("64 MiB");
    allocator.allocate(0, &size).expect("64 MiB fit");
    let mut group = criterion.benchmark_group("allocate");
    for threads in [1, 2] {
        group.bench_function(format!("hit, {threads} thread(s)"), |bencher| {
            bencher.iter_custom(|iterations| {
                let run = || {
                    let start = Instant::now();
                    for _ in 0..iterations {
                        let workspace = allocator.allocate(0, black_box(&size)).expect("a hit");
                        black_box(workspace.size());
                    }
                    start.elapsed()
                };
                // Each thread does all iterations at the same time as the others; the time is what
                // one of them took.
                let sum: Duration = std::thread::scope(|scope| {
                    let others: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
                    others
                        .into_iter()
                        .map(|thread| thread.join().expect("no panic"))
                        .sum()
                });
                sum / threads
            });
        });
    }
    group.finish();
}

fn frame(criterion: &mut Criterion) {
    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let size = SlabSize::new(SIZE).expect("64 MiB");
    let workspace = allocator.allocate(0, &size).expect("64 MiB fit");
    let stream = allocator
        .platform()
        .default_stream(workspace.device())
        .expect("the default stream");
    let mut lease = workspace.lease(&stream).expect("it is free");
    let layout = Layout::from_size_align(LENGTH * size_of::<f64>(), 256).expect("a layout");
    let mut group = criterion.benchmark_group("24 arrays");
    group.bench_function("frame.array", |bencher| {
        bencher.iter(|| {
            let frame = lease.frame();
            for _ in 0..ARRAYS {
                let array = frame.array::<f64>(black_box(LENGTH)).expect("it fits");
                black_box(array.as_device_ptr());
            }
        });
    });
    let mut bump = bumpalo::Bump::with_capacity(ARRAYS * (layout.size() + 256) * 2);
    group.bench_function("bumpalo, same layout", |bencher| {
        bencher.iter(|| {
            for _ in 0..ARRAYS {
                let pointer = bump.try_alloc_layout(black_box(layout)).expect("it fits");
                black_box(pointer);
            }
            bump.reset();
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = lease, hit, frame
}
criterion_main!(benches);
