//! What a library's file tells before it is loaded.

use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol};

use crate::Error;
use crate::placement::Placement;
use crate::signature::Signature;

/// What is known of a compiled library without running anything of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspected {
    /// The library.
    pub path: PathBuf,
    /// The program's name.
    pub name: String,
    /// The storages of which it takes memory from its caller, as DaCe calls them: `CPU_Heap`, `GPU_Global`.
    pub storages: Vec<String>,
    /// What its functions take, where the build folder has the header.
    pub signature: Option<Signature>,
    /// Where DaCe places the arrays, where the build folder has `program.sdfg`.
    pub placement: Option<Placement>,
}

const SIZE: &str = "__dace_get_external_memory_size_";
const PROGRAM: &str = "__program_";

/// Reads a library, its header and its SDFG.
///
/// # Errors
/// [`Error::File`] if it cannot be read, is no ELF library, or is none that DaCe compiled.
pub fn inspect(path: impl AsRef<Path>) -> Result<Inspected, Error> {
    let path = path.as_ref();
    let failed = |reason: String| Error::File {
        path: path.to_owned(),
        reason,
    };
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let file = object::File::parse(&*bytes)
        .map_err(|error| failed(format!("it is no shared library ({error})")))?;
    let exported: Vec<&str> = file
        .dynamic_symbols()
        .filter(ObjectSymbol::is_definition)
        .filter_map(|symbol| symbol.name().ok())
        .collect();
    let names: Vec<&str> = exported
        .iter()
        .filter_map(|symbol| symbol.strip_prefix(PROGRAM))
        .filter(|name| exported.contains(&&*format!("__dace_init_{name}")))
        .collect();
    let [name] = names[..] else {
        return Err(failed(format!(
            "it exports {} programs of DaCe's, where one was expected; build it with DaCe",
            names.len()
        )));
    };
    let mut storages: Vec<String> = exported
        .iter()
        .filter_map(|symbol| symbol.strip_prefix(SIZE))
        .map(str::to_owned)
        .collect();
    storages.sort();
    let header = in_build_folder(path, &format!("include/{name}.h"));
    let signature = match read(header)? {
        Some((_, text)) => Some(Signature::of_header(name, &text)?),
        None => None,
    };
    let placement = match read(in_build_folder(path, "program.sdfg"))? {
        Some((file, text)) => Some(Placement::of_sdfg(&file, &text)?),
        None => None,
    };
    Ok(Inspected {
        path: path.to_owned(),
        name: name.to_owned(),
        storages,
        signature,
        placement,
    })
}

/// A file of the build folder that the library is in: DaCe's is `build/libNAME.so` in it.
fn in_build_folder(library: &Path, file: &str) -> Option<PathBuf> {
    let folder = library.parent()?;
    [Some(folder), folder.parent()]
        .into_iter()
        .flatten()
        .map(|folder| folder.join(file))
        .find(|path| path.is_file())
}

fn read(path: Option<PathBuf>) -> Result<Option<(PathBuf, String)>, Error> {
    let Some(path) = path else {
        return Ok(None);
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) => Err(Error::File {
            path,
            reason: error.to_string(),
        }),
    }
}
