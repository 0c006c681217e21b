//! The backends that every test runs on: one line each.

use rstest_reuse::template;

/// A test says `#[apply(backends)]` and takes `#[case] backend`, an `impl Backend`.
#[template]
#[rstest]
#[case::host(workslab_tests::HostBackend)]
#[case::rocm(workslab_tests::RocmBackend)]
#[case::cuda(workslab_tests::CudaBackend)]
pub fn backends<B: Backend>(#[case] backend: B) {}

/// As `backends`, for those that capture streams into graphs: `impl GraphBackend`.
#[template]
#[rstest]
#[case::rocm(workslab_tests::RocmBackend)]
#[case::cuda(workslab_tests::CudaBackend)]
pub fn graph_backends<B: GraphBackend>(#[case] backend: B) {}
