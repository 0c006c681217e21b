//! `cargo xtask`: what a shell script would do.

mod bench;
mod bundle;
mod check;
mod command;
mod emulators;
mod page;
mod planner;
mod python;
mod test;
mod toolkits;

use std::process::ExitCode;

const HELP: &str = "cargo xtask COMMAND

  test      all tests: the matrix over backends, unit and documentation tests, the examples
  loom      every interleaving of the lease protocol, by loom
  asan      the tests under AddressSanitizer
  valgrind  the tests under valgrind
  lint      formatting, clippy and documentation, with warnings denied
  bench     the benchmarks, their ratios, and whether they keep their bounds
  planner   the planner's tables, and its plot in docs/images; with WORKSLAB_BENCH_DATA all of them
  page      the page of a plan, in headless Chromium, with a screenshot in target/page
  python    the Python package: its wheel in an environment of its own, its tests and its types

  gpu-bundle           tests, examples and benchmarks for a machine with a GPU, in target/gpu-bundle
  emulators            the emulated drivers under the real names, in target/emulators
  hip-headers DIR…     what the ROCm backend relies on, against HIP's headers in each folder
  cuda-headers DIR…    the same for the CUDA backend, against CUDA's header
  hip-library TOOLKIT  the command built against a real toolkit, and run with the real library";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => test::run(),
        ["loom"] => check::loom(),
        ["asan"] => check::asan(),
        ["valgrind"] => check::valgrind(),
        ["lint"] => check::lint(),
        ["bench"] => bench::run(),
        ["planner"] => planner::measure(),
        ["python"] => python::run_tests(),
        ["page"] => page::check(),
        ["gpu-bundle"] => bundle::lay_out(),
        ["emulators"] => emulators::lay_out(),
        ["hip-headers", ref folders @ ..] => toolkits::HIP.check(folders),
        ["cuda-headers", ref folders @ ..] => toolkits::CUDA.check(folders),
        ["hip-library", toolkit] => toolkits::hip_library(toolkit),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => {
            eprintln!(
                "xtask: unknown command {:?}; see cargo xtask help",
                arguments.join(" ")
            );
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
