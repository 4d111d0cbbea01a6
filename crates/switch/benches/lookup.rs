//! What each lookup function costs: nanoseconds to say where a frame goes, in batches of 64 frames
//! of as many flows, all of which are known. Printed as JSON: the least of many rounds, since what
//! runs beside can only add.
//!
//! `cargo bench -p switch --features testing --bench lookup`

use std::time::Instant;

use switch::lookup::{Destination, build};
use switch::port::testing::frame;
use switch::port::{BATCH, Frame};
use switch::properties::{DomainProperties, LookupKind};

const TURNS: usize = 300;
const ROUNDS: u32 = 200;

fn main() {
    switch::lookup::register(&click_lookup::FUNCTION);
    let click = |config: &str| LookupKind::Click {
        config: config.into(),
    };
    let rows = [
        ("learning", LookupKind::Learning),
        ("hash", LookupKind::Hash),
        ("flow-table", LookupKind::FlowTable),
        (
            "click: a wire",
            click("FromPort(up) -> ToPort(vm1); FromPort(vm1) -> ToPort(up);"),
        ),
        (
            "click: a filter of ten rules",
            click(
                "FromPort(up) -> MarkIPHeader(14) -> IPFilter(
                     deny src net 192.168.0.0/16, deny src net 172.16.0.0/12, deny dst port 23,
                     deny dst port 25, deny dst port 135, deny dst port 139, deny dst port 445,
                     deny src host 10.9.9.9, deny dst host 10.9.9.9, allow all)
                 -> ToPort(vm1);
                 FromPort(vm1) -> ToPort(up);",
            ),
        ),
    ]
    .map(|(name, lookup)| serde_json::json!({ "function": name, "ns_per_frame": measure(lookup) }));
    let report = serde_json::json!({
        "bench": "lookup functions, batches of 64 frames of 64 flows",
        "results": rows,
    });
    println!("{report:#}");
}

/// A UDP frame of the `i`-th flow, in one direction or the other.
fn udp(i: u8, back: bool) -> Frame {
    let mut bytes = [0; 64];
    let (to, from) = if back { (2, 1) } else { (1, 2) };
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from]);
    bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17]);
    let (source, destination) = ([10, 0, 0, i], [10, 1, 0, 1]);
    let ports = (1000 + u16::from(i), 53u16);
    let (addresses, ports) = match back {
        false => ((source, destination), ports),
        true => ((destination, source), (ports.1, ports.0)),
    };
    bytes[26..30].copy_from_slice(&addresses.0);
    bytes[30..34].copy_from_slice(&addresses.1);
    bytes[34..36].copy_from_slice(&ports.0.to_be_bytes());
    bytes[36..38].copy_from_slice(&ports.1.to_be_bytes());
    frame(&bytes)
}

fn measure(lookup: LookupKind) -> f64 {
    let properties = DomainProperties {
        lookup,
        ..DomainProperties::default()
    };
    let mut function = build(&properties, false).expect("a function");
    for (port, name) in (0..).zip(["up", "vm1", "vm2", "vm3"]) {
        function.introduce(port, name, port == 0);
        function.attach(port, None, 0);
    }
    let forth: Vec<_> = (0..BATCH as u8).map(|i| udp(i, false)).collect();
    let back: Vec<_> = (0..BATCH as u8).map(|i| udp(i, true)).collect();
    let mut to = [Destination::Flood; BATCH];
    function.steer(1, &back, &mut to, 0);
    let mut least = f64::MAX;
    for _ in 0..TURNS {
        let started = Instant::now();
        for _ in 0..ROUNDS {
            function.steer(0, std::hint::black_box(&forth), &mut to, 1);
            std::hint::black_box(&to);
        }
        let frames = f64::from(ROUNDS) * BATCH as f64;
        least = least.min(started.elapsed().as_nanos() as f64 / frames);
    }
    assert!(matches!(to[0], Destination::Port(_)), "{:?}", to[0]);
    (least * 10.0).round() / 10.0
}
