//! A replay on a platform that damages memory: the array is named, and the exit code is 1.

use std::cell::Cell;

use indicatif::ProgressBar;
use workslab::host::{Host, HostEvent, HostSlab, HostStream};
use workslab::{
    BackendConfig, DeviceId, DeviceInfo, DevicePtr, DeviceSlab, Error, ExternalWorkspaceAllocator,
    OnPlatform, Pattern, Platform, SlabOptions, SlabSize,
};
use workslab_cli::CliError;
use workslab_cli::programs::{SizedProgram, SizedTransient};
use workslab_cli::replay::{Replay, ReplayError};

thread_local! {
    /// The fill after which a byte goes wrong.
    static FAULTY_FILL: Cell<u32> = const { Cell::new(u32::MAX) };
    static FILLS: Cell<u32> = const { Cell::new(0) };
}

struct Faulty(Host);
struct FaultySlab(HostSlab);

impl Platform for Faulty {
    const NAME: &'static str = "faulty";
    type Slab = FaultySlab;
    type Stream = HostStream;
    type Event = HostEvent;

    fn device_count(&self) -> Result<u32, Error> {
        self.0.device_count()
    }

    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo, Error> {
        self.0.device_info(device)
    }

    fn allocate_slab(
        &self,
        device: DeviceId,
        size: SlabSize,
        options: SlabOptions,
    ) -> Result<FaultySlab, Error> {
        self.0.allocate_slab(device, size, options).map(FaultySlab)
    }

    fn create_event(&self, device: DeviceId) -> Result<HostEvent, Error> {
        self.0.create_event(device)
    }

    fn create_stream(&self, device: DeviceId) -> Result<HostStream, Error> {
        self.0.create_stream(device)
    }

    fn default_stream(&self, device: DeviceId) -> Result<HostStream, Error> {
        self.0.default_stream(device)
    }
}

// SAFETY: the memory is the host slab's.
unsafe impl DeviceSlab for FaultySlab {
    type Stream = HostStream;

    fn device(&self) -> DeviceId {
        self.0.device()
    }

    fn base(&self) -> DevicePtr {
        self.0.base()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    unsafe fn write(&self, stream: &HostStream, at: usize, source: &[u8]) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.0.write(stream, at, source) }
    }

    unsafe fn read(&self, stream: &HostStream, at: usize, to: &mut [u8]) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.0.read(stream, at, to) }
    }

    unsafe fn fill(
        &self,
        stream: &HostStream,
        offset: usize,
        len: usize,
        pattern: Pattern,
    ) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.0.fill(stream, offset, len, pattern)? };
        if len == 1 {
            return Ok(()); // the touch of a page, before the array is written
        }
        let fill = FILLS.get();
        FILLS.set(fill + 1);
        if fill == FAULTY_FILL.get() {
            let wrong = !pattern.widened()[5];
            // SAFETY: the caller's, for a byte of its range.
            unsafe { self.0.write(stream, offset + 1005, &[wrong])? };
        }
        Ok(())
    }

    unsafe fn copy(
        &self,
        stream: &HostStream,
        from: usize,
        to: usize,
        len: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.0.copy(stream, from, to, len) }
    }
}

fn replay(faulty_fill: u32) -> Result<(), ReplayError> {
    let transient = |name: &str, first_use, last_use| SizedTransient {
        name: name.into(),
        bytes: 300_000,
        itemsize: 8,
        first_use,
        last_use,
    };
    let programs = [SizedProgram {
        name: "solver".into(),
        transients: vec![transient("rho", 0, 5), transient("theta", 1, 2)],
    }];
    FAULTY_FILL.set(faulty_fill);
    FILLS.set(0);
    let replay = Replay {
        programs: &programs,
        config: &BackendConfig::default(),
        device: DeviceId::new(0),
        steps: 2,
        planned: false,
        progress: &ProgressBar::hidden(),
    };
    let allocator = ExternalWorkspaceAllocator::new(Faulty(Host::new()));
    replay.run(&allocator).map(drop)
}

#[test]
fn without_a_fault_every_byte_is_right() {
    replay(u32::MAX).expect("nothing is wrong");
    assert_eq!(FILLS.get(), 8);
}

#[test]
fn a_wrong_byte_is_named_in_either_way_and_its_exit_code_is_1() {
    // Two steps of two arrays in the workspace, and then the same with an allocation per call.
    for (fill, array, step, way) in [
        (0, "rho", 1, "one workspace"),
        (3, "theta", 2, "one workspace"),
        (5, "theta", 1, "allocate per call"),
    ] {
        let error = replay(fill).expect_err("a byte is wrong");
        let text = error.to_string();
        for part in [array, "'solver'", &format!("step {step}"), way, "byte 1005"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(matches!(error, ReplayError::WrongByte { .. }));
        assert_eq!(CliError::from(error).exit_code(), 1);
    }
}
