//! What is learnt from runs: exact where the runs lie on the model, with an honest error where they do
//! not, and nothing beyond them unless asked for.

use rstest::rstest;
use serde::Serialize;
use workslab_plan::file::FileError;
use workslab_plan::runs::{Model, ModelError, Needs, ProgramNeeds, Run, append, read};

/// A run of one program.
fn run(cells: u64, levels: u64, bytes: u64) -> Run {
    let program = ProgramNeeds {
        name: "diffusion".into(),
        high_water: bytes,
    };
    Run {
        cells,
        levels,
        statistics: Needs {
            high_water: bytes,
            programs: vec![program],
        },
    }
}

fn grids(cells: &[u64], levels: &[u64], bytes: impl Fn(u64, u64) -> u64) -> Vec<Run> {
    let all = cells
        .iter()
        .flat_map(|&c| levels.iter().map(move |&l| (c, l)));
    all.map(|(c, l)| run(c, l, bytes(c, l))).collect()
}

#[rstest]
#[case::both(&[1000, 5000, 20_480], &[10, 65], |c, l| 4096 + 16 * c + 24 * c * l, (10_000, 40))]
#[case::cells_only(&[1000, 5000, 20_480], &[65], |c, _| 512 + 1560 * c, (9000, 65))]
#[case::levels_only(&[5000], &[10, 35, 65, 90], |_, l| 100 + 40_000 * l, (5000, 50))]
fn runs_on_the_model_give_it_back(
    #[case] cells: &[u64],
    #[case] levels: &[u64],
    #[case] bytes: fn(u64, u64) -> u64,
    #[case] at: (u64, u64),
) {
    let model = Model::fit(&grids(cells, levels, bytes)).expect("enough runs");
    let predicted = model.predict(at.0, at.1, false).expect("within the runs");
    let [only] = &predicted[..] else {
        panic!("{predicted:?}")
    };
    assert_eq!(only.bytes, bytes(at.0, at.1));
    // Rounding errors may take a byte each way.
    assert!(
        only.upper - only.bytes <= 1 && only.bytes - only.lower <= 1,
        "{only:?}"
    );
    assert_eq!(
        (only.extrapolated, only.runs),
        (false, cells.len() * levels.len())
    );
}

#[test]
fn where_all_grids_lie_on_a_line_fewer_terms_are_fitted() {
    // Cells and levels together: 3 grids cannot tell three terms apart, but two.
    let runs: Vec<Run> = [(1000, 10), (2000, 20), (4000, 40)]
        .map(|(c, l)| run(c, l, 1000 + 8 * c * l))
        .into();
    let predicted = Model::fit(&runs)
        .expect("two terms")
        .predict(3000, 30, false);
    assert_eq!(
        predicted.expect("within the runs")[0].bytes,
        1000 + 8 * 3000 * 30
    );
}

#[test]
fn the_interval_is_students() {
    // y = 1, 2, 2, 3 at x = 1, 2, 3, 4: the line 0.5 + 0.6 x leaves 0.2 of squares over, s² = 0.1, and
    // at the mean 2.5 the interval is ± 4.30265 · s · √(1 + 1/4) (the table of t for 2 degrees).
    let scale = 1_000_000;
    let ys = [1, 2, 2, 3].map(|y| y * scale);
    let runs: Vec<Run> = (1..=4).zip(ys).map(|(x, y)| run(1000 * x, 1, y)).collect();
    let predicted = Model::fit(&runs).expect("enough").predict(2500, 1, false);
    let only = &predicted.expect("within")[0];
    assert_eq!(only.bytes, 2 * scale);
    let reach = 4.302_652_73 * 0.1f64.sqrt() * 1.25f64.sqrt() * scale as f64;
    assert!(
        (only.upper - only.bytes).abs_diff(reach.ceil() as u64) <= 1,
        "{only:?} {reach}"
    );
    // It covers what was measured, and grows towards the ends.
    let ends = Model::fit(&runs)
        .expect("enough")
        .predict(4000, 1, false)
        .expect("within");
    assert!(ends[0].upper - ends[0].bytes > only.upper - only.bytes);
}

#[test]
fn nothing_is_extrapolated_in_silence() {
    let model = Model::fit(&grids(&[1000, 2000, 4000], &[20, 40], |c, l| c * l)).expect("enough");
    for (cells, levels, what) in [
        (5000, 40, "5000 cells"),
        (999, 40, "999 cells"),
        (2000, 65, "65 levels"),
    ] {
        let error = model.predict(cells, levels, false).expect_err("outside");
        assert!(error.to_string().contains(what), "{error}");
        let predicted = model.predict(cells, levels, true).expect("asked for");
        assert!(predicted[0].extrapolated);
        assert_eq!(predicted[0].bytes, cells * levels);
    }
}

#[test]
fn what_no_run_varies_cannot_be_extrapolated_at_all() {
    let model = Model::fit(&grids(&[1000, 2000, 4000], &[65], |c, l| c * l)).expect("enough");
    let error = model.predict(2000, 90, true).expect_err("unknown");
    assert!(
        matches!(
            error,
            ModelError::Unknown {
                only: 65,
                asked: 90,
                ..
            }
        ),
        "{error}"
    );
}

#[rstest]
#[case(&[1000], &[65], 1, 3)]
#[case(&[1000, 2000], &[65], 2, 3)]
#[case(&[1000, 2000], &[65, 90], 4, 0)]
fn too_few_grids_are_no_model(
    #[case] cells: &[u64],
    #[case] levels: &[u64],
    #[case] grids_here: usize,
    #[case] needed_here: usize,
) {
    // The same grid again is no other grid.
    let mut runs = grids(cells, levels, |c, l| c * l);
    runs.extend(runs.clone());
    match Model::fit(&runs) {
        Ok(_) => assert_eq!(needed_here, 0),
        Err(ModelError::TooFew { grids, needed, .. }) => {
            assert_eq!((grids, needed), (grids_here, needed_here));
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn leases_without_a_name_count_too() {
    let mut runs = grids(&[1000, 2000, 4000], &[65], |c, _| c);
    for run in &mut runs {
        run.statistics.high_water = 3 * run.cells;
    }
    let predicted = Model::fit(&runs)
        .expect("enough")
        .predict(3000, 65, false)
        .expect("within");
    let named: Vec<_> = predicted
        .iter()
        .map(|p| (p.program.as_str(), p.bytes))
        .collect();
    assert_eq!(named, [("(without a name)", 9000), ("diffusion", 3000)]);
}

#[test]
fn runs_that_need_nearly_all_there_is_are_an_error() {
    let runs: Vec<Run> = (1..=4).map(|x| run(x, 1, u64::MAX / 4 * x)).collect();
    let model = Model::fit(&runs).expect("enough");
    assert_eq!(
        model.predict(8, 1, true).expect_err("too large"),
        ModelError::TooLarge
    );
}

#[test]
fn what_is_appended_is_read() {
    #[derive(Serialize)]
    struct Statistics {
        hits: u64,
        high_water: u64,
        programs: Vec<()>,
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("runs.jsonl");
    for cells in [10, 20] {
        let statistics = Statistics {
            hits: 5,
            high_water: 7 * cells,
            programs: Vec::new(),
        };
        append(&path, cells, 3, &statistics).expect("it can be written");
    }
    let text = std::fs::read_to_string(&path).expect("it is there");
    let runs = read(text.as_bytes()).expect("it is right");
    let seen: Vec<_> = runs
        .iter()
        .map(|run| (run.cells, run.levels, run.statistics.high_water))
        .collect();
    assert_eq!(seen, [(10, 3, 70), (20, 3, 140)]);
}

#[rstest]
#[case("{\"cells\": 1}", 1)]
#[case(
    "\n{\"cells\": 0, \"levels\": 1, \"statistics\": {\"high_water\": 1}}",
    2
)]
#[case(
    "{\"cells\": 1, \"levels\": 1, \"statistics\": {\"high_water\": 1}}\nnonsense",
    2
)]
#[case(
    "{\"cells\": 1, \"levels\": 1, \"statistics\": {\"high_water\": 18446744073709551616}}",
    1
)]
fn a_bad_line_is_named(#[case] text: &str, #[case] line: u64) {
    match read(text.as_bytes()) {
        Err(FileError::Line { line: named, .. }) => assert_eq!(named, line),
        other => panic!("{other:?}"),
    }
}
