//! Runs one benchmark: `bench NAME [WORD...]`. `bench/run` builds what it needs first.

use std::process::ExitCode;

mod benchmarks;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    bench::exit(benchmarks::run(&words))
}
