//! Guest → switch → guest: one guest that is source and sink on a core of its own, or two that
//! share that core. The switch has the other.

use std::time::{Duration, Instant};

use bench::median;
use serde_json::{Value, json};
use vmm::{Isolation, Template};

use super::Failure;
use super::filter::round;
use super::guests::{Running, switch_on};

const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_secs(1);

/// Sender and receiver.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guests {
    /// One guest does both.
    One,
    /// Two guests do, on one core.
    Two,
}

/// Guests, slots of their rings, and bytes of the frames.
type Case = (Guests, u32, usize);

/// Measures all cases, alternating.
pub fn run(template: &Template, rounds: usize) -> Result<Value, Failure> {
    let of_size = |size| {
        let one = [256, 1024, 2048].map(|slots| (Guests::One, slots, size));
        one.into_iter().chain([(Guests::Two, 1024, size)])
    };
    let cases: Vec<Case> = of_size(60).chain(of_size(1514)).collect();
    let mut rates = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for (case, rates) in cases.iter().zip(&mut rates) {
            rates.push(rate(template, *case)? / 1e6);
        }
    }
    let rows = cases
        .iter()
        .zip(&rates)
        .map(|((guests, slots, size), rates)| {
            json!({
                "guests": if *guests == Guests::One { 1 } else { 2 },
                "ring_slots": slots,
                "frame_bytes": size,
                "mpps": round(median(rates), 2),
                "gbps": round(median(rates) * *size as f64 * 8.0 / 1e3, 2),
                "mpps_rounds": rates.iter().map(|rate| round(*rate, 2)).collect::<Vec<_>>(),
            })
        });
    Ok(json!({ "rows": rows.collect::<Vec<_>>() }))
}

/// Frames a second that arrive.
fn rate(template: &Template, (guests, slots, frame_bytes): Case) -> Result<f64, Failure> {
    let switch = switch_on(1)?;
    // To the sink's address, from the source's.
    let head = "02000000000202000000000108004500";
    let source =
        format!("InfiniteSource(DATA \\<{head}>, LENGTH {frame_bytes}, BURST 64, TIMESTAMP false)");
    let sink = "FromNetfront(sink) -> sunk :: Counter -> Discard;";
    let start = |interfaces: &[_], config: &str| {
        let wall = (Isolation::Auto, 0);
        Running::with_slots(slots, template, &switch, wall, interfaces, config)
    };
    let mut running = match guests {
        Guests::One => {
            let config = format!("{source} -> ToNetfront(source); {sink}");
            vec![start(&[("source", 1, 1), ("sink", 2, 1)], &config)?]
        }
        Guests::Two => {
            let receiver = start(&[("sink", 2, 1)], sink)?;
            // A sender to a full ring waits, and leaves the core to the other guest.
            let config = format!("{source} -> Queue(128) -> ToNetfront(source);");
            vec![receiver, start(&[("source", 1, 1)], &config)?]
        }
    };
    std::thread::sleep(WARM_UP);
    let (before, from) = (running[0].number("sunk.count")?, Instant::now());
    std::thread::sleep(MEASURED);
    let (after, to) = (running[0].number("sunk.count")?, Instant::now());
    Ok((after - before) as f64 / to.duration_since(from).as_secs_f64())
}
