//! The time to install another configuration on a running guest, with few and with many guests present.
//!
//! `WEIR` names the `weir` program, `ROUNDS` the number of rounds (50), `GUESTS` the numbers of guests (1,100,1000).
//! Guests idle. The configuration has four elements. Requests go over one connection of the node's API; by the control
//! store, a round is `status` written, a handler of the new router read, and its value there. Runs as root.

use std::time::Instant;

use bench::api::Api;
use bench::node::Node;
use bench::program::rounds;
use bench::{median, report};
use serde::Serialize;
use serde_json::json;
use store::client::Client;

const GUEST: &str = "Idle -> Counter -> Discard;";
const CONFIG: &str = "Idle -> c :: Counter -> Queue -> Discard;";
/// Guests that are created in one request.
const GROUP: usize = 100;

/// Milliseconds, medians and the slowest of the rounds.
#[derive(Serialize)]
struct Figure {
    guests: usize,
    install: [f64; 2],
    uninstall: [f64; 2],
    by_store: [f64; 2],
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn figures(times: &[f64]) -> [f64; 2] {
    [median(times), times.iter().copied().fold(0.0, f64::max)]
}

fn create(api: &mut Api, guests: usize, there: &mut usize) -> Result<(), String> {
    while *there < guests {
        let count = GROUP.min(guests - *there);
        let guest = json!({"config": GUEST, "ring-slots": 64});
        let series = json!({"name": "g{}", "first": *there + 1, "count": count, "guest": guest});
        let made = api.ask("POST", "/v1/guest-series", Some(&series))?;
        let made = made.as_array().map_or(&[][..], Vec::as_slice);
        if let Some(failed) = made.iter().find(|guest| !guest["error"].is_null()) {
            return Err(failed.to_string());
        }
        *there += count;
    }
    Ok(())
}

/// Starts a router by the store and reads one of its handlers; milliseconds until the value is there.
fn by_store(client: &mut Client, domain: u64) -> store::client::Result<f64> {
    let path = format!("/local/domain/{domain}/data/clickos/1");
    client.write(&format!("{path}/config_name"), b"probe")?;
    client.write(&format!("{path}/config/0"), CONFIG.as_bytes())?;
    let lock = format!("{path}/elements/c/count/lock");
    client.watch(&lock, "read")?;
    client.event()?;
    let start = Instant::now();
    client.write(&format!("{path}/status"), b"Running")?;
    client.write(&format!("{path}/control/read/c/count"), b" ")?;
    client.event()?;
    let took = milliseconds(start);
    client.unwatch(&lock, "read")?;
    client.remove(&path)?;
    Ok(took)
}

fn measure(node: &Node, api: &mut Api, guests: usize, rounds: usize) -> Result<Figure, String> {
    let mut client = Client::connect(&node.folder.join("store.sock")).map_err(|e| e.to_string())?;
    let (mut install, mut uninstall, mut stored) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        // Not always the same guest: its memory would be in the caches.
        let guest = 1 + round * 7919 % guests;
        let path = format!("/v1/guests/g{guest}/configurations/probe");
        let start = Instant::now();
        api.ask("PUT", &path, Some(&json!({"config": CONFIG})))?;
        let installed = milliseconds(start);
        let start = Instant::now();
        api.ask("DELETE", &path, None)?;
        let uninstalled = milliseconds(start);
        let seen = api.ask("GET", &format!("/v1/guests/g{guest}"), None)?;
        let domain = seen["status"]["domain-id"].as_u64();
        let domain = domain.ok_or("a guest without a number in the store")?;
        let stored_in = by_store(&mut client, domain).map_err(|error| error.to_string())?;
        if round > 0 {
            install.push(installed);
            uninstall.push(uninstalled);
            stored.push(stored_in);
        }
    }
    Ok(Figure {
        guests,
        install: figures(&install),
        uninstall: figures(&uninstall),
        by_store: figures(&stored),
    })
}

pub(super) fn run() -> Result<(), String> {
    let rounds = rounds(50);
    let sizes = std::env::var("GUESTS").unwrap_or_else(|_| "1,100,1000".into());
    let node = Node::start("install")?;
    let mut api = Api::connect(&node.socket())?;
    let (mut there, mut all) = (0, Vec::new());
    for guests in sizes.split(',') {
        let guests = guests.trim().parse().ok().filter(|guests| *guests > 0);
        let guests = guests.ok_or(format!("GUESTS: {sizes}: numbers are expected"))?;
        create(&mut api, guests, &mut there)?;
        let figure = measure(&node, &mut api, guests, rounds)?;
        let [install, uninstall, stored] = [figure.install, figure.uninstall, figure.by_store]
            .map(|[median, worst]| format!("{median:.2} (at most {worst:.2})"));
        println!(
            "{guests} guests: install {install}, uninstall {uninstall}, by the store {stored} ms"
        );
        all.push(figure);
    }
    report("install", rounds, &all)
}
