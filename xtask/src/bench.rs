//! The benchmarks, and the ratios between what ran side by side.
//!
//! Machines are noisy and differ, so the bounds are on ratios within one run; the one bound in
//! nanoseconds is printed beside its number, and judged by the reader.

use std::path::Path;

use serde_json::Value;

use crate::command::{self, cargo, target};

/// Two benchmarks of one run: `theirs` must take at least `bound` times as long as `ours`.
struct Bound {
    what: &'static str,
    ours: &'static str,
    theirs: &'static str,
    bound: f64,
}

const BOUNDS: [Bound; 6] = [
    Bound {
        what: "malloc + free of 64 MiB against allocate + lease + drop",
        ours: "lease/allocate, lease, drop",
        theirs: "lease/malloc and free of 64 MiB, untouched",
        bound: 3.0,
    },
    Bound {
        what: "a hit on one thread against one on two (at least 1 / 1.3)",
        ours: "allocate/hit, 2 thread(s)",
        theirs: "allocate/hit, 1 thread(s)",
        bound: 1.0 / 1.3,
    },
    Bound {
        what: "24 allocations by bumpalo against 24 arrays in a frame (at least 1 / 2)",
        ours: "24 arrays/frame.array",
        theirs: "24 arrays/bumpalo, same layout",
        bound: 0.5,
    },
    Bound {
        what: "a lease by name, of one program against 300 in turn (at least 1 / 3)",
        ours: "lease/for a program by its name, 300 of them in turn",
        theirs: "lease/for a program by its name, 1 of them in turn",
        bound: 1.0 / 3.0,
    },
    Bound {
        what: "icon4py step: malloc per call against one workspace",
        ours: "icon4py step/one workspace",
        theirs: "icon4py step/malloc per call",
        bound: 5.0,
    },
    Bound {
        what: "icon4py step: a slab per call against one workspace",
        ours: "icon4py step/one workspace",
        theirs: "icon4py step/slab per call",
        bound: 5.0,
    },
];

/// Runs the benchmarks, prints the ratios, and fails if one is under its bound.
pub fn run() -> Result<(), String> {
    for (package, bench) in [("workslab-host", "warm_path"), ("workslab-cli", "replay")] {
        command::run(cargo().args(["bench", "--locked", "-p", package, "--bench", bench]))?;
    }
    let results = target().join("criterion");
    println!("\n| ratio | ours | theirs | ratio | at least | |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    let mut under = Vec::new();
    for Bound {
        what,
        ours,
        theirs,
        bound,
    } in BOUNDS
    {
        let (own, peer) = (median(&results, ours)?, median(&results, theirs)?);
        let ratio = peer / own;
        let kept = ratio >= bound;
        println!(
            "| {what} | {} | {} | {ratio:.2} | {bound:.2} | {} |",
            time(own),
            time(peer),
            if kept { "ok" } else { "UNDER" }
        );
        if !kept {
            under.push(what);
        }
    }
    if under.is_empty() {
        Ok(())
    } else {
        Err(format!("under their bounds: {}", under.join("; ")))
    }
}

/// The median that criterion wrote, in nanoseconds.
fn median(results: &Path, bench: &str) -> Result<f64, String> {
    let path = results.join(bench).join("new/estimates.json");
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let estimates: Value =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    estimates["median"]["point_estimate"]
        .as_f64()
        .ok_or_else(|| format!("{}: it has no median", path.display()))
}

fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e6 => format!("{:.2} µs", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}
