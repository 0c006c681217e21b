//! What a device must bear: two processes at once, memory that is full, and a process that is killed.
//!
//! Nothing is measured. `cargo xtask gpu-bundle` packs it; it runs on the emulated driver too:
//!
//! ```sh
//! cargo build -p workslab-emulator-cuda
//! WORKSLAB_CUDA_LIBRARY=$PWD/target/debug/libworkslab_emulator_cuda.so \
//!   cargo bench -p workslab-cuda --bench endurance
//! ```

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use workslab_core::{Error, ExternalWorkspaceAllocator, Platform, SlabSize, Stream, Workspace};
use workslab_cuda::{Cuda, CudaStream};

type AnyError = Box<dyn std::error::Error>;

/// A device is filled in so many slabs, roughly.
const PARTS: usize = 64;

/// How many programs each of two processes runs.
const TURNS: u32 = 500;

/// Drivers keep some of what a process had for a moment, and other processes come and go.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    // Cargo adds an argument of its own, `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some("share") => share(),
        Some("hold") => hold(),
        _ => all(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("endurance: {error}");
            ExitCode::FAILURE
        }
    }
}

fn all() -> Result<(), AnyError> {
    two_processes()?;
    full()?;
    killed()
}

fn again(role: &str) -> Result<Child, AnyError> {
    let program = std::env::current_exe()?;
    Ok(Command::new(program)
        .arg(role)
        .stdout(Stdio::piped())
        .spawn()?)
}

fn free() -> Result<usize, AnyError> {
    Ok(Cuda::open()?.device_info(0.into())?.free)
}

fn two_processes() -> Result<(), AnyError> {
    let (mut one, mut other) = (again("share")?, again("share")?);
    let (one, other) = (one.wait()?, other.wait()?);
    if !one.success() || !other.success() {
        return Err(format!("two processes: {one} and {other}").into());
    }
    println!("two processes: {TURNS} programs each, every byte right");
    Ok(())
}

/// Fills the whole workspace with one number after the other, and looks.
fn share() -> Result<(), AnyError> {
    let allocator = ExternalWorkspaceAllocator::new(Cuda::open()?);
    let size = SlabSize::new(1 << 20)?;
    let workspace = allocator.allocate(0, &size)?;
    let streams = [
        allocator.platform().create_stream(workspace.device())?,
        allocator.platform().create_stream(workspace.device())?,
    ];
    for turn in 0..TURNS {
        let number = turn ^ std::process::id();
        check(workspace, &streams[turn as usize % 2], number)?;
    }
    Ok(())
}

fn check(workspace: &Workspace<Cuda>, stream: &CudaStream, number: u32) -> Result<(), AnyError> {
    let mut lease = workspace.lease(stream)?;
    let frame = lease.frame();
    let mut array = frame.array::<u32>(workspace.size() / 4)?;
    array.fill(number)?;
    match array.to_vec()?.iter().find(|&&found| found != number) {
        Some(found) => Err(format!("a byte of {found:#x} is where {number:#x} was written").into()),
        None => Ok(()),
    }
}

/// Takes memory until there is none, gives some back, and takes it again.
fn full() -> Result<(), AnyError> {
    let before = free()?;
    let size = SlabSize::new(before / PARTS)?;
    let mut held = Vec::new();
    let refused = loop {
        let allocator = ExternalWorkspaceAllocator::new(Cuda::open()?);
        match allocator.allocate(0, &size) {
            Ok(_) => held.push(allocator),
            Err(error) => break error,
        }
        if held.len() > 2 * PARTS {
            return Err("a device has twice the memory that it says is free".into());
        }
    };
    if !matches!(refused, Error::OutOfMemory { .. }) || held.len() < PARTS / 2 {
        return Err(format!("after {} slabs: {refused}", held.len()).into());
    }
    let most = held.len();
    held.truncate(most - 4);
    for number in 0..4 {
        let allocator = ExternalWorkspaceAllocator::new(Cuda::open()?);
        let workspace = allocator.allocate(0, &size)?;
        let stream = allocator.platform().create_stream(workspace.device())?;
        let mut lease = workspace.lease(&stream)?;
        let frame = lease.frame();
        let mut last = frame.array::<u8>(workspace.size())?;
        last.fill(number)?;
        stream.synchronize()?;
        drop(frame);
        drop(lease);
        held.push(allocator);
    }
    drop(held);
    until_free(before)?;
    println!(
        "a full device: {most} slabs of {} bytes, then: {refused}; recovered",
        size.bytes()
    );
    Ok(())
}

/// A process that is killed in the middle of its work leaves nothing behind.
fn killed() -> Result<(), AnyError> {
    let before = free()?;
    let mut child = again("hold")?;
    let mut line = String::new();
    let printed = child.stdout.take().ok_or("no pipe")?;
    BufReader::new(printed).read_line(&mut line)?;
    child.kill()?;
    child.wait()?;
    if line.trim() != "holding" {
        return Err("the process to be killed did not come so far".into());
    }
    until_free(before)?;
    share()?;
    println!("a process that was killed: its memory is free again, and the next one works");
    Ok(())
}

/// Takes half of the memory and works on it without end.
fn hold() -> Result<(), AnyError> {
    let allocator = ExternalWorkspaceAllocator::new(Cuda::open()?);
    let size = SlabSize::new(free()? / 2 / 4 * 4)?;
    let workspace = allocator.allocate(0, &size)?;
    let stream = allocator.platform().create_stream(workspace.device())?;
    for number in 0_u32.. {
        let mut lease = workspace.lease(&stream)?;
        let frame = lease.frame();
        frame.array::<u32>(workspace.size() / 4)?.fill(number)?;
        if number == 0 {
            println!("holding");
            std::io::stdout().flush()?;
        }
    }
    Ok(())
}

/// Waits until about as much is free as was before.
fn until_free(before: usize) -> Result<(), AnyError> {
    let step = Duration::from_millis(100);
    let mut waited = Duration::ZERO;
    loop {
        let now = free()?;
        if now >= before - before / 100 {
            return Ok(());
        }
        if waited > PATIENCE {
            return Err(format!("{before} bytes were free, and {now} are").into());
        }
        std::thread::sleep(step);
        waited += step;
    }
}
