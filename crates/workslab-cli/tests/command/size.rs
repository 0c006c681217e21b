//! `workslab size`: the rule of thumb from programs, and from runs.

use rstest::rstest;
use serde_json::Value;

use crate::support::{ICON4PY, assert_has, refused, run, workslab};

#[test]
fn size_prints_the_rule_of_thumb() {
    let outcome = run(workslab().args(["size", ICON4PY]));
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    insta::with_settings!({ omit_expression => true }, {
        insta::assert_snapshot!("size", outcome.out);
    });
}

#[test]
fn size_of_one_grid_lists_its_programs() {
    let outcome = run(workslab()
        .args(["size", ICON4PY, "--grid", "R02B07", "--levels", "90"])
        .args(["--margin", "10"]));
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    insta::with_settings!({ omit_expression => true }, {
        insta::assert_snapshot!("size_of_one_grid", outcome.out);
    });
}

#[test]
fn size_in_markdown_and_json_says_the_same() {
    let markdown = run(workslab().args(["size", ICON4PY, "--grid", "R02B05", "--markdown"]));
    assert_has(
        &markdown.out,
        &["| grid | cells |", "| R02B05 | 81920 |", "| 553779200 |"],
    );
    let json = run(workslab().args(["size", ICON4PY, "--grid", "R02B05", "--json"]));
    let report: Value = serde_json::from_str(&json.out).expect("it is JSON");
    assert_eq!(report["grids"][0]["workspace_size"], 553_779_200);
    for program in report["grids"][0]["programs"].as_array().expect("programs") {
        assert_eq!(program["planned"], program["lower_bound"], "{program}");
    }
}

#[test]
fn the_size_that_it_says_is_enough_and_a_byte_less_is_not() {
    let size = 138_444_800;
    let replay = |size: u64| {
        let mut command = workslab();
        command
            .args(["replay", ICON4PY, "--planned", "--steps", "1", "--json"])
            .args(["--workspace-size", &size.to_string()]);
        command
    };
    let outcome = run(&mut replay(size));
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&outcome.out).expect("it is JSON");
    assert_eq!(
        (&report["needed"], &report["workspace"]),
        (&size.into(), &size.into())
    );
    assert_eq!(report["checked"], 663_080_960u64);
    let error = refused(&mut replay(size - 1));
    assert_has(&error, &["compute_averaged_vn_and_fluxes", "138444800"]);
}

#[test]
fn the_share_of_a_device_is_said() {
    let outcome = run(workslab().args([
        "size",
        ICON4PY,
        "--cells",
        "100",
        "--platform",
        "host",
        "--json",
    ]));
    let report: Value = serde_json::from_str(&outcome.out).expect("it is JSON");
    let (size, device) = (
        &report["grids"][0]["workspace_size"],
        &report["device"]["bytes"],
    );
    let share = size.as_f64().expect("a size") / device.as_f64().expect("a size");
    assert_eq!(report["grids"][0]["share_of_device"], share);
}

#[rstest]
#[case(&["no-such.json"], "no-such.json")]
#[case(&[ICON4PY, "--margin", "1001"], "--margin")]
#[case(&[ICON4PY, "--margin", "NaN"], "--margin")]
#[case(&[ICON4PY, "--grid", "R02"], "unknown grid")]
#[case(&[ICON4PY, "--platform", "vulkan"], "vulkan")]
#[case(&[ICON4PY, "--cells", "18446744073709551615"], "more cells than fit")]
#[case(&["--from-runs", "no-such.jsonl"], "no-such.jsonl: it cannot be read")]
fn a_bad_request_is_refused(#[case] args: &[&str], #[case] part: &str) {
    assert_has(&refused(workslab().arg("size").args(args)), &[part]);
}

#[rstest]
#[case(&[])]
#[case(&[ICON4PY, "--from-runs", "runs.jsonl"])]
#[case(&[ICON4PY, "--extrapolate"])]
fn options_that_do_not_go_together_are_refused(#[case] args: &[&str]) {
    let outcome = run(workslab().arg("size").args(args));
    assert_eq!((outcome.code, outcome.out.as_str()), (2, ""));
}

#[test]
fn sizes_are_learnt_from_recorded_runs_and_not_beyond_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = folder.path().join("runs.jsonl");
    for cells in ["200", "400", "800"] {
        for levels in ["10", "20"] {
            let outcome = run(workslab()
                .args(["replay", ICON4PY, "--planned", "--steps", "1"])
                .args(["--cells", cells, "--levels", levels, "--record"])
                .arg(&runs));
            assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
        }
    }
    let size = |args: &[&str]| {
        let mut command = workslab();
        command.args(["size", "--from-runs"]).arg(&runs).args(args);
        command
    };
    let learnt = run(&mut size(&["--cells", "600", "--levels", "15", "--json"]));
    assert_eq!((learnt.code, learnt.err.as_str()), (0, ""));
    let learnt: Value = serde_json::from_str(&learnt.out).expect("it is JSON");
    let known = run(workslab().args([
        "size", ICON4PY, "--cells", "600", "--levels", "15", "--json",
    ]));
    let known: Value = serde_json::from_str(&known.out).expect("it is JSON");
    assert_eq!(learnt["grids"][0]["largest"], known["grids"][0]["largest"]);
    // Within the padding of 13 arrays of what the programs say.
    let [learnt, known] = [learnt, known].map(|report| {
        report["grids"][0]["workspace_size"]
            .as_u64()
            .expect("a size")
    });
    assert!(learnt.abs_diff(known) < 13 * 256, "{learnt} {known}");

    let error = refused(&mut size(&["--grid", "R02B04", "--levels", "15"]));
    assert_has(&error, &["20480 cells", "200 to 800", "--extrapolate"]);
    let all = run(&mut size(&["--levels", "15"]));
    assert_eq!(all.code, 0);
    assert_eq!(all.out.matches("outside the runs").count(), 7);
    let far = run(&mut size(&[
        "--grid",
        "R02B04",
        "--levels",
        "15",
        "--extrapolate",
    ]));
    assert_eq!((far.code, far.err.as_str()), (0, ""));
    assert_has(&far.out, &["(extrapolated)"]);
}

#[test]
fn a_run_that_cannot_be_recorded_is_refused() {
    let error = refused(
        workslab()
            .args([
                "replay", ICON4PY, "--cells", "20", "--levels", "5", "--steps", "1",
            ])
            .args(["--record", "/no/such/folder/runs.jsonl"]),
    );
    assert_has(&error, &["cannot add to /no/such/folder/runs.jsonl"]);
}
