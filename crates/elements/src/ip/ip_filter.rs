use crate::classification::{IpView, Program, ip_filter};
use crate::filters::compile::{RouterNames, classification_effects, take_compiled};
use crate::filters::dispatch::{DROP, send_sets};
use crate::prelude::*;

/// Filters IP packets by rules like tcpdump's.
///
/// Each rule is an action and a pattern; the first rule whose pattern matches a packet decides. The
/// actions are `allow` (leave by output 0), `deny` and `drop` (the same), and the number of an
/// output. A packet that no rule matches is dropped. IPClassifier's page has the patterns.
///
/// Packets must have their network header marked, by CheckIPHeader or MarkIPHeader; unmarked
/// packets are too short for every test. Rules are compiled: the time per packet hardly grows with
/// their number.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true)
///     -> IPFilter(allow dst tcp port www or https,
///                 allow icmp type echo or echo-reply,
///                 deny src net 10.0.0.0/8,
///                 allow udp && src port dns,
///                 deny all)
///     -> Discard;
/// ```
///
/// # See also
/// IPClassifier, Classifier, CheckIPHeader, MarkIPHeader
#[derive(Element)]
#[element(ports = "1/-", processing = "h/h", segments, live, handlers)]
#[outputs("one for each output that the rules name")]
pub struct IPFilter {
    /// The rules, in order.
    #[arg(rest, name = "ACTION PATTERN", kind = "any number of rules")]
    rules: Vec<String>,
    program: Option<Program>,
}

/// Sends a batch's packets where an IP program says.
#[inline]
pub(super) fn filter(cx: &mut Cx<'_>, batch: &mut Batch, program: Option<&mut Program>) -> usize {
    let Some(program) = program else {
        return DROP as usize;
    };
    let sets = program.classify_batch(batch.iter().map(IpView));
    send_sets(cx, batch, sets)
}

#[handlers]
impl IPFilter {
    /// The compiled rules.
    #[read]
    fn program(&self) -> Option<String> {
        self.program.as_ref().map(Program::text)
    }
}

impl Element for IPFilter {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let rules = self.rules.iter();
        let rules: Vec<String> = rules
            .map(|rule| click::config::unquote_text(rule))
            .collect();
        let compiled = ip_filter(&rules, cx.outputs(), &RouterNames(args.context()));
        self.program = Some(take_compiled(args, compiled, true)?);
        Ok(())
    }

    #[inline]
    fn effects(&self) -> Effects {
        classification_effects(self.program.as_ref())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        filter(cx, batch, self.program.as_mut())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn rig(rules: &str) -> Rig {
        let config = [
            "i :: Inject -> f :: IPFilter(",
            rules,
            "); f[0] -> a :: Collect; f[1] -> b :: Collect;",
        ]
        .concat();
        Rig::new(&config)
    }

    fn push(rig: &mut Rig, packets: &[Vec<u8>]) {
        for data in packets {
            rig.push_with("i", data, |packet| packet.set_network_header(0, 20));
        }
    }

    fn packets() -> [Vec<u8>; 3] {
        let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        [
            tcp((from, 1024), (to, 80), 2, &[]),
            udp((from, 53), (to, 1024), &[]),
            ping(from, to, &[]),
        ]
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let mut rig = rig("allow dst tcp port www, 1 udp, deny icmp, allow all");
        push(&mut rig, &packets());
        assert_eq!(rig.data("a"), [&packets()[0][..]]);
        assert_eq!(rig.data("b"), [&packets()[1][..]]);
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn rules_may_be_quoted_and_name_what_the_router_names() {
        // AddressInfo is another group's element; without it the name is unknown.
        Rig::refuses(
            "Idle -> f :: IPFilter(allow dst host me) -> Discard;",
            "pattern 0:",
        );
        let mut rig = rig(r#""allow tcp and syn", 1 -"#);
        push(&mut rig, &packets());
        assert_eq!((rig.data("a").len(), rig.data("b").len()), (1, 2));
    }

    #[test]
    fn warnings_say_first_which_pattern() {
        let mut rig = rig("allow ip tos < 300, 1 all");
        assert_eq!(
            rig.printed()[1..],
            ["  pattern 0: warning: relation '< 300' is always true (range 0-255)"]
        );
        let text = "allow ip tos < 400, 1 all";
        rig.write("f.config", text);
        assert!(
            rig.printed()
                .concat()
                .ends_with("  pattern 0: warning: relation '< 400' is always true (range 0-255)")
        );
    }

    #[test]
    fn packets_without_a_network_header_match_no_test() {
        let mut rig = rig("allow tcp, 1 all");
        rig.push("i", &packets()[0]);
        assert_eq!((rig.data("a").len(), rig.data("b").len()), (0, 1));
    }

    #[test]
    fn rules_can_change_while_packets_flow() {
        let mut rig = rig("deny all");
        push(&mut rig, &packets());
        rig.write("f.config", "allow udp, 1 all");
        push(&mut rig, &packets());
        assert_eq!((rig.data("a").len(), rig.data("b").len()), (1, 2));
        let error = rig.try_write("f.config", "permit udp").unwrap_err();
        assert_eq!(
            error,
            HandlerError::failed(FailureKind::Failed, "pattern 0: unknown slot ID 'permit'")
        );
        assert_eq!(rig.read("f.config"), "allow udp, 1 all");
    }

    #[test]
    fn wrong_rules_are_refused_in_clicks_words() {
        Rig::refuses(
            "Idle -> IPFilter(2 udp, allow foo) -> Discard;",
            "pattern 0: slot '2' out of range",
        );
        Rig::refuses(
            "Idle -> IPFilter(allow tcp)",
            "'allow' is meaningless, element has zero outputs",
        );
    }

    #[test]
    fn the_program_can_be_read() {
        let mut rig = rig("allow tcp, deny all");
        assert!(rig.read("f.program").contains("[0]"));
    }
}
