use crate::classification::{Diagnostics, IpView, Program, ip_filter};
use crate::filters::compile::{RouterNames, classification_effects, take_compiled};
use crate::filters::dispatch::{DROP, send_sets};
use crate::prelude::*;

/// Filters IP packets by rules like tcpdump's.
///
/// Each rule is an action and a pattern; the first rule whose pattern matches a packet decides. The
/// actions are `allow` (leave by output 0), `deny` and `drop` (the same), and the number of an
/// output. A packet that no rule matches is dropped. IPClassifier's page has the patterns.
///
/// `file NAME` stands for the rules in a file, one on each line; `weir click` reads files, a guest
/// does not.
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

/// Where a rule stands.
enum Place {
    /// In the argument of this number.
    Argument(usize),
    /// On a line of a file.
    File(String),
}

/// A rule, and where it stands.
type Placed = (String, Place);

/// The rules of all arguments, with those of a file in its place.
fn placed_rules(texts: &[String], cx: &mut Cx<'_>, args: &Args<'_>) -> Result<Vec<Placed>, Failed> {
    let mut rules = Vec::with_capacity(texts.len());
    for (number, text) in texts.iter().enumerate() {
        let rule = click::config::unquote_text(text);
        let mut words = rule.split_ascii_whitespace();
        if words.next() != Some("file") {
            rules.push((rule, Place::Argument(number)));
            continue;
        }
        let (Some(name), None) = (words.next(), words.next()) else {
            let message = "‘file’ takes one argument, the name of a file";
            return Err(args.fail(format_args!("pattern {number}: {message}")));
        };
        let content = cx.file(name);
        let content = content.map_err(|reason| {
            args.fail(format_args!("pattern {number}: file ‘{name}’: {reason}"))
        })?;
        let lines = content.lines().map(str::trim).filter(|l| !l.is_empty());
        rules.extend(lines.enumerate().map(|(line, text)| {
            let place = alloc::format!("file {name}/pattern {line}");
            (click::config::unquote_text(text), Place::File(place))
        }));
    }
    Ok(rules)
}

/// Lets messages name the places of rules in place of their numbers.
fn place(said: &mut Diagnostics, rules: &[Placed]) {
    for line in &mut said.0 {
        match line.pattern.and_then(|rule| rules.get(rule)) {
            Some((_, Place::Argument(number))) => line.pattern = Some(*number),
            Some((_, Place::File(place))) => {
                line.pattern = None;
                line.text = alloc::format!("{place}: {}", line.text);
            }
            None => {}
        }
    }
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
        let rules = placed_rules(&self.rules, cx, args)?;
        let texts: Vec<&str> = rules.iter().map(|(rule, _)| rule.as_str()).collect();
        let mut compiled = ip_filter(&texts, cx.outputs(), &RouterNames(args.context()));
        match &mut compiled {
            Ok(compiled) => place(&mut compiled.warnings, &rules),
            Err(errors) => place(errors, &rules),
        }
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
    fn only_a_router_of_the_users_own_reads_files() {
        for (rules, message) in [
            (
                "file /etc/passwd",
                "file '/etc/passwd': files cannot be read here",
            ),
            (
                "allow tcp, file a b",
                "pattern 1: 'file' takes one argument",
            ),
        ] {
            let config = alloc::format!("Idle -> f :: IPFilter({rules}) -> Discard;");
            Rig::refuses(&config, message);
        }
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
                .ends_with("  pattern 0: warning: relation ‘< 400’ is always true (range 0-255)")
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
            HandlerError::failed(FailureKind::Failed, "pattern 0: unknown slot ID ‘permit’")
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
