//! The time to save, restore and clone a guest, and the memory of a clone.
//!
//! `WEIR` names the `weir` program, `ROUNDS` the number of rounds (20). The guest is idle, has 64 slots a ring, and
//! answers ARP requests and pings; each wall is measured. Requests go over one connection of the node's API, so a
//! figure is that of the request until its answer: of a restored guest and a clone, until it runs. Runs as root.

use std::time::Instant;

use bench::api::Api;
use bench::memory::available;
use bench::node::Node;
use bench::program::rounds;
use bench::{median, report};
use serde::Serialize;
use serde_json::{Value, json};

/// Clones of a template in one request.
const CLONES: usize = 200;
const CONFIG: &str = "FromDevice(lan) -> kind :: Classifier(12/0806 20/0001, 12/0800, -);
    send :: Queue(64) -> ToDevice(lan);
    kind[0] -> ARPResponder(10.77.1.1 lan) -> send;
    kind[1] -> Strip(14) -> CheckIPHeader -> IPFilter(allow icmp type echo, deny all)
        -> ICMPPingResponder -> Unstrip(14) -> EtherMirror -> send;
    kind[2] -> Discard;";

/// Milliseconds, medians, of one wall.
#[derive(Serialize)]
struct Figure {
    wall: &'static str,
    create: f64,
    save: f64,
    restore: f64,
    /// One clone of a running guest.
    clone: f64,
    /// Each of many clones of a template.
    each_of_many: f64,
    /// Bytes of the file.
    file: u64,
    /// KiB of memory that are gone with each of many clones.
    memory: f64,
}

/// Milliseconds of a request.
fn timed(api: &mut Api, method: &str, path: &str, body: &Value) -> Result<f64, String> {
    let start = Instant::now();
    let answer = api.ask(method, path, Some(body))?;
    let took = start.elapsed().as_secs_f64() * 1e3;
    let answers = answer.as_array().map_or(&[][..], Vec::as_slice);
    match answers.iter().find(|answer| !answer["error"].is_null()) {
        Some(failed) => Err(failed.to_string()),
        None => Ok(took),
    }
}

fn measure(wall: &'static str, rounds: usize) -> Result<Figure, String> {
    let node = Node::start("copies")?;
    let mut api = Api::connect(&node.socket())?;
    api.ask("POST", "/v1/stubs", Some(&json!({"name": "lan"})))?;
    let guest = json!({
        "name": "one", "config": CONFIG, "interfaces": {"lan": "lan"}, "isolation": wall,
        "ring-slots": 64,
    });
    let file = node.folder.join("one.saved");
    let (mut create, mut saved) = (Vec::new(), Vec::new());
    let (mut restore, mut clone) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let all = [
            timed(&mut api, "POST", "/v1/guests", &guest)?,
            timed(
                &mut api,
                "POST",
                "/v1/guests/one/clone",
                &json!({"name": "two", "count": 1}),
            )?,
            timed(
                &mut api,
                "POST",
                "/v1/guests/one/save",
                &json!({"file": file}),
            )?,
            timed(
                &mut api,
                "POST",
                "/v1/guest-restore",
                &json!({"file": file}),
            )?,
        ];
        let destroy = json!({"action": "destroy", "guests": ["one", "two"]});
        timed(&mut api, "POST", "/v1/guest-actions", &destroy)?;
        // In the first round, the node forks its first processes.
        if round > 0 {
            for (times, time) in [&mut create, &mut clone, &mut saved, &mut restore]
                .into_iter()
                .zip(all)
            {
                times.push(time);
            }
        }
    }
    timed(&mut api, "POST", "/v1/guests", &guest)?;
    let template = json!({"action": "template", "guests": ["one"]});
    timed(&mut api, "POST", "/v1/guest-actions", &template)?;
    let before = available()?;
    let clones = json!({"name": "copy-{}", "count": CLONES});
    let many = timed(&mut api, "POST", "/v1/guests/one/clone", &clones)?;
    let gone = before.saturating_sub(available()?);
    Ok(Figure {
        wall,
        create: median(&create),
        save: median(&saved),
        restore: median(&restore),
        clone: median(&clone),
        each_of_many: many / CLONES as f64,
        file: std::fs::metadata(&file).map_or(0, |file| file.len()),
        memory: gone as f64 / 1024.0 / CLONES as f64,
    })
}

pub(super) fn run() -> Result<(), String> {
    let rounds = rounds(20);
    let mut figures = Vec::new();
    for wall in ["vm", "process"] {
        let figure = measure(wall, rounds)?;
        println!(
            "{wall}: create {:.2}, save {:.2}, restore {:.2}, clone {:.2}, each of {CLONES} {:.2} ms; {} bytes, {:.0} KiB a clone",
            figure.create,
            figure.save,
            figure.restore,
            figure.clone,
            figure.each_of_many,
            figure.file,
            figure.memory
        );
        figures.push(figure);
    }
    report("copies", rounds, &figures)
}
