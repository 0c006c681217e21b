//! `workslab inspect`.

use serde::Serialize;
use workslab_dace::{CType, CompiledProgram, Inspected, Parameter, Signature, Value, inspect};

use crate::CliError;
use crate::args::InspectArgs;
use crate::table;

#[derive(Serialize)]
struct Report {
    program: String,
    /// Whether the transients were placed by `workslab.dace.plan`; nothing if that cannot be told.
    planned: Option<bool>,
    symbols: Option<Vec<String>>,
    arguments: Option<Vec<String>>,
    storages: Vec<Storage>,
}

#[derive(Serialize)]
struct Storage {
    storage: String,
    arrays: Option<usize>,
    bytes: Option<usize>,
}

pub fn run(args: &InspectArgs) -> Result<(), CliError> {
    let inspected = inspect(&args.library)?;
    let sizes = sizes(args, &inspected)?;
    let placement = inspected.placement.as_ref();
    let listed = |list: &[Parameter]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let signature = inspected.signature.as_ref();
    let storages = inspected.storages.iter().map(|storage| Storage {
        storage: storage.clone(),
        arrays: placement.map(|placement| placement.arrays(storage)),
        bytes: sizes
            .iter()
            .find(|(name, _)| name == storage)
            .map(|(_, bytes)| *bytes),
    });
    let report = Report {
        program: inspected.name.clone(),
        planned: placement.map(workslab_dace::Placement::is_planned),
        symbols: signature.map(|signature| listed(&signature.symbols)),
        arguments: signature.map(|signature| listed(&signature.arguments)),
        storages: storages.collect(),
    };
    if args.json {
        return table::print_json(&report);
    }
    table::print(&format!("program    {}", report.program))?;
    for (what, list) in [
        ("symbols   ", &report.symbols),
        ("arguments ", &report.arguments),
    ] {
        let list = match list {
            Some(list) => list.join(", "),
            None => format!("not known: there is no include/{}.h", report.program),
        };
        table::print(&format!("{what} {list}"))?;
    }
    if report.storages.is_empty() {
        return table::print("It takes no memory from its caller.");
    }
    let placed = match report.planned {
        Some(true) => "planned by workslab: aligned, and sharing bytes where they may",
        Some(false) => "as DaCe places them: one behind the other, not aligned",
        None => "not known: there is no program.sdfg",
    };
    table::print(&format!("transients {placed}"))?;
    let mut shown = table::new(["storage", "arrays", "bytes"], &[1, 2]);
    let number = |value: Option<usize>| value.map_or("-".into(), |value| value.to_string());
    for storage in report.storages {
        shown.add_row([
            storage.storage,
            number(storage.arrays),
            number(storage.bytes),
        ]);
    }
    table::print(&shown.to_string())
}

/// What the library says that it needs, if there is a value for each symbol.
fn sizes(args: &InspectArgs, inspected: &Inspected) -> Result<Vec<(String, usize)>, CliError> {
    let Some(signature) = &inspected.signature else {
        return match args.symbols.first() {
            None => Ok(Vec::new()),
            Some(given) => Err(CliError::Symbol {
                given: given.clone(),
                reason: format!(
                    "the library's build folder has no include/{}.h, so its symbols are not known",
                    inspected.name
                ),
            }),
        };
    };
    if args.symbols.is_empty() {
        return Ok(Vec::new());
    }
    let values = values(signature, &args.symbols)?;
    // SAFETY: the user names a library that DaCe compiled, in its build folder, and asks for its sizes.
    let program = unsafe { CompiledProgram::load(&args.library)? };
    let started = program.start(&values)?;
    let sizes = started.external_memory().into_iter();
    Ok(sizes
        .map(|(name, bytes)| (name.to_owned(), bytes))
        .collect())
}

fn values(signature: &Signature, given: &[String]) -> Result<Vec<Value>, CliError> {
    let refused = |given: &str, reason: String| CliError::Symbol {
        given: given.to_owned(),
        reason,
    };
    let names = || {
        let names = signature.symbols.iter().map(|symbol| &*symbol.name);
        names.collect::<Vec<_>>().join(", ")
    };
    let mut pairs = Vec::new();
    for text in given {
        let pair = text
            .split_once('=')
            .ok_or_else(|| refused(text, "write NAME=VALUE".into()))?;
        if !signature.symbols.iter().any(|symbol| symbol.name == pair.0) {
            return Err(refused(
                text,
                format!("the program's symbols are {}", names()),
            ));
        }
        pairs.push((text, pair));
    }
    let each = signature.symbols.iter().map(|symbol| {
        let (text, (_, value)) = pairs
            .iter()
            .rev()
            .find(|(_, (name, _))| *name == symbol.name)
            .ok_or_else(|| refused(&symbol.name, format!("it has no value; give {}", names())))?;
        parsed(symbol.ctype, value)
            .ok_or_else(|| refused(text, format!("it must be of the type {}", symbol.ctype)))
    });
    each.collect()
}

fn parsed(ctype: CType, text: &str) -> Option<Value> {
    match ctype {
        CType::Bool => text.parse().ok().map(Value::Bool),
        CType::I8 => text.parse().ok().map(Value::I8),
        CType::U8 => text.parse().ok().map(Value::U8),
        CType::I16 => text.parse().ok().map(Value::I16),
        CType::U16 => text.parse().ok().map(Value::U16),
        CType::I32 => text.parse().ok().map(Value::I32),
        CType::U32 => text.parse().ok().map(Value::U32),
        CType::I64 => text.parse().ok().map(Value::I64),
        CType::U64 => text.parse().ok().map(Value::U64),
        CType::F32 => text.parse().ok().map(Value::F32),
        CType::F64 => text.parse().ok().map(Value::F64),
        CType::Pointer => None,
    }
}
