//! Guest → switch → guest: one guest that is source and sink on a core of its own, or two that
//! share that core. The switch has the other.

use std::time::{Duration, Instant};

use bench::median;
use serde_json::{Value, json};
use vmm::{Isolation, Template};

use crate::Failure;
use crate::filter::round;
use crate::guests::{Running, SLOTS, switch_on};

const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_secs(1);

/// Who sends and who receives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guests {
    /// One guest does both.
    One,
    /// Two guests do, on one core.
    Two,
}

/// All cases turn about.
pub fn run(template: &Template, rounds: usize) -> Result<Value, Failure> {
    let cases = [60, 1514].map(|size| [(Guests::One, size), (Guests::Two, size)]);
    let cases = cases.concat();
    let mut rates = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for ((guests, size), rates) in cases.iter().zip(&mut rates) {
            rates.push(rate(template, *guests, *size)? / 1e6);
        }
    }
    let rows = cases.iter().zip(&rates).map(|((guests, size), rates)| {
        json!({
            "guests": if *guests == Guests::One { 1 } else { 2 },
            "frame_bytes": size,
            "mpps": round(median(rates), 2),
            "gbps": round(median(rates) * *size as f64 * 8.0 / 1e3, 2),
            "mpps_turns": rates.iter().map(|rate| round(*rate, 2)).collect::<Vec<_>>(),
        })
    });
    Ok(json!({ "ring_slots": SLOTS, "rows": rows.collect::<Vec<_>>() }))
}

/// Frames a second that arrive.
fn rate(template: &Template, guests: Guests, frame_bytes: usize) -> Result<f64, Failure> {
    let switch = switch_on(1)?;
    // To the sink's address, from the source's.
    let head = "02000000000202000000000108004500";
    let source =
        format!("InfiniteSource(DATA \\<{head}>, LENGTH {frame_bytes}, BURST 64, TIMESTAMP false)");
    let sink = "FromNetfront(sink) -> sunk :: Counter -> Discard;";
    let start = |interfaces: &[_], config: &str| {
        Running::start(template, &switch, (Isolation::Auto, 0), interfaces, config)
    };
    let mut running = match guests {
        Guests::One => {
            let config = format!("{source} -> ToNetfront(source); {sink}");
            vec![start(&[("source", 1, 1), ("sink", 2, 1)], &config)?]
        }
        Guests::Two => {
            let receiver = start(&[("sink", 2, 1)], sink)?;
            // What finds no room waits, and leaves the core to the other.
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
