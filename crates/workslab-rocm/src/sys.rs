//! The driver's functions, looked up when the program runs.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use hip_sys::hiprt::{hipEvent_t, hipStream_t};
use libloading::Library;
use once_cell::sync::OnceCell;
use workslab_core::Error;

use crate::NAME;

/// A code as the driver returns it: an integer, whatever it is.
pub(crate) type Code = c_uint;

/// The library's names, the one without a version first: that is the installed toolkit's own.
const NAMES: [&str; 5] = [
    "libamdhip64.so",
    "libamdhip64.so.10",
    "libamdhip64.so.7",
    "libamdhip64.so.6",
    "libamdhip64.so.5",
];

/// The variable that names the one library file to use.
const LIBRARY_VARIABLE: &str = "WORKSLAB_HIP_LIBRARY";

macro_rules! functions {
    ($( fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty; )*) => {
        /// The functions of a loaded library. They are called through here, which costs what a
        /// call through the linker's table costs.
        #[allow(non_snake_case, reason = "the driver's own names")]
        pub(crate) struct Functions {
            $( pub(crate) $name: unsafe extern "C" fn($($argument: $type),*) -> $result, )*
            /// Where they came from.
            pub(crate) library: String,
            /// The driver has threads and exit handlers of its own: it is never unloaded.
            _loaded: ManuallyDrop<Library>,
        }

        impl Functions {
            /// Looks all of them up.
            fn find(library: Library, path: String) -> Result<Self, Error> {
                Ok(Self {
                    $( $name: {
                        // SAFETY: the type is the function's own in HIP 5, 6 and 7; docs/rocm.md
                        // says how that is checked.
                        let symbol = unsafe { library.get(stringify!($name)) };
                        *symbol.map_err(|_| missing(&path, stringify!($name)))?
                    }, )*
                    library: path,
                    _loaded: ManuallyDrop::new(library),
                })
            }
        }
    };
}

functions! {
    fn hipRuntimeGetVersion(version: *mut c_int) -> Code;
    fn hipGetErrorName(code: Code) -> *const c_char;
    fn hipGetDeviceCount(count: *mut c_int) -> Code;
    fn hipGetDevice(device: *mut c_int) -> Code;
    fn hipSetDevice(device: c_int) -> Code;
    fn hipDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> Code;
    fn hipDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: c_int) -> Code;
    fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int) -> Code;
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> Code;
    fn hipMalloc(pointer: *mut *mut c_void, size: usize) -> Code;
    fn hipFree(pointer: *mut c_void) -> Code;
    fn hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) -> Code;
    fn hipStreamDestroy(stream: hipStream_t) -> Code;
    fn hipStreamSynchronize(stream: hipStream_t) -> Code;
    fn hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) -> Code;
    fn hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) -> Code;
    fn hipEventDestroy(event: hipEvent_t) -> Code;
    fn hipEventRecord(event: hipEvent_t, stream: hipStream_t) -> Code;
    fn hipMemcpyAsync(to: *mut c_void, from: *const c_void, size: usize, kind: c_uint, stream: hipStream_t) -> Code;
    fn hipMemsetD8Async(to: *mut c_void, value: u8, count: usize, stream: hipStream_t) -> Code;
    fn hipMemsetD16Async(to: *mut c_void, value: u16, count: usize, stream: hipStream_t) -> Code;
    fn hipMemsetD32Async(to: *mut c_void, value: c_int, count: usize, stream: hipStream_t) -> Code;
}

/// The driver of this process, loaded when it is first asked for. A failure is not kept.
pub(crate) fn functions() -> Result<&'static Functions, Error> {
    static FUNCTIONS: OnceCell<Functions> = OnceCell::new();
    FUNCTIONS.get_or_try_init(load)
}

/// The driver in this file, and no other. It stays loaded.
pub(crate) fn functions_of(library: &Path) -> Result<&'static Functions, Error> {
    // SAFETY: as in `load`.
    let loaded = unsafe { Library::new(library) }.map_err(|error| Error::Unavailable {
        platform: NAME,
        reason: format!("{} cannot be loaded: {error}", library.display()),
    })?;
    let functions = Functions::find(loaded, library.display().to_string())?;
    Ok(Box::leak(Box::new(functions)))
}

fn load() -> Result<Functions, Error> {
    let mut tried = Vec::new();
    for candidate in candidates() {
        // SAFETY: the library's initialisers are the driver's own, and are meant to be run so.
        match unsafe { Library::new(&candidate) } {
            Ok(library) => {
                let path = candidate.display().to_string();
                tracing::debug!(library = path, "HIP loaded");
                return Functions::find(library, path);
            }
            Err(_) => tried.push(candidate.display().to_string()),
        }
    }
    Err(Error::Unavailable {
        platform: NAME,
        reason: format!(
            "no HIP library could be loaded; looked for {}; install ROCm, or set {LIBRARY_VARIABLE} to the file",
            tried.join(", ")
        ),
    })
}

/// Where the library may be: by its names, as the system's loader finds them, and in the folders of
/// a toolkit.
fn candidates() -> Vec<PathBuf> {
    if let Some(file) = std::env::var_os(LIBRARY_VARIABLE) {
        return vec![file.into()];
    }
    let folders = ["ROCM_PATH", "HIP_PATH"]
        .into_iter()
        .filter_map(std::env::var_os)
        .map(PathBuf::from)
        .chain([PathBuf::from("/opt/rocm")])
        .map(|root| root.join("lib"));
    let by_name = NAMES.into_iter().map(PathBuf::from);
    let in_folders =
        folders.flat_map(|folder| NAMES.into_iter().map(move |name| folder.join(name)));
    let existing = in_folders.filter(|path| path.is_file());
    by_name.chain(existing).collect()
}

fn missing(library: &str, function: &str) -> Error {
    Error::Unavailable {
        platform: NAME,
        reason: format!("{library} lacks the function {function}; HIP 5.0 or newer is needed"),
    }
}

#[cfg(test)]
mod tests {
    /// The functions and their prototypes are written down twice: here, and in C for the compiler to
    /// hold against HIP's own headers. This keeps the two lists the same.
    #[test]
    fn every_function_is_checked_against_the_headers() {
        let here = include_str!("sys.rs");
        let check = include_str!("../check/hip_abi.c");
        let functions: Vec<&str> = here
            .lines()
            .filter_map(|line| line.strip_prefix("    fn hip")?.split_once('('))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(functions.len(), 22);
        for function in functions {
            assert!(
                check.contains(&format!("= hip{function};")),
                "hip{function}"
            );
        }
    }

    #[test]
    fn the_bindings_have_the_values_that_the_headers_have() {
        use hip_sys::hiprt::{hipDeviceAttribute_t, hipMemcpyKind};
        assert_eq!(
            hipDeviceAttribute_t::hipDeviceAttributeIntegrated as u32,
            16
        );
        assert_eq!(hipMemcpyKind::hipMemcpyHostToDevice as u32, 1);
        assert_eq!(hipMemcpyKind::hipMemcpyDeviceToHost as u32, 2);
        assert_eq!(hipMemcpyKind::hipMemcpyDeviceToDevice as u32, 3);
    }
}
