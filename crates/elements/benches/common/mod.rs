//! A router that runs in a benchmark.

use std::time::Instant;

use click::{Diagnostics, Options};
use packet::Pool;
use router::{ClassEntry, Embedding, Router, Runtime, Settings, Steady};

/// Packets that a batch holds.
pub const BATCH: usize = 64;

/// A program with a clock and nothing else.
struct Bare(Instant);

impl Embedding for Bare {
    fn steady(&self) -> Steady {
        Steady(self.0.elapsed().as_nanos() as u64)
    }

    fn wall(&self) -> i64 {
        0
    }

    fn chatter(&mut self, line: &str) {
        eprintln!("{line}");
    }

    fn seed(&mut self) -> u64 {
        7
    }

    fn driver(&self) -> &'static str {
        "bench"
    }
}

/// A router of the library's classes and of `more`.
pub fn router(config: &str, more: &'static [ClassEntry]) -> Router {
    let mut diagnostics = Diagnostics::new();
    let mut library = elements::library();
    library.add(more);
    let options = Options::new(&library);
    let flat = click::parse(config.as_bytes(), "bench", &options, &mut diagnostics);
    let runtime = Runtime::new(Box::new(Bare(Instant::now())), Pool::heap(1 << 12));
    let settings = Settings {
        batch: BATCH,
        ..Settings::default()
    };
    let router = flat.and_then(|flat| {
        Router::new(flat, config, &library, runtime, settings, &mut diagnostics).ok()
    });
    router.unwrap_or_else(|| panic!("{diagnostics}"))
}
