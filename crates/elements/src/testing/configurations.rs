//! Several configurations in one router: what is the same goes on when the others change.

use super::*;

/// A source, which sends a packet every millisecond, and what counts them.
const TICKS: &str = "RatedSource(RATE 1000) -> c :: Counter -> q :: Queue(1000) -> u :: Unqueue \
    -> d :: Counter -> Discard;";

#[track_caller]
fn number(rig: &mut Rig, handler: &str) -> u64 {
    rig.read(handler).trim().parse().unwrap()
}

#[test]
fn configurations_that_are_the_same_keep_all_their_state() {
    let mut rig = Rig::new(TICKS);
    rig.advance(100 * MS);
    let before = number(&mut rig, "c.count");
    assert!(before >= 100);
    rig.write("q.capacity", "77");
    for round in 1..20_u64 {
        // Others of several sizes come and go, beside and between.
        let text = format!(
            "Idle {} -> Discard;",
            "-> Null ".repeat(round as usize % 5 + 1)
        );
        let more = if round % 3 == 0 {
            "Idle -> Discard;"
        } else {
            TICKS
        };
        let all = [("", TICKS), ("a", &text), ("b", more)];
        rig.update(&all[..(round % 2 + 2) as usize]).unwrap();
        assert_eq!(number(&mut rig, "c.count"), before + 10 * (round - 1));
        rig.advance(10 * MS);
        assert_eq!(number(&mut rig, "d.count"), before + 10 * round);
    }
    assert_eq!(rig.read("q.capacity"), "77");
    rig.update(&[("", TICKS)]).unwrap();
    assert_eq!(number(&mut rig, "c.count"), before + 190);
    let list = rig.read(".list");
    assert_eq!(list.lines().next(), Some("6"), "{list}");
}

#[test]
fn one_that_is_wrong_changes_nothing() {
    let mut rig = Rig::new(TICKS);
    rig.update(&[("", TICKS), ("a", TICKS)]).unwrap();
    rig.advance(50 * MS);
    let wrong = "Idle -> Queue(x) -> Discard;";
    for all in [
        [("", wrong), ("a", TICKS)],
        [("", TICKS), ("a", wrong)],
        [("", "Idle -> Conter;"), ("a", TICKS)],
    ] {
        assert!(rig.update(&all).is_err());
        let counts = [number(&mut rig, "c.count"), number(&mut rig, "a/c.count")];
        rig.advance(10 * MS);
        let since = [number(&mut rig, "c.count"), number(&mut rig, "a/c.count")];
        assert_eq!(since, counts.map(|count| count + 10));
    }
}

#[test]
fn one_that_changes_takes_its_own_state_alone() {
    let mut rig = Rig::new(TICKS);
    let kept = "i :: Inject -> q :: Queue(10) -> Idle;";
    rig.update(&[("", TICKS), ("a", kept)]).unwrap();
    rig.push("a/i", &[0; 60]);
    rig.push("a/i", &[0; 60]);
    rig.advance(10 * MS);
    let count = number(&mut rig, "c.count");
    let longer = format!("{kept} Idle -> Discard;");
    rig.update(&[("", TICKS), ("a", &longer)]).unwrap();
    // A queue of the same name takes the packets; counters begin anew where the configuration is another.
    assert_eq!(rig.read("a/q.length"), "2");
    assert!(count > 0);
    assert_eq!(number(&mut rig, "c.count"), count);
    let other = TICKS.replace("Discard", "Null -> Discard");
    rig.update(&[("", &other), ("a", &longer)]).unwrap();
    assert_eq!(number(&mut rig, "c.count"), 0);
    assert_eq!(rig.read("a/q.length"), "2");
    rig.advance(10 * MS);
    assert!(number(&mut rig, "d.count") >= 10);
    assert_eq!(rig.end(), 0);
}

#[test]
fn one_that_has_stopped_stays_so_and_names_stay_known() {
    let stops = "AddressInfo(x 10.0.0.9); i :: Idle -> c :: Counter -> s :: SetIPAddress(10.0.0.8) -> Discard;
        DriverManager(wait 1ms, stop);";
    let mut rig = Rig::new(TICKS);
    rig.update(&[("", TICKS), ("a", stops)]).unwrap();
    rig.advance(5 * MS);
    assert_eq!(rig.router.halted(), 2);
    rig.update(&[("", TICKS), ("0", TICKS), ("a", stops)])
        .unwrap();
    assert_eq!(rig.router.halted(), 4);
    rig.write("a/s.config", "x");
    assert_eq!(rig.read("a/s.config"), "x");
    rig.advance(5 * MS);
    assert!(number(&mut rig, "0/c.count") >= 5);
}
