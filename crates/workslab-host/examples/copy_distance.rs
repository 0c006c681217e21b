//! How fast this machine's memcpy is, by the distance of target and source modulo 4096.
//!
//! Run with `cargo run --release -p workslab-host --example copy_distance`; docs/benchmarks.md has what
//! it printed on an AMD EPYC.

use std::hint::black_box;
use std::time::{Duration, Instant};

const CHUNK: usize = 64 << 10;
const SOURCE: usize = 160 << 20;

/// The part of a vector that begins at a multiple of 4096.
fn aligned(bytes: &mut [u8]) -> &mut [u8] {
    let skip = bytes.as_ptr().align_offset(4096);
    &mut bytes[skip..]
}

fn main() {
    let mut source = vec![1u8; SOURCE + 4096];
    let source = &aligned(&mut source)[..SOURCE];
    let mut target = vec![0u8; CHUNK + 3 * 4096];
    let target = aligned(&mut target);
    for distance in [
        0, 1, 8, 15, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 128, 4080, 4095,
    ] {
        let target = &mut target[distance..distance + CHUNK];
        let best = (0..3)
            .map(|_| {
                let start = Instant::now();
                for chunk in source.chunks_exact(CHUNK) {
                    target.copy_from_slice(black_box(chunk));
                    black_box(&mut *target);
                }
                start.elapsed()
            })
            .min()
            .unwrap_or(Duration::MAX);
        let rate = SOURCE as f64 / best.as_secs_f64() / 1e9;
        println!("target {distance:4} bytes after the source: {rate:5.1} GB/s");
    }
}
