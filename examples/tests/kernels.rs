//! The CUDA kernels, compiled for the host by its C compiler and run thread after thread: that they compute
//! what the host's loops compute, for grids that are too small, too large, and just right. Since no kernel
//! waits for another thread, the order of the threads does not matter.

#![cfg(feature = "cuda")]

use std::ffi::CString;
use std::process::Command;

use libloading::Library;
use proptest::prelude::*;
use workslab::Error;
use workslab_examples::kernels::{SOURCE, compile};
use workslab_examples::solver::{Laplacian, axpby, dot, known_problem};

/// What CUDA gives a kernel, and a launch that runs thread after thread.
const BEFORE: &str = "
#define KERNEL static void
struct shape { unsigned x; };
static struct shape blockIdx, blockDim, threadIdx, gridDim;
typedef unsigned long long count;
";
const AFTER: &str = "
#define LAUNCH(call) \\
  gridDim.x = blocks; blockDim.x = threads; \\
  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) \\
    for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) call
void launch_apply(unsigned blocks, unsigned threads, double *y, const double *x, count side) {
  LAUNCH(apply(y, x, side));
}
void launch_axpby(unsigned blocks, unsigned threads, double *y, double a, const double *x, double b, count n) {
  LAUNCH(axpby(y, a, x, b, n));
}
void launch_products(unsigned blocks, unsigned threads, double *parts, const double *x, const double *y, count n) {
  LAUNCH(products(parts, x, y, n));
}
void launch_fold(unsigned blocks, unsigned threads, double *parts, count n) { LAUNCH(fold(parts, n)); }
";

type Shape = (u32, u32);
type Apply = unsafe extern "C" fn(u32, u32, *mut f64, *const f64, u64);
type Axpby = unsafe extern "C" fn(u32, u32, *mut f64, f64, *const f64, f64, u64);
type Products = unsafe extern "C" fn(u32, u32, *mut f64, *const f64, *const f64, u64);
type Fold = unsafe extern "C" fn(u32, u32, *mut f64, u64);

struct OnHost(Library);

impl OnHost {
    fn compile() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the library");
        let source = folder.path().join("kernels.c");
        let library = folder.path().join("kernels.so");
        std::fs::write(&source, [BEFORE, SOURCE, AFTER].concat()).expect("the source is written");
        let output = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .args([
                "-std=c99",
                "-O1",
                "-ffp-contract=off",
                "-Wall",
                "-Werror",
                "-shared",
                "-fPIC",
            ])
            .arg(&source)
            .arg("-o")
            .arg(&library)
            .output()
            .expect("the C compiler that Rust links with");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        // SAFETY: it was just made, and has no initialisers. Unlinked, it stays loaded.
        Self(unsafe { Library::new(&library) }.expect("the library is loaded"))
    }

    fn apply(&self, (blocks, threads): Shape, operator: Laplacian, x: &[f64], y: &mut [f64]) {
        assert_eq!([x.len(), y.len()], [operator.unknowns(); 2]);
        // SAFETY: the type is the one in AFTER, and the lengths are as asserted. The shape is global there: each
        // test has a library of its own.
        unsafe {
            let launch = self.0.get::<Apply>("launch_apply").expect("in AFTER");
            launch(
                blocks,
                threads,
                y.as_mut_ptr(),
                x.as_ptr(),
                operator.side as u64,
            );
        }
    }

    fn axpby(&self, (blocks, threads): Shape, alpha: f64, x: &[f64], beta: f64, y: &mut [f64]) {
        assert_eq!(x.len(), y.len());
        // SAFETY: as above.
        unsafe {
            let launch = self.0.get::<Axpby>("launch_axpby").expect("in AFTER");
            launch(
                blocks,
                threads,
                y.as_mut_ptr(),
                alpha,
                x.as_ptr(),
                beta,
                x.len() as u64,
            );
        }
    }

    /// By one launch for the products, one that folds them to 8, and one that folds those.
    fn dot(&self, (blocks, threads): Shape, x: &[f64], y: &[f64]) -> f64 {
        assert_eq!(x.len(), y.len());
        let parts = blocks * threads;
        let few = parts.min(8);
        let mut sums = vec![f64::NAN; parts as usize];
        // SAFETY: as above; there is a part for each thread.
        unsafe {
            let products = self.0.get::<Products>("launch_products").expect("in AFTER");
            let fold = self.0.get::<Fold>("launch_fold").expect("in AFTER");
            let length = x.len() as u64;
            products(
                blocks,
                threads,
                sums.as_mut_ptr(),
                x.as_ptr(),
                y.as_ptr(),
                length,
            );
            fold(1, few, sums.as_mut_ptr(), parts.into());
            fold(1, 1, sums.as_mut_ptr(), few.into());
        }
        sums[0]
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    (1..5_u32, 1..40_u32)
}

#[test]
fn the_kernels_compute_what_the_hosts_loops_do() {
    let kernels = OnHost::compile();
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let cases = (1..14_usize, shape(), -4.0..4.0, -4.0..4.0);
    proptest!(config, |((side, shape, alpha, beta) in cases)| {
        let operator = Laplacian { side };
        let (x, y) = known_problem(operator, 1.5);
        let (mut image, mut expected) = (vec![f64::NAN; x.len()], vec![0.0; x.len()]);
        kernels.apply(shape, operator, &x, &mut image);
        operator.apply(&x, &mut expected);
        prop_assert_eq!(&image, &expected);

        kernels.axpby(shape, alpha, &x, beta, &mut image);
        axpby(alpha, &x, beta, &mut expected);
        prop_assert_eq!(&image, &expected);

        let size: f64 = x.iter().zip(&y).map(|(x, y)| (x * y).abs()).sum();
        let apart = (kernels.dot(shape, &x, &y) - dot(&x, &y)).abs();
        prop_assert!(apart <= 1e-14 * size, "{} of {}", apart, size);
    });
}

/// Needs no GPU, but NVRTC; where `WORKSLAB_NVRTC_LIBRARY` names it, it must be there.
#[test]
fn nvrtc_takes_the_kernels_and_says_what_is_wrong_with_others() {
    let text = |source: &str| CString::new(source).expect("no zero byte");
    let ptx = match compile(&text(SOURCE), 0, 90) {
        Err(Error::Unavailable { reason, .. })
            if std::env::var_os("WORKSLAB_NVRTC_LIBRARY").is_none() =>
        {
            println!("skipped: {reason}");
            return;
        }
        compiled => compiled.expect("the kernels compile"),
    };
    let ptx = String::from_utf8(ptx).expect("PTX is text");
    for kernel in ["apply", "axpby", "products", "fold"] {
        assert!(
            ptx.contains(&format!(".entry {kernel}(")),
            "{kernel}:\n{ptx}"
        );
    }
    // Sums and products are rounded apart, as on the host.
    assert!(!ptx.contains("fma.rn.f64"), "{ptx}");

    let error = compile(
        &text("extern \"C\" __global__ void wrong() { nothing(); }"),
        0,
        90,
    )
    .expect_err("`nothing` is declared nowhere");
    let said = error.to_string();
    assert!(
        said.contains("nvrtcCompileProgram") && said.contains("nothing"),
        "{said}"
    );
}
