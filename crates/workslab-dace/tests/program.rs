//! A library with the interface of those that DaCe compiles, made by the C compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

use workslab_core::{ExternalWorkspaceAllocator, Platform, SlabRequest, SlabSize};
use workslab_dace::{CompiledProgram, Error, Signature, Value, inspect};
use workslab_host::Host;

/// `B[i] = 2 A[i]` by way of a transient, `N` doubles large; behind a first one of `first` floats.
const PROGRAM: &str = r#"
#include <stdlib.h>
#include <stddef.h>
struct state { float *first; double *second; int started; };
struct state *__dace_init_twice(int N) {
  if (N < 0) return NULL;
  struct state *state = calloc(1, sizeof *state);
  state->started = 1;
  return state;
}
int __dace_exit_twice(struct state *state) { free(state); return 0; }
size_t __dace_get_external_memory_size_CPU_Heap(struct state *state, int N) {
  return state->started * (FIRST * sizeof(float) + N * sizeof(double));
}
void __dace_set_external_memory_CPU_Heap(struct state *state, char *ptr, int N) {
  (void)N;
  state->first = (float *)ptr;
  state->second = (double *)(ptr + FIRST * sizeof(float));
}
void __program_twice(struct state *state, double *A, double *B, double factor, int N) {
  for (int i = 0; i < N; i++) state->second[i] = factor * A[i];
  for (int i = 0; i < N; i++) B[i] = state->second[i];
}
"#;

const HEADER: &str = r#"
#include <dace/dace.h>
typedef void * twiceHandle_t;
extern "C" twiceHandle_t __dace_init_twice(int N);
extern "C" int __dace_exit_twice(twiceHandle_t handle);
extern "C" void __program_twice(twiceHandle_t handle, double * __restrict__ A, double * __restrict__ B, double factor, int N);
"#;

/// A build folder as DaCe leaves it; gives the library.
fn built(folder: &Path, first: usize) -> PathBuf {
    for part in ["build", "include"] {
        std::fs::create_dir_all(folder.join(part)).expect("a new folder");
    }
    let source = folder.join("twice.c");
    std::fs::write(&source, PROGRAM).expect("written");
    std::fs::write(folder.join("include/twice.h"), HEADER).expect("written");
    let array = |name: &str, dtype: &str, size: &str| {
        format!(
            r#""{name}": {{"attributes": {{"lifetime": "External", "transient": true, "storage": "CPU_Heap", "dtype": "{dtype}", "total_size": "{size}"}}}}"#
        )
    };
    let sdfg = format!(
        r#"{{"attributes": {{"_arrays": {{{}, {}}}}}}}"#,
        array("first", "float32", &first.to_string()),
        array("second", "float64", "N")
    );
    std::fs::write(folder.join("program.sdfg"), sdfg).expect("written");
    let library = folder.join("build/libtwice.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", &format!("-DFIRST={first}"), "-o"])
        .args([&library, &source])
        .status()
        .expect("a C compiler");
    assert!(compiled.success());
    library
}

fn load(library: &Path) -> CompiledProgram {
    // SAFETY: it was compiled from the source above, and the header is its own.
    unsafe { CompiledProgram::load(library) }.expect("its build folder has all")
}

fn size(bytes: usize) -> SlabSize {
    SlabSize::new(bytes).expect("not zero")
}

#[test]
fn a_program_runs_in_the_workspace_again_and_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = load(&built(folder.path(), 4));
    assert_eq!(program.name(), "twice");
    assert_eq!(program.storages().collect::<Vec<_>>(), ["CPU_Heap"]);
    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let workspace = allocator.allocate(0, &size(1 << 16)).expect("fits");
    let stream = allocator.platform().default_stream(0.into()).expect("one");
    let mut started = program.start(&[Value::I32(100)]).expect("starts");
    assert_eq!(started.external_memory(), [("CPU_Heap", 16 + 800)]);
    let mut bound = started.bind(workspace).expect("large enough");
    assert_eq!(bound.bytes(), 816);
    let given: Vec<f64> = (0..100).map(f64::from).collect();
    for factor in [2.0, 3.0, 0.5].into_iter().cycle().take(3000) {
        let mut found = vec![0.0; 100];
        let arguments = [
            Value::of(given.as_ptr()),
            Value::of(found.as_mut_ptr()),
            Value::F64(factor),
            Value::I32(100),
        ];
        let mut lease = workspace.lease(&stream).expect("free");
        // SAFETY: both arrays have 100 elements.
        unsafe { bound.run(&mut lease, &arguments) }.expect("of the right types");
        assert!(given.iter().zip(&found).all(|(a, b)| factor * a == *b));
    }
    let statistics = workspace.statistics();
    assert_eq!((statistics.leases, statistics.high_water), (3000, 816));
}

#[test]
fn programs_of_two_threads_take_turns() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = load(&built(folder.path(), 4));
    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let workspace = allocator.allocate(0, &size(1 << 16)).expect("fits");
    std::thread::scope(|scope| {
        for factor in [2.0, 3.0] {
            let (program, allocator) = (&program, &allocator);
            scope.spawn(move || {
                let stream = allocator.platform().create_stream(0.into()).expect("one");
                let mut started = program.start(&[Value::I32(1000)]).expect("starts");
                let mut bound = started.bind(workspace).expect("large enough");
                let given = vec![1.5; 1000];
                for _ in 0..1000 {
                    let mut found = vec![0.0; 1000];
                    let arguments = [
                        Value::of(given.as_ptr()),
                        Value::of(found.as_mut_ptr()),
                        Value::F64(factor),
                        Value::I32(1000),
                    ];
                    let mut lease = workspace.lease(&stream).expect("free");
                    // SAFETY: both arrays have 1000 elements.
                    unsafe { bound.run(&mut lease, &arguments) }.expect("right");
                    assert!(found.iter().all(|found| *found == 1.5 * factor));
                }
            });
        }
    });
}

#[test]
fn what_does_not_fit_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = built(folder.path(), 4);
    let program = load(&library);
    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let workspace = allocator.allocate(0, &size(4096)).expect("fits");
    let mut started = program.start(&[Value::I32(1000)]).expect("starts");
    let error = started.bind(workspace).expect_err("8016 bytes");
    assert!(
        matches!(error, Error::TooSmall { needed: 8016, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("4096"), "{error}");

    let error = program.start(&[Value::I64(1000)]).expect_err("N is an int");
    assert_eq!(
        error.to_string(),
        "program 'twice' takes (int32_t N), but (int64_t) was given"
    );
    let error = program.start(&[Value::I32(-1)]).expect_err("it says so");
    assert_eq!(error.to_string(), "program 'twice' failed to start");

    // What is reserved is not the program's.
    let mut started = program.start(&[Value::I32(100)]).expect("starts");
    let mut bound = started.bind(workspace).expect("816 bytes");
    let reservation = workspace.reserve("blas", 3500).expect("fits");
    let stream = allocator.platform().default_stream(0.into()).expect("one");
    let arguments = [
        Value::of(std::ptr::null::<f64>()),
        Value::of(std::ptr::null::<f64>()),
        Value::F64(1.0),
        Value::I32(100),
    ];
    {
        let mut lease = workspace.lease(&stream).expect("free");
        // SAFETY: it is refused.
        let error = unsafe { bound.run(&mut lease, &arguments) }.expect_err("596 bytes are left");
        assert!(error.to_string().contains("twice"), "{error}");
        // SAFETY: it is refused.
        let error = unsafe { bound.run(&mut lease, &arguments[..3]) }.expect_err("one is missing");
        assert!(matches!(error, Error::Arguments { .. }), "{error}");
    }
    drop(reservation);
    let other = ExternalWorkspaceAllocator::new(Host::new());
    let elsewhere = other.allocate(0, &size(4096)).expect("fits");
    let mut lease = elsewhere.lease(&stream).expect("free");
    // SAFETY: it is refused.
    let error = unsafe { bound.run(&mut lease, &arguments) }.expect_err("not its workspace");
    assert!(matches!(error, Error::OtherWorkspace { .. }), "{error}");
}

#[test]
fn a_workspace_that_grows_grows_for_a_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = load(&built(folder.path(), 4));
    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let request = SlabRequest::exact(size(1)).growing(Some(size(64 << 20)));
    let workspace = allocator.allocate(0, &request).expect("fits");
    let stream = allocator.platform().default_stream(0.into()).expect("one");
    let n = 1 << 20;
    let mut started = program.start(&[Value::I32(n)]).expect("starts");
    let mut bound = started.bind(workspace).expect("below the cap");
    let given = vec![1.0; n as usize];
    let mut found = vec![0.0; n as usize];
    let arguments = [
        Value::of(given.as_ptr()),
        Value::of(found.as_mut_ptr()),
        Value::F64(4.0),
        Value::I32(n),
    ];
    let mut lease = workspace.lease(&stream).expect("free");
    // SAFETY: both arrays have n elements.
    unsafe { bound.run(&mut lease, &arguments) }.expect("it grows");
    assert!(found.iter().all(|found| *found == 4.0));
    assert!(workspace.size() > 8 << 20);
}

#[test]
fn what_dace_misaligns_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = load(&built(folder.path(), 3));
    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let workspace = allocator.allocate(0, &size(4096)).expect("fits");
    let mut started = program.start(&[Value::I32(100)]).expect("starts");
    let error = started
        .bind(workspace)
        .expect_err("doubles behind three floats");
    assert!(
        error.to_string().contains("'second'") && error.to_string().contains("byte 12"),
        "{error}"
    );
}

#[test]
fn a_library_without_its_build_folder_takes_a_signature() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("libtwice.so");
    std::fs::rename(built(&folder.path().join("built"), 4), &library).expect("moved");
    std::fs::remove_dir_all(folder.path().join("built")).expect("gone");
    let inspected = inspect(&library).expect("it is one");
    assert_eq!(
        (&*inspected.name, &*inspected.storages),
        ("twice", &["CPU_Heap".to_owned()][..])
    );
    assert!(inspected.signature.is_none() && inspected.placement.is_none());
    // SAFETY: it is refused.
    let error = unsafe { CompiledProgram::load(&library) }.expect_err("no header");
    assert!(error.to_string().contains("give a signature"), "{error}");
    let signature = Signature::new(
        "twice",
        "int N",
        "double *A, double *B, double factor, int N",
    );
    // SAFETY: the signature is that of the source above.
    let program = unsafe { CompiledProgram::load_with(&library, signature.expect("valid")) };
    let program = program.expect("all is known");
    let started = program.start(&[Value::I32(2)]).expect("starts");
    assert_eq!(started.external_memory(), [("CPU_Heap", 32)]);
    let other = Signature::new("thrice", "", "").expect("valid");
    // SAFETY: it is refused.
    let error = unsafe { CompiledProgram::load_with(&library, other) }.expect_err("another's");
    assert!(matches!(error, Error::Arguments { .. }), "{error}");
}

#[test]
fn what_is_no_program_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("libtext.so");
    assert!(
        inspect(&file)
            .expect_err("not there")
            .to_string()
            .contains("libtext.so")
    );
    std::fs::write(&file, "text").expect("written");
    let error = inspect(&file).expect_err("text");
    assert!(error.to_string().contains("no shared library"), "{error}");
    let source = folder.path().join("other.c");
    std::fs::write(&source, "int other(void) { return 1; }").expect("written");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&file, &source])
        .status();
    assert!(compiled.expect("a C compiler").success());
    let error = inspect(&file).expect_err("none of DaCe's");
    assert!(error.to_string().contains("exports 0 programs"), "{error}");
}
