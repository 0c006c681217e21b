//! The planner's numbers: how good, how fast, in how much memory, and how that grows.

use std::path::{Path, PathBuf};
use std::process::Command;

use plotters::prelude::*;
use serde_json::Value;

use crate::command::{cargo, output, root, run, target};

/// MiniMalloc's instances at 1 MiB, with the seconds that MiniMalloc took on the kind of machine that the
/// document names, one thread, medians.
const MINIMALLOC: [(&str, f64); 11] = [
    ("A", 7.0),
    ("B", 5.0),
    ("C", 1.07),
    ("D", 3.7),
    ("E", 5.2),
    ("F", 7.6),
    ("G", 1.4),
    ("H", 3.1),
    ("I", 5.8),
    ("J", 1.8),
    ("K", 1.1),
];

/// How many seeds are tried; the first is the default.
const SEEDS: usize = 5;

/// Larger instances.
const LARGE: [&str; 4] = ["G_1", "resnet50", "pangu_2.6B", "Y_1"];

/// What the example `measure` says of one run.
struct Measured {
    plans: Vec<Value>,
    seconds: f64,
    megabytes: f64,
}

impl Measured {
    fn of(what: &str, effort: &str, seed: usize) -> Result<Self, String> {
        let program = target().join("release/examples/measure");
        let text = output(Command::new(program).args([what, effort, &seed.to_string()]))?;
        let value: Value =
            serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
        Ok(Self {
            plans: value["plans"].as_array().cloned().unwrap_or_default(),
            seconds: value["seconds"].as_f64().unwrap_or(f64::NAN),
            megabytes: value["memory"].as_f64().unwrap_or(f64::NAN) / 1e6,
        })
    }

    fn number(&self, field: &str) -> u64 {
        self.plans
            .first()
            .map_or(0, |plan| plan[field].as_u64().unwrap_or(0))
    }

    fn ratio(&self) -> f64 {
        self.number("makespan") as f64 / self.number("lower_bound") as f64
    }

    fn is(&self, field: &str) -> bool {
        !self.plans.is_empty() && self.plans.iter().all(|plan| plan[field] == true)
    }
}

/// Measures everything, prints the tables in Markdown, and draws how time and memory grow.
pub fn measure() -> Result<(), String> {
    run(cargo()
        .args(["build", "--release", "--locked", "-p", "workslab-plan"])
        .args(["--example", "measure"]))?;
    let mut text = String::new();
    match std::env::var_os("WORKSLAB_BENCH_DATA").map(PathBuf::from) {
        Some(data) => {
            minimalloc(&mut text, &data)?;
            makespans(&mut text, &data)?;
            large(&mut text, &data)?;
        }
        None => text.push_str(
            "skipped: instances A to K, G_1, resnet50, pangu and Y_1; set WORKSLAB_BENCH_DATA to the folder of minimalloc and idealloc\n",
        ),
    }
    programs(&mut text)?;
    growth(&mut text)?;
    println!("\n{text}");
    Ok(())
}

fn minimalloc(text: &mut String, data: &Path) -> Result<(), String> {
    text.push_str(
        "\n| instance | buffers | seconds | seconds, 5 seeds | MiniMalloc |\n| --- | ---: | ---: | ---: | ---: |\n",
    );
    let (mut own, mut peer) = (0.0, 0.0);
    for (name, theirs) in MINIMALLOC {
        let path = data.join(format!("minimalloc/{name}.1048576.csv"));
        let mut times = Vec::new();
        let mut buffers = 0;
        for seed in 0..SEEDS {
            let measured = Measured::of(&path.to_string_lossy(), "fit:1048576:120", seed)?;
            if !measured.is("fits") {
                return Err(format!("{name} does not fit, seed {seed}"));
            }
            buffers = measured.number("buffers");
            times.push(measured.seconds);
        }
        let default = times[0];
        times.sort_by(f64::total_cmp);
        *text += &format!(
            "| {name} | {buffers} | {default:.3} | {:.3} to {:.3} | {theirs} |\n",
            times[0],
            times[SEEDS - 1]
        );
        own += default;
        peer += theirs;
    }
    *text += &format!("| sum | | {own:.2} | | {peer:.1} |\n");
    Ok(())
}

fn makespans(text: &mut String, data: &Path) -> Result<(), String> {
    text.push_str(
        "\n| instance | lower bound | makespan | ratio | | seconds |\n| --- | ---: | ---: | ---: | --- | ---: |\n",
    );
    for (name, _) in MINIMALLOC {
        let path = data.join(format!("minimalloc/{name}.1048576.csv"));
        let measured = Measured::of(&path.to_string_lossy(), "exhaustive:60", 0)?;
        *text += &format!(
            "| {name} | {} | {} | {:.4} | {} | {:.2} |\n",
            measured.number("lower_bound"),
            measured.number("makespan"),
            measured.ratio(),
            if measured.is("optimal") {
                "optimal"
            } else {
                ""
            },
            measured.seconds
        );
    }
    Ok(())
}

const HEADS: &str = "\n| instance | buffers | effort | ratio | | seconds | megabytes |\n| --- | ---: | --- | ---: | --- | ---: | ---: |\n";

fn row(text: &mut String, name: &str, effort: &str, measured: &Measured) {
    *text += &format!(
        "| {name} | {} | {effort} | {:.4} | {} | {:.4} | {:.0} |\n",
        measured.number("buffers"),
        measured.ratio(),
        if measured.is("optimal") {
            "optimal"
        } else {
            ""
        },
        measured.seconds,
        measured.megabytes
    );
}

fn large(text: &mut String, data: &Path) -> Result<(), String> {
    text.push_str(HEADS);
    for name in LARGE {
        let path = data.join(format!("idealloc/{name}.csv"));
        for effort in ["instant", "balanced"] {
            row(
                text,
                name,
                effort,
                &Measured::of(&path.to_string_lossy(), effort, 0)?,
            );
        }
    }
    Ok(())
}

fn programs(text: &mut String) -> Result<(), String> {
    let path = root().join("examples/data/icon4py-dycore.json");
    let measured = Measured::of(&path.to_string_lossy(), "balanced", 0)?;
    let met = measured
        .plans
        .iter()
        .filter(|plan| plan["makespan"] == plan["lower_bound"])
        .count();
    *text += &format!(
        "\nicon4py: {met} of {} programs meet their bound; the slowest took {:.1} µs\n",
        measured.plans.len(),
        measured.seconds * 1e6
    );
    Ok(())
}

/// A number of buffers, and what planning them took.
type Points = Vec<(f64, f64)>;

fn growth(text: &mut String) -> Result<(), String> {
    text.push_str(HEADS);
    let mut series = Vec::new();
    for effort in ["instant", "balanced"] {
        let (mut times, mut memory): (Points, Points) = (Vec::new(), Vec::new());
        for power in 2..=6 {
            let number = 10u64.pow(power);
            let measured = Measured::of(&format!("random:{number}"), effort, 0)?;
            row(text, "random", effort, &measured);
            times.push((number as f64, measured.seconds));
            memory.push((number as f64, measured.megabytes));
        }
        series.push((effort, times, memory));
    }
    let path = root().join("docs/images/planner-growth.svg");
    draw(&path, &series).map_err(|error| format!("{}: {error}", path.display()))?;
    *text += &format!("\ndrawn: {}\n", path.display());
    Ok(())
}

fn draw(path: &Path, series: &[(&str, Points, Points)]) -> Result<(), Box<dyn std::error::Error>> {
    const COLOURS: [RGBColor; 2] = [RGBColor(0, 114, 178), RGBColor(213, 94, 0)];
    let area = SVGBackend::new(path, (900, 380)).into_drawing_area();
    area.fill(&WHITE)?;
    let (left, right) = area.split_horizontally(450);
    let panels = [
        (left, "seconds", 1e-5..100.0, 1),
        (right, "megabytes", 1.0..1000.0, 2),
    ];
    for (panel, name, range, which) in panels {
        let mut chart = ChartBuilder::on(&panel)
            .margin(14)
            .x_label_area_size(42)
            .y_label_area_size(62)
            .build_cartesian_2d((80f64..1.5e6).log_scale(), range.log_scale())?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc("buffers")
            .y_desc(name)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| format!("{y}"))
            .draw()?;
        for ((effort, times, memory), colour) in series.iter().zip(COLOURS) {
            let points = if which == 1 { times } else { memory };
            chart
                .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
                .label(*effort)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2))
                });
            let dots = points.iter().map(|&at| Circle::new(at, 4, colour.filled()));
            chart.draw_series(dots)?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .border_style(BLACK.mix(0.3))
            .background_style(WHITE)
            .draw()?;
    }
    area.present()?;
    Ok(())
}
