//! How a device backend finds its driver's library, and the functions in it, when the program runs.
//!
//! A binary that names a driver's library in its header does not start on a machine that lacks it, and
//! most machines lack most drivers. So a backend declares the functions that it needs with
//! [`driver_functions!`] and looks them up in whatever [`Search`] finds.

mod virtual_memory;

use std::path::{Path, PathBuf};

pub use libloading::Library;
pub use virtual_memory::{
    AccessDescription, AllocationProperties, Code, DevicePages, Location, MemoryFunctions, Named,
    Piece, VirtualMemory, no_growth,
};
use workslab_core::Error;

/// Where a driver's library may be.
#[derive(Debug)]
pub struct Search {
    /// The platform, for messages.
    pub platform: &'static str,
    /// What the library is called in a sentence: `HIP library`.
    pub what: &'static str,
    /// The variable that names the one file to use.
    pub variable: &'static str,
    /// The library's names, the best first, for the system's loader to find.
    pub names: &'static [&'static str],
    /// Folders in which they may also be.
    pub folders: Vec<PathBuf>,
    /// What to do if there is none.
    pub advice: &'static str,
}

impl Search {
    /// Where CUDA's driver may be.
    #[must_use]
    pub fn cuda(platform: &'static str) -> Self {
        Self {
            platform,
            what: "CUDA driver",
            variable: "WORKSLAB_CUDA_LIBRARY",
            names: &["libcuda.so.1", "libcuda.so"],
            folders: vec![
                PathBuf::from("/usr/local/nvidia/lib64"),
                PathBuf::from("/usr/local/nvidia/lib"),
                PathBuf::from("/usr/lib/wsl/lib"),
            ],
            advice: "install NVIDIA's driver",
        }
    }

    /// The first library that can be loaded, and how it was named.
    ///
    /// # Errors
    /// [`Error::Unavailable`], which names all that was looked for.
    pub fn open(&self) -> Result<(Library, String), Error> {
        let mut tried = Vec::new();
        for candidate in self.candidates() {
            match load(&candidate) {
                Ok(library) => {
                    let path = candidate.display().to_string();
                    tracing::debug!(library = path, "driver loaded");
                    return Ok((library, path));
                }
                Err(_) => tried.push(candidate.display().to_string()),
            }
        }
        Err(Error::Unavailable {
            platform: self.platform,
            reason: format!(
                "no {} could be loaded; looked for {}; {}, or set {} to the file",
                self.what,
                tried.join(", "),
                self.advice,
                self.variable
            ),
        })
    }

    /// The library in this file, and no other.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it cannot be loaded.
    pub fn open_file(&self, file: &Path) -> Result<(Library, String), Error> {
        let path = file.display().to_string();
        match load(file) {
            Ok(library) => Ok((library, path)),
            Err(error) => Err(Error::Unavailable {
                platform: self.platform,
                reason: format!("{path} cannot be loaded: {error}"),
            }),
        }
    }

    fn candidates(&self) -> Vec<PathBuf> {
        if let Some(file) = std::env::var_os(self.variable) {
            return vec![file.into()];
        }
        let by_name = self.names.iter().map(PathBuf::from);
        let in_folders = self
            .folders
            .iter()
            .flat_map(|folder| self.names.iter().map(move |name| folder.join(name)))
            .filter(|path| path.is_file());
        by_name.chain(in_folders).collect()
    }
}

fn load(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: the library's initialisers are the driver's own, and are meant to be run so.
    unsafe { Library::new(path) }
}

/// The error for a library that lacks a function; for [`driver_functions!`].
#[must_use]
pub fn missing(platform: &'static str, library: &str, function: &str, needs: &str) -> Error {
    Error::Unavailable {
        platform,
        reason: format!("{library} lacks the function {function}; {needs} or newer is needed"),
    }
}

/// Declares a table of a driver's functions, to be found in a loaded library. Those behind `optional`
/// came to the driver later, and are `None` where it lacks them.
///
/// Calling one through the table costs what a call through the linker's table costs.
#[macro_export]
macro_rules! driver_functions {
    (
        platform $platform:expr, needs $needs:literal;
        $( fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty; )*
        optional;
        $( fn $later:ident($($later_argument:ident: $later_type:ty),* $(,)?) -> $later_result:ty; )*
    ) => {
        /// The functions of a loaded driver.
        #[allow(non_snake_case, reason = "the driver's own names")]
        pub(crate) struct Functions {
            $( pub(crate) $name: unsafe extern "C" fn($($argument: $type),*) -> $result, )*
            $( pub(crate) $later:
                Option<unsafe extern "C" fn($($later_argument: $later_type),*) -> $later_result>, )*
            /// Where they came from.
            pub(crate) library: String,
            /// A driver has threads and exit handlers of its own: it is never unloaded.
            _loaded: ::std::mem::ManuallyDrop<$crate::Library>,
        }

        impl Functions {
            /// Looks all of them up.
            fn find((library, path): ($crate::Library, String)) -> Result<Self, ::workslab_core::Error> {
                Ok(Self {
                    $( $name: {
                        // SAFETY: the type is the one that the driver's own headers declare.
                        let symbol = unsafe { library.get(stringify!($name)) };
                        *symbol.map_err(|_| {
                            $crate::missing($platform, &path, stringify!($name), $needs)
                        })?
                    }, )*
                    $( $later: {
                        // SAFETY: as above.
                        let symbol = unsafe { library.get(stringify!($later)) };
                        symbol.ok().map(|symbol| *symbol)
                    }, )*
                    library: path,
                    _loaded: ::std::mem::ManuallyDrop::new(library),
                })
            }
        }
    };
}
