//! The command as a person types it: what it prints, and what it answers to bad input.

mod inspect;
mod plan;
mod size;
mod support;

use rstest::rstest;

use support::{ICON4PY, assert_has, file, refused, run, workslab};

/// A snapshot with what differs from run to run and from machine to machine blotted out.
macro_rules! assert_table {
    ($name:literal, $text:expr) => {
        insta::with_settings!({
            filters => vec![
                (r" +[0-9]+\.[0-9]+ ms", " [time]"),
                (r"is [0-9]+ times", "is [ratio] times"),
                (r"device 0 \(.*\)", "device 0 ([name])"),
            ],
            omit_expression => true,
        }, { insta::assert_snapshot!($name, $text) });
    };
}

#[test]
fn replay_prints_its_table() {
    let outcome = run(workslab()
        .args(["replay", ICON4PY, "--cells", "200", "--levels", "10"])
        .args(["--steps", "3"]));
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    assert_table!("replay", outcome.out);
}

#[test]
fn replay_at_r02b04_needs_what_its_largest_program_needs() {
    let outcome = run(workslab().args(["replay", ICON4PY, "--steps", "1", "--json"]));
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    let report: serde_json::Value = serde_json::from_str(&outcome.out).expect("it is JSON");
    // Every array is a multiple of 256 bytes here, so these are the sums of the file's own sizes.
    assert_eq!(report["needed"], 163_020_800);
    assert_eq!(report["workspace"], 163_020_800);
    assert_eq!(report["sum"], 663_080_960);
    assert_eq!(report["in_workspace"]["allocations"], 1);
    assert_eq!(report["per_call"]["allocations"], 69);
    assert_eq!(report["checked"], 663_080_960u64);
}

#[test]
fn replay_runs_in_guard_mode_with_edges_and_a_larger_workspace() {
    let outcome = run(workslab()
        .args([
            "replay", ICON4PY, "--cells", "100", "--edges", "160", "--steps", "1",
        ])
        .args([
            "--guard",
            "--workspace-size",
            "64MiB",
            "--set",
            "prefault=true",
        ]));
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    assert_has(
        &outcome.out,
        &["64 MiB (67108864 bytes)", "every byte right"],
    );
}

#[test]
fn a_workspace_that_is_too_small_is_refused_before_the_first_step() {
    let error = refused(
        workslab()
            .args(["replay", ICON4PY])
            .env("ICON4PY_BACKEND_WORKSPACE_SIZE", "100MiB"),
    );
    assert_has(
        &error,
        &[
            "'vertically_implicit_solver_at_corrector_step'",
            "163020800 bytes",
            "104857600 bytes",
            "set by ICON4PY_BACKEND_WORKSPACE_SIZE",
            "--workspace-size to at least 163020800",
        ],
    );
}

#[rstest]
#[case("0", "at least 1 byte")]
#[case("-1", "negative")]
#[case("abc", "start with a number")]
#[case("12 parsecs", "unit is unknown")]
#[case("99999999999999999999999", "more than an address")]
#[case("", "empty")]
fn a_bad_size_is_refused_wherever_it_stands(#[case] value: &str, #[case] reason: &str) {
    let variable = "ICON4PY_BACKEND_WORKSPACE_SIZE";
    for command in [&["config"][..], &["replay", ICON4PY]] {
        let error = refused(workslab().args(command).env(variable, value));
        assert_has(&error, &[variable, &format!("{value:?}"), reason]);
        let error = refused(workslab().args(command).args(["--workspace-size", value]));
        assert_has(&error, &["--workspace-size", reason]);
        let set = format!("workspace_size={value}");
        let error = refused(workslab().args(command).args(["--set", &set]));
        assert_has(&error, &["--set", reason]);
    }
}

#[test]
fn a_size_beyond_the_machines_memory_is_refused() {
    let error = refused(workslab().args(["replay", ICON4PY, "--workspace-size", "900TiB"]));
    assert_has(
        &error,
        &["host device 0", "free", "900 TiB", "ask for less"],
    );
}

#[test]
fn two_variables_that_disagree_are_refused() {
    let error = refused(
        workslab()
            .arg("config")
            .env("ICON4PY_BACKEND_WORKSPACE_SIZE", "1GiB")
            .env("WORKSLAB_WORKSPACE_SIZE", "2GiB"),
    );
    assert_has(&error, &["disagree", "1GiB", "2GiB"]);
}

#[rstest]
#[case(&["config", "--config", "no/such.yaml"], &["no/such.yaml", "No such file"])]
#[case(&["config", "--set", "size=1"], &["unknown field \"size\"", "--set"])]
#[case(&["config", "--set", "size"], &["field=value"])]
#[case(&["replay", ICON4PY, "--platform", "vulkan"], &["vulkan", "rocm, cuda, host"])]
#[case(&["replay", ICON4PY, "--platform", "cuda"], &["no CUDA driver", "/no/such/libcuda.so.1", "NVIDIA"])]
#[case(&["replay", ICON4PY, "--platform", "rocm"], &["no HIP library", "/no/such/libamdhip64.so", "install ROCm"])]
#[case(&["replay", ICON4PY, "--device", "3", "--cells", "10"], &["no device 3", "only device 0"])]
#[case(&["replay", ICON4PY, "--device", "-1"], &["--device", "from 0"])]
#[case(&["replay", ICON4PY, "--device", "local-rank"], &["local rank", "Slurm"])]
#[case(&["replay", ICON4PY, "--grid", "R2B4"], &["\"R2B4\"", "R02B04 to R02B10"])]
#[case(&["replay", ICON4PY, "--grid", "R99B99"], &["R99B99", "more cells"])]
#[case(&["replay", ICON4PY, "--cells", "18446744073709551615"], &["more cells"])]
#[case(&["replay", ICON4PY, "--cells", "9223372036854775807", "--edges", "1"], &["overflows"])]
#[case(&["replay", ICON4PY, "--levels", "0"], &["nlev-1", "negative"])]
#[case(&["replay", ICON4PY, "--cells", "0", "--edges", "0"], &["no program with a transient"])]
#[case(&["replay", "no/such.json"], &["no/such.json", "No such file"])]
fn bad_arguments_are_refused(#[case] arguments: &[&str], #[case] parts: &[&str]) {
    assert_has(&refused(workslab().args(arguments)), parts);
}

#[test]
fn a_grid_that_needs_more_than_the_machine_has_is_refused() {
    // 524 million cells and 120 levels: the largest program needs 8 TiB.
    let error =
        refused(workslab().args(["replay", ICON4PY, "--grid", "R05B10", "--levels", "120"]));
    assert_has(&error, &["free", "ask for less"]);
}

#[rstest]
#[case("{", &["EOF"])]
#[case("[]", &["not a file of programs"])]
#[case(r#"{"programs": [], "version": 2}"#, &["unknown field `version`"])]
#[case(r#"{"programs": [{"program": "p", "transients": [{"name": "t", "shape": [], "itemsize": 8, "first_use": 0, "last_use": 1, "storage": "GPU"}]}]}"#, &["unknown field `storage`"])]
#[case(r#"{"programs": [{"program": "p", "transients": [{"name": "t", "shape": ["cells"], "itemsize": 8, "first_use": -1, "last_use": 1}]}]}"#, &["-1"])]
#[case(r#"{"programs": []}"#, &["no program with a transient"])]
fn a_malformed_file_is_refused(#[case] text: &str, #[case] parts: &[&str]) {
    let file = file("programs.json", text);
    let error = refused(workslab().arg("replay").arg(&file.path));
    assert_has(&error, &["programs.json"]);
    assert_has(&error, parts);
}

#[rstest]
#[case(r#"["cells"]"#, 8, 2, 1, &["last used at 1", "first use at 2"])]
#[case(r#"["faces"]"#, 8, 0, 1, &["unknown dimension \"faces\"", "cells, edges or nlev"])]
#[case(r#"["cells", 18446744073709551615]"#, 8, 0, 1, &["overflows", "cells × 18446744073709551615"])]
#[case(r#"["nlev-66"]"#, 8, 0, 1, &["negative", "nlev is 65"])]
#[case(r#"["cells"]"#, 0, 0, 1, &["itemsize of 0"])]
fn a_bad_transient_is_named_with_its_program(
    #[case] shape: &str,
    #[case] itemsize: u64,
    #[case] first: u64,
    #[case] last: u64,
    #[case] parts: &[&str],
) {
    let file = file(
        "programs.json",
        &format!(
            r#"{{"programs": [{{"program": "solver", "transients": [{{"name": "tmp_1", "shape": {shape}, "itemsize": {itemsize}, "first_use": {first}, "last_use": {last}}}]}}]}}"#
        ),
    );
    let error = refused(workslab().arg("replay").arg(&file.path));
    assert_has(&error, &["programs.json", "'solver'", "'tmp_1'"]);
    assert_has(&error, parts);
}

#[test]
fn config_shows_values_and_where_they_came_from() {
    let file = file("experiment.yaml", "backend_config:\n  guard: true\n");
    let outcome = run(workslab()
        .args(["config", "--set", "size_check=at-least", "--device", "2"])
        .args(["--config", "experiment.yaml"])
        .current_dir(file.path.parent().expect("it is in a folder"))
        .env("WORKSLAB_WORKSPACE_SIZE", "1.5GiB"));
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    assert_table!("config", outcome.out);
}

#[test]
fn devices_lists_the_host_and_says_why_the_others_are_missing() {
    let outcome = run(workslab().arg("devices").env("WORKSLAB_HOST_DEVICES", "2"));
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    assert_eq!(outcome.out.matches("│ host").count(), 2, "{}", outcome.out);
    assert_has(
        &outcome.out,
        &["rocm: ", "no HIP library", "cuda: ", "no CUDA driver"],
    );
    let outcome = run(workslab().args(["devices", "--json"]));
    let platforms: serde_json::Value = serde_json::from_str(&outcome.out).expect("it is JSON");
    let host = &platforms.as_array().expect("a list")[2];
    assert_eq!(host["platform"], "host");
    assert!(host["devices"][0]["free"].as_u64().expect("a number") > 0);
}

#[test]
fn a_bad_number_of_virtual_devices_is_named_and_not_half_used() {
    let error = refused(
        workslab()
            .args(["replay", ICON4PY])
            .env("WORKSLAB_HOST_DEVICES", "many"),
    );
    assert_has(&error, &["WORKSLAB_HOST_DEVICES", "\"many\"", "1 to 1024"]);
}

#[rstest]
#[case("bash")]
#[case("zsh")]
#[case("fish")]
fn completions_are_printed(#[case] shell: &str) {
    let outcome = run(workslab().args(["completions", shell]));
    assert_eq!(outcome.code, 0);
    assert_has(&outcome.out, &["workslab", "replay", "workspace-size"]);
}

#[rstest]
#[case(&["--help"])]
#[case(&["devices", "--help"])]
#[case(&["config", "--help"])]
#[case(&["replay", "--help"])]
#[case(&["completions", "--help"])]
fn help_has_examples(#[case] arguments: &[&str]) {
    let outcome = run(workslab().args(arguments));
    assert_eq!(outcome.code, 0);
    assert_has(&outcome.out, &["Example", "workslab "]);
}

#[test]
fn what_happens_inside_can_be_logged() {
    let outcome = run(workslab()
        .args(["replay", ICON4PY, "--cells", "10", "--steps", "1"])
        .env("WORKSLAB_LOG", "info"));
    assert_eq!(outcome.code, 0);
    assert_has(&outcome.err, &["workspace allocated", "platform=\"host\""]);
}
