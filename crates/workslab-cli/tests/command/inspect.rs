//! `workslab inspect`.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{assert_has, file, refused, run, workslab};

const PROGRAM: &str = r#"
#include <stdlib.h>
#include <stddef.h>
void *__dace_init_twice(int N, long M) { (void)N; (void)M; return malloc(1); }
int __dace_exit_twice(void *state) { free(state); return 0; }
size_t __dace_get_external_memory_size_CPU_Heap(void *state, int N, long M) { (void)state; return 8 * N * M; }
void __dace_set_external_memory_CPU_Heap(void *state, char *ptr, int N, long M) { (void)state; (void)ptr; (void)N; (void)M; }
void __program_twice(void *state, double *A, int N, long M) { (void)state; (void)A; (void)N; (void)M; }
"#;

const HEADER: &str = r#"
typedef void * twiceHandle_t;
extern "C" twiceHandle_t __dace_init_twice(int N, long M);
extern "C" void __program_twice(twiceHandle_t handle, double * __restrict__ A, int N, long M);
"#;

/// The library, in a folder of its own that goes with the file.
fn library(with_header: bool) -> (crate::support::File, PathBuf) {
    let source = file("twice.c", PROGRAM);
    let folder = source.path.parent().expect("a folder").to_owned();
    if with_header {
        std::fs::create_dir(folder.join("include")).expect("a new folder");
        std::fs::write(folder.join("include/twice.h"), HEADER).expect("written");
    }
    let library = folder.join("libtwice.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source.path])
        .status();
    assert!(compiled.expect("a C compiler").success());
    (source, library)
}

#[test]
fn inspect_says_what_a_library_takes() {
    let (_kept, library) = library(true);
    let outcome = run(workslab().arg("inspect").arg(&library));
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    assert_has(
        &outcome.out,
        &[
            "program    twice",
            "symbols    int32_t N, int64_t M",
            "arguments  pointer A, int32_t N, int64_t M",
            "CPU_Heap",
        ],
    );
    let outcome = run(workslab()
        .arg("inspect")
        .arg(&library)
        .args(["--symbol", "N=10", "--symbol", "M=3", "--json"]));
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    let report: serde_json::Value = serde_json::from_str(&outcome.out).expect("it is JSON");
    assert_eq!(report["storages"][0]["bytes"], 240);
    assert!(report["planned"].is_null());
}

#[test]
fn inspect_refuses_what_it_cannot_use() {
    let (_kept, library) = library(true);
    for (symbols, says) in [
        (&["N"][..], "NAME=VALUE"),
        (&["K=1"], "symbols are N, M"),
        (&["N=10"], "\"M\": it has no value"),
        (&["N=10", "M=much"], "int64_t"),
        (&["N=99999999999", "M=1"], "int32_t"),
    ] {
        let mut command = workslab();
        command.arg("inspect").arg(&library);
        for symbol in symbols {
            command.args(["--symbol", symbol]);
        }
        assert_has(&refused(&mut command), &[says]);
    }
    let bare = self::library(false);
    let text = refused(
        workslab()
            .arg("inspect")
            .arg(&bare.1)
            .args(["--symbol", "N=1"]),
    );
    assert_has(&text, &["include/twice.h"]);
    let text = refused(workslab().args(["inspect", "README.md"]));
    assert_has(&text, &["README.md", "no shared library"]);
}
