use router::args::Value;

use crate::prelude::*;

/// Sets how often elements' tasks run in relation to others.
///
/// An element with parameter 2 is scheduled four times as often as one with parameter 0.5; 1 is the
/// default, and with 0 an element's task never runs. A parameter of a compound element multiplies
/// those of the elements inside. A name's scope is the compound element of the ScheduleInfo; an
/// outer definition overrides an inner one. The `tickets` handler of an element with a task shows
/// its share; 1024 is the default.
///
/// # Arguments
/// - `ELEMENT PARAMETER` (any number of times): the name of an element and its parameter, a number
///   that is not negative.
///
/// # Example
/// ```click
/// ScheduleInfo(fast 2, slow 0.5);
/// fast :: InfiniteSource(LIMIT 100) -> Discard;
/// slow :: InfiniteSource(LIMIT 100) -> Discard;
/// ```
///
/// # See also
/// InfiniteSource, Unqueue
#[derive(Element)]
#[element(ports = "0/0", phase = phase::INFO, raw)]
pub struct ScheduleInfo;

impl Element for ScheduleInfo {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        for entry in args.take_raw() {
            let words = click::config::split_space(&entry);
            let bits = schedule::FRACTION;
            let share = match words.as_slice() {
                [] => continue,
                [_, share] => FixedPoint { bits }.parse(share, &args.context()).ok(),
                _ => None,
            };
            match share {
                Some(share) => args.define(schedule::KIND, &words[0], Value::Int(share)),
                None => args.error("expected ‘ELEMENTNAME PARAM’"),
            }
        }
        args.finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn shares_become_tickets() {
        let config = "ScheduleInfo(c 2, c/s 0.5, d 0);
            elementclass C { s :: InfiniteSource -> output; }
            c :: C -> Discard; d :: InfiniteSource -> Discard; e :: InfiniteSource -> Discard;";
        let mut rig = Rig::new(config);
        assert_eq!(rig.read("c/s.tickets"), "1024");
        assert_eq!(rig.read("e.tickets"), "1024");
        for _ in 0..10 {
            rig.step();
        }
        assert_eq!(rig.read("d.count"), "0");
        assert_ne!(rig.read("e.count"), "0");
        for (written, pinned) in [("99999999999", "32768"), ("0", "1"), ("-3", "1")] {
            rig.write("e.tickets", written);
            assert_eq!(rig.read("e.tickets"), pinned);
            let warning = format!("  warning: tickets pinned at {pinned}");
            assert_eq!(rig.printed().last(), Some(&warning));
        }
        assert!(rig.try_write("e.tickets", "many").is_err());
        Rig::refuses("ScheduleInfo(c);", "ELEMENTNAME PARAM");
    }
}
