//! A lease is exclusive; whoever has to wait waits in line, and can say for how long.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use rstest::rstest;
use rstest_reuse::apply;
use workslab::{DeviceId, Error, Platform};
use workslab_tests::Backend;

use crate::matrix::backends;
use crate::support::{allocator, counted, default_stream, new_stream, size};

#[apply(backends)]
fn invariant_4_no_two_threads_hold_a_lease_at_once<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    let inside = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let lease = workspace.lease(&stream).expect("its turn comes");
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    std::thread::yield_now();
                    assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                    drop(lease);
                }
            });
        }
    });
    assert_eq!(workspace.statistics().leases, 1600);
}

#[apply(backends)]
fn those_who_wait_are_served_in_their_order<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    let served = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let lease = workspace.lease(&stream).expect("free");
        for number in 0..6 {
            let before = workspace.statistics().waits;
            let (stream, served) = (&stream, &served);
            scope.spawn(move || {
                let lease = workspace.lease(stream).expect("its turn comes");
                served.lock().expect("no panic").push(number);
                drop(lease);
            });
            // The next one comes only when this one is seen to wait.
            while workspace.statistics().waits == before {
                std::thread::yield_now();
            }
        }
        drop(lease);
    });
    assert_eq!(*served.lock().expect("no panic"), [0, 1, 2, 3, 4, 5]);
}

#[apply(backends)]
fn a_thread_that_leases_in_a_loop_does_not_starve_another<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    std::thread::scope(|scope| {
        let mut lease = workspace.lease(&stream).expect("free");
        let other = scope.spawn(|| drop(workspace.lease(&stream).expect("its turn comes")));
        while workspace.statistics().waits == 0 {
            std::thread::yield_now();
        }
        // The other is in line, so giving the lease back and asking at once must not win.
        drop(lease);
        lease = workspace.lease(&stream).expect("its turn comes");
        assert_eq!(workspace.statistics().leases, 3);
        drop(lease);
        other.join().expect("no panic");
    });
}

#[apply(backends)]
fn try_lease_names_the_holder<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    let (held, tried) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("dycore".into())
            .spawn_scoped(scope, || {
                let lease = workspace.program("diffusion").lease(&stream).expect("free");
                held.wait();
                tried.wait();
                drop(lease);
            })
            .expect("a thread");
        held.wait();
        let error = workspace.try_lease(&stream).expect_err("it is held");
        tried.wait();
        let Error::Busy { holder, device, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(holder.thread, "'dycore'");
        assert_eq!(holder.program.as_deref(), Some("diffusion"));
        assert_eq!(*device, DeviceId::new(0));
        assert!(error.to_string().contains("'diffusion'"), "{error}");
    });
    drop(workspace.try_lease(&stream).expect("it is free again"));
}

#[apply(backends)]
fn a_lease_that_does_not_come_in_time_says_who_has_it<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    let lease = workspace.program("solver").lease(&stream).expect("free");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let error = workspace
                .lease_timeout(&stream, Duration::from_millis(5))
                .expect_err("it is held");
            assert!(matches!(&error, Error::LeaseTimeout { holder, .. }
                if holder.program.as_deref() == Some("solver")));
        });
    });
    drop(lease);
    drop(
        workspace
            .lease_timeout(&stream, Duration::ZERO)
            .expect("it is free"),
    );
    drop(
        workspace
            .lease_timeout(&stream, Duration::MAX)
            .expect("it is free"),
    );
}

#[apply(backends)]
fn a_waiter_that_gives_up_does_not_block_those_behind_it<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    let lease = workspace.lease(&stream).expect("free");
    std::thread::scope(|scope| {
        let hasty = scope.spawn(|| {
            workspace
                .lease_timeout(&stream, Duration::from_millis(20))
                .map(drop)
        });
        while workspace.statistics().waits < 1 {
            std::thread::yield_now();
        }
        let patient = scope.spawn(|| workspace.lease(&stream).map(drop));
        while workspace.statistics().waits < 2 {
            std::thread::yield_now();
        }
        assert!(hasty.join().expect("no panic").is_err());
        drop(lease);
        patient.join().expect("no panic").expect("its turn comes");
    });
}

#[apply(backends)]
fn asking_twice_on_one_thread_is_an_error_and_not_a_deadlock<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    let lease = workspace.program("outer").lease(&stream).expect("free");
    for attempt in [
        workspace.lease(&stream),
        workspace.try_lease(&stream),
        workspace.lease_timeout(&stream, Duration::MAX),
    ] {
        let error = attempt.expect_err("this thread has it");
        assert!(matches!(error, Error::AlreadyLeased { .. }), "{error}");
        assert!(error.to_string().contains("'outer'"), "{error}");
    }
    drop(lease);
    drop(workspace.lease(&stream).expect("free again"));
}

#[apply(backends)]
fn a_stream_of_another_device_is_refused<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = allocator
        .platform()
        .create_stream(DeviceId::new(1))
        .expect("device 1 has streams");
    let error = workspace.lease(&stream).expect_err("the wrong device");
    assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
    drop(
        workspace
            .lease(&default_stream(&allocator))
            .expect("nothing is held"),
    );
}

#[apply(backends)]
fn a_lease_whose_hand_over_fails_is_not_held<B: Backend>(#[case] backend: B) {
    let (allocator, calls) = counted(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let (first, second) = (new_stream(&allocator), new_stream(&allocator));
    drop(workspace.lease(&first).expect("free"));
    for call in ["record", "wait"] {
        calls.fail(call, 0);
        let error = workspace.lease(&second).expect_err("the fault shows");
        assert!(matches!(error, Error::Driver { .. }), "{error}");
    }
    calls.clear();
    drop(workspace.try_lease(&second).expect("nothing is held"));
    // The work on the first stream is still waited for: the failures have not lost it.
    assert_eq!((calls.count("record"), calls.count("wait")), (1, 1));
}

#[apply(backends)]
fn a_lease_covers_the_workspace_and_knows_its_program<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    let lease = workspace.program("diffusion").lease(&stream).expect("free");
    assert_eq!(lease.base(), workspace.base());
    assert_eq!(lease.size(), 4096);
    assert_eq!(lease.program().as_deref(), Some("diffusion"));
    drop(lease);
    assert_eq!(workspace.lease(&stream).expect("free").program(), None);
}

#[test]
fn a_lease_stays_on_its_thread() {
    use workslab::{Lease, host::Host};

    // Two impls of one trait for every type that is `Send`, one for every other: the call below is
    // ambiguous, and does not compile, if a lease is `Send`.
    trait AmbiguousIfSend<A> {
        fn is_not_send() -> bool {
            true
        }
    }
    impl<T: ?Sized> AmbiguousIfSend<()> for T {}
    impl<T: ?Sized + Send> AmbiguousIfSend<u8> for T {}
    assert!(<Lease<'_, Host> as AmbiguousIfSend<_>>::is_not_send());
}
