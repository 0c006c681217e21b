//! The solver's work as CUDA kernels, compiled when the program runs.
//!
//! Nothing is linked: NVRTC and the driver are looked up when they are needed, so a program that has kernels
//! starts on a machine without a GPU too, and says what is missing. Such a driver, or one that is emulated and has
//! no kernels, is [`Error::Unavailable`].

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::ptr;

use workslab::cuda::{Cuda, CudaStream};
use workslab::{Array, Error, Frame, Platform, Stream};

use crate::solver::{Kernels, Laplacian};

/// The kernels, in CUDA C.
pub const SOURCE: &str = include_str!("../kernels/conjugate_gradient.cu");

/// A launch over vectors: so many blocks of so many threads, and a part of a dot product for each.
const WHOLE: (c_uint, c_uint) = (64, 128);
const PARTS: usize = WHOLE.0 as usize * WHOLE.1 as usize;
/// The launches that sum the parts: to one for each thread, and to one.
const FOLDS: [(usize, (c_uint, c_uint)); 2] = [(PARTS, (1, 128)), (128, (1, 1))];

type Handle = *mut c_void;

mod driver {
    use super::{Handle, c_int, c_uint, c_void};
    use std::ffi::c_char;
    use workslab_driver::{Search, driver_functions};

    driver_functions! {
        platform "cuda", needs "a driver that runs kernels, of CUDA 11.2";
        fn cuInit(flags: c_uint) -> c_int;
        fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int;
        fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> c_int;
        fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> c_int;
        fn cuCtxSetCurrent(context: Handle) -> c_int;
        fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> c_int;
        fn cuModuleUnload(module: Handle) -> c_int;
        fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) -> c_int;
        fn cuLaunchKernel(
            function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
            block_y: c_uint, block_z: c_uint, shared: c_uint, stream: Handle,
            arguments: *mut *mut c_void, extra: *mut *mut c_void,
        ) -> c_int;
        optional;
    }

    pub(super) fn open() -> Result<Functions, workslab::Error> {
        Functions::find(Search::cuda("cuda").open()?)
    }
}

mod nvrtc {
    use super::{Handle, c_int};
    use std::ffi::c_char;
    use workslab_driver::{Search, driver_functions};

    driver_functions! {
        platform "cuda", needs "NVRTC of CUDA 11.2";
        fn nvrtcCreateProgram(
            program: *mut Handle, source: *const c_char, name: *const c_char, headers: c_int,
            contents: *const *const c_char, names: *const *const c_char,
        ) -> c_int;
        fn nvrtcDestroyProgram(program: *mut Handle) -> c_int;
        fn nvrtcCompileProgram(program: Handle, count: c_int, options: *const *const c_char) -> c_int;
        fn nvrtcGetProgramLogSize(program: Handle, size: *mut usize) -> c_int;
        fn nvrtcGetProgramLog(program: Handle, log: *mut c_char) -> c_int;
        fn nvrtcGetPTXSize(program: Handle, size: *mut usize) -> c_int;
        fn nvrtcGetPTX(program: Handle, ptx: *mut c_char) -> c_int;
        optional;
    }

    pub(super) fn open() -> Result<Functions, workslab::Error> {
        let search = Search {
            platform: "cuda",
            what: "NVRTC",
            variable: "WORKSLAB_NVRTC_LIBRARY",
            names: &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
            folders: vec!["/usr/local/cuda/lib64".into()],
            advice: "install the CUDA toolkit, or pip's nvidia-cuda-nvrtc",
        };
        Functions::find(search.open()?)
    }
}

/// An error for a code that is not success.
fn check(device: u32, call: &'static str, code: c_int) -> Result<(), Error> {
    match code {
        0 => Ok(()),
        code => Err(failure(device, call, code, None)),
    }
}

fn failure(device: u32, call: &'static str, code: c_int, detail: Option<String>) -> Error {
    Error::Driver {
        platform: Cuda::NAME,
        device: device.into(),
        call,
        code: code.into(),
        name: "see the CUDA manual".into(),
        detail,
    }
}

/// Compiles CUDA C by NVRTC for compute capability `version` (90 is 9.0), and gives PTX that ends in a zero.
///
/// # Errors
/// [`Error::Unavailable`] if NVRTC is not there; [`Error::Driver`], which has what it says of the source.
pub fn compile(source: &CStr, device: u32, version: c_int) -> Result<Vec<u8>, Error> {
    let nvrtc = nvrtc::open()?;
    let architecture = CString::new(format!("--gpu-architecture=compute_{version}"))
        .expect("a number has no zero byte");
    // Products and sums apart, as the host has them.
    let options = [architecture.as_ptr(), c"--fmad=false".as_ptr()];
    let mut program: Handle = ptr::null_mut();
    // SAFETY: the strings end in a zero and outlive the calls, and there are no headers. The program is destroyed
    // once, at the end; each text has the size that NVRTC asked for.
    unsafe {
        let name = c"conjugate_gradient.cu".as_ptr();
        let none = ptr::null();
        let code =
            (nvrtc.nvrtcCreateProgram)(&raw mut program, source.as_ptr(), name, 0, none, none);
        check(device, "nvrtcCreateProgram", code)?;
        let compiled = match (nvrtc.nvrtcCompileProgram)(program, 2, options.as_ptr()) {
            0 => {
                let mut size = 0;
                let code = (nvrtc.nvrtcGetPTXSize)(program, &raw mut size);
                check(device, "nvrtcGetPTXSize", code).and_then(|()| {
                    let mut ptx = vec![0_u8; size];
                    let code = (nvrtc.nvrtcGetPTX)(program, ptx.as_mut_ptr().cast());
                    check(device, "nvrtcGetPTX", code).map(|()| ptx)
                })
            }
            code => {
                let mut size = 0;
                let mut log = Vec::new();
                if (nvrtc.nvrtcGetProgramLogSize)(program, &raw mut size) == 0 {
                    log.resize(size, 0_u8);
                    (nvrtc.nvrtcGetProgramLog)(program, log.as_mut_ptr().cast());
                }
                let log = String::from_utf8_lossy(&log).replace('\0', "");
                let detail = Some(log.trim().to_owned());
                Err(failure(device, "nvrtcCompileProgram", code, detail))
            }
        };
        (nvrtc.nvrtcDestroyProgram)(&raw mut program);
        compiled
    }
}

/// The kernels, loaded on one device.
pub struct Loaded {
    driver: driver::Functions,
    device: u32,
    context: Handle,
    module: Handle,
    apply: Handle,
    axpby: Handle,
    products: Handle,
    fold: Handle,
}

impl Loaded {
    /// Compiles the kernels for the device and loads them into its primary context, in which workslab's memory and
    /// streams are too.
    ///
    /// # Errors
    /// [`Error::Unavailable`] for what is missing; else the driver's or the compiler's.
    pub fn on(device: u32) -> Result<Self, Error> {
        /// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `_MINOR`.
        const CAPABILITY: [c_int; 2] = [75, 76];
        let driver = driver::open()?;
        let source = CString::new(SOURCE).expect("the source has no zero byte");
        let (mut handle, mut capability) = (0, [0; 2]);
        let (mut context, mut module) = (ptr::null_mut(), ptr::null_mut());
        let mut kernels = [ptr::null_mut(); 4];
        let names = [c"apply", c"axpby", c"products", c"fold"];
        // SAFETY: every pointer is to a variable that outlives its call; texts and image end in a zero.
        unsafe {
            check(device, "cuInit", (driver.cuInit)(0))?;
            let ordinal = c_int::try_from(device).unwrap_or(c_int::MAX);
            let code = (driver.cuDeviceGet)(&raw mut handle, ordinal);
            check(device, "cuDeviceGet", code)?;
            for (value, attribute) in capability.iter_mut().zip(CAPABILITY) {
                let code = (driver.cuDeviceGetAttribute)(value, attribute, handle);
                check(device, "cuDeviceGetAttribute", code)?;
            }
            let image = compile(&source, device, capability[0] * 10 + capability[1])?;
            // Kept to the end of the process, as workslab keeps it.
            let code = (driver.cuDevicePrimaryCtxRetain)(&raw mut context, handle);
            check(device, "cuDevicePrimaryCtxRetain", code)?;
            check(device, "cuCtxSetCurrent", (driver.cuCtxSetCurrent)(context))?;
            let code = (driver.cuModuleLoadData)(&raw mut module, image.as_ptr().cast());
            check(device, "cuModuleLoadData", code)?;
            for (kernel, name) in kernels.iter_mut().zip(names) {
                let code = (driver.cuModuleGetFunction)(kernel, module, name.as_ptr());
                check(device, "cuModuleGetFunction", code)?;
            }
        }
        let [apply, axpby, products, fold] = kernels;
        Ok(Self {
            driver,
            device,
            context,
            module,
            apply,
            axpby,
            products,
            fold,
        })
    }

    /// The kernels for a program in this frame, from which the parts of dot products come.
    ///
    /// # Errors
    /// [`Error::Exhausted`] if they do not fit.
    pub fn within<'f>(&'f self, frame: &'f Frame<'_, Cuda>) -> Result<CudaKernels<'f>, Error> {
        assert_eq!(frame.lease().stream().device(), self.device.into());
        Ok(CudaKernels {
            loaded: self,
            stream: frame.lease().stream(),
            parts: frame.named("parts").array(PARTS)?,
        })
    }

    /// Bytes that [`within`](Self::within) takes from a frame.
    #[must_use]
    pub const fn bytes() -> usize {
        PARTS * size_of::<f64>()
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: the module was loaded with this. The driver waits for kernels that still run.
        let code = unsafe {
            (self.driver.cuCtxSetCurrent)(self.context);
            (self.driver.cuModuleUnload)(self.module)
        };
        if code != 0 {
            eprintln!("cuModuleUnload: code {code}");
        }
    }
}

/// The solver's work, enqueued on the stream of a lease.
pub struct CudaKernels<'f> {
    loaded: &'f Loaded,
    stream: &'f CudaStream,
    parts: Array<'f, f64, Cuda>,
}

impl CudaKernels<'_> {
    /// Launches a kernel on the lease's stream, behind all that was enqueued there.
    ///
    /// # Safety
    /// The arguments point to values of the kernel's parameters' types, and the arrays that they name are in the
    /// lease and as long as the kernel takes them for.
    unsafe fn launch(
        &self,
        kernel: Handle,
        (blocks, threads): (c_uint, c_uint),
        arguments: &mut [*mut c_void],
    ) -> Result<(), Error> {
        let Loaded {
            driver,
            device,
            context,
            ..
        } = self.loaded;
        let arguments = arguments.as_mut_ptr();
        let stream = self.stream.as_raw();
        // SAFETY: context, kernel and stream are alive; the caller answers for the arguments, which the driver
        // copies before it returns.
        unsafe {
            check(
                *device,
                "cuCtxSetCurrent",
                (driver.cuCtxSetCurrent)(*context),
            )?;
            let code = (driver.cuLaunchKernel)(
                kernel,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream,
                arguments,
                ptr::null_mut(),
            );
            check(*device, "cuLaunchKernel", code)
        }
    }
}

/// A kernel's view of an array.
fn pointer(array: &Array<'_, f64, Cuda>) -> u64 {
    array.as_device_ptr().address() as u64
}

/// Where a parameter is.
fn at<T>(parameter: &T) -> *mut c_void {
    ptr::from_ref(parameter).cast_mut().cast()
}

impl Kernels<Cuda> for CudaKernels<'_> {
    fn apply(
        &self,
        operator: Laplacian,
        x: &Array<'_, f64, Cuda>,
        y: &mut Array<'_, f64, Cuda>,
    ) -> Result<(), Error> {
        assert_eq!([x.len(), y.len()], [operator.unknowns(); 2]);
        let (to, from, side) = (pointer(y), pointer(x), operator.side as u64);
        let mut arguments = [at(&to), at(&from), at(&side)];
        // SAFETY: (double *, const double *, unsigned long long); both have side * side elements.
        unsafe { self.launch(self.loaded.apply, WHOLE, &mut arguments) }
    }

    fn dot(&self, x: &Array<'_, f64, Cuda>, y: &Array<'_, f64, Cuda>) -> Result<f64, Error> {
        assert_eq!(x.len(), y.len());
        let (parts, one, other) = (pointer(&self.parts), pointer(x), pointer(y));
        let length = x.len() as u64;
        let mut arguments = [at(&parts), at(&one), at(&other), at(&length)];
        // SAFETY: (double *, const double *, const double *, unsigned long long); there is a part for each thread,
        // and both vectors have `length` elements.
        unsafe { self.launch(self.loaded.products, WHOLE, &mut arguments)? };
        for (count, shape) in FOLDS {
            let count = count as u64;
            // SAFETY: (double *, unsigned long long); there are at least `count` parts, and as many as threads.
            unsafe { self.launch(self.loaded.fold, shape, &mut [at(&parts), at(&count)])? };
        }
        let mut sum = [0; size_of::<f64>()];
        self.parts.read_bytes(0, &mut sum)?;
        Ok(f64::from_ne_bytes(sum))
    }

    fn axpby(
        &self,
        alpha: f64,
        x: &Array<'_, f64, Cuda>,
        beta: f64,
        y: &mut Array<'_, f64, Cuda>,
    ) -> Result<(), Error> {
        assert_eq!(x.len(), y.len());
        let (to, from, length) = (pointer(y), pointer(x), x.len() as u64);
        let mut arguments = [at(&to), at(&alpha), at(&from), at(&beta), at(&length)];
        // SAFETY: (double *, double, const double *, double, unsigned long long); both have `length` elements.
        unsafe { self.launch(self.loaded.axpby, WHOLE, &mut arguments) }
    }
}
