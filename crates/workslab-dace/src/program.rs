use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::path::Path;
use std::ptr;

use libffi::middle::{Arg, Cif, CodePtr, Type};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use workslab_core::{Lease, Platform, Workspace};

use crate::file::{Inspected, inspect};
use crate::placement::Placement;
use crate::signature::{CType, Parameter, Signature};
use crate::{Error, Value};

/// A library that DaCe compiled, loaded.
pub struct CompiledProgram {
    signature: Signature,
    placement: Option<Placement>,
    init: CodePtr,
    exit: CodePtr,
    run: CodePtr,
    storages: Vec<Storage>,
    /// Its functions are used until the program is dropped.
    _library: Library,
}

struct Storage {
    name: String,
    size: CodePtr,
    set: CodePtr,
}

// SAFETY: the addresses are of functions of a loaded library, which any thread may call; that one instance is
// not called by two at once is `Started`'s, which takes itself mutably.
unsafe impl Send for CompiledProgram {}
// SAFETY: as above.
unsafe impl Sync for CompiledProgram {}

impl CompiledProgram {
    /// Loads a library, with the signature that the header in its build folder has.
    ///
    /// # Errors
    /// [`Error::File`] if it is no library of DaCe's, cannot be loaded, or its header is not there;
    /// [`Error::Declaration`] if the header is not understood.
    ///
    /// # Safety
    /// Code of the library runs when it is loaded, and its functions must be those that the header declares: it is
    /// one that DaCe compiled.
    pub unsafe fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        let inspected = inspect(path)?;
        let signature = inspected.signature.clone().ok_or_else(|| Error::File {
            path: inspected.path.clone(),
            reason: format!(
                "its build folder has no include/{}.h; give a signature",
                inspected.name
            ),
        })?;
        // SAFETY: the caller's.
        unsafe { Self::of_file(inspected, signature) }
    }

    /// Loads a library without its build folder, as GT4Py leaves it in its cache.
    ///
    /// # Errors
    /// As [`load`](Self::load); [`Error::Arguments`] if the signature is of another program.
    ///
    /// # Safety
    /// As [`load`](Self::load), and the signature must be the program's.
    pub unsafe fn load_with(path: impl AsRef<Path>, signature: Signature) -> Result<Self, Error> {
        let inspected = inspect(path)?;
        if inspected.name != signature.name {
            return Err(Error::Arguments {
                program: inspected.name.clone(),
                expected: "its own signature".to_owned(),
                given: format!("that of '{}'", signature.name),
            });
        }
        // SAFETY: the caller's.
        unsafe { Self::of_file(inspected, signature) }
    }

    unsafe fn of_file(inspected: Inspected, signature: Signature) -> Result<Self, Error> {
        let failed = |error: libloading::Error| Error::File {
            path: inspected.path.clone(),
            reason: format!("it cannot be loaded ({error})"),
        };
        // SAFETY: the caller says that its initialisers may run.
        let library = unsafe { Library::open(Some(&inspected.path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(failed)?;
        let find = |symbol: String| -> Result<CodePtr, Error> {
            // SAFETY: only the address is taken; the calls say what the types are.
            let found = unsafe { library.get::<*mut c_void>(symbol.as_bytes()) };
            let found = found.map_err(failed)?;
            Ok(CodePtr(found.into_raw()))
        };
        let name = &inspected.name;
        let storages = inspected.storages.iter().map(|storage| {
            Ok(Storage {
                name: storage.clone(),
                size: find(format!("__dace_get_external_memory_size_{storage}"))?,
                set: find(format!("__dace_set_external_memory_{storage}"))?,
            })
        });
        Ok(Self {
            init: find(format!("__dace_init_{name}"))?,
            exit: find(format!("__dace_exit_{name}"))?,
            run: find(format!("__program_{name}"))?,
            storages: storages.collect::<Result<_, Error>>()?,
            signature,
            placement: inspected.placement,
            _library: library,
        })
    }

    /// The program's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.signature.name
    }

    /// What it takes.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The storages of which it takes memory from its caller.
    pub fn storages(&self) -> impl Iterator<Item = &str> {
        self.storages.iter().map(|storage| &*storage.name)
    }

    /// Starts an instance, for these values of its symbols.
    ///
    /// # Errors
    /// [`Error::Arguments`] if they are not of the signature's types; [`Error::Program`] if the program fails.
    pub fn start(&self, symbols: &[Value]) -> Result<Started<'_>, Error> {
        check(self.name(), &self.signature.symbols, symbols)?;
        let cif = function(0, &self.signature.symbols, Type::pointer());
        let values: Vec<Arg<'_>> = symbols.iter().map(Value::argument).collect();
        // SAFETY: the signature is the library's, says whoever loaded it, and the values are of its types.
        let handle: *mut c_void = unsafe { cif.call(self.init, &values) };
        if handle.is_null() {
            return Err(self.failed("start"));
        }
        Ok(Started {
            program: self,
            handle,
            symbols: symbols.to_vec(),
        })
    }

    fn failed(&self, what: &'static str) -> Error {
        Error::Program {
            program: self.name().to_owned(),
            what,
        }
    }
}

impl fmt::Debug for CompiledProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledProgram")
            .field("signature", &self.signature)
            .finish_non_exhaustive()
    }
}

/// An instance of a program, with values of its symbols. Ends when it is dropped.
pub struct Started<'p> {
    program: &'p CompiledProgram,
    handle: *mut c_void,
    symbols: Vec<Value>,
}

// SAFETY: DaCe's state is not tied to a thread.
unsafe impl Send for Started<'_> {}

impl<'p> Started<'p> {
    /// The bytes that the program asks for, for each storage, by its own count.
    #[must_use]
    pub fn external_memory(&self) -> Vec<(&'p str, usize)> {
        let program = self.program;
        let cif = function(1, &program.signature.symbols, CType::U64.ffi());
        let sizes = program.storages.iter().map(|storage| {
            let mut values = vec![Arg::new(&self.handle)];
            values.extend(self.symbols.iter().map(Value::argument));
            // SAFETY: DaCe declares it with the state and the symbols that the start takes.
            let size: usize = unsafe { cif.call(storage.size, &values) };
            (&*storage.name, size)
        });
        sizes.collect()
    }

    /// Gives the program the workspace's memory. Nothing of the program runs before all is checked.
    ///
    /// # Errors
    /// [`Error::WrongDevice`] if the program's storage is not where the workspace is; [`Error::TooSmall`];
    /// [`Error::Misaligned`] if it can be told that DaCe's placement is.
    pub fn bind<'b, P: Platform>(
        &'b mut self,
        workspace: &'b Workspace<P>,
    ) -> Result<Bound<'b, 'p, P>, Error> {
        let program = self.program;
        let name = program.name();
        let known: HashMap<&str, i128> = program
            .signature
            .symbols
            .iter()
            .zip(&self.symbols)
            .filter_map(|(symbol, value)| Some((&*symbol.name, value.whole()?)))
            .collect();
        let sizes = self.external_memory();
        let available = workspace.cap().unwrap_or_else(|| workspace.size());
        let mut taken = 0;
        for &(storage, needed) in &sizes {
            if (storage == "GPU_Global") == (P::NAME == "host") {
                return Err(Error::WrongDevice {
                    program: name.to_owned(),
                    storage: storage.to_owned(),
                    needed,
                    platform: P::NAME,
                    device: workspace.device(),
                });
            }
            taken = needed;
            if needed > available {
                return Err(Error::TooSmall {
                    program: name.to_owned(),
                    storage: storage.to_owned(),
                    needed,
                    available,
                    platform: P::NAME,
                    device: workspace.device(),
                });
            }
            if let Some(placement) = &program.placement {
                let base = workspace.base().address();
                placement.check(name, storage, base, |symbol| known.get(symbol).copied())?;
            }
        }
        let base = ptr::with_exposed_provenance_mut::<c_char>(workspace.base().address());
        let cif = function(2, &program.signature.symbols, Type::void());
        for storage in &program.storages {
            let mut values = vec![Arg::new(&self.handle), Arg::new(&base)];
            values.extend(self.symbols.iter().map(Value::argument));
            // SAFETY: DaCe declares it with the state, an address and the symbols. It stores addresses, and what
            // lies there is touched by `run` only, under a lease of this workspace that covers as many bytes.
            unsafe { cif.call::<()>(storage.set, &values) };
        }
        Ok(Bound {
            call: function(1, &program.signature.arguments, Type::void()),
            needed: taken,
            workspace,
            started: self,
        })
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        let cif = function(1, &[], CType::I32.ffi());
        // SAFETY: the handle is from the start, and is not used again. What the program says of its end is of no
        // use to anybody: there is nothing left to give back.
        let _: c_int = unsafe { cif.call(self.program.exit, &[Arg::new(&self.handle)]) };
    }
}

impl fmt::Debug for Started<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started")
            .field("program", &self.program.name())
            .field("symbols", &self.symbols)
            .finish_non_exhaustive()
    }
}

/// An instance that has its memory in a workspace.
pub struct Bound<'b, 'p, P: Platform> {
    started: &'b mut Started<'p>,
    workspace: &'b Workspace<P>,
    call: Cif,
    needed: usize,
}

impl<P: Platform> Bound<'_, '_, P> {
    /// The bytes of the workspace that the program uses, from its beginning.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.needed
    }

    /// Calls the program. On a GPU its work is on the stream that DaCe chose when it was compiled, the default
    /// stream unless told otherwise; the lease must be of that stream.
    ///
    /// # Errors
    /// [`Error::Arguments`] if they are not of the signature's types; [`Error::OtherWorkspace`];
    /// [`Error::Workspace`] if so much was reserved that the lease does not cover the program's bytes.
    ///
    /// # Safety
    /// Every pointer leads to an array as large as the program takes it to be for its symbols, and nobody else
    /// writes to what it reads, nor touches what it writes, while it runs. The values of symbols among the
    /// arguments are those that the instance was started with.
    pub unsafe fn run(
        &mut self,
        lease: &mut Lease<'_, P>,
        arguments: &[Value],
    ) -> Result<(), Error> {
        let program = self.started.program;
        check(program.name(), &program.signature.arguments, arguments)?;
        if !ptr::eq(lease.workspace(), self.workspace) {
            return Err(Error::OtherWorkspace {
                program: program.name().to_owned(),
            });
        }
        lease.cover(self.needed, program.name())?;
        let mut values = Vec::with_capacity(1 + arguments.len());
        values.push(Arg::new(&self.started.handle));
        values.extend(arguments.iter().map(Value::argument));
        // SAFETY: the signature is the program's and the arguments are of its types; what they lead to is the
        // caller's. The transients are the lease's bytes, which nobody else has.
        unsafe { self.call.call::<()>(program.run, &values) };
        Ok(())
    }
}

impl<P: Platform> fmt::Debug for Bound<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound")
            .field("started", &self.started)
            .field("bytes", &self.needed)
            .finish_non_exhaustive()
    }
}

/// A function that takes so many addresses, and then the parameters.
fn function(addresses: usize, parameters: &[Parameter], result: Type) -> Cif {
    let mut types = vec![Type::pointer(); addresses];
    types.extend(parameters.iter().map(|parameter| parameter.ctype.ffi()));
    Cif::new(types, result)
}

/// Whether the values are of the parameters' types.
fn check(program: &str, parameters: &[Parameter], values: &[Value]) -> Result<(), Error> {
    let fits = parameters.len() == values.len()
        && parameters
            .iter()
            .zip(values)
            .all(|(parameter, value)| parameter.ctype == value.ctype());
    if fits {
        return Ok(());
    }
    let listed = |shown: Vec<String>| format!("({})", shown.join(", "));
    Err(Error::Arguments {
        program: program.to_owned(),
        expected: listed(parameters.iter().map(ToString::to_string).collect()),
        given: listed(values.iter().map(ToString::to_string).collect()),
    })
}
