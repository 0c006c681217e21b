//! A child of fork does not use its parent's workspaces.

use rstest::rstest;
use rstest_reuse::apply;
use workslab::Error;
use workslab_tests::Backend;

use crate::matrix::backends;
use crate::support::{allocator, default_stream, size};

#[apply(backends)]
fn invariant_10_a_forked_child_is_refused<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let stream = default_stream(&allocator);
    let request = size(4096);
    let workspace = allocator.allocate(0, &request).expect("it fits");
    drop(workspace.lease(&stream).expect("free"));
    // SAFETY: the child calls only what is refused before it locks or allocates anything, and then
    // `_exit`; it runs no destructors.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        let hit = matches!(allocator.allocate(0, &request), Err(Error::Forked { .. }));
        let lease = matches!(workspace.lease(&stream), Err(Error::Forked { .. }));
        let reserve = matches!(workspace.reserve("blas", 256), Err(Error::Forked { .. }));
        let code = i32::from(!hit) | i32::from(!lease) << 1 | i32::from(!reserve) << 2;
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    assert!(libc::WIFEXITED(status), "the child crashed: {status}");
    assert_eq!(
        libc::WEXITSTATUS(status),
        0,
        "1 allocate, 2 lease, 4 reserve was not refused"
    );
    drop(workspace.lease(&stream).expect("the parent goes on"));
}
