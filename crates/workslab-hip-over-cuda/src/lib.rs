//! A `libamdhip64` that hands every call on to CUDA's driver: the second engine behind the part of HIP's
//! C interface that workslab's ROCm backend uses, beside the emulator.
//!
//! With `WORKSLAB_HIP_LIBRARY` set to this library the ROCm backend's own code runs on the memory, the
//! streams and the events of an NVIDIA GPU. HIP was made after CUDA, so nearly every call has a twin with
//! the same codes; what differs is here: HIP's threads have a current device, 0 at first, where CUDA's have
//! a context, and some numbers have other values.
//!
//! `WORKSLAB_CUDA_LIBRARY` names the driver to use, `libcuda.so.1` if it is not set. Where there is none,
//! every call says that there is no device.

mod cuda;
mod device;
mod forward;
