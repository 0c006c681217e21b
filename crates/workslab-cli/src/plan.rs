//! `workslab plan`: offsets for buffers with lifetimes, and how good they are.

use std::fs::File;
use std::io::{BufReader, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use thiserror::Error;
use workslab::{Bytes, parse_size};
use workslab_plan::file::{self, Contents, FileError};
use workslab_plan::picture::{self, Caption};
use workslab_plan::runs::ModelError;
use workslab_plan::{Effort, Instance, Plan, PlanError, Planned, Planner, Verdict};

use crate::args::{EffortArg, PlanArgs};
use crate::{CliError, table};

/// What planning can fail with.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanFailure {
    /// The file cannot be used.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: FileError,
    },
    /// What is in the file cannot be planned.
    #[error("{}: {error}", path.display())]
    Plan {
        /// The file.
        path: PathBuf,
        /// Why.
        error: PlanError,
    },
    /// Recorded runs from which nothing can be predicted.
    #[error("{}: {error}", path.display())]
    Runs {
        /// The file.
        path: PathBuf,
        /// Why.
        error: ModelError,
    },
    /// A file of programs, and no program was named.
    #[error(
        "{} holds programs; choose one by --program: {}",
        path.display(), names.join(", ")
    )]
    WhichProgram {
        /// The file.
        path: PathBuf,
        /// The programs' names.
        names: Vec<String>,
    },
    /// An option's value cannot be used.
    #[error("{option}: {problem}")]
    Option {
        /// The option.
        option: &'static str,
        /// Why.
        problem: String,
    },
    /// A file could not be written.
    #[error("cannot write {}: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// What is printed.
#[derive(Serialize)]
struct Report<'a> {
    file: String,
    buffers: usize,
    total: u64,
    lower_bound: u64,
    makespan: u64,
    ratio: f64,
    optimal: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<u64>,
    verdict: &'a str,
    seconds: f64,
}

/// The command. Exit code 0: it fits; 1: it is proved not to; 3: that is not known.
pub(crate) fn run(args: &PlanArgs) -> Result<ExitCode, CliError> {
    let capacity = match &args.capacity {
        Some(text) => Some(parse_size(text).map_err(|error| PlanFailure::Option {
            option: "--capacity",
            problem: error.to_string(),
        })? as u64),
        None => None,
    };
    let budget = Duration::try_from_secs_f64(args.budget).map_err(|error| PlanFailure::Option {
        option: "--budget",
        problem: error.to_string(),
    })?;
    let instance = read(args)?;
    let effort = match (capacity, args.effort) {
        (Some(capacity), _) => Effort::Fit { capacity, budget },
        (None, EffortArg::Instant) => Effort::Instant,
        (None, EffortArg::Balanced) => Effort::Balanced,
        (None, EffortArg::Exhaustive) => Effort::Exhaustive { budget },
    };
    let since = Instant::now();
    let planned = search(args, &instance, effort)?;
    let seconds = since.elapsed().as_secs_f64();
    let plan = &planned.plan;
    let failed = |error| PlanFailure::Plan {
        path: args.file.clone(),
        error,
    };
    // The planner is not trusted.
    plan.verify(&instance).map_err(failed)?;
    write_files(args, &instance, plan, capacity)?;
    let report = Report {
        file: args.file.display().to_string(),
        buffers: instance.buffers.len(),
        total: instance.total().map_err(failed)?,
        lower_bound: plan.lower_bound,
        makespan: plan.makespan,
        ratio: plan.ratio(),
        optimal: plan.optimal,
        capacity,
        verdict: match planned.verdict {
            Verdict::Fits => "fits",
            Verdict::DoesNotFit => "does not fit",
            _ => "unknown",
        },
        seconds,
    };
    if args.json {
        table::print_json(&report)?;
    } else {
        table::print(&report.text())?;
    }
    Ok(ExitCode::from(match planned.verdict {
        Verdict::Fits => 0,
        Verdict::DoesNotFit => 1,
        _ => 3,
    }))
}

impl Report<'_> {
    fn text(&self) -> String {
        let mut table = table::new(["", "bytes", ""], &[1]);
        let mut row = |name: &str, bytes: u64, note: String| {
            table.add_row([name.to_owned(), bytes.to_string(), note]);
        };
        row(
            "sum of all",
            self.total,
            format!("{} buffers", self.buffers),
        );
        row("lower bound", self.lower_bound, "most live at once".into());
        let optimal = if self.optimal { ", optimal" } else { "" };
        row(
            "plan",
            self.makespan,
            format!("ratio {:.4}{optimal}", self.ratio),
        );
        if let Some(capacity) = self.capacity {
            let verdict = match self.verdict {
                "unknown" => "not known whether it fits: the time ran out",
                verdict => verdict,
            };
            row("capacity", capacity, verdict.into());
        }
        format!("{}\n{table}\nplanned in {:.3} s", self.file, self.seconds)
    }
}

impl PlanFailure {
    /// What is in the file, or that it is not there, is the trouble.
    pub(crate) fn in_file(path: &Path, error: FileError) -> Self {
        Self::File {
            path: path.to_owned(),
            error,
        }
    }
}

/// A file to read from.
pub(crate) fn open(path: &Path) -> Result<BufReader<File>, PlanFailure> {
    let file = File::open(path).map_err(|error| FileError::Unreadable(error.to_string()));
    file.map(BufReader::new)
        .map_err(|error| PlanFailure::in_file(path, error))
}

/// The instance in the file, or that of one of its programs.
fn read(args: &PlanArgs) -> Result<Instance, CliError> {
    let path = &args.file;
    let failed = |error| PlanFailure::in_file(path, error);
    match file::read(open(path)?).map_err(failed)? {
        Contents::Instance(instance) => Ok(instance),
        Contents::Programs(programs) => {
            let sized = programs.size_on(&args.grid.grid()?, path)?;
            let wanted = args.program.as_deref();
            let found = sized
                .iter()
                .find(|program| Some(program.name.as_str()) == wanted);
            let Some(program) = found else {
                return Err(PlanFailure::WhichProgram {
                    path: path.clone(),
                    names: sized.into_iter().map(|program| program.name).collect(),
                }
                .into());
            };
            let instance = program.instance(workslab::ARRAY_ALIGNMENT as u64);
            Ok(instance.map_err(|error| PlanFailure::Plan {
                path: path.clone(),
                error,
            })?)
        }
        _ => Err(failed(FileError::Unknown).into()),
    }
}

/// Plans, shows the best so far, and ends with it at Ctrl-C.
fn search(args: &PlanArgs, instance: &Instance, effort: Effort) -> Result<Planned, CliError> {
    static STOP: AtomicBool = AtomicBool::new(false);
    // A second handler cannot be set; that is no reason not to plan.
    if let Err(error) = ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed)) {
        eprintln!("workslab: Ctrl-C will end this without a plan: {error}");
    }
    let progress = ProgressBar::new_spinner().with_style(
        ProgressStyle::with_template("{spinner} {elapsed} {msg}")
            .map_err(|error| CliError::Output(error.to_string()))?,
    );
    if std::io::stderr().is_terminal() {
        progress.enable_steady_tick(Duration::from_millis(200));
    }
    let planner = Planner::new()
        .with_seed(args.seed)
        .with_threads(args.threads)
        .with_stop(&STOP)
        .on_improvement(|plan| {
            progress.set_message(format!(
                "best so far {} ({:.4} of the bound)",
                Bytes(usize::try_from(plan.makespan).unwrap_or(usize::MAX)),
                plan.ratio()
            ));
        });
    let planned = planner.plan(instance, effort);
    progress.finish_and_clear();
    Ok(planned.map_err(|error| PlanFailure::Plan {
        path: args.file.clone(),
        error,
    })?)
}

fn write_files(
    args: &PlanArgs,
    instance: &Instance,
    plan: &Plan,
    capacity: Option<u64>,
) -> Result<(), CliError> {
    let stem = args.file.file_stem().unwrap_or(args.file.as_os_str());
    let title = match &args.program {
        Some(program) => program.clone(),
        None => stem.to_string_lossy().into_owned(),
    };
    let caption = Caption::new(title).with_capacity(capacity);
    if let Some(path) = &args.output {
        write(path, |to| file::write_csv(instance, plan, to))?;
    }
    if let Some(path) = &args.svg {
        let svg = picture::svg(instance, plan, &caption);
        write(path, |to| to.write_all(svg.as_bytes()))?;
    }
    if let Some(path) = &args.png {
        let png = png(&picture::svg(instance, plan, &caption))?;
        write(path, |to| to.write_all(&png))?;
    }
    if let Some(path) = &args.html {
        let html = picture::html(instance, plan, &caption);
        write(path, |to| to.write_all(html.as_bytes()))?;
    }
    Ok(())
}

/// Writes a file whole or not at all: beside its place first, and then into it.
fn write(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), CliError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    // As for any new file: the umask takes away what it wants.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let written = builder.tempfile_in(folder).and_then(|file| {
        let mut to = BufWriter::new(&file);
        content(&mut to)?;
        to.flush()?;
        drop(to);
        file.persist(path).map(drop).map_err(|error| error.error)
    });
    Ok(written.map_err(|error| PlanFailure::Write {
        path: path.to_owned(),
        reason: error.to_string(),
    })?)
}

/// The picture in pixels, twice as many as its size says.
fn png(svg: &str) -> Result<Vec<u8>, CliError> {
    let failed = |problem: String| PlanFailure::Option {
        option: "--png",
        problem,
    };
    let mut options = resvg::usvg::Options::default();
    options.fontdb_mut().load_system_fonts();
    let families = || {
        let faces = options.fontdb.faces();
        faces.filter_map(|face| Some(face.families.first()?.0.clone()))
    };
    let sans = families().find(|family| family.ends_with("Sans"));
    let family = sans.or_else(|| families().next());
    let Some(family) = family else {
        return Err(failed(
            "no font is installed to write the labels in; install one (fonts-dejavu-core), or use --svg".into(),
        )
        .into());
    };
    options.fontdb_mut().set_sans_serif_family(family);
    let tree =
        resvg::usvg::Tree::from_str(svg, &options).map_err(|error| failed(error.to_string()))?;
    let size = tree.size().to_int_size();
    let mut pixels = resvg::tiny_skia::Pixmap::new(2 * size.width(), 2 * size.height())
        .ok_or_else(|| failed("the picture is too large".into()))?;
    let scale = resvg::tiny_skia::Transform::from_scale(2.0, 2.0);
    resvg::render(&tree, scale, &mut pixels.as_mut());
    let png = pixels.encode_png();
    Ok(png.map_err(|error| failed(error.to_string()))?)
}
