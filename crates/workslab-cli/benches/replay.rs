//! A time step of icon4py's dynamical core at R02B04 with 65 levels: its arrays from one workspace,
//! and from an allocation per array and call. Each array is touched once, a byte a page, so that the
//! cost is that of getting memory: placing arrays on one side, page faults on the other.
//!
//! `cargo xtask bench` runs this and prints the ratios; docs/benchmarks.md says how to read them.

use std::alloc::Layout;
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use workslab::host::Host;
use workslab::{
    DryFrame, ExternalWorkspaceAllocator, HostAccessible, Platform, Scratch, SlabOptions, SlabSize,
};
use workslab_cli::grid::Grid;
use workslab_cli::programs::{Programs, SizedProgram};

const PAGE: usize = 4096;

fn touch(first: *mut u8, bytes: usize) {
    for page in (0..bytes).step_by(PAGE) {
        // SAFETY: the callers own `bytes` bytes from `first` on.
        unsafe { first.add(page).write_volatile(1) };
    }
}

fn in_workspace(
    programs: &[SizedProgram],
    allocator: &ExternalWorkspaceAllocator<Host>,
    size: SlabSize,
) {
    let stream = allocator
        .platform()
        .default_stream(0.into())
        .expect("the default stream");
    for program in programs {
        let workspace = allocator.allocate(0, &size).expect("a hit");
        let mut lease = workspace.lease(&stream).expect("it is free");
        let frame = lease.frame();
        for transient in &program.transients {
            let mut array = frame.array::<u8>(transient.bytes).expect("it fits");
            touch(array.as_mut_ptr(), transient.bytes);
        }
    }
}

fn by_malloc(programs: &[SizedProgram]) {
    for program in programs {
        let arrays: Vec<_> = program
            .transients
            .iter()
            .map(|transient| {
                let layout = Layout::from_size_align(transient.bytes, 64).expect("a layout");
                // SAFETY: no transient of the file is empty on this grid.
                let first = unsafe { std::alloc::alloc(layout) };
                assert!(!first.is_null());
                touch(first, transient.bytes);
                (first, layout)
            })
            .collect();
        for (first, layout) in arrays {
            // SAFETY: allocated above with this layout.
            unsafe { std::alloc::dealloc(first, layout) };
        }
    }
}

fn by_slab(programs: &[SizedProgram], platform: &Host) {
    for program in programs {
        let slabs: Vec<_> = program
            .transients
            .iter()
            .map(|transient| {
                let size = SlabSize::new(transient.bytes).expect("no transient is empty");
                let slab = platform
                    .allocate_slab(0.into(), size, SlabOptions::default())
                    .expect("it fits");
                touch(slab.host_base().as_ptr(), transient.bytes);
                slab
            })
            .collect();
        drop(slabs);
    }
}

fn step(criterion: &mut Criterion) {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/icon4py-dycore.json");
    let grid = Grid::named("R02B04", 65).expect("a grid");
    let programs = Programs::read(&file)
        .and_then(|programs| programs.size_on(&grid, &file))
        .expect("the project's own file");
    let needed = programs
        .iter()
        .map(|program| {
            let dry = DryFrame::new();
            for transient in &program.transients {
                dry.array::<u8>(transient.bytes).expect("dry");
            }
            dry.bytes_needed()
        })
        .max()
        .expect("nine programs");
    let size = SlabSize::new(needed).expect("not zero");
    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let mut group = criterion.benchmark_group("icon4py step");
    group.bench_function("one workspace", |bencher| {
        bencher.iter(|| in_workspace(&programs, &allocator, size));
    });
    group.bench_function("malloc per call", |bencher| {
        bencher.iter(|| by_malloc(&programs))
    });
    group.bench_function("slab per call", |bencher| {
        bencher.iter(|| by_slab(&programs, allocator.platform()));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(5));
    targets = step
}
criterion_main!(benches);
