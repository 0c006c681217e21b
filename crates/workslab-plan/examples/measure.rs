//! Plans one instance in a process of its own, and says how well, how fast and in how much memory.
//!
//! ```sh
//! cargo run --release -p workslab-plan --example measure -- buffers.csv balanced
//! cargo run --release -p workslab-plan --example measure -- random:1000000 instant
//! ```
//!
//! The instance is a file, or random: of so many buffers, starts lie evenly in so many ticks; lengths are
//! spread evenly on a logarithmic scale from 1 tick to a hundredth of all, and sizes from 64 bytes to 1
//! MiB. Of a file of programs each is planned, on R02B04 with 65 levels, and the time is that of the
//! slowest. The effort is `instant`, `balanced`, `exhaustive:SECONDS` or `fit:BYTES:SECONDS`; a third
//! argument is the planner's seed. One thread plans.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use workslab_plan::file::{self, Contents};
use workslab_plan::grid::Grid;
use workslab_plan::{Buffer, Effort, Instance, Planner, Verdict};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &arguments[..] {
        [what, effort] => measure(what, effort, "0"),
        [what, effort, seed] => measure(what, effort, seed),
        _ => Err("give an instance and an effort".into()),
    };
    match outcome {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("measure: {error}");
            ExitCode::from(2)
        }
    }
}

fn measure(what: &str, effort: &str, seed: &str) -> Result<String, String> {
    let named = |error: String| format!("{what}: {error}");
    let instances = match what.strip_prefix("random:") {
        Some(number) => vec![random(
            number.parse().map_err(|e| format!("{number}: {e}"))?,
        )],
        None => read(what).map_err(named)?,
    };
    let effort = parse(effort).ok_or_else(|| format!("{effort} is no effort"))?;
    let seed = seed.parse().map_err(|error| format!("{seed}: {error}"))?;
    let planner = Planner::new().with_seed(seed);
    let memory_before = peak_memory();
    let mut report = Vec::new();
    let mut slowest = 0.0f64;
    for instance in &instances {
        let since = Instant::now();
        let planned = planner.plan(instance, effort);
        slowest = slowest.max(since.elapsed().as_secs_f64());
        let planned = planned.map_err(|error| error.to_string())?;
        let makespan = planned.plan.verify(instance);
        report.push(serde_json::json!({
            "buffers": instance.buffers.len(),
            "lower_bound": planned.plan.lower_bound,
            "makespan": makespan.map_err(|error| error.to_string())?,
            "optimal": planned.plan.optimal,
            "fits": planned.verdict == Verdict::Fits,
        }));
    }
    let report = serde_json::json!({
        "plans": report,
        "seconds": slowest,
        "memory_before": memory_before,
        "memory": peak_memory(),
    });
    Ok(report.to_string())
}

fn read(path: &str) -> Result<Vec<Instance>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    match file::read(BufReader::new(file)).map_err(|error| error.to_string())? {
        Contents::Instance(instance) => Ok(vec![instance]),
        Contents::Programs(programs) => {
            let grid = Grid::named("R02B04", 65).map_err(|error| error.to_string())?;
            let sized = programs.size_on(&grid, Path::new(path));
            let sized = sized.map_err(|error| error.to_string())?;
            let instances = sized.iter().map(|program| program.instance(256));
            let instances: Result<_, _> = instances.collect();
            instances.map_err(|error| error.to_string())
        }
        _ => Err("it is neither an instance nor programs".into()),
    }
}

fn parse(effort: &str) -> Option<Effort> {
    let parts: Vec<&str> = effort.split(':').collect();
    let seconds = |text: &str| Duration::try_from_secs_f64(text.parse().ok()?).ok();
    match parts[..] {
        ["instant"] => Some(Effort::Instant),
        ["balanced"] => Some(Effort::Balanced),
        ["exhaustive", budget] => Some(Effort::Exhaustive {
            budget: seconds(budget)?,
        }),
        ["fit", capacity, budget] => Some(Effort::Fit {
            capacity: capacity.parse().ok()?,
            budget: seconds(budget)?,
        }),
        _ => None,
    }
}

/// The most memory that the process ever had, in bytes.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The same on every machine.
fn random(number: u64) -> Instance {
    let mut state: u64 = 1;
    // SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, doi:10.1145/2660193.2660195).
    let mut fraction = move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    let longest = (number as f64 / 100.0).max(2.0);
    let buffers = (0..number).map(|_| {
        let start = (fraction() * number as f64) as u64;
        let length = longest.powf(fraction()) as u64;
        let size = 64.0 * 16_384f64.powf(fraction());
        Buffer::new("", size as u64, start..start + length.max(1))
    });
    Instance::new(buffers.collect())
}
