//! Leases are ordered across streams, by device work and not by the host's waiting.

use std::time::Duration;

use rstest::rstest;
use rstest_reuse::apply;
use workslab::{Error, Pattern, Platform, Stream, Workspace};
use workslab_tests::Backend;

use crate::matrix::backends;
use crate::support::{counted, new_stream, size};

/// Leases the workspace on a stream that is held up, and enqueues a fill of all its 4096 bytes.
fn fill_with_ones<P: Platform>(workspace: &Workspace<P>, stream: &P::Stream) {
    let mut lease = workspace.lease(stream).expect("free");
    let frame = lease.frame();
    frame
        .array::<u8>(4096)
        .and_then(|mut array| array.fill_pattern(Pattern::U8(1)))
        .expect("enqueued behind the hold");
}

#[apply(backends)]
fn invariant_4_work_on_another_stream_starts_after_the_last_holders<B: Backend>(
    #[case] backend: B,
) {
    let (allocator, _) = counted(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let (first, second) = (new_stream(&allocator), new_stream(&allocator));
    let release = backend.hold(first.inner());
    fill_with_ones(workspace, &first);
    // The host does not block here, although the first stream cannot move.
    let mut lease = workspace.lease(&second).expect("free");
    let frame = lease.frame();
    let mut array = frame.array::<u8>(4096).expect("it fits");
    array.fill_pattern(Pattern::U8(2)).expect("enqueued");
    // Without the order the second fill would be done by now, and the first would follow it. This
    // gives it the time to go wrong; going right does not depend on it.
    std::thread::sleep(Duration::from_millis(20));
    release();
    assert_eq!(array.to_vec().expect("both are done"), [2; 4096]);
}

#[apply(backends)]
fn invariant_4_another_stream_costs_one_record_and_one_wait<B: Backend>(#[case] backend: B) {
    let (allocator, calls) = counted(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let (first, second) = (new_stream(&allocator), new_stream(&allocator));
    drop(workspace.lease(&first).expect("free"));
    for (turn, stream) in [&second, &first, &second].into_iter().enumerate() {
        calls.clear();
        drop(workspace.lease(stream).expect("free"));
        assert_eq!(calls.all(), [("record", 1), ("wait", 1)].into());
        assert_eq!(workspace.statistics().cross_stream_waits, turn as u64 + 1);
    }
}

#[apply(backends)]
fn invariant_4_a_stream_that_is_gone_is_still_waited_for<B: Backend>(#[case] backend: B) {
    let (allocator, _) = counted(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let second = new_stream(&allocator);
    let release = {
        let first = new_stream(&allocator);
        let release = backend.hold(first.inner());
        fill_with_ones(workspace, &first);
        release
    };
    let mut lease = workspace.lease(&second).expect("free");
    let frame = lease.frame();
    let mut array = frame.array::<u8>(4096).expect("it fits");
    array.fill_pattern(Pattern::U8(2)).expect("enqueued");
    release();
    assert_eq!(array.to_vec().expect("both are done"), [2; 4096]);
}

#[apply(backends)]
fn a_lent_stream_is_marked_when_its_lease_ends<B: Backend>(#[case] backend: B) {
    let (allocator, calls) = counted(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let owned = new_stream(&allocator);
    let lent = owned.map(|stream| backend.lend(stream));
    let lease = workspace.lease(&lent).expect("free");
    calls.clear();
    drop(lease);
    assert_eq!(calls.all(), [("record", 1)].into());
    // Its owner may have destroyed it and made another of the same name: only the mark counts.
    calls.clear();
    let lease = workspace.lease(&lent).expect("free");
    assert_eq!(calls.all(), [("wait", 1)].into());
    drop(lease);
    calls.clear();
    drop(workspace.lease(&owned).expect("free"));
    assert_eq!(calls.all(), [("wait", 1)].into());
}

#[apply(backends)]
fn a_mark_that_cannot_be_left_is_waited_for_instead<B: Backend>(#[case] backend: B) {
    let (allocator, calls) = counted(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = new_stream(&allocator);
    let lent = stream.map(|stream| backend.lend(stream));
    let lease = workspace.lease(&lent).expect("free");
    calls.clear();
    calls.fail("record", 0);
    drop(lease);
    assert_eq!(calls.all(), [("record", 1), ("synchronize", 1)].into());
    drop(workspace.lease(&stream).expect("all is in order"));
}

#[apply(backends)]
fn work_whose_end_is_lost_refuses_every_later_lease_and_loses_the_slab<B: Backend>(
    #[case] backend: B,
) {
    let (allocator, calls) = counted(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = new_stream(&allocator);
    let lent = stream.map(|stream| backend.lend(stream));
    let lease = workspace.lease(&lent).expect("free");
    calls.fail("record", 0);
    calls.fail("synchronize", 0);
    drop(lease);
    for _ in 0..2 {
        let error = workspace
            .lease(&stream)
            .expect_err("nobody knows what runs");
        assert!(
            matches!(error, Error::Driver { call: "record", .. }),
            "{error}"
        );
    }
    // To lose the bytes is safe; to give them to somebody else would not be.
    drop(allocator);
    assert_eq!(calls.count("free"), 0);
}

#[apply(backends)]
fn a_reservation_waits_for_work_that_may_have_used_its_bytes<B: Backend>(#[case] backend: B) {
    let (allocator, _) = counted(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let (first, second) = (new_stream(&allocator), new_stream(&allocator));
    let release = backend.hold(first.inner());
    fill_with_ones(workspace, &first);
    let releaser = std::thread::spawn(move || {
        // Long enough for a reservation that does not wait to be written first.
        std::thread::sleep(Duration::from_millis(20));
        release();
    });
    let mut reservation = workspace.reserve("blas", 256).expect("it fits");
    reservation
        .fill(&second, Pattern::U8(2))
        .expect("the bytes are free");
    releaser.join().expect("no panic");
    first.synchronize().expect("all is done");
    let mut bytes = [0; 256];
    reservation.read(&second, 0, &mut bytes).expect("in bounds");
    assert_eq!(bytes, [2; 256]);
}
