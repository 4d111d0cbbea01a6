//! CTXDispatcher: rules in FastClick's language, compiled as a Classifier's patterns.

use core::fmt::Write;

use crate::classification::{DataView, Program, classifier_to};
use crate::filters::compile::{classification_effects, take_compiled};
use crate::filters::dispatch::{DROP, send_sets};
use crate::prelude::*;

/// The rules of a CTXDispatcher, and its work.
#[derive(Component)]
#[component(handlers)]
pub struct Rules {
    /// Terms, then an output's number or `drop`.
    #[arg(rest, name = "RULE", kind = "rule")]
    rules: Vec<String>,
    program: Option<Program>,
}

#[handlers]
impl Rules {
    /// The compiled rules.
    #[read(calm)]
    fn program(&self) -> Option<String> {
        self.program.as_ref().map(Program::text)
    }
}

/// Classifies packets by rules of FastClick.
///
/// A packet leaves by the output of the first rule that it matches. A rule is a list of terms, all
/// of which must match, separated by spaces or `&&`, and an output:
///
/// | term | matches |
/// | --- | --- |
/// | `OFFSET/VALUE` | packets with the bytes VALUE (hexadecimal) at OFFSET (decimal) |
/// | `OFFSET/VALUE/MASK` | the same, of the bits in MASK. If MASK selects none of VALUE's bits, it matches any packet that is long enough. |
/// | `ip proto NAME` | IP packets of `tcp`, `udp`, `icmp`, or a protocol's number |
/// | `src host ADDRESS`, `dst host ADDRESS` | IP packets from or to an address |
/// | `src port NUMBER`, `dst port NUMBER` | TCP and UDP packets from or to a port |
/// | `-` | every packet |
///
/// Offsets are from the start of the packet. The terms for IP take it to start with an IP header
/// without options. The output is a number, or `drop`; without either, it is the next one after
/// the last rule's. An output that the element does not have drops. Packets that match no rule
/// leave by the last output if no rule names it or one above, else they are dropped.
///
/// FastClick refuses rules that overlap; here the first one holds.
///
/// # Example
/// ```click
/// d :: CTXDispatcher(12/0806 20/0001, 12/0806 20/0002 drop, 12/0800, -);
/// FromDump(in.pcap) -> CTXManager -> d;
/// d[0] -> Discard;    // ARP requests
/// d[1] -> Discard;    // IP
/// d[2] -> Discard;    // all else
/// ```
///
/// # See also
/// CTXManager, Classifier, IPClassifier
#[derive(Element)]
#[element(
    name = "CTXDispatcher",
    ports = "1/-",
    processing = "h/h",
    segments,
    live
)]
#[outputs("packets of the rules that lead here")]
pub struct CtxDispatcher {
    #[delegate]
    rules: Rules,
}

/// Classifies packets by rules of FastClick, of which the first that matches holds: another name
/// of CTXDispatcher.
///
/// # Example
/// ```click
/// d :: FlowContextDispatcher(9/06 0, - 1);
/// Idle -> d; d[0] -> Discard; d[1] -> Discard;
/// ```
///
/// # See also
/// CTXDispatcher
#[derive(Element)]
#[element(ports = "1/-", processing = "h/h", segments, live)]
#[outputs("packets of the rules that lead here")]
pub struct FlowContextDispatcher {
    #[delegate]
    rules: Rules,
}

/// A rule: the Classifier's pattern for its terms, and its output.
struct Rule {
    pattern: String,
    output: Output,
}

enum Output {
    /// The one after the last rule's.
    Next,
    Number(u32),
    Drop,
}

/// The place of a field in an IP packet without options, and its width in bytes.
fn field(words: &[&str]) -> Option<(u32, usize)> {
    match words {
        ["src", "host"] => Some((12, 4)),
        ["dst", "host"] => Some((16, 4)),
        ["src", "port"] => Some((20, 2)),
        ["dst", "port"] => Some((22, 2)),
        ["ip", "proto"] => Some((9, 1)),
        _ => None,
    }
}

/// The value of a field of an IP packet, in hexadecimal digits.
fn value(kind: &str, text: &str) -> Option<String> {
    match (kind, text) {
        ("host", _) => Some(format!("{:08x}", text.parse::<Ipv4Addr>().ok()?.to_bits())),
        ("port", _) => Some(format!("{:04x}", text.parse::<u16>().ok()?)),
        (_, "icmp") => Some("01".into()),
        (_, "tcp") => Some("06".into()),
        (_, "udp") => Some("11".into()),
        _ => Some(format!("{:02x}", text.parse::<u8>().ok()?)),
    }
}

/// `OFFSET/VALUE` or `OFFSET/VALUE/MASK` as a Classifier's clause.
fn clause(term: &str) -> Option<String> {
    // FastClick's hints of how to store the values, and to drop what does not match.
    let term = term.split(':').next()?.trim_end_matches('!');
    let mut parts = term.split('/');
    let (offset, value, mask) = (parts.next()?, parts.next()?, parts.next());
    offset.parse::<u16>().ok()?;
    let digits = value.len().max(mask.map_or(0, str::len));
    let digits = digits.next_multiple_of(2);
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    if parts.next().is_some() || digits > 16 {
        return None;
    }
    let number = hexadecimal(value)?;
    let Some(mask) = mask else {
        return Some(format!("{offset}/{number:0digits$x}"));
    };
    let mask = hexadecimal(mask)?;
    let mask = if number & mask == 0 { 0 } else { mask };
    let number = number & mask;
    Some(format!("{offset}/{number:0digits$x}%{mask:0digits$x}"))
}

/// Reads a rule; `None` if it is none.
fn rule(text: &str) -> Option<Rule> {
    let mut words: Vec<&str> = text
        .split_whitespace()
        .filter(|word| *word != "&&")
        .collect();
    let output = match words.last()?.to_ascii_lowercase().as_str() {
        "drop" => Output::Drop,
        "keep" => Output::Next,
        last => match last.parse() {
            Ok(number) if words.len() > 1 && !ends_field(&words) => Output::Number(number),
            _ => Output::Next,
        },
    };
    if !matches!(output, Output::Next) || words.last() == Some(&"keep") {
        words.pop();
    }
    if words == ["-"] {
        let pattern = "-".into();
        return Some(Rule { pattern, output });
    }
    let mut pattern = String::new();
    let mut rest = &words[..];
    while let Some((first, after)) = rest.split_first() {
        let space = if pattern.is_empty() { "" } else { " " };
        if let (Some((offset, _)), Some(text)) = (rest.get(..2).and_then(field), rest.get(2)) {
            let value = value(rest[1], text)?;
            write!(pattern, "{space}{offset}/{value}").ok()?;
            rest = &rest[3..];
        } else {
            write!(pattern, "{space}{}", clause(first)?).ok()?;
            rest = after;
        }
    }
    (!pattern.is_empty()).then_some(Rule { pattern, output })
}

/// Whether the last word is the value of a field, as in `dst port 80`.
fn ends_field(words: &[&str]) -> bool {
    let [.., one, two, _] = words else {
        return false;
    };
    // In `src port 80 1` the words before the last are `port 80`: no field.
    field(&[one, two]).is_some()
}

/// The patterns and outputs of `rules`, with one for packets that match none of them; or the rule
/// that is wrong.
fn compile(rules: &[String], outputs: u32) -> Result<(Vec<String>, Vec<Option<u32>>), &str> {
    let (mut patterns, mut leads) = (Vec::new(), Vec::new());
    let mut next = 0;
    for text in rules {
        let rule = rule(text).ok_or(text.as_str())?;
        let output = match rule.output {
            Output::Drop => None,
            Output::Number(number) => {
                next = next.max(number.saturating_add(1));
                Some(number)
            }
            Output::Next => {
                next += 1;
                if next <= outputs {
                    Some(next - 1)
                } else if rule.pattern == "-" {
                    None
                } else {
                    outputs.checked_sub(1)
                }
            }
        };
        patterns.push(rule.pattern);
        leads.push(output.filter(|output| *output < outputs));
    }
    patterns.push("-".into());
    leads.push(outputs.checked_sub(1).filter(|_| next < outputs));
    Ok((patterns, leads))
}

impl Element for Rules {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let outputs = cx.outputs() as u32;
        if self.rules.is_empty() && outputs != 1 {
            return Err(args.fail(format_args!("need rules: {outputs} outputs are connected")));
        }
        let (patterns, leads) = compile(&self.rules, outputs).map_err(|wrong| {
            args.fail(format_args!(
                "bad rule ‘{wrong}’; write OFFSET/VALUE terms and an output, as in 12/0800 1"
            ))
        })?;
        let compiled = classifier_to(&patterns, &leads, 0);
        self.program = Some(take_compiled(args, compiled, false)?);
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
    use super::compile;
    use crate::testing::*;

    fn compiled(rules: &[&str], outputs: u32) -> std::string::String {
        let rules: Vec<_> = rules.iter().map(|rule| rule.to_string()).collect();
        let (patterns, leads) = compile(&rules, outputs).unwrap();
        let pairs = patterns.iter().zip(&leads);
        let lines = pairs.map(|(pattern, output)| match output {
            Some(output) => std::format!("{pattern} > {output}"),
            None => std::format!("{pattern} > drop"),
        });
        lines.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn rules_become_patterns() {
        for (text, pattern) in [
            ("12/0806 20/01", "12/0806 20/01"),
            ("9/06 20/01bb", "9/06 20/01bb"),
            ("0/1", "0/01"),
            ("16/8ba5/ffff", "16/8ba5%ffff"),
            ("16/8ba5/ff00", "16/8b00%ff00"),
            ("10/0/ffffffff", "10/00000000%00000000"),
            ("12/0/ffff:HASH-3! 9/06", "12/0000%0000 9/06"),
            ("ip proto tcp && dst port 80", "9/06 22/0050"),
            ("src host 10.0.0.1 && ip proto 47", "12/0a000001 9/2f"),
        ] {
            let said = compiled(&[text], 1);
            assert_eq!(said, std::format!("{pattern} > 0, - > drop"), "{text}");
        }
    }

    #[test]
    fn outputs_are_counted_on_where_none_is_given() {
        for (rules, outputs, expected) in [
            (
                &["0/01", "0/02", "-"][..],
                3,
                "0/01 > 0, 0/02 > 1, - > 2, - > drop",
            ),
            (
                &["0/01", "0/02", "-"],
                2,
                "0/01 > 0, 0/02 > 1, - > drop, - > drop",
            ),
            (
                &["0/01 1", "0/02", "0/03 0"],
                4,
                "0/01 > 1, 0/02 > 2, 0/03 > 0, - > 3",
            ),
            (
                &["9/01 9", "9/06 20/01bb 0", "- 0"],
                1,
                "9/01 > drop, 9/06 20/01bb > 0, - > 0, - > drop",
            ),
            (
                &["0/01 drop", "dst port 80 1", "-"],
                3,
                "0/01 > drop, 22/0050 > 1, - > 2, - > drop",
            ),
            (
                &["0/10", "0/12", "0/14"],
                1,
                "0/10 > 0, 0/12 > 0, 0/14 > 0, - > drop",
            ),
        ] {
            assert_eq!(compiled(rules, outputs), expected, "{rules:?}");
        }
    }

    #[test]
    fn packets_leave_by_the_first_rule_that_matches() {
        for class in ["CTXDispatcher", "FlowContextDispatcher"] {
            let mut rig = Rig::new(&std::format!(
                "i :: Inject -> CTXManager(AGGCACHE false, VERBOSE 1) -> d :: {class}(0/01 1/02 1, 0/01 0, 0/02 drop, -);
                 d[0] -> a :: Collect; d[1] -> b :: Collect; d[2] -> c :: Collect;"
            ));
            rig.push_all(
                "i",
                &[vec![1, 2], vec![1, 3], vec![2], vec![1], vec![9], vec![]],
            );
            assert_eq!(rig.data("a"), [vec![1, 3], vec![1]]);
            assert_eq!(rig.data("b"), [[1, 2]]);
            assert_eq!(rig.data("c"), [vec![9], vec![]]);
            assert_eq!(rig.outstanding(), 0);
        }
    }

    #[test]
    fn headers_are_stripped_between_two() {
        let mut rig = Rig::new(
            "i :: Inject -> CTXManager -> d :: CTXDispatcher(12/0800, -);
             d[0] -> FlowStrip(14) -> e :: CTXDispatcher(9/06 0, -);
             e[0] -> FlowUnstrip(14) -> tcp :: Collect; e[1] -> other :: Collect; d[1] -> rest :: Collect;",
        );
        let (from, to) = (([1; 4].into(), 1), ([2; 4].into(), 2));
        let tcp = ether([2; 6], [4; 6], 0x800, &tcp(from, to, 2, &[]));
        let udp = ether([2; 6], [4; 6], 0x800, &udp(from, to, &[]));
        let arp = ether([2; 6], [4; 6], 0x806, &[0; 28]);
        rig.push_all("i", &[tcp.clone(), udp.clone(), arp.clone()]);
        assert_eq!(rig.data("tcp"), [tcp]);
        assert_eq!(rig.data("other"), [&udp[14..]]);
        assert_eq!(rig.data("rest"), [arp]);
    }

    #[test]
    fn wrong_rules_are_refused() {
        for wrong in [
            "12",
            "12/",
            "x/08",
            "12/08/f/f",
            "ip proto nothing",
            "drop",
            "0/0g",
        ] {
            let errors = Rig::errors(&std::format!("Idle -> CTXDispatcher({wrong}) -> Discard;"));
            assert!(errors.contains("bad rule"), "{wrong}: {errors}");
        }
        let errors = Rig::errors("Idle -> d :: CTXDispatcher; d[0] -> Discard; d[1] -> Discard;");
        assert!(
            errors.contains("need rules: 2 outputs are connected"),
            "{errors}"
        );
        let errors = Rig::errors("Idle -> CTXManager(NOSUCH 1) -> Discard;");
        assert!(errors.contains("NOSUCH: unknown argument"), "{errors}");
    }
}
