//! The published instances, where they are at hand: `WORKSLAB_BENCH_DATA` is the folder of `minimalloc` and
//! `idealloc`. Without it these tests say so and end.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rstest::rstest;
use workslab_plan::file::{Contents, read};
use workslab_plan::{Effort, Instance, Planner, Verdict};

fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("WORKSLAB_BENCH_DATA").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: WORKSLAB_BENCH_DATA is not set");
    }
    folder
}

fn instance(path: &Path) -> Instance {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    match read(BufReader::new(file)) {
        Ok(Contents::Instance(instance)) => instance,
        other => panic!("{}: {other:?}", path.display()),
    }
}

#[rstest]
fn minimallocs_instances_fit_into_a_mebibyte(
    #[values("A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K")] name: &str,
) {
    let Some(data) = data() else { return };
    let instance = instance(&data.join(format!("minimalloc/{name}.1048576.csv")));
    let effort = Effort::Fit {
        capacity: 1_048_576,
        budget: Duration::from_secs(600),
    };
    let planned = Planner::new().plan(&instance, effort).expect("a plan");
    assert_eq!(planned.verdict, Verdict::Fits);
    assert!(planned.plan.verify(&instance).expect("right") <= 1_048_576);
}

#[rstest]
#[case("G_1", 1.0)]
#[case("resnet50", 1.0)]
#[case("pangu_2.6B", 1.0076)]
#[case("Y_1", 1.0)]
fn larger_instances_come_close_to_their_bound(#[case] name: &str, #[case] ratio: f64) {
    let Some(data) = data() else { return };
    let instance = instance(&data.join(format!("idealloc/{name}.csv")));
    let planned = Planner::new()
        .plan(&instance, Effort::Balanced)
        .expect("a plan");
    let makespan = planned.plan.verify(&instance).expect("right");
    assert_eq!(makespan, planned.plan.makespan);
    assert!(planned.plan.ratio() <= ratio, "{}", planned.plan.ratio());
}
