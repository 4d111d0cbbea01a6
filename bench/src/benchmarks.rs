//! The benchmarks. They are one program, so that Weir is linked, and optimised as a whole, once for all of them.

mod agents;
mod captures;
mod copies;
mod density;
mod elements;
mod engine;
mod forward;
mod install;
mod middleboxes;
mod migrate;
mod mixes;
mod netkernel;
mod scheduler;
mod sizes;
mod startup;
mod store;
mod switch;
mod threads;

/// How a benchmark is run.
enum Benchmark {
    Whole(fn() -> Result<(), String>),
    /// It takes words that say what is to be measured.
    Parts(fn(&[String]) -> Result<(), String>),
}

const BENCHMARKS: &[(&str, Benchmark)] = &[
    ("agents", Benchmark::Whole(agents::run)),
    ("captures", Benchmark::Whole(captures::run)),
    ("copies", Benchmark::Whole(copies::run)),
    ("density", Benchmark::Parts(density::run)),
    ("elements", Benchmark::Parts(elements::run)),
    ("engine", Benchmark::Parts(engine::run)),
    ("forward", Benchmark::Whole(forward::run)),
    ("install", Benchmark::Whole(install::run)),
    ("middleboxes", Benchmark::Parts(middleboxes::run)),
    ("migrate", Benchmark::Whole(migrate::run)),
    ("mixes", Benchmark::Parts(mixes::run)),
    ("netkernel", Benchmark::Parts(netkernel::run)),
    ("scheduler", Benchmark::Whole(scheduler::run)),
    ("sizes", Benchmark::Parts(sizes::run)),
    ("startup", Benchmark::Parts(startup::run)),
    ("store", Benchmark::Whole(store::run)),
    ("switch", Benchmark::Parts(switch::run)),
    ("threads", Benchmark::Whole(threads::run)),
];

/// Runs the benchmark that the first word names.
pub fn run(words: &[String]) -> Result<(), String> {
    let known = || {
        let names: Vec<_> = BENCHMARKS.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    };
    let Some((name, parts)) = words.split_first() else {
        return Err(format!("which benchmark? There are {}", known()));
    };
    let Some((_, benchmark)) = BENCHMARKS.iter().find(|(it, _)| it == name) else {
        return Err(format!("no benchmark ‘{name}’: there are {}", known()));
    };
    match benchmark {
        Benchmark::Whole(_) if !parts.is_empty() => Err(format!(
            "{name} has no parts, so ‘{}’ names none",
            parts.join(" ")
        )),
        Benchmark::Whole(run) => run(),
        Benchmark::Parts(run) => run(parts),
    }
}
