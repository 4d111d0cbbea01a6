//! Weir against Click: random configurations, arguments and packets run in both, and everything
//! that a user could see is compared: output, packets, handlers, messages, exit codes.
//!
//! `cargo test --test differential` runs the kept cases in `seeds` against what Click gave. With a
//! Click at hand, the ignored test makes new ones:
//!
//! ```sh
//! CLICK=/path/to/click/userlevel/click cargo test -p weir --test differential -- --ignored --nocapture
//! ```
//!
//! | variable | meaning |
//! | --- | --- |
//! | `CLICK` | the program to compare with |
//! | `CONFORMANCE_SECONDS` | how long new cases are made (default 60) |
//! | `FAMILY` | the one family to take (default all) |
//! | `SEED` | the first seed (default: from the clock) |
//! | `CASES` | how many seeds to take in each family (default: as many as there is time for) |
//! | `RECORD=1` | keep cases that differ in `seeds`; refresh what Click gives for those there |

mod case;
mod compare;
mod families;
mod mix;
mod packets;
mod random;
mod runner;
mod shrink;

use case::{Case, Outcome};
use families::{FAMILIES, Family};
use random::Random;
use runner::{Program, Scratch};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Lists of a case are at most as long as a small multiple of this.
const LARGEST: usize = 10;
/// The commit of the Click that the kept cases come from.
const CLICK_COMMIT: &str = "9197a594b1c3";
/// Differences of one family that a run shows.
const SHOWN: usize = 10;

/// The case of a seed: the same as long as its family's generator stays.
fn make(family: &Family, seed: u64) -> Case {
    let mut random = Random::new(seed);
    let size = random.within(1..=LARGEST);
    Case {
        seed,
        ..(family.make)(&mut random, size)
    }
}

/// The file of a family's kept cases.
fn kept_file(family: &str) -> PathBuf {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/differential/seeds"
    );
    PathBuf::from(folder).join(format!("{family}.txt"))
}

fn kept(family: &str) -> Vec<(Case, Outcome)> {
    let text = std::fs::read_to_string(kept_file(family)).unwrap_or_default();
    case::from_text(&text).unwrap_or_else(|error| panic!("seeds/{family}.txt: {error}"))
}

/// Calls `work` on each thread of the machine.
fn on_all_threads(work: impl Fn(&Scratch) + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || work(&Scratch::new(&thread.to_string())));
        }
    });
}

#[test]
fn kept_cases_give_what_click_gave() {
    let cases: Vec<(&str, Case, Outcome)> = FAMILIES
        .iter()
        .flat_map(|family| {
            kept(family.name)
                .into_iter()
                .map(|(case, click)| (family.name, case, click))
        })
        .collect();
    assert!(!cases.is_empty(), "no case is kept");
    let (next, failures) = (AtomicU64::new(0), Mutex::new(String::new()));
    on_all_threads(|scratch| {
        let take = || next.fetch_add(1, Ordering::Relaxed) as usize;
        while let Some((family, case, click)) = cases.get(take()) {
            let weir = scratch.run(&Program::weir(), case);
            if let Some(difference) = compare::difference(click, &weir) {
                let text = case::to_text(case, click);
                let _ = writeln!(failures.lock().unwrap(), "{family} {text}{difference}");
            }
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "Click (-) and Weir (+) differ:\n{failures}"
    );
}

#[test]
fn a_case_survives_its_text() {
    for (family, seed) in FAMILIES
        .iter()
        .flat_map(|family| (0..50).map(move |seed| (family, seed)))
    {
        let mut case = make(family, seed);
        // One statement may take several lines; the shrinker then takes each on its own.
        case.config = case.config.join("\n").lines().map(String::from).collect();
        let outcome = Outcome {
            output: "a\n\nb\n".into(),
            error: "c\n".into(),
            status: "1".into(),
        };
        let read = case::from_text(&case::to_text(&case, &outcome)).unwrap();
        if case.packets.is_empty() {
            case.link = case::Link::default();
        }
        assert_eq!(read, [(case, outcome)]);
    }
}

/// What a run found in one family.
#[derive(Default)]
struct Tally {
    cases: u64,
    left_out: u64,
    /// Cases that differ, with Click's outcome and the difference.
    found: Vec<(Case, Outcome, String)>,
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
#[ignore = "needs a Click, whose program the variable CLICK names"]
fn random_cases_give_what_click_gives() {
    let click = Program::click().expect("CLICK names Click's program");
    let limit = Duration::from_secs(variable("CONFORMANCE_SECONDS").unwrap_or(60));
    let only: Option<String> = variable("FAMILY");
    let families: Vec<&Family> = FAMILIES
        .iter()
        .filter(|family| only.as_ref().is_none_or(|only| only == family.name))
        .collect();
    assert!(
        !families.is_empty(),
        "FAMILY is one of {:?}",
        FAMILIES.map(|family| family.name)
    );
    let is_recorded = variable::<u8>("RECORD") == Some(1);
    let clock = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let first: u64 = variable("SEED").unwrap_or(clock * 1000);
    let cases: u64 = variable::<u64>("CASES").unwrap_or(u64::MAX / 64);

    let tallies: Vec<Mutex<Tally>> = families.iter().map(|_| Mutex::default()).collect();
    let (next, start) = (AtomicU64::new(0), Instant::now());
    on_all_threads(|scratch| {
        while start.elapsed() < limit {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let (round, at) = (
                number / families.len() as u64,
                number as usize % families.len(),
            );
            if round >= cases {
                break;
            }
            let case = make(families[at], first + round);
            let result = examine(scratch, &click, case);
            let mut tally = tallies[at].lock().unwrap();
            tally.cases += 1;
            match result {
                Examined::Same => (),
                Examined::LeftOut => tally.left_out += 1,
                Examined::Differs(found) => tally.found.push(*found),
            }
        }
    });

    let mut differ = 0;
    let mut table = format!(
        "{:<16} {:>7} {:>8} {:>7}\n",
        "family", "cases", "left out", "differ"
    );
    for (family, tally) in families.iter().zip(tallies) {
        let tally = tally.into_inner().unwrap();
        for (case, outcome, difference) in tally.found.iter().take(SHOWN) {
            println!(
                "{} {}{difference}",
                family.name,
                case::to_text(case, outcome)
            );
        }
        if is_recorded {
            record(family.name, &click, &tally.found);
        }
        let (name, found) = (family.name, tally.found.len());
        let _ = writeln!(
            table,
            "{name:<16} {:>7} {:>8} {found:>7}",
            tally.cases, tally.left_out
        );
        differ += found;
    }
    println!("seeds from {first}, Click (-) against Weir (+):\n{table}");
    assert!(differ == 0, "Weir differs from Click in {differ} cases");
}

enum Examined {
    Same,
    LeftOut,
    Differs(Box<(Case, Outcome, String)>),
}

/// Runs a case in both programs, and makes it smaller if they differ.
fn examine(scratch: &Scratch, click: &Program, case: Case) -> Examined {
    let compared = |case: &Case| {
        let (outcome, weir) = (
            scratch.run(click, case),
            scratch.run(&Program::weir(), case),
        );
        if compare::left_out(&outcome, &weir).is_some() {
            return None;
        }
        let difference = compare::difference(&outcome, &weir);
        Some((outcome, difference))
    };
    let status = match compared(&case) {
        None => return Examined::LeftOut,
        Some((_, None)) => return Examined::Same,
        Some((outcome, Some(_))) => outcome.status,
    };
    // A smaller case ends as the first does: else a run's difference becomes a message's.
    let differs = |case: &Case| {
        compared(case)
            .is_some_and(|(outcome, difference)| difference.is_some() && outcome.status == status)
    };
    // A difference that is gone the next time is a busy machine's.
    if !differs(&case) {
        return Examined::Same;
    }
    let case = shrink::shrink(case, &mut { differs });
    match compared(&case) {
        Some((outcome, Some(difference))) => {
            Examined::Differs(Box::new((case, outcome, difference)))
        }
        _ => Examined::Same,
    }
}

/// Writes the kept cases of a family and new ones, with what Click gives now.
fn record(family: &str, click: &Program, found: &[(Case, Outcome, String)]) {
    let scratch = Scratch::new("record");
    let new = found.iter().map(|(case, ..)| case.clone());
    let cases: Vec<Case> = kept(family)
        .into_iter()
        .map(|(case, _)| case)
        .chain(new)
        .collect();
    if cases.is_empty() {
        return;
    }
    let texts = cases
        .iter()
        .map(|case| case::to_text(case, &scratch.run(click, case)));
    let file = kept_file(family);
    std::fs::create_dir_all(file.parent().expect("it is in a folder")).expect("it can be made");
    let head = format!("Kept cases, and what Click gives (commit {CLICK_COMMIT}).\n");
    std::fs::write(&file, head + &texts.collect::<String>()).expect("it can be written");
}
