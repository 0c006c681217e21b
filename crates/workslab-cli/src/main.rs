//! The command `workslab`.

use std::process::ExitCode;

fn main() -> ExitCode {
    workslab_cli::main()
}
