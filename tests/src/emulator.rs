//! The emulated drivers: where they are, and what they can be asked beside their C interface.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

use libloading::Library;
use workslab::cuda::Cuda;
use workslab::rocm::Rocm;

/// An emulated driver that is loaded, and the platform on it.
pub struct Emulator<P> {
    /// The platform.
    pub platform: P,
    library: Library,
}

impl Emulator<Rocm> {
    /// The emulated `libamdhip64`.
    ///
    /// # Panics
    /// If it cannot be loaded: cargo builds it beside the tests.
    pub fn hip() -> &'static Self {
        static HIP: OnceLock<Emulator<Rocm>> = OnceLock::new();
        HIP.get_or_init(|| {
            Self::load(
                "WORKSLAB_HIP_LIBRARY",
                "libworkslab_emulator_hip.so",
                |path| Rocm::from_library(path),
            )
        })
    }

    /// The calling thread's current device.
    pub fn current_device(&self) -> c_int {
        let mut device = -1;
        // SAFETY: HIP's function has this type, and writes to `device` only.
        unsafe {
            let get = self
                .library
                .get::<unsafe extern "C" fn(*mut c_int) -> c_int>("hipGetDevice")
                .expect("HIP has it");
            assert_eq!(get(&raw mut device), 0);
        }
        device
    }

    /// Makes a device the calling thread's current one.
    pub fn set_current_device(&self, device: c_int) {
        // SAFETY: HIP's function has this type.
        unsafe {
            let set = self
                .library
                .get::<unsafe extern "C" fn(c_int) -> c_int>("hipSetDevice")
                .expect("HIP has it");
            assert_eq!(set(device), 0);
        }
    }
}

impl Emulator<Cuda> {
    /// The emulated `libcuda`.
    ///
    /// # Panics
    /// If it cannot be loaded: cargo builds it beside the tests.
    pub fn cuda() -> &'static Self {
        static CUDA: OnceLock<Emulator<Cuda>> = OnceLock::new();
        CUDA.get_or_init(|| {
            Self::load(
                "WORKSLAB_CUDA_LIBRARY",
                "libworkslab_emulator_cuda.so",
                |path| Cuda::from_library(path),
            )
        })
    }

    /// The calling thread's current context, as a number.
    pub fn current_context(&self) -> usize {
        let mut context: *mut c_void = std::ptr::null_mut();
        // SAFETY: CUDA's function has this type, and writes to `context` only.
        unsafe {
            let get = self
                .library
                .get::<unsafe extern "C" fn(*mut *mut c_void) -> c_int>("cuCtxGetCurrent")
                .expect("CUDA has it");
            assert_eq!(get(&raw mut context), 0);
        }
        context.addr()
    }

    /// Makes a device's primary context the calling thread's current one, or none.
    pub fn set_current_context(&self, device: Option<c_int>) {
        let mut context: *mut c_void = std::ptr::null_mut();
        // SAFETY: CUDA's functions have these types.
        unsafe {
            if let Some(device) = device {
                let retain = self
                    .library
                    .get::<unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int>(
                        "cuDevicePrimaryCtxRetain",
                    )
                    .expect("CUDA has it");
                assert_eq!(retain(&raw mut context, device), 0);
            }
            let set = self
                .library
                .get::<unsafe extern "C" fn(*mut c_void) -> c_int>("cuCtxSetCurrent")
                .expect("CUDA has it");
            assert_eq!(set(context), 0);
        }
    }
}

impl<P> Emulator<P> {
    fn load(
        variable: &str,
        name: &str,
        open: impl FnOnce(&PathBuf) -> Result<P, workslab::Error>,
    ) -> Self {
        let path = std::env::var_os(variable).map_or_else(|| beside_the_tests(name), PathBuf::from);
        // SAFETY: the library's initialisers are the driver's own.
        let library = unsafe { Library::new(&path) }
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let platform = open(&path).unwrap_or_else(|error| panic!("{error}"));
        Self { platform, library }
    }

    /// How many calls the calling thread has made.
    pub fn thread_calls(&self) -> u64 {
        // SAFETY: the emulator's own function has this type.
        unsafe {
            let calls = self
                .library
                .get::<unsafe extern "C" fn() -> u64>("workslab_emulator_thread_calls")
                .expect("the emulator has it");
            calls()
        }
    }

    /// Makes the calling thread's calls of this name fail: one, after `after` have passed.
    pub fn fail(&self, call: &str, after: u64, code: c_int) {
        let call = CString::new(call).expect("a function's name has no zero byte");
        // SAFETY: the emulator's own function has this type, and the string outlives the call.
        unsafe {
            let fail = self
                .library
                .get::<unsafe extern "C" fn(*const c_char, u64, u64, c_int)>(
                    "workslab_emulator_fail",
                )
                .expect("the emulator has it");
            fail(call.as_ptr(), after, 1, code);
        }
    }

    /// Makes a device disappear, for the whole process.
    pub fn lose_device(&self, device: u32) {
        // SAFETY: the emulator's own function has this type.
        unsafe {
            let lose = self
                .library
                .get::<unsafe extern "C" fn(u32)>("workslab_emulator_lose_device")
                .expect("the emulator has it");
            lose(device);
        }
    }

    /// Forgets the calling thread's faults that have not struck.
    pub fn clear_faults(&self) {
        // SAFETY: the emulator's own function has this type.
        unsafe {
            let clear = self
                .library
                .get::<unsafe extern "C" fn()>("workslab_emulator_clear_faults")
                .expect("the emulator has it");
            clear();
        }
    }
}

/// A shared library that cargo built for the tests: in the folder of their binary, or the one above.
fn beside_the_tests(name: &str) -> PathBuf {
    let binary = std::env::current_exe().expect("the tests are running");
    let folders = binary.ancestors().skip(1).take(2);
    let mut candidates = folders.map(|folder| folder.join(name));
    candidates
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{name} is not beside {}", binary.display()))
}
