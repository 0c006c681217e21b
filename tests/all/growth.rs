//! Workspaces that grow in place: addresses stay, what was written stays, and nothing is half-done.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use rstest::rstest;
use rstest_reuse::apply;
use workslab::{
    Effort, Error, ExternalWorkspaceAllocator, Layout, Pattern, Platform, SizeCheck, SlabRequest,
};
use workslab_tests::{Backend, GraphBackend, HostBackend, MEMORY};

use crate::matrix::{backends, graph_backends};
use crate::support::{allocator, counted, default_stream, new_stream, size};

const MIB: usize = 1 << 20;

/// These tests need much of the emulated devices' memory, which all tests of the process share.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn growing(from: usize, cap: usize) -> SlabRequest<'static> {
    SlabRequest::exact(size(from)).growing(Some(size(cap)))
}

#[apply(backends)]
fn a_larger_request_grows_the_slab_where_it_is<B: Backend>(#[case] backend: B) {
    let _alone = alone();
    let (allocator, calls) = counted(&backend);
    let stream = default_stream(&allocator);
    let workspace = allocator
        .allocate(0, &growing(2 * MIB, 32 * MIB))
        .expect("fits");
    assert_eq!(
        (workspace.size(), workspace.cap()),
        (2 * MIB, Some(32 * MIB))
    );
    let base = workspace.base();
    let mut blas = workspace.reserve("blas", 1000).expect("fits");
    blas.fill(&stream, Pattern::U8(9)).expect("its own bytes");
    {
        let mut lease = workspace.lease(&stream).expect("free");
        let frame = lease.frame();
        frame
            .array::<u64>(MIB / 8)
            .expect("fits")
            .fill(7)
            .expect("enqueued");
    }
    let again = allocator
        .allocate(0, &growing(20 * MIB, 32 * MIB))
        .expect("grows");
    assert!(std::ptr::eq(workspace, again));
    assert_eq!(again.size(), 20 * MIB);
    assert_eq!(again.base(), base, "addresses stay");
    let mut bytes = [0; 1000];
    blas.read(&stream, 0, &mut bytes).expect("in bounds");
    assert_eq!(bytes, [9; 1000], "a reservation keeps its bytes");
    let mut lease = again.lease(&stream).expect("free");
    assert_eq!(
        lease.size(),
        18 * MIB,
        "a step of 2 MiB is the reservations'"
    );
    {
        let frame = lease.frame();
        let first = frame.array::<u64>(MIB / 8).expect("fits");
        assert_eq!(
            first.to_vec().expect("read"),
            vec![7; MIB / 8],
            "nothing moved"
        );
        let mut rest = frame.array::<u8>(17 * MIB).expect("all that is left");
        rest.fill(1).expect("every byte is there");
    }
    drop(lease);
    assert_eq!(
        (calls.count("reserve_slab"), calls.count("allocate_slab")),
        (1, 0)
    );
    let statistics = again.statistics();
    assert_eq!((statistics.growths, statistics.cap), (2, Some(32 * MIB)));
    assert_eq!((statistics.size, statistics.reserved), (20 * MIB, 1024));
    // What is large enough stays as it is, whoever asks.
    calls.clear();
    allocator
        .allocate(0, &growing(MIB, 32 * MIB))
        .expect("there");
    let at_least = SlabRequest::exact(size(20 * MIB)).with_check(SizeCheck::AtLeast);
    allocator.allocate(0, &at_least).expect("there");
    assert!(calls.all().is_empty(), "{:?}", calls.all());
}

#[apply(backends)]
fn a_lease_grows_the_slab_once_and_is_warm_afterwards<B: Backend>(#[case] backend: B) {
    let _alone = alone();
    let (allocator, calls) = counted(&backend);
    let stream = default_stream(&allocator);
    let workspace = allocator.allocate(0, &growing(1, 32 * MIB)).expect("fits");
    let program = || {
        let mut lease = workspace.lease(&stream).expect("free");
        let frame = lease.frame();
        let mut addresses = Vec::new();
        for _ in 0..24 {
            let array = frame.array::<f64>(MIB / 8).expect("grows");
            addresses.push(array.as_device_ptr());
        }
        addresses
    };
    let first = program();
    assert_eq!(workspace.size(), 24 * MIB);
    assert_eq!(workspace.statistics().growths, 11, "in steps of 2 MiB");
    calls.clear();
    assert_eq!(program(), first);
    assert!(calls.all().is_empty(), "{:?}", calls.all());
}

#[apply(backends)]
fn a_guarded_array_grows_the_slab_and_keeps_its_red_zones<B: Backend>(#[case] backend: B) {
    let _alone = alone();
    let allocator = allocator(&backend);
    let stream = default_stream(&allocator);
    let request = growing(1, 16 * MIB).with_guard(true);
    let workspace = allocator.allocate(0, &request).expect("fits");
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    let mut array = frame.array::<u8>(8 * MIB).expect("grows");
    array.fill(3).expect("enqueued");
    frame.finish().expect("nobody wrote beyond it");
}

#[apply(backends)]
fn a_layout_grows_the_slab_when_it_is_bound<B: Backend>(#[case] backend: B) {
    let _alone = alone();
    let allocator = allocator(&backend);
    let stream = default_stream(&allocator);
    let workspace = allocator.allocate(0, &growing(1, 16 * MIB)).expect("fits");
    let mut layout = Layout::new();
    let flux = layout
        .array::<u8, 1>("flux", [9 * MIB], 0..2)
        .expect("small");
    let plan = layout.plan(Effort::Instant).expect("a plan");
    let mut lease = workspace.lease(&stream).expect("free");
    let mut bound = lease.bind(&plan).expect("grows");
    bound
        .phase(0)
        .array(flux)
        .expect("alive")
        .fill(1)
        .expect("enqueued");
    drop(lease);
    assert_eq!(workspace.size(), 10 * MIB);
}

#[apply(backends)]
fn whoever_grows_does_not_wait_for_a_lease<B: Backend>(#[case] backend: B) {
    let _alone = alone();
    let allocator = allocator(&backend);
    let stream = default_stream(&allocator);
    let workspace = allocator
        .allocate(0, &growing(2 * MIB, 32 * MIB))
        .expect("fits");
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    let mut array = frame.array::<u8>(2 * MIB).expect("fits");
    array.fill(5).expect("enqueued");
    thread::scope(|scope| {
        for step in 1..=8 {
            scope.spawn(move || workspace.grow(step * 2 * MIB).expect("there is room"));
        }
    });
    assert_eq!(workspace.size(), 16 * MIB);
    assert_eq!(array.to_vec().expect("read"), vec![5; 2 * MIB]);
    frame
        .array::<u8>(14 * MIB)
        .expect("the lease has what others grew");
    assert_eq!(workspace.size(), 16 * MIB);
}

#[apply(backends)]
fn the_cap_is_said_and_nothing_is_half_done<B: Backend>(#[case] backend: B) {
    let _alone = alone();
    let allocator = allocator(&backend);
    let stream = default_stream(&allocator);
    let platform_name = B::P::NAME;
    let error = allocator
        .allocate(0, &growing(9 * MIB, 8 * MIB))
        .expect_err("more than the cap");
    assert!(matches!(error, Error::CapReached { .. }), "{error}");
    let workspace = allocator
        .allocate(0, &growing(2 * MIB, 8 * MIB))
        .expect("fits");
    let held = workspace
        .reserve("blas", 3 * MIB)
        .expect("4 MiB at the back");
    let mut lease = workspace.program("diffusion").lease(&stream).expect("free");
    {
        let frame = lease.frame();
        let error = frame.array::<u8>(4 * MIB + 1).expect_err("4 MiB are left");
        assert!(
            matches!(error, Error::CapReached { needed, cap, cap_given: true, .. }
                if needed == 8 * MIB + 1 && cap == 8 * MIB),
            "{error}"
        );
        for part in [
            platform_name,
            "device 0",
            "'diffusion'",
            "8 MiB",
            "workspace_cap",
        ] {
            assert!(error.to_string().contains(part), "{part} is not in {error}");
        }
        assert_eq!(workspace.size(), 6 * MIB);
        frame.array::<u8>(4 * MIB).expect("just what is left");
    }
    drop(lease);
    assert!(
        workspace.reserve("solver", 2 * MIB).is_err(),
        "the front is in the way"
    );
    workspace
        .reserve("solver", MIB)
        .expect("the rest of the back");
    assert_eq!(workspace.size(), 8 * MIB);
    drop(held);
}

#[apply(backends)]
fn a_growth_that_fails_leaves_the_old_size<B: Backend>(#[case] backend: B) {
    let _alone = alone();
    let (allocator, calls) = counted(&backend);
    let stream = default_stream(&allocator);
    calls.fail("commit", 0);
    let request = growing(2 * MIB, 32 * MIB);
    assert!(matches!(
        allocator.allocate(0, &request),
        Err(Error::Driver { .. })
    ));
    let workspace = allocator.allocate(0, &request).expect("the second time");
    calls.fail("commit", 0);
    assert!(matches!(workspace.grow(4 * MIB), Err(Error::Driver { .. })));
    calls.fail("commit", 0);
    assert!(matches!(
        workspace.reserve("blas", 1),
        Err(Error::Driver { .. })
    ));
    calls.fail("commit", 0);
    let mut lease = workspace.lease(&stream).expect("free");
    {
        let frame = lease.frame();
        assert!(matches!(
            frame.array::<u8>(4 * MIB),
            Err(Error::Driver { .. })
        ));
        assert_eq!(
            (workspace.size(), workspace.statistics().growths),
            (2 * MIB, 0)
        );
        frame.array::<u8>(4 * MIB).expect("now it grows");
    }
    drop(lease);
    workspace.reserve("blas", 1).expect("now it grows");
    assert_eq!(workspace.size(), 6 * MIB);
}

#[apply(backends)]
fn one_process_has_one_way_to_grow<B: Backend>(#[case] backend: B) {
    let _alone = alone();
    let mut allocator = allocator(&backend);
    allocator
        .allocate(0, &growing(2 * MIB, 8 * MIB))
        .expect("fits");
    let others = [
        SlabRequest::exact(size(2 * MIB)),
        growing(2 * MIB, 16 * MIB),
        SlabRequest::exact(size(2 * MIB)).growing(None),
    ];
    for request in others {
        let error = allocator.allocate(0, &request).expect_err("another way");
        assert!(matches!(error, Error::GrowthMismatch { .. }), "{error}");
        assert!(
            error.to_string().contains("grows to at most 8 MiB"),
            "{error}"
        );
    }
    let larger = SlabRequest::exact(size(4 * MIB)).with_check(SizeCheck::AtLeast);
    let error = allocator
        .allocate(0, &larger)
        .expect_err("it does not ask to grow");
    assert!(matches!(error, Error::SizeMismatch { .. }), "{error}");
    allocator.release(0).expect("nobody is there");
    let fixed = allocator.allocate(0, &size(2 * MIB)).expect("fits");
    let error = fixed.grow(4 * MIB).expect_err("it has a fixed size");
    assert!(matches!(error, Error::NoGrowth { .. }), "{error}");
    // SAFETY: nothing can go.
    assert_eq!(unsafe { fixed.trim(0) }.expect("nothing to do"), 0);
    let error = allocator
        .allocate(0, &growing(2 * MIB, 8 * MIB))
        .expect_err("the cached one does not grow");
    assert!(matches!(error, Error::GrowthMismatch { .. }), "{error}");
}

#[test]
fn a_small_cap_of_the_host_counts_in_pages() {
    let allocator = allocator(&HostBackend);
    let stream = new_stream(&allocator);
    let workspace = allocator.allocate(0, &growing(1, 10_000)).expect("fits");
    assert_eq!((workspace.size(), workspace.cap()), (4096, Some(12_288)));
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    let mut array = frame.array::<u8>(12_288).expect("the cap is rounded up");
    array.fill(1).expect("enqueued");
    assert!(frame.array::<u8>(1).is_err());
}

/// Memory cannot be had while a stream is captured, and one that tried would be spoilt.
#[apply(graph_backends)]
fn a_captured_lease_uses_what_is_there_and_does_not_grow<B: GraphBackend>(#[case] backend: B) {
    let _alone = alone();
    let allocator = allocator(&backend);
    let stream = new_stream(&allocator);
    let workspace = allocator
        .allocate(0, &growing(2 * MIB, 8 * MIB))
        .expect("fits");
    let graph = backend
        .capture(&stream, || {
            let mut lease = workspace.lease(&stream).expect("free");
            let frame = lease.frame();
            let error = frame.array::<u8>(4 * MIB).expect_err("it would grow");
            assert!(matches!(error, Error::Capturing { .. }), "{error}");
            let mut array = frame.array::<u8>(2 * MIB).expect("it is there");
            array.fill(7).expect("captured");
        })
        .expect("the capture is not spoilt");
    workspace.grow(8 * MIB).expect("nothing moves");
    let mut lease = workspace.lease(&stream).expect("free");
    backend.launch(&graph, &lease);
    let frame = lease.frame();
    let array = frame.array::<u8>(2 * MIB).expect("it is there");
    assert_eq!(array.to_vec().expect("read"), vec![7; 2 * MIB]);
}

#[test]
fn memory_of_the_host_comes_and_goes() {
    memory_comes_and_goes(&HostBackend, [2 * MIB; 2]);
}

/// What each device has left, to the byte. `units` are the devices' granularities. On an emulated driver
/// this needs a process of its own: see `environment.rs`.
pub fn memory_comes_and_goes<B: Backend>(backend: &B, units: [usize; 2]) {
    for (device, unit) in (0..).zip(units) {
        let (mut allocator, calls) = counted(backend);
        a_failure_leaves_nothing(&allocator, &|| calls.fail("commit", 0), device, unit);
        allocator.release(device).expect("nobody is there");
        assert_eq!(free(&allocator, device), MEMORY);
        a_full_device_says_so_and_is_trimmed(&allocator, device, unit);
        allocator.release(device).expect("nobody is there");
        assert_eq!(free(&allocator, device), MEMORY);
    }
}

/// The device's free bytes; a virtual device of the host counts what its slabs have.
fn free<P: Platform>(allocator: &ExternalWorkspaceAllocator<P>, device: u32) -> usize {
    let info = allocator.platform().device_info(device.into());
    info.expect("it is there").free
}

fn stream_of<P: Platform>(allocator: &ExternalWorkspaceAllocator<P>, device: u32) -> P::Stream {
    let stream = allocator.platform().default_stream(device.into());
    stream.expect("the device is there")
}

fn a_failure_leaves_nothing<P: Platform>(
    allocator: &ExternalWorkspaceAllocator<P>,
    fail: &dyn Fn(),
    device: u32,
    unit: usize,
) {
    let request = growing(unit, 8 * unit);
    fail();
    allocator.allocate(device, &request).expect_err("it fails");
    assert_eq!(free(allocator, device), MEMORY, "nothing stays");
    let workspace = allocator.allocate(device, &request).expect("it fits");
    fail();
    workspace.grow(2 * unit).expect_err("it fails");
    assert_eq!(free(allocator, device), MEMORY - unit);
    workspace.grow(2 * unit - 1).expect("it grows");
    assert_eq!(
        (workspace.size(), workspace.cap()),
        (2 * unit, Some(8 * unit))
    );
    let held = workspace.reserve("blas", 1).expect("the back has a unit");
    assert_eq!(free(allocator, device), MEMORY - 3 * unit);
    workspace
        .grow(9 * unit)
        .expect_err("it is more than the cap");
    workspace
        .grow(8 * unit)
        .expect_err("the back has the last unit");
    workspace.grow(7 * unit).expect("both ends meet");
    assert_eq!(free(allocator, device), MEMORY - 8 * unit);
    drop(held);
}

fn a_full_device_says_so_and_is_trimmed<P: Platform>(
    allocator: &ExternalWorkspaceAllocator<P>,
    device: u32,
    unit: usize,
) {
    let stream = stream_of(allocator, device);
    let uncapped = SlabRequest::exact(size(unit)).growing(None);
    let workspace = allocator.allocate(device, &uncapped).expect("fits");
    assert_eq!(workspace.cap(), Some(MEMORY), "the device's memory");
    let beside = allocator
        .platform()
        .allocate_slab(device.into(), size(40 * MIB), uncapped.options)
        .expect("it fits beside");
    let error = workspace.grow(40 * MIB).expect_err("the other has it");
    let said = error.to_string();
    assert!(
        matches!(
            error,
            Error::OutOfMemory { .. } | Error::Driver { code: 2, .. }
        ),
        "{said}"
    );
    assert_eq!(workspace.size(), unit);
    drop(beside);
    workspace.grow(40 * MIB).expect("now there is room");
    {
        let mut lease = workspace.lease(&stream).expect("free");
        let frame = lease.frame();
        // Both pieces of it, over the seam.
        let mut array = frame.array::<u8>(40 * MIB).expect("fits");
        array.fill(1).expect("enqueued");
        thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: there are no graphs here, and no pointer was passed on.
                let busy = unsafe { workspace.trim(0) }.expect_err("a lease is held");
                assert!(matches!(busy, Error::Busy { .. }), "{busy}");
            });
        });
    }
    // SAFETY: as above; the fill has not been waited for, which is trim's business.
    let trimmed = unsafe { workspace.trim(unit / 2) }.expect("nobody is there");
    assert_eq!((trimmed, workspace.size()), (40 * MIB - unit, unit));
    assert_eq!(free(allocator, device), MEMORY - unit);
    let mut lease = workspace.lease(&stream).expect("free");
    assert_eq!(lease.size(), unit);
    let frame = lease.frame();
    let mut array = frame.array::<u8>(6 * MIB).expect("grows again");
    array.fill(2).expect("every byte is there");
    assert_eq!(array.to_vec().expect("read"), vec![2; 6 * MIB]);
}

/// A driver or a device that has no virtual memory says so, and makes nothing.
pub fn no_growth<B: Backend>(backend: &B) {
    let allocator = allocator(backend);
    let error = allocator
        .allocate(0, &growing(2 * MIB, 8 * MIB))
        .expect_err("it cannot grow");
    assert!(matches!(error, Error::NoGrowth { .. }), "{error}");
    assert!(error.to_string().contains("size_check = exact"), "{error}");
    assert_eq!(free(&allocator, 0), MEMORY);
    allocator
        .allocate(0, &size(2 * MIB))
        .expect("a fixed one fits");
}
