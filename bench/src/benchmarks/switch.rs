//! The switch's figures: `bench/run switch [PART…]`, as root.
//!
//! | part | what |
//! | --- | --- |
//! | `firewall` | namespace → firewall → namespace, beside a Linux bridge with nftables and Open vSwitch's userspace datapath |
//! | `delay` | the delay that a guest and the switch add, polling at two loads, and asleep |
//! | `guests` | guest → switch → guest: one guest, or two that share a core |
//! | `port_to_port`, `limits`, `lookup`, `host_links`, `vhost_rings`, `vhost` | the benchmarks of crate `switch`, run by cargo |
//!
//! Without a part, all run; `tables` measures nothing and rewrites plots and tables. Compared programs
//! alternate, `ROUNDS` times (3); figures are medians. Results go to `bench/results/switch.json`,
//! where each part replaces its former result, to plots beside it, and as tables into
//! `docs/performance.md`.

mod copier;
mod delay;
mod filter;
mod forwarder;
mod guests;
mod load;
mod network;
mod pair;
mod pauses;
mod programs;
mod report;
mod sender;
mod tables;

use std::process::Command;

use serde_json::Value;
use vmm::{IMAGE, Template};
use weir::lab::Runner;

use report::Report;

/// A sentence that ends the benchmark.
pub type Failure = Box<dyn std::error::Error>;

/// The benchmarks of crate `switch`.
const BENCHES: [&str; 6] = [
    "port_to_port",
    "limits",
    "lookup",
    "host_links",
    "vhost_rings",
    "vhost",
];
/// The parts that are measured here.
const OWN: [&str; 3] = ["firewall", "delay", "guests"];

fn rounds() -> usize {
    bench::program::rounds(3).max(1)
}

pub(super) fn run(words: &[String]) -> Result<(), String> {
    measure_all(words).map_err(|error| error.to_string())
}

fn measure_all(words: &[String]) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err("this makes network namespaces: run it as root".into());
    }
    let all = || OWN.into_iter().chain(BENCHES);
    if words == ["tables"] {
        Report::open()?.save()?;
        return Ok(());
    }
    let mut parts = words.to_vec();
    if let [verb, one, other] = &parts[..]
        && verb == "copy"
    {
        // Started by `firewall`.
        return copier::run([one, other]);
    }
    if let Some(unknown) = parts.iter().find(|part| all().all(|known| known != *part)) {
        let known: Vec<_> = all().collect();
        return Err(format!("no part ‘{unknown}’: there are {}", known.join(", ")).into());
    }
    if parts.is_empty() {
        parts = all().map(str::to_string).collect();
    }
    // Guests and switches are started by a process without threads.
    let template = Template::new(IMAGE)?;
    let runner = Runner::new(report::interrupted()?);
    let mut report = Report::open()?;
    for part in &parts {
        runner.check()?;
        eprintln!("{part}");
        let result = match part.as_str() {
            "firewall" => filter::run(rounds(), &runner)?,
            "delay" => delay::run(&template, rounds())?,
            "guests" => pair::run(&template, rounds())?,
            bench => cargo_bench(bench)?,
        };
        println!("{}", tables::table(part, &result));
        report.set(part, result, rounds());
        // Saved now, in case a later part fails.
        report.save()?;
    }
    println!("{}", report.save()?.display());
    Ok(())
}

/// Runs a benchmark of crate `switch`: the JSON that it prints.
fn cargo_bench(name: &str) -> Result<Value, Failure> {
    if name == "vhost" && !forwarder::is_installed("dpdk-testpmd") {
        let sentence = "vhost-user is skipped: dpdk-testpmd is missing (apt-get install dpdk-dev)";
        eprintln!("{sentence}");
        return Ok(serde_json::json!({ "left_out": sentence }));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let output = Command::new(cargo)
        .args(["bench", "--quiet", "--package", "switch"])
        .args(["--features", "testing", "--bench", name])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let json = text.find('{').map(|start| text[start..].trim());
    match (output.status.success(), json) {
        (true, Some(json)) => Ok(serde_json::from_str(json)?),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("cargo bench --bench {name} failed: {}", said.trim()).into())
        }
    }
}
