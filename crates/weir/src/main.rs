//! The `weir` command.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    weir::main(std::env::args_os())
}
