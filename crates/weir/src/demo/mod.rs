//! `weir demo firewall`: a firewall in a tiny VM between two namespaces, on real traffic.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use node::function::{self, FunctionError};
use node::model::Link as Host;

use crate::lab::{LabError, Namespace, Runner, require};
use crate::run::instance::Instance;
use crate::run::links::Link;
use crate::run::plan::{InstanceError, Plan};

/// The firewall's rules.
const RULES: &str = "allow from inside icmp type echo
allow from inside udp dst port 53
allow from inside tcp dst port 22
allow from inside tcp dst port 80 or 443
allow from inside tcp dst port 5201
reject from inside
";
/// The page that the web server serves.
const PAGE: &str = "served through the firewall\n";
const SECONDS: Duration = Duration::from_secs(1);

/// Why the demo ended early.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Namespaces and commands.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The guest and its switch.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// Traffic did not pass, or was not blocked, as expected.
    #[error("{0}")]
    Traffic(String),
    /// A file.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
    /// The configuration.
    #[error(transparent)]
    Function(#[from] FunctionError),
}

/// A folder for the web server that goes when this value does.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, DemoError> {
        let path = std::env::temp_dir().join(format!("weir-demo-{}", std::process::id()));
        let folder = Folder(path.clone());
        let failed = |error| DemoError::File(path.clone(), error);
        std::fs::create_dir_all(path.join("www")).map_err(failed)?;
        std::fs::write(path.join("www/index.html"), PAGE).map_err(failed)?;
        std::fs::write(path.join("rules"), RULES).map_err(failed)?;
        std::fs::write(path.join("nginx.conf"), folder.nginx()).map_err(failed)?;
        Ok(folder)
    }

    fn nginx(&self) -> String {
        let folder = self.0.display();
        format!(
            "daemon off; master_process off; pid {folder}/nginx.pid; error_log /dev/null;\n\
             events {{ worker_connections 64; }}\n\
             http {{ access_log off; client_body_temp_path {folder}/body;\n\
             proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;\n\
             uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n\
             server {{ listen 80; listen 8080; root {folder}/www; }} }}\n"
        )
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the demo; `stop` becomes true when the user wants it to end.
pub fn firewall(stop: Arc<AtomicBool>) -> Result<ExitCode, DemoError> {
    let runner = Runner::new(stop);
    require(&[
        "ip", "unshare", "nsenter", "setpriv", "ping", "curl", "iperf3", "nginx",
    ])?;
    let folder = Folder::new()?;
    let pid = std::process::id();
    let (inside, outside) = (Namespace::new(&runner)?, Namespace::new(&runner)?);
    let link = |interface: &str, letter: char| Link {
        interface: interface.into(),
        host: Host {
            device: format!("wd{letter}{pid}"),
            ..Host::default()
        },
    };
    inside.connect(
        &runner,
        &format!("wdi{pid}"),
        "10.1.0.2/24",
        Some("10.1.0.1"),
    )?;
    outside.connect(
        &runner,
        &format!("wdo{pid}"),
        "10.2.0.2/24",
        Some("10.2.0.1"),
    )?;
    println!("hosts     10.1.0.2 inside and 10.2.0.2 outside, each a network namespace of its own");

    let rules = folder.0.join("rules").display().to_string();
    let settings = [("rules".to_string(), rules)];
    let config = function::read("firewall".as_ref(), &settings, abi::boot::CONFIG_MAX)?;
    let mut firewall = Instance::start(&Plan {
        name: "firewall".into(),
        config: config.whole(),
        nsm: None,
        links: vec![link("inside", 'i'), link("outside", 'o')],
        isolation: vmm::Isolation::Auto,
        memory: vmm::DEFAULT_MEMORY,
        ring_slots: 256,
        cpus: 1,
        pins: Vec::new(),
        lanes: 1,
        settle: switch::properties::Settle::Off,
    })?;
    println!(
        "firewall  between them: a guest behind wall ‘{}’, running {:.2} ms after the start order",
        firewall.wall(),
        firewall.boot().as_secs_f64() * 1e3
    );

    let _nginx = outside.service("nginx", &format!("-c {}/nginx.conf", folder.0.display()))?;
    let _iperf = outside.service("iperf3", "-s -1")?;
    ping(&runner, &inside)?;
    web(&runner, &inside)?;
    let throughput = throughput(&runner, &inside)?;
    let delay = delay(&runner, &inside)?;
    report(&mut firewall, throughput, delay)?;
    let exit = firewall.stop(&mut Vec::new())?;
    println!("{exit}");
    Ok(ExitCode::SUCCESS)
}

fn ping(runner: &Runner, inside: &Namespace) -> Result<(), DemoError> {
    let said = runner.run(
        inside.command("ping", "-c 3 -i 0.2 -W 2 10.2.0.2"),
        5 * SECONDS,
    )?;
    let summary = said
        .lines()
        .find(|line| line.contains("received"))
        .unwrap_or("");
    println!("ping      {summary}");
    Ok(())
}

fn web(runner: &Runner, inside: &Namespace) -> Result<(), DemoError> {
    // nginx may not listen yet.
    let arguments = "-sS --retry 5 --retry-delay 1 --retry-connrefused -m 5 http://10.2.0.2/";
    let page = runner.run(inside.command("curl", arguments), 20 * SECONDS)?;
    if page != PAGE {
        return Err(DemoError::Traffic(format!(
            "the web server's page came as ‘{page}’"
        )));
    }
    println!("curl      port 80: {}", page.trim());
    let blocked = inside.command("curl", "-sS -m 5 http://10.2.0.2:8080/");
    let output = runner.output(blocked, 10 * SECONDS)?;
    // 7 is curl's "could not connect".
    if output.status.code() != Some(7) {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = format!(
            "the firewall should refuse port 8080, but curl ended with {}: {said}",
            output.status
        );
        return Err(DemoError::Traffic(said));
    }
    println!(
        "curl      port 8080: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// Bits a second that iperf3 got through.
fn throughput(runner: &Runner, inside: &Namespace) -> Result<f64, DemoError> {
    let said = runner.run(
        inside.command("iperf3", "-c 10.2.0.2 -t 3 -J"),
        15 * SECONDS,
    )?;
    let json: serde_json::Value = serde_json::from_str(&said)
        .map_err(|error| DemoError::Traffic(format!("iperf3 printed invalid JSON: {error}")))?;
    let rate = json["end"]["sum_received"]["bits_per_second"].as_f64();
    let rate = rate.ok_or_else(|| DemoError::Traffic("iperf3 printed no rate".into()))?;
    println!("iperf3    {:.2} Gb/s of TCP for 3 s", rate / 1e9);
    Ok(rate)
}

/// Median round trip through the firewall and without it, in microseconds.
fn delay(runner: &Runner, inside: &Namespace) -> Result<(f64, f64), DemoError> {
    let through = round_trip(runner, inside, "10.2.0.2")?;
    // The same two hosts with a cable between them.
    let (one, other) = (Namespace::new(runner)?, Namespace::new(runner)?);
    let limit = 5 * SECONDS;
    let pair = format!(
        "link add eth0 netns {} type veth peer name eth0 netns {}",
        one.pid(),
        other.pid()
    );
    runner.run(crate::lab::ip(&pair), limit)?;
    for (host, address) in [(&one, "10.3.0.1/24"), (&other, "10.3.0.2/24")] {
        runner.run(
            host.command("ip", &format!("addr add {address} dev eth0")),
            limit,
        )?;
        runner.run(host.command("ip", "link set eth0 up"), limit)?;
    }
    let cable = round_trip(runner, &one, "10.3.0.2")?;
    println!(
        "delay     round trip {through:.0} µs through the firewall, {cable:.0} µs over a cable"
    );
    Ok((through, cable))
}

fn round_trip(runner: &Runner, from: &Namespace, to: &str) -> Result<f64, DemoError> {
    let said = runner.run(
        from.command("ping", &format!("-c 300 -i 0.002 -W 1 {to}")),
        10 * SECONDS,
    )?;
    let times = said
        .lines()
        .filter_map(|line| line.split_once("time=")?.1.split(' ').next());
    let mut times: Vec<f64> = times.filter_map(|time| time.parse::<f64>().ok()).collect();
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2);
    let median = median.ok_or_else(|| DemoError::Traffic(format!("no answer from {to}")))?;
    Ok(median * 1e3)
}

fn report(
    firewall: &mut Instance,
    throughput: f64,
    (through, cable): (f64, f64),
) -> Result<(), DemoError> {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(["", ""]);
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_string(), value]);
    };
    row(
        "boot to engine running",
        format!("{:.2} ms", firewall.boot().as_secs_f64() * 1e3),
    );
    if let Some(kib) = firewall.memory_kib() {
        row(
            "memory, rings and buffers included",
            format!("{:.2} MB", kib as f64 / 1e3 * 1.024),
        );
    }
    row("TCP throughput", format!("{:.2} Gb/s", throughput / 1e9));
    row(
        "delay added, one way",
        format!("{:.0} µs", (through - cable) / 2.0),
    );
    for line in firewall.read("rules.hits")?.lines() {
        if let [connections, packets, rule] = line.splitn(3, ' ').collect::<Vec<_>>()[..] {
            row(
                rule,
                format!("{connections} connections, {packets} packets"),
            );
        }
    }
    row(
        "anything else",
        format!("{} packets", firewall.read("rules.unmatched")?.trim()),
    );
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
    Ok(())
}
