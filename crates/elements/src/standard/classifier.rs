use crate::classification::{DataView, Program, classifier};
use crate::filters::compile::{classification_effects, take_compiled};
use crate::filters::dispatch::{DROP, send_sets};
use crate::prelude::*;

/// Classifies packets by their bytes.
///
/// A packet leaves by the output of the first pattern that it matches, and is dropped if it matches
/// none. A pattern is a list of clauses, separated by spaces, all of which must match:
/// `OFFSET/VALUE` or `OFFSET/VALUE%MASK`, with the offset in decimal from the start of the packet
/// and value and mask in hexadecimal, two digits a byte. A digit `?` in the value matches any; `!`
/// in front of a clause negates it. The pattern `-` matches every packet. A clause that reaches
/// beyond a packet's end does not match it.
///
/// # Example
/// ```click
/// c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
/// FromDump(in.pcap) -> c;
/// c[0] -> Discard;    // ARP requests
/// c[1] -> Discard;    // ARP replies
/// c[2] -> Discard;    // IP
/// c[3] -> Discard;    // all else
/// ```
///
/// # See also
/// IPClassifier, IPFilter
#[derive(Element)]
#[element(ports = "1/-", processing = "h/h", segments, live, handlers)]
#[outputs("one for each pattern: the packets that match it and none before")]
pub struct Classifier {
    /// The pattern of an output's packets. New patterns written to `config` take effect at once.
    #[arg(rest, name = "PATTERN", kind = "pattern, one for each output")]
    patterns: Vec<String>,
    program: Option<Program>,
}

#[handlers]
impl Classifier {
    /// The compiled patterns.
    #[read(calm)]
    fn program(&self) -> Option<String> {
        self.program.as_ref().map(Program::text)
    }
}

impl Element for Classifier {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let outputs = cx.outputs();
        if self.patterns.len() != outputs {
            let text = format_args!("need {outputs} arguments, one per output port");
            return Err(args.fail(text));
        }
        let compiled = classifier(&self.patterns, 0);
        self.program = Some(take_compiled(args, compiled, true)?);
        Ok(())
    }

    #[inline]
    fn effects(&self) -> Effects {
        classification_effects(self.program.as_ref())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let Some(program) = &mut self.program else {
            return DROP as usize;
        };
        let sets = program.classify_batch(batch.iter().map(DataView));
        send_sets(cx, batch, sets)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const CONFIG: &str = "i :: Inject -> c :: Classifier(0/01, !0/02 1/?3, -);
        c[0] -> a :: Collect; c[1] -> b :: Collect; c[2] -> d :: Collect;";

    #[test]
    fn packets_leave_by_the_first_pattern_that_matches() {
        let mut rig = Rig::new(CONFIG);
        let packets = [
            vec![1, 9],
            vec![3, 0x53],
            vec![2, 0x53],
            vec![3, 0x54],
            vec![1],
            vec![3],
            vec![],
        ];
        rig.push_all("i", &packets);
        assert_eq!(rig.data("a"), [vec![1, 9], vec![1]]);
        assert_eq!(rig.data("b"), [[3, 0x53]]);
        assert_eq!(
            rig.data("d"),
            [vec![2, 0x53], vec![3, 0x54], vec![3], vec![]]
        );
    }

    #[test]
    fn outputs_that_lead_to_one_place_leave_packets_in_order_and_are_counted_apart() {
        let config = "i :: Inject -> c :: Classifier(0/01, 0/02, 0/03, 0/04, -);
            c[0] -> a :: Collect; c[1] -> b :: Collect; c[2] -> a; c[3] -> Discard; c[4] -> a;";
        let mut rig = Rig::new(config);
        let packets: Vec<Vec<u8>> = (0..60).map(|n| vec![n % 6, n]).collect();
        rig.push_all("i", &packets);
        let these = |classes: &[u8]| -> Vec<Vec<u8>> {
            let these = packets.iter().filter(|packet| classes.contains(&packet[0]));
            these.cloned().collect()
        };
        assert_eq!(rig.data("a"), these(&[0, 1, 3, 5]));
        assert_eq!(rig.data("b"), these(&[2]));
        // A batch that goes to one place as a whole.
        rig.push_all("i", &[vec![1], vec![3], vec![9], vec![3]]);
        assert_eq!(rig.data("a"), [[1], [3], [9], [3]]);
        let passed = rig.router.read(None, "active_port_stats", "").unwrap();
        let names = rig.router.read(None, "active_ports", "").unwrap();
        let passed = names
            .lines()
            .zip(passed.lines())
            .filter(|(name, _)| name.starts_with("c\t"));
        let passed: Vec<&str> = passed.map(|(_, count)| count).collect();
        assert_eq!(passed, ["11", "10", "12", "10", "21"]);
    }

    #[test]
    fn packets_that_match_nothing_are_dropped() {
        let mut rig = Rig::new("i :: Inject -> Classifier(0/01) -> c :: Collect;");
        let packets: Vec<Vec<u8>> = (0..10).map(|n| vec![n % 3]).collect();
        rig.push_all("i", &packets);
        assert_eq!(rig.data("c"), [[1], [1], [1]]);
        rig.push_all("i", &[vec![2], vec![2]]);
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn the_patterns_can_change_while_it_runs() {
        let mut rig = Rig::new(CONFIG);
        rig.write("c.config", "0/05, 0/06, 0/07");
        rig.push_all("i", &[vec![6], vec![1]]);
        assert_eq!(rig.data("b"), [[6]]);
        assert_eq!(rig.read("c.config"), "0/05, 0/06, 0/07");
        let error = rig.try_write("c.config", "0/05, x, 0/07").unwrap_err();
        assert_eq!(
            error,
            HandlerError::failed(FailureKind::Failed, "pattern 1: expected a digit")
        );
        rig.push("i", &[6]);
        assert_eq!(
            rig.data("b"),
            [[6]],
            "wrong patterns leave the old ones in force"
        );
    }

    #[test]
    fn the_program_is_shown_as_click_shows_it() {
        let mut rig =
            Rig::new("i :: Inject -> c :: Classifier(1/01, -); c[0] -> Discard; c[1] -> Discard;");
        assert_eq!(
            rig.read("c.program"),
            " 0   0/00010000%00ff0000  yes->[0]  no->[1]\nsafe length 2\nalignment offset 0\n"
        );
    }

    #[test]
    fn wrong_patterns_are_refused_in_clicks_words() {
        Rig::refuses(
            "Idle -> c :: Classifier(0/1, -) -> Discard; c[1] -> Discard;",
            "pattern 0: value has less than 2 hex digits",
        );
        Rig::refuses(
            "Idle -> Classifier(0/01, -) -> Discard;",
            "need 1 arguments, one per output port",
        );
    }

    #[test]
    fn outputs_that_no_packet_can_reach_are_warned_of() {
        let mut rig = Rig::new("Idle -> c :: Classifier(-, 0/01) -> Discard; c[1] -> Discard;");
        let printed = rig.printed().join("\n");
        assert!(printed.contains("output 1 matches no packets"), "{printed}");
    }
}
