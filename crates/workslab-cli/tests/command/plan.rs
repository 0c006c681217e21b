//! `workslab plan`: what it prints, writes and answers.

use std::fmt::Write as _;
use std::path::Path;

use rstest::rstest;
use serde_json::Value;

use crate::support::{File, ICON4PY, assert_has, file, refused, run, workslab};

/// Never more than 12 bytes live at once, and yet they need 13.
const TIGHT: &str = include_str!("../../../../examples/data/tight.csv");

fn tight() -> File {
    file("tight.csv", TIGHT)
}

/// An instance that is not solved to the end in hours: all of the bound is live at all times.
fn hard() -> File {
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut live: Vec<(u64, u64)> = (0..60).map(|_| (1 + random(100_000), 0)).collect();
    let mut text = String::from("lower,upper,size\n");
    for time in 1..=200 {
        let mut freed = 0;
        for _ in 0..2 {
            let (size, start) = live.swap_remove(random(live.len() as u64) as usize);
            writeln!(text, "{start},{time},{size}").expect("a string grows");
            freed += size;
        }
        let first = 1 + random(freed - 1);
        live.extend([(first, time), (freed - first, time)]);
    }
    for (size, start) in live {
        writeln!(text, "{start},201,{size}").expect("a string grows");
    }
    file("hard.csv", &text)
}

#[test]
fn plan_prints_bound_makespan_and_ratio() {
    let input = tight();
    let outcome = run(workslab()
        .current_dir(input.path.parent().expect("a folder"))
        .args(["plan", "tight.csv"]));
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    insta::with_settings!({
        filters => vec![(r"planned in .* s", "planned in [time] s")],
        omit_expression => true,
    }, { insta::assert_snapshot!("plan", outcome.out) });
}

#[rstest]
#[case::it_fits("13", "60", 0, "fits")]
#[case::it_is_proved_not_to("12", "60", 1, "does not fit")]
#[case::less_than_the_bound("11", "0", 1, "does not fit")]
#[case::no_time_to_know("12", "0", 3, "unknown")]
fn a_capacity_has_three_answers(
    #[case] capacity: &str,
    #[case] budget: &str,
    #[case] code: i32,
    #[case] verdict: &str,
) {
    let input = tight();
    let outcome = run(workslab()
        .args(["plan", "--capacity", capacity, "--budget", budget, "--json"])
        .arg(&input.path));
    assert_eq!((outcome.code, outcome.err.as_str()), (code, ""));
    let report: Value = serde_json::from_str(&outcome.out).expect("it is JSON");
    assert_eq!(report["verdict"], verdict);
    assert_eq!(
        (&report["lower_bound"], &report["buffers"]),
        (&12.into(), &12.into())
    );
}

#[rstest]
#[case("instant", &[])]
#[case("balanced", &["--threads", "2", "--seed", "7"])]
#[case("exhaustive", &["--budget", "60"])]
fn a_plan_that_is_written_can_be_read_and_stands(#[case] effort: &str, #[case] more: &[&str]) {
    let input = tight();
    let output = input.path.with_file_name("plan.csv");
    let outcome = run(workslab()
        .args(["plan", "--effort", effort, "--json", "-o"])
        .args([&output, &input.path])
        .args(more));
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&outcome.out).expect("it is JSON");
    // The buffers in the written plan must not move, so planning it again checks it.
    let again = run(workslab().args(["plan", "--json"]).arg(&output));
    assert_eq!((again.code, again.err.as_str()), (0, ""));
    let again: Value = serde_json::from_str(&again.out).expect("it is JSON");
    assert_eq!(again["makespan"], report["makespan"]);
}

#[test]
fn every_picture_is_written() {
    let input = tight();
    let beside = |name| input.path.with_file_name(name);
    let outcome = run(workslab()
        .args(["plan", "--capacity", "16"])
        .arg(&input.path)
        .arg("--svg")
        .arg(beside("p.svg"))
        .arg("--png")
        .arg(beside("p.png"))
        .arg("--html")
        .arg(beside("p.html")));
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    let text = |name| std::fs::read_to_string(beside(name)).expect("it was written");
    assert_has(
        &text("p.svg"),
        &["<svg", "b10", "capacity", "lower bound", "</svg>"],
    );
    assert_has(&text("p.html"), &["<!doctype html>", "b10", "</html>"]);
    let png = std::fs::read(beside("p.png")).expect("it was written");
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
}

#[rstest]
#[case("-o", "plan.csv")]
#[case("--svg", "plan.svg")]
#[case("--png", "plan.png")]
#[case("--html", "plan.html")]
fn what_cannot_be_written_is_refused(#[case] option: &str, #[case] name: &str) {
    let input = tight();
    let nowhere = input.path.with_file_name("no/such/folder").join(name);
    let error = refused(
        workslab()
            .arg("plan")
            .arg(&input.path)
            .arg(option)
            .arg(&nowhere),
    );
    assert_has(&error, &["cannot write", name]);
    let left: Vec<_> = input
        .path
        .parent()
        .expect("a folder")
        .read_dir()
        .expect("there")
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[rstest]
#[case("id,lower,upper,size\na,0,1,5\nb,0,one,5\n", &["line 3", "one"])]
#[case("id,lower,upper,size\na,0,1,18446744073709551615\nb,0,1,18446744073709551615\n", &["exceed 64 bits"])]
#[case("id,lower,upper,size,offset\na,0,2,5,0\nb,1,2,5,4\n", &["must not move, live at once"])]
#[case("nothing of ours\n", &["it is no instance"])]
fn a_bad_file_is_refused_with_its_name(#[case] text: &str, #[case] parts: &[&str]) {
    let input = file("bad.csv", text);
    let error = refused(workslab().arg("plan").arg(&input.path));
    assert_has(&error, parts);
    assert_has(&error, &["bad.csv"]);
}

#[rstest]
#[case(&["no-such.csv"], "cannot be read")]
#[case(&[ICON4PY], "choose one by --program: apply_diffusion_to_theta_and_exner")]
#[case(&[ICON4PY, "--program", "nothing"], "choose one by --program")]
#[case(&[ICON4PY, "--program", "apply_diffusion_to_vn", "--grid", "R2"], "unknown grid")]
#[case(&[ICON4PY, "--capacity", "many"], "--capacity")]
#[case(&[ICON4PY, "--budget", "-1"], "--budget")]
fn a_bad_request_is_refused(#[case] args: &[&str], #[case] part: &str) {
    assert_has(&refused(workslab().arg("plan").args(args)), &[part]);
}

#[test]
fn one_program_of_a_file_is_planned_on_a_grid() {
    let outcome = run(workslab().args([
        "plan",
        ICON4PY,
        "--program",
        "compute_averaged_vn_and_fluxes",
        "--grid",
        "R02B04",
        "--json",
    ]));
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&outcome.out).expect("it is JSON");
    assert_eq!(report["makespan"], 138_444_800);
    assert_eq!(report["optimal"], true);
}

/// Whether the process has a handler for SIGINT.
#[cfg(target_os = "linux")]
fn catches_interrupts(process: u32) -> bool {
    let status =
        std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("status"));
    let status = status.expect("the process lives");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.map(|mask| u64::from_str_radix(mask.trim(), 16).expect("a mask"));
    mask.is_some_and(|mask| mask & (1 << (2 - 1)) != 0)
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_prints_and_writes_the_best_so_far() {
    let input = hard();
    let output = input.path.with_file_name("plan.csv");
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("workslab"));
    command
        .args([
            "plan",
            "--effort",
            "exhaustive",
            "--budget",
            "3600",
            "--json",
            "-o",
        ])
        .args([&output, &input.path])
        .stdout(std::process::Stdio::piped());
    let child = command.spawn().expect("the command starts");
    while !catches_interrupts(child.id()) {
        std::thread::yield_now();
    }
    let killed = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.expect("kill is there").success());
    let outcome = child.wait_with_output().expect("it ends");
    assert_eq!(outcome.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&outcome.stdout).expect("it is JSON");
    assert_eq!(
        (&report["optimal"], &report["buffers"]),
        (&false.into(), &460.into())
    );
    let again = run(workslab().args(["plan", "--json"]).arg(&output));
    let again: Value = serde_json::from_str(&again.out).expect("it is JSON");
    assert_eq!(again["makespan"], report["makespan"]);
}
