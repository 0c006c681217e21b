//! Short cuts that most tests take.

use workslab::{
    DeviceId, Error, ExternalWorkspaceAllocator, Pattern, Platform, SlabOptions, SlabRequest,
    SlabSize, Stream,
};
use workslab_tests::{Backend, Calls, Counted, Emulator};

/// An allocator over the backend's devices, and where its driver's calls are counted.
pub fn counted<B: Backend>(backend: &B) -> (ExternalWorkspaceAllocator<Counted<B::P>>, Calls) {
    println!("on {}", backend.driver());
    let (platform, calls) = Counted::new(backend.platform());
    (ExternalWorkspaceAllocator::new(platform), calls)
}

/// An allocator over the backend's devices.
pub fn allocator<B: Backend>(backend: &B) -> ExternalWorkspaceAllocator<B::P> {
    println!("on {}", backend.driver());
    ExternalWorkspaceAllocator::new(backend.platform())
}

pub fn size(bytes: usize) -> SlabSize {
    SlabSize::new(bytes).expect("tests ask for some bytes")
}

pub fn guarded(bytes: usize) -> SlabRequest<'static> {
    SlabRequest::exact(size(bytes)).with_guard(true)
}

pub fn default_stream<P: Platform>(allocator: &ExternalWorkspaceAllocator<P>) -> P::Stream {
    allocator
        .platform()
        .default_stream(DeviceId::new(0))
        .expect("device 0 has a default stream")
}

pub fn new_stream<P: Platform>(allocator: &ExternalWorkspaceAllocator<P>) -> P::Stream {
    allocator
        .platform()
        .create_stream(DeviceId::new(0))
        .expect("device 0 can have another stream")
}

/// Everything that a backend does, on device 1; the first error ends it.
pub fn everything<P: Platform + Clone>(platform: &P) -> Result<(), Error> {
    let device = 1.into();
    platform.device_count()?;
    platform.device_info(device)?;
    let mut touched = SlabOptions::default();
    touched.prefault = true;
    drop(platform.allocate_slab(device, size(4096), touched)?);
    let allocator = ExternalWorkspaceAllocator::new(platform.clone());
    let own = platform.create_stream(device)?;
    let growing = SlabRequest::exact(size(1)).growing(Some(size(1 << 20)));
    drop(platform.reserve_slab(device, size(1 << 20), growing.options)?);
    let grows = ExternalWorkspaceAllocator::new(platform.clone());
    let workspace = grows.allocate(device, &growing)?;
    workspace.lease(&own)?.frame().array::<u8>(300_000)?;
    workspace.reserve("blas", 1000)?;
    // SAFETY: there are no graphs, and no pointer was passed on.
    unsafe { workspace.trim(1) }?;
    for stream in [platform.default_stream(device)?, own] {
        let workspace = allocator.allocate(device, &size(1 << 16))?;
        let mut lease = workspace.lease(&stream)?;
        let frame = lease.frame();
        let mut array = frame.array::<u8>(1001)?;
        let mut other = frame.array::<u8>(1001)?;
        for pattern in [
            Pattern::U8(1),
            Pattern::U16(0x0102),
            Pattern::U32(0x0102_0304),
            Pattern::U64(0x0102_0304_0506_0708),
        ] {
            array.fill_pattern(pattern)?;
        }
        array.write(&[7; 1001])?;
        other.copy_from(&array)?;
        assert_eq!(other.to_vec()?, [7; 1001]);
        stream.synchronize()?;
    }
    Ok(())
}

/// With any of `calls` failing at any time, there is an error with a type, and nothing is left over.
pub fn every_fault_is_typed<P: Platform + Clone>(emulator: &Emulator<P>, calls: &[&str]) {
    for call in calls {
        for after in 0..4 {
            emulator.fail(call, after, 719);
            let outcome = everything(&emulator.platform);
            emulator.clear_faults();
            match outcome {
                Ok(()) | Err(Error::Driver { code: 719, .. } | Error::Unavailable { .. }) => {}
                Err(other) => panic!("{call} failed after {after}: {other}"),
            }
        }
    }
    everything(&emulator.platform).expect("nothing is left over");
}

/// A warm program of 24 arrays makes no call of the driver's, on the default stream and on another.
pub fn warm_path_is_free<P: Platform + Clone>(emulator: &Emulator<P>) {
    let allocator = ExternalWorkspaceAllocator::new(emulator.platform.clone());
    let request = size(1 << 20);
    for stream in [default_stream(&allocator), new_stream(&allocator)] {
        let program = || {
            let workspace = allocator.allocate(0, &request).expect("it fits");
            let mut lease = workspace.lease(&stream).expect("free");
            let frame = lease.frame();
            for _ in 0..24 {
                frame.array::<f64>(1000).expect("it fits");
            }
        };
        program();
        let before = emulator.thread_calls();
        (0..100).for_each(|_| program());
        assert_eq!(emulator.thread_calls(), before);
    }
}

/// A hand-over from one stream to another is two calls of the driver's.
pub fn hand_over_is_two_calls<P: Platform + Clone>(emulator: &Emulator<P>) {
    let allocator = ExternalWorkspaceAllocator::new(emulator.platform.clone());
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let streams = [new_stream(&allocator), new_stream(&allocator)];
    drop(workspace.lease(&streams[0]).expect("free"));
    for turn in 1..10 {
        let before = emulator.thread_calls();
        drop(workspace.lease(&streams[turn % 2]).expect("free"));
        assert_eq!(emulator.thread_calls() - before, 2);
    }
}
