//! Namespace → firewall → namespace: Weir beside its peers.
//!
//! All have the same ten rules, the last of which denies the rest, and the same traffic: frames of 64
//! flows that pass, each by one of the first eight rules ([`super::sender`]), and a TCP stream that
//! passes by the ninth. The stream runs once with the interfaces' default offloads, and once with
//! segmentation off at both hosts, so that packets of 1500 bytes cross.

use std::time::Duration;

use bench::firewall::{self, Rule};
use bench::median;
use bench::traffic::{Flow, Random};
use serde_json::{Value, json};
use weir::lab::Runner;

use super::Failure;
use super::forwarder::Forwarder;
use super::load::Processors;
use super::network::{ADDRESSES, NOBODY, Network};
use super::sender;

/// The network of the hosts.
const NETWORK: (u32, u32) = (0x0a08_0000, 24);
const FLOWS: usize = 64;
/// Windows, in frames under way, for a run without loss: a small window adds less delay, a large one
/// keeps more processors busy.
const WINDOWS: [u64; 2] = [256, 1024];
/// Tolerated loss.
const LOST: f64 = 0.01;
/// How long frames are counted.
const FRAMES_TIME: Duration = Duration::from_millis(700);
/// The congestion control: Linux's default, not this machine's setting. BBR paces itself and leaves
/// processors idle.
const CONGESTION: &str = "cubic";
/// How long a TCP stream lasts, in seconds.
const TCP_SECONDS: u32 = 2;

/// The rules, without the one that denies the rest.
pub fn rules() -> Vec<Rule> {
    let mut rules = firewall::rules(9, &mut Random::new(1));
    rules.push(Rule::allow_tcp(NETWORK, NETWORK));
    rules
}

/// Frames of 60 bytes that pass.
pub fn frames() -> Vec<Vec<u8>> {
    let rules = rules();
    let flows = firewall::passing(&rules[..rules.len() - 1], FLOWS, &mut Random::new(2));
    let frame = |flow: &Flow| {
        let mut frame = flow.frame(60);
        frame[..6].copy_from_slice(&NOBODY);
        frame[6..12].copy_from_slice(&[2, 0, 0, 8, 0, 1]);
        frame
    };
    flows.iter().map(frame).collect()
}

/// Results of the rounds of one forwarder.
#[derive(Default)]
struct Rounds {
    windowed: Vec<sender::Round>,
    flooded: Vec<sender::Round>,
    tcp: Vec<Stream>,
    whole: Vec<Stream>,
}

/// The result of a TCP stream.
#[derive(Clone, Copy)]
struct Stream {
    /// Gb/s at the receiver.
    gigabits: f64,
    /// Seconds of the whole machine's processors for each gigabyte.
    seconds: f64,
}

/// Measures all forwarders, alternating.
pub fn run(rounds: usize, runner: &Runner) -> Result<Value, Failure> {
    let mut left_out = Vec::new();
    let mut contest: Vec<(Forwarder, Rounds)> = Vec::new();
    for forwarder in Forwarder::ALL {
        match forwarder.missing() {
            None => contest.push((forwarder, Rounds::default())),
            Some(sentence) => {
                eprintln!("{sentence}");
                left_out.push(sentence);
            }
        }
    }
    let frames = frames();
    for _ in 0..rounds {
        let mut broken = Vec::new();
        for (forwarder, rounds) in &mut contest {
            if let Err(error) = measure(*forwarder, &frames, rounds, runner) {
                runner.check()?;
                // Without a peer, the other figures are still useful.
                if forwarder.is_ours() {
                    return Err(error);
                }
                let sentence = format!("{} is left out: {error}", forwarder.name());
                eprintln!("{sentence}");
                left_out.push(sentence);
                broken.push(*forwarder);
            }
        }
        contest.retain(|(forwarder, _)| !broken.contains(forwarder));
    }
    let rows: Vec<Value> = contest.iter().map(|(f, rounds)| row(*f, rounds)).collect();
    Ok(json!({
        "rules": 10,
        "flows": FLOWS,
        "windows": WINDOWS,
        "congestion_control": CONGESTION,
        "ahead": ahead(&rows),
        "rows": rows,
        "left_out": left_out,
    }))
}

fn measure(
    forwarder: Forwarder,
    frames: &[Vec<u8>],
    rounds: &mut Rounds,
    runner: &Runner,
) -> Result<(), Failure> {
    let network = Network::new(forwarder, &rules(), runner)?;
    let pids = network.pids();
    rounds.windowed.push(windowed(pids, frames)?);
    rounds
        .flooded
        .push(sender::send(pids, frames, None, FRAMES_TIME)?);
    rounds.tcp.push(stream(&network, runner)?);
    network.on_hosts("ethtool", "-K eth0 tso off gso off")?;
    rounds.whole.push(stream(&network, runner)?);
    Ok(())
}

/// The highest rate with a window, without loss.
fn windowed(pids: (u32, u32), frames: &[Vec<u8>]) -> Result<sender::Round, Failure> {
    let rounds = WINDOWS.map(|window| sender::send(pids, frames, Some(window), FRAMES_TIME));
    let mut rounds = rounds.into_iter().collect::<Result<Vec<_>, _>>()?;
    rounds.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let lossless = rounds.iter().rfind(|round| round.lost < LOST);
    Ok(*lossless.unwrap_or(&rounds[rounds.len() - 1]))
}

/// A TCP stream from the first host to the second.
fn stream(network: &Network, runner: &Runner) -> Result<Stream, Failure> {
    let _server = network.hosts[1].service("iperf3", "-s")?;
    for _ in 0..200 {
        let command = network.hosts[1].command("ss", "-Hltn sport = :5201");
        if !runner
            .run(command, Duration::from_secs(2))?
            .trim()
            .is_empty()
        {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let command = format!(
        "-c {} -J -t {TCP_SECONDS} -C {CONGESTION} --connect-timeout 2000",
        ADDRESSES[1]
    );
    let command = network.hosts[0].command("iperf3", &command);
    let load = Processors::read()?;
    let report = runner.output(command, Duration::from_secs(u64::from(TCP_SECONDS) + 8))?;
    let busy = Processors::read()?.since(&load);
    let report: Value = serde_json::from_slice(&report.stdout)?;
    let received = &report["end"]["sum_received"];
    let (Some(rate), Some(bytes)) = (
        received["bits_per_second"].as_f64(),
        received["bytes"].as_f64(),
    ) else {
        return Err(format!("iperf3 says: {}", report["error"]).into());
    };
    Ok(Stream {
        gigabits: rate / 1e9,
        seconds: busy.as_secs_f64() / (bytes / 1e9),
    })
}

fn row(forwarder: Forwarder, rounds: &Rounds) -> Value {
    let frames = |rounds: &[sender::Round], of: fn(&sender::Round) -> f64, digits: i32| {
        round(median(&rounds.iter().map(of).collect::<Vec<_>>()), digits)
    };
    let streams = |rounds: &[Stream], of: fn(&Stream) -> f64| {
        round(median(&rounds.iter().map(of).collect::<Vec<_>>()), 2)
    };
    let all = |rounds: &[sender::Round]| {
        let rates = rounds.iter().map(|one| round(one.rate / 1e6, 3));
        rates.collect::<Vec<_>>()
    };
    let all_streams = |rounds: &[Stream]| {
        let rates = rounds.iter().map(|one| round(one.gigabits, 2));
        rates.collect::<Vec<_>>()
    };
    json!({
        "forwarder": forwarder.name(),
        "short": forwarder.short(),
        "peer": forwarder.is_peer(),
        "mpps": frames(&rounds.windowed, |round| round.rate / 1e6, 3),
        "mpps_rounds": all(&rounds.windowed),
        "lost": frames(&rounds.windowed, |round| round.lost, 5),
        "machine_ns_per_frame": frames(&rounds.windowed, |round| round.nanoseconds, 0),
        "flooded_mpps": frames(&rounds.flooded, |round| round.rate / 1e6, 3),
        "flooded_rounds": all(&rounds.flooded),
        "flooded_lost": frames(&rounds.flooded, |round| round.lost, 3),
        "flooded_machine_ns_per_frame": frames(&rounds.flooded, |round| round.nanoseconds, 0),
        "tcp_gbps": streams(&rounds.tcp, |stream| stream.gigabits),
        "tcp_rounds": all_streams(&rounds.tcp),
        "tcp_machine_s_per_gb": streams(&rounds.tcp, |stream| stream.seconds),
        "tcp_whole_gbps": streams(&rounds.whole, |stream| stream.gigabits),
        "tcp_whole_rounds": all_streams(&rounds.whole),
        "tcp_whole_machine_s_per_gb": streams(&rounds.whole, |stream| stream.seconds),
    })
}

/// In each discipline, the better of Weir's two over the best peer's.
fn ahead(rows: &[Value]) -> Value {
    let best = |field: &str, of: &dyn Fn(&Value) -> bool| {
        let values = rows
            .iter()
            .filter(|row| of(row))
            .filter_map(|row| row[field].as_f64());
        values.fold(0.0, f64::max)
    };
    let is_ours = |row: &Value| {
        row["forwarder"]
            .as_str()
            .is_some_and(|f| f.starts_with("Weir"))
    };
    let is_peer = |row: &Value| row["peer"] == true;
    let fields = ["mpps", "flooded_mpps", "tcp_gbps", "tcp_whole_gbps"];
    let ratios = fields.map(|field| {
        let ratio = best(field, &is_ours) / best(field, &is_peer);
        (
            field.to_string(),
            if ratio.is_finite() {
                json!(round(ratio, 2))
            } else {
                Value::Null
            },
        )
    });
    Value::Object(ratios.into_iter().collect())
}

/// Rounded to that many decimals.
pub fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}
