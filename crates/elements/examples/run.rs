//! Runs a Click configuration until it stops: the engine and the elements with nothing around them, as a
//! profiler likes it.
//!
//! ```text
//! cargo build --release -p elements --example run
//! valgrind --tool=callgrind target/release/examples/run FILE
//! ```

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use click::{Diagnostics, Options};
use packet::Pool;
use router::{Embedding, Router, Runtime, Settings, Status, Steady};

/// Tasks between two looks at timers.
const TASKS: usize = 128;

/// A program with clocks and standard error.
struct Bare(Instant);

impl Embedding for Bare {
    fn steady(&self) -> Steady {
        Steady(self.0.elapsed().as_nanos() as u64)
    }

    fn wall(&self) -> i64 {
        let since = SystemTime::UNIX_EPOCH.elapsed();
        since.map_or(0, |since| since.as_nanos() as i64)
    }

    fn chatter(&mut self, line: &str) {
        eprintln!("{line}");
    }

    fn seed(&mut self) -> u64 {
        7
    }

    fn driver(&self) -> &'static str {
        "userlevel"
    }
}

/// The router of the configuration in a file.
fn router(file: &str) -> Result<Router, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let mut diagnostics = Diagnostics::new();
    let library = elements::library();
    let options = Options::new(&library);
    let flat = click::parse(text.as_bytes(), file, &options, &mut diagnostics);
    let runtime = Runtime::new(Box::new(Bare(Instant::now())), Pool::heap(1 << 20));
    let settings = Settings::default();
    let router = flat.and_then(|flat| {
        Router::new(flat, &text, &library, runtime, settings, &mut diagnostics).ok()
    });
    router.ok_or_else(|| diagnostics.to_string())
}

fn main() -> ExitCode {
    let [_, file] = &std::env::args().collect::<Vec<_>>()[..] else {
        eprintln!("usage: run FILE");
        return ExitCode::FAILURE;
    };
    let mut router = match router(file) {
        Ok(router) => router,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    loop {
        match router.run(TASKS) {
            Status::Stopped => return ExitCode::SUCCESS,
            Status::Busy => {}
            Status::Idle(_) => std::thread::sleep(Duration::from_micros(10)),
        }
    }
}
