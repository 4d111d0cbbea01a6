//! Shared parts of the benchmarks: medians, results as JSON, plots as SVG.
//!
//! The machines are shared and noisy. So compared programs alternate within one run, figures are
//! medians of several rounds, and documentation quotes their ratios.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::Serialize;

pub mod api;
pub mod compare;
pub mod firewall;
pub mod memory;
pub mod node;
mod plot;
pub mod program;
pub mod routes;
pub mod traffic;

pub use plot::{Axis, Line, bars, lines};

/// The exit code of a benchmark. An error is printed as one sentence on standard error.
pub fn exit(ran: Result<(), impl Display>) -> ExitCode {
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs `work` while there is a folder for its files.
pub fn with_folder<T>(
    folder: &Path,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let ran = work();
    let _ = std::fs::remove_dir_all(folder);
    ran
}

/// The median; of an even number of figures, the mean of the two in the middle.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// The figure below which so large a share of the figures lies; 0 if there are none.
pub fn percentile(figures: &[f64], share: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let at = (last as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or(0.0)
}

/// CPU time, user and system, of a command and its children.
pub fn cpu_time(command: &mut Command) -> Result<Duration, String> {
    let before = children_time();
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("{program} could not be started: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} failed ({}): {said}", output.status));
    }
    Ok(children_time() - before)
}

/// CPU time of all children that were waited for.
pub fn children_time() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else {
        return Duration::ZERO;
    };
    let time = |value: TimeVal| {
        Duration::from_secs(value.tv_sec() as u64) + Duration::from_micros(value.tv_usec() as u64)
    };
    time(usage.user_time()) + time(usage.system_time())
}

/// A description of the machine, in one line.
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |rest| {
            rest.trim_start_matches([' ', '\t', ':'])
        });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}

/// The folder of results.
pub fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}

/// What most benchmarks report.
#[derive(Serialize)]
struct Report<'a, F> {
    benchmark: &'a str,
    machine: String,
    rounds: usize,
    figures: &'a [F],
}

/// Writes the figures of benchmark `name`, of so many rounds, as `NAME.json` among the results, and
/// prints where.
pub fn report(name: &str, rounds: usize, figures: &[impl Serialize]) -> Result<(), String> {
    let report = Report {
        benchmark: name,
        machine: machine(),
        rounds,
        figures,
    };
    println!("{}", save(name, &report)?.display());
    Ok(())
}

/// Writes a table into `docs/performance.md`, between the marks `<!-- bench/run NAME -->` and
/// `<!-- end -->`, if the page has them.
pub fn document(name: &str, table: &str) -> std::io::Result<()> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/performance.md");
    let mut text = std::fs::read_to_string(&page)?;
    let start = format!("<!-- bench/run {name} -->\n");
    let Some(from) = text.find(&start).map(|at| at + start.len()) else {
        return Ok(());
    };
    let Some(to) = text[from..].find("<!-- end -->").map(|at| at + from) else {
        return Ok(());
    };
    text.replace_range(from..to, table);
    std::fs::write(&page, text)
}

/// Writes `NAME.json` among the results.
pub fn save(name: &str, result: &impl Serialize) -> Result<PathBuf, String> {
    let folder = results();
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let path = folder.join(format!("{name}.json"));
    let text = serde_json::to_string_pretty(result).map_err(|error| error.to_string())?;
    std::fs::write(&path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
