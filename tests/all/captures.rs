//! Leases on streams that are captured into graphs. The host has no graphs.

use rstest::rstest;
use rstest_reuse::apply;
use workslab::{
    Error, ExternalWorkspaceAllocator, Pattern, Platform, SharedWorkspace, Stream, Workspace,
};
use workslab_tests::GraphBackend;

use crate::matrix::graph_backends;
use crate::support::{allocator, guarded, new_stream, size};

/// Leases the workspace on the stream and enqueues a fill of its first 4096 bytes.
fn fill<P: Platform>(workspace: &Workspace<P>, stream: &P::Stream, value: u8) {
    let mut lease = workspace.lease(stream).expect("free");
    let frame = lease.frame();
    frame
        .array::<u8>(4096)
        .and_then(|mut array| array.fill_pattern(Pattern::U8(value)))
        .expect("enqueued");
}

/// The first 4096 bytes, read under a lease on the stream.
fn bytes<P: Platform>(workspace: &Workspace<P>, stream: &P::Stream) -> Vec<u8> {
    let mut lease = workspace.lease(stream).expect("free");
    let frame = lease.frame();
    let array = frame.array::<u8>(4096).expect("it fits");
    array.to_vec().expect("read")
}

fn shared<P: Platform>(allocator: &ExternalWorkspaceAllocator<P>) -> SharedWorkspace<P> {
    allocator.allocate_shared(0, &size(8192)).expect("it fits")
}

#[apply(graph_backends)]
fn invariant_4_captured_work_runs_with_its_graph_and_in_the_order_of_the_launches_lease<
    B: GraphBackend,
>(
    #[case] backend: B,
) {
    let allocator = allocator(&backend);
    let workspace = shared(&allocator);
    let (first, second) = (new_stream(&allocator), new_stream(&allocator));
    fill(&workspace, &first, 1);
    let graph = backend
        .capture(&second, || fill(&workspace, &second, 2))
        .expect("nothing spoils it");
    // The capture ran nothing, and joined nothing to the work before it.
    assert_eq!(bytes(&workspace, &first), [1; 4096]);
    let launched = new_stream(&allocator);
    for turn in 0..3 {
        fill(&workspace, &first, 3);
        backend.launch(&graph, &workspace.lease(&launched).expect("free"));
        let reader = if turn % 2 == 0 { &first } else { &second };
        assert_eq!(bytes(&workspace, reader), [2; 4096]);
    }
}

#[apply(graph_backends)]
fn a_thousand_launches_while_other_programs_lease<B: GraphBackend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = shared(&allocator);
    let (capturing, launching) = (new_stream(&allocator), new_stream(&allocator));
    let graph = backend
        .capture(&capturing, || fill(&workspace, &capturing, 2))
        .expect("nothing spoils it");
    std::thread::scope(|scope| {
        for value in [5, 6] {
            let (allocator, workspace) = (&allocator, &workspace);
            scope.spawn(move || {
                let stream = new_stream(allocator);
                for _ in 0..100 {
                    let mut lease = workspace.lease(&stream).expect("free");
                    let frame = lease.frame();
                    let mut array = frame.array::<u8>(4096).expect("it fits");
                    array.fill_pattern(Pattern::U8(value)).expect("enqueued");
                    assert_eq!(array.to_vec().expect("read"), [value; 4096]);
                }
            });
        }
        for _ in 0..1000 {
            backend.launch(&graph, &workspace.lease(&launching).expect("free"));
        }
    });
    backend.launch(&graph, &workspace.lease(&launching).expect("free"));
    assert_eq!(bytes(&workspace, &launching), [2; 4096]);
}

#[apply(graph_backends)]
fn within_one_capture_a_hand_over_is_an_edge_of_the_graph<B: GraphBackend>(
    #[case] backend: B,
    #[values(false, true)] lent: bool,
) {
    let allocator = allocator(&backend);
    let workspace = shared(&allocator);
    let (first, second) = (new_stream(&allocator), new_stream(&allocator));
    let (forked, joined) = (
        allocator.platform().create_event(0.into()).expect("one"),
        allocator.platform().create_event(0.into()).expect("one"),
    );
    let graph = backend
        .capture(&first, || {
            // The second stream joins the capture before anybody leases.
            first.record(&forked).expect("captured");
            second.wait(&forked).expect("captured");
            let capture = first.capture().expect("asked");
            assert!(capture.is_some());
            assert_eq!(second.capture().expect("asked"), capture);
            let (one, two) = match lent {
                true => (backend.lend(&first), backend.lend(&second)),
                false => (first.clone(), second.clone()),
            };
            fill(&workspace, &one, 1);
            fill(&workspace, &two, 2);
            fill(&workspace, &one, 3);
            fill(&workspace, &two, 4);
            second.record(&joined).expect("captured");
            first.wait(&joined).expect("captured");
        })
        .expect("all is joined");
    assert_eq!(first.capture().expect("asked"), None);
    // Without the edges the emulated driver would report a race at the launch.
    for _ in 0..3 {
        backend.launch(&graph, &workspace.lease(&first).expect("free"));
        assert_eq!(bytes(&workspace, &second), [4; 4096]);
    }
}

#[apply(graph_backends)]
fn others_lease_while_a_capture_goes_on_and_are_not_drawn_into_it<B: GraphBackend>(
    #[case] backend: B,
) {
    let allocator = allocator(&backend);
    let workspace = shared(&allocator);
    let (captured, other) = (new_stream(&allocator), new_stream(&allocator));
    // To wait for the device is what a capture rules out on its own thread.
    let read_elsewhere = || {
        std::thread::scope(|scope| scope.spawn(|| bytes(&workspace, &other)).join())
            .expect("no panic")
    };
    // The last work before the capture is on the very stream that is captured.
    fill(&workspace, &captured, 1);
    let graph = backend
        .capture(&captured, || {
            assert_eq!(read_elsewhere(), [1; 4096]);
            fill(&workspace, &captured, 2);
            assert_eq!(other.capture().expect("asked"), None);
            fill(&workspace, &other, 3);
            assert_eq!(read_elsewhere(), [3; 4096]);
        })
        .expect("nothing spoils it");
    assert_eq!(bytes(&workspace, &captured), [3; 4096]);
    backend.launch(&graph, &workspace.lease(&other).expect("free"));
    assert_eq!(bytes(&workspace, &captured), [2; 4096]);
}

#[apply(graph_backends)]
fn a_graph_keeps_the_slab_alive<B: GraphBackend>(#[case] backend: B) {
    let mut allocator = allocator(&backend);
    let stream = new_stream(&allocator);
    let workspace = shared(&allocator);
    let graph = backend
        .capture_and_keep(
            &stream,
            || fill(&workspace, &stream, 2),
            Some(workspace.clone()),
        )
        .expect("nothing spoils it");
    drop(workspace);
    let refused = allocator.release(0).expect_err("the graph uses it");
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    assert!(refused.to_string().contains("1 owner"), "{refused}");
    let workspace = shared(&allocator);
    backend.launch(&graph, &workspace.lease(&stream).expect("free"));
    drop(workspace);
    drop(graph);
    // A driver may let go a little later.
    let mut released = allocator.release(0);
    for _ in 0..1000 {
        if released.is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        released = allocator.release(0);
    }
    released.expect("nobody uses it any more");
}

#[apply(graph_backends)]
fn the_last_owner_may_be_a_graph<B: GraphBackend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let stream = new_stream(&allocator);
    let workspace = shared(&allocator);
    let work = || fill(&workspace, &stream, 2);
    let graph = backend
        .capture_and_keep(&stream, work, Some(workspace.clone()))
        .expect("nothing spoils it");
    backend.launch(&graph, &workspace.lease(&stream).expect("free"));
    drop(workspace);
    drop(allocator);
    // The slab is freed on a thread of its own; the emulated driver would abort if the work that is
    // still to be done touched memory that is not there.
    drop(graph);
    stream.synchronize().expect("the launch is done");
}

#[apply(graph_backends)]
fn a_copy_from_or_to_the_host_is_refused_and_spoils_nothing<B: GraphBackend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = shared(&allocator);
    let stream = new_stream(&allocator);
    let graph = backend
        .capture(&stream, || {
            let mut lease = workspace.lease(&stream).expect("free");
            let frame = lease.frame();
            let mut array = frame.array::<u8>(4096).expect("it fits");
            for refused in [array.write(&[1; 4096]), array.read(&mut [0; 4096])] {
                let refused = refused.expect_err("the bytes may be gone at the launch");
                assert!(matches!(refused, Error::Capturing { .. }), "{refused}");
            }
            array.fill(2).expect("captured");
        })
        .expect("nothing spoils it");
    backend.launch(&graph, &workspace.lease(&stream).expect("free"));
    assert_eq!(bytes(&workspace, &stream), [2; 4096]);
}

#[apply(graph_backends)]
fn work_in_a_lease_whose_capture_has_ended_is_refused<B: GraphBackend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = shared(&allocator);
    let stream = new_stream(&allocator);
    let mut kept = None;
    drop(backend.capture(&stream, || kept = workspace.lease(&stream).ok()));
    let mut lease = kept.expect("free");
    assert!(lease.captured().is_some());
    let frame = lease.frame();
    let mut array = frame.array::<u8>(4096).expect("it fits");
    let refused = array.fill(1).expect_err("it would be in nobody's order");
    assert!(matches!(refused, Error::Capturing { .. }), "{refused}");
    assert!(array.to_vec().is_err());
}

#[apply(graph_backends)]
fn guard_mode_and_the_default_stream_are_refused<B: GraphBackend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &guarded(4096)).expect("it fits");
    let stream = new_stream(&allocator);
    drop(
        backend
            .capture(&stream, || {
                let refused = workspace.lease(&stream).expect_err("zones cannot be read");
                assert!(refused.to_string().contains("guard mode"), "{refused}");
            })
            .expect("nothing spoils it"),
    );
    drop(workspace.lease(&stream).expect("free"));
    let default = allocator.platform().default_stream(0.into()).expect("one");
    let refused = backend
        .capture(&default, || ())
        .err()
        .expect("it cannot be");
    assert!(matches!(refused, Error::Capturing { .. }), "{refused}");
}

#[apply(graph_backends)]
fn a_fork_that_is_not_joined_is_the_drivers_error_and_frees_the_workspace<B: GraphBackend>(
    #[case] backend: B,
) {
    let allocator = allocator(&backend);
    let workspace = shared(&allocator);
    let (first, second) = (new_stream(&allocator), new_stream(&allocator));
    let event = allocator.platform().create_event(0.into()).expect("one");
    let spoilt = backend.capture(&first, || {
        first.record(&event).expect("captured");
        second.wait(&event).expect("captured");
        fill(&workspace, &second, 2);
    });
    let error = spoilt.err().expect("the second stream was not joined");
    assert!(matches!(error, Error::Driver { code: 904, .. }), "{error}");
    fill(&workspace, &second, 1);
    assert_eq!(bytes(&workspace, &first), [1; 4096]);
}
