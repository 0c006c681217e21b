//! One slab per device: made once, checked on every hit, released only when unused.

use std::sync::Barrier;

use rstest::rstest;
use rstest_reuse::apply;
use workslab::{
    BackendConfig, Error, ExternalWorkspaceAllocator, Platform, SizeCheck, SlabRequest,
};
use workslab_tests::Backend;

use crate::matrix::backends;
use crate::support::{allocator, counted, default_stream, guarded, size};

#[apply(backends)]
fn invariant_1_sixteen_racing_threads_make_one_driver_allocation<B: Backend>(#[case] backend: B) {
    let (allocator, calls) = counted(&backend);
    let start = Barrier::new(16);
    let bases: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let workspace = allocator.allocate(0, &size(1 << 20)).expect("it fits");
                    workspace.base()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"))
            .collect()
    });
    assert_eq!(calls.count("allocate_slab"), 1);
    assert!(bases.iter().all(|base| *base == bases[0]));
    let statistics = &allocator.statistics()[0];
    assert_eq!(statistics.hits + statistics.misses, 16);
}

#[apply(backends)]
fn invariant_1_a_failed_first_allocation_is_not_cached<B: Backend>(#[case] backend: B) {
    let (allocator, calls) = counted(&backend);
    for call in [
        "device_count",
        "device_info",
        "create_event",
        "allocate_slab",
    ] {
        calls.fail(call, 0);
        let error = allocator
            .allocate(0, &size(4096))
            .expect_err("the fault shows");
        assert!(error.to_string().contains(call), "{error}");
    }
    assert!(allocator.cached(0).expect("device 0").is_none());
    allocator
        .allocate(0, &size(4096))
        .expect("the next try works");
    assert_eq!(calls.count("free"), 0);
}

#[apply(backends)]
fn invariant_1_each_device_has_a_slab_of_its_own<B: Backend>(#[case] backend: B) {
    let (allocator, calls) = counted(&backend);
    let first = allocator.allocate(0, &size(4096)).expect("device 0");
    let second = allocator.allocate(1, &size(8192)).expect("device 1");
    assert_ne!(first.base(), second.base());
    assert_eq!(
        (first.device().ordinal(), second.device().ordinal()),
        (0, 1)
    );
    assert_eq!((first.size(), second.size()), (4096, 8192));
    assert_eq!(calls.count("allocate_slab"), 2);
}

#[apply(backends)]
fn invariant_2_another_size_is_an_error_that_names_both<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    allocator.allocate(0, &size(4096)).expect("the first");
    let config = BackendConfig::builder()
        .set("workspace_size=2048", "--set")
        .resolve()
        .expect("a size");
    for (requested, text) in [(size(8192), "8 KiB"), (size(2048), "2 KiB")] {
        let error = allocator.allocate(0, &requested).expect_err("another size");
        assert!(matches!(
            error,
            Error::SizeMismatch {
                cached: 4096,
                check: SizeCheck::Exact,
                ..
            }
        ));
        let message = error.to_string();
        assert!(
            message.contains("4 KiB") && message.contains(text),
            "{message}"
        );
        assert!(
            message.contains(B::P::NAME) && message.contains("device 0"),
            "{message}"
        );
    }
    let message = allocator
        .allocate(0, &config)
        .expect_err("another size")
        .to_string();
    assert!(message.contains("set by --set"), "{message}");
}

#[apply(backends)]
fn invariant_2_at_least_accepts_a_larger_slab_and_no_smaller_one<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let at_least = |bytes| SlabRequest::exact(size(bytes)).with_check(SizeCheck::AtLeast);
    let made = allocator.allocate(0, &at_least(4096)).expect("the first");
    let hit = allocator.allocate(0, &at_least(1)).expect("a smaller one");
    assert_eq!(made.base(), hit.base());
    assert!(matches!(
        allocator.allocate(0, &at_least(4097)),
        Err(Error::SizeMismatch {
            requested: 4097,
            ..
        })
    ));
}

#[apply(backends)]
fn invariant_2_the_loser_of_a_race_is_checked_too<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let start = Barrier::new(2);
    let ask = |bytes| {
        start.wait();
        allocator
            .allocate(0, &size(bytes))
            .map(|workspace| workspace.size())
    };
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| ask(8192));
        (ask(4096), other.join().expect("no panic"))
    });
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
}

#[apply(backends)]
fn invariant_8_another_mode_is_an_error_that_names_both<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    allocator.allocate(0, &size(4096)).expect("without guard");
    let error = allocator.allocate(0, &guarded(4096)).expect_err("guard");
    let message = error.to_string();
    assert!(
        message.contains("guard = false") && message.contains("guard = true"),
        "{message}"
    );
}

#[apply(backends)]
fn invariant_8_no_size_means_no_workspace<B: Backend>(#[case] backend: B) {
    let (allocator, calls) = counted(&backend);
    let config = BackendConfig::default();
    assert!(matches!(allocator.allocate(0, &config), Err(Error::NoSize)));
    assert!(calls.all().is_empty(), "{:?}", calls.all());
}

#[apply(backends)]
fn more_than_the_device_has_is_refused_before_the_driver_is_asked<B: Backend>(#[case] backend: B) {
    let (allocator, calls) = counted(&backend);
    for bytes in [65 << 20, usize::MAX] {
        let error = allocator.allocate(0, &size(bytes)).expect_err("too much");
        assert!(
            matches!(error, Error::OutOfMemory { requested, .. } if requested == bytes),
            "{error}"
        );
    }
    assert_eq!(calls.count("allocate_slab"), 0);
}

#[apply(backends)]
fn a_device_that_is_not_there_is_an_error_that_says_which_are<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let error = allocator.allocate(7, &size(4096)).expect_err("no device 7");
    assert!(
        matches!(error, Error::NoSuchDevice { count: 2, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("devices 0 to 1"), "{error}");
}

#[apply(backends)]
fn a_released_device_is_allocated_anew_in_another_size<B: Backend>(#[case] backend: B) {
    let (mut allocator, calls) = counted(&backend);
    allocator.allocate(0, &size(4096)).expect("the first");
    allocator.release(0).expect("nobody uses it");
    allocator
        .release(0)
        .expect("there is nothing left to release");
    assert_eq!(calls.count("free"), 1);
    let workspace = allocator.allocate(0, &size(8192)).expect("the second");
    assert_eq!(workspace.size(), 8192);
    assert_eq!(calls.count("allocate_slab"), 2);
}

#[apply(backends)]
fn invariant_3_an_owner_keeps_the_slab_from_being_released<B: Backend>(#[case] backend: B) {
    let (mut allocator, calls) = counted(&backend);
    let owner = allocator.allocate_shared(0, &size(4096)).expect("it fits");
    let another = owner.clone();
    let error = allocator.release(0).expect_err("it has owners");
    assert!(error.to_string().contains("2 owners"), "{error}");
    drop(owner);
    allocator.release(0).expect_err("it has an owner");
    assert_eq!(calls.count("free"), 0);
    drop(another);
    allocator.release(0).expect("nobody is left");
    assert_eq!(calls.count("free"), 1);
}

#[apply(backends)]
fn invariant_3_an_owner_outlives_the_allocator<B: Backend>(#[case] backend: B) {
    let (allocator, calls) = counted(&backend);
    let owner = allocator.allocate_shared(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    drop(allocator);
    assert_eq!(calls.count("free"), 0);
    let mut lease = owner.lease(&stream).expect("it still works");
    let frame = lease.frame();
    let mut array = frame.array::<u8>(16).expect("it fits");
    array.write(&[7; 16]).expect("the memory is there");
    assert_eq!(array.to_vec().expect("it can be read"), [7; 16]);
    drop(frame);
    drop(lease);
    drop(owner);
    assert_eq!(calls.count("free"), 1);
}

#[apply(backends)]
fn invariant_3_a_leaked_lease_or_reservation_keeps_the_slab<B: Backend>(#[case] backend: B) {
    let (mut allocator, calls) = counted(&backend);
    let stream = default_stream(&allocator);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    std::mem::forget(workspace.reserve("blas", 256).expect("it fits"));
    std::mem::forget(workspace.program("solver").lease(&stream).expect("free"));
    let error = allocator.release(0).expect_err("it is in use").to_string();
    assert!(error.contains("'solver' holds a lease"), "{error}");
    assert!(error.contains("'blas'"), "{error}");
    assert_eq!(calls.count("free"), 0);
}

#[apply(backends)]
fn invariant_3_reset_frees_all_or_nothing<B: Backend>(#[case] backend: B) {
    let (mut allocator, calls) = counted(&backend);
    allocator.allocate(0, &size(4096)).expect("device 0");
    let owner = allocator.allocate_shared(1, &size(4096)).expect("device 1");
    assert!(matches!(allocator.reset(), Err(Error::InUse { .. })));
    assert_eq!(calls.count("free"), 0);
    drop(owner);
    allocator.reset().expect("nobody uses them");
    assert_eq!(calls.count("free"), 2);
}

#[apply(backends)]
fn invariant_3_a_slab_is_freed_only_after_its_last_work<B: Backend>(#[case] backend: B) {
    let (mut allocator, calls) = counted(&backend);
    let stream = allocator
        .platform()
        .create_stream(0.into())
        .expect("a stream");
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    {
        let mut lease = workspace.lease(&stream).expect("free");
        let frame = lease.frame();
        let mut array = frame.array::<u8>(4096).expect("it fits");
        array.fill(1).expect("enqueued");
    }
    calls.fail("synchronize", 0);
    allocator
        .release(0)
        .expect_err("the work is not known to be done");
    assert_eq!(calls.count("free"), 0);
    calls.clear();
    allocator.release(0).expect("now it is");
    assert_eq!(calls.all(), [("free", 1), ("synchronize", 1)].into());
}

#[test]
fn the_process_wide_allocator_is_one() {
    use workslab::ProcessWide;
    use workslab::host::Host;
    let here: *const ExternalWorkspaceAllocator<Host> = Host::process_wide().expect("the host");
    let there =
        std::thread::spawn(|| std::ptr::from_ref(Host::process_wide().expect("the host")).addr());
    assert_eq!(here.addr(), there.join().expect("no panic"));
}
