//! What it costs to run a compiled program through a workspace, beside a call of its symbol.

use std::ffi::{c_int, c_void};
use std::process::Command;

use criterion::{Criterion, criterion_group, criterion_main};
use workslab_core::{ExternalWorkspaceAllocator, Platform, SlabSize};
use workslab_dace::{CompiledProgram, Signature, Value};
use workslab_host::Host;

/// A program that does next to nothing.
const PROGRAM: &str = r"
#include <stdlib.h>
#include <stddef.h>
struct state { double *transient; };
struct state *__dace_init_little(int N) { (void)N; return malloc(sizeof(struct state)); }
int __dace_exit_little(struct state *state) { free(state); return 0; }
size_t __dace_get_external_memory_size_CPU_Heap(struct state *state, int N) { (void)state; return 8 * N; }
void __dace_set_external_memory_CPU_Heap(struct state *state, char *ptr, int N) { (void)N; state->transient = (double *)ptr; }
void __program_little(struct state *state, double *A, double *B, int N) { (void)N; state->transient[0] = A[0]; B[0] = state->transient[0]; }
";

fn calls(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("little.c");
    std::fs::write(&source, PROGRAM).expect("written");
    let library = folder.path().join("liblittle.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-o"])
        .args([&library, &source])
        .status();
    assert!(compiled.expect("a C compiler").success());
    let signature =
        Signature::new("little", "int N", "double *A, double *B, int N").expect("valid");
    // SAFETY: it was compiled from the source above, and the signature is that source's.
    let program = unsafe { CompiledProgram::load_with(&library, signature) }.expect("a library");
    let allocator = ExternalWorkspaceAllocator::new(Host::new());
    let workspace = allocator
        .allocate(0, &SlabSize::new(1 << 20).expect("not zero"))
        .expect("fits");
    let stream = allocator.platform().default_stream(0.into()).expect("one");
    let mut started = program.start(&[Value::I32(1000)]).expect("starts");
    let mut bound = started.bind(workspace).expect("fits");
    let (a, mut b) = ([1.0_f64], [0.0_f64]);
    let arguments = [
        Value::of(a.as_ptr()),
        Value::of(b.as_mut_ptr()),
        Value::I32(1000),
    ];
    let mut group = c.benchmark_group("compiled program");
    group.bench_function("lease and run", |bencher| {
        bencher.iter(|| {
            let mut lease = workspace.lease(&stream).expect("free");
            // SAFETY: the program reads and writes one element.
            unsafe { bound.run(&mut lease, &arguments) }.expect("of the right types");
        });
    });

    // The same library once more, and a state of its own.
    // SAFETY: as above.
    let plain = unsafe { libloading::Library::new(&library) }.expect("a library");
    type Run = unsafe extern "C" fn(*mut c_void, *const f64, *mut f64, c_int);
    // SAFETY: the types are those of the source above.
    let run = unsafe { plain.get::<Run>("__program_little") }.expect("there");
    let mut transient = [0.0_f64];
    let mut state = [transient.as_mut_ptr()];
    group.bench_function("its symbol called", |bencher| {
        // SAFETY: the state has the layout of the source above, and all leads to one element or more.
        bencher
            .iter(|| unsafe { run(state.as_mut_ptr().cast(), a.as_ptr(), b.as_mut_ptr(), 1000) });
    });
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
