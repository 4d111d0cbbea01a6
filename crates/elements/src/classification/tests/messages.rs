//! Messages, as the reference implementation words them.

use super::*;

fn classifier_messages(patterns: &[&str]) -> Vec<String> {
    let diagnostics = match classifier(patterns, 0) {
        Ok(compiled) => compiled.warnings,
        Err(errors) => errors,
    };
    diagnostics.0.iter().map(ToString::to_string).collect()
}

#[test]
fn filter_errors_name_the_pattern_and_the_problem() {
    for (rule, messages) in [
        (
            "allow host 10",
            &["pattern 0: ‘ip host’: address missing"][..],
        ),
        (
            "allow foo",
            &[
                "pattern 0: empty term near ‘foo’",
                "pattern 0: missing expression",
                "pattern 0: garbage after expression at ‘foo’",
            ],
        ),
        (
            "allow tcp dst port",
            &["pattern 0: ‘dst port’: value missing"],
        ),
        (
            "allow ()",
            &[
                "pattern 0: missing expression",
                "pattern 0: missing expression after ‘(’",
            ],
        ),
        ("allow (tcp", &["pattern 0: missing ‘)’"]),
        (
            "allow tcp)",
            &["pattern 0: garbage after expression at ‘)’"],
        ),
        ("allow tcp and", &["pattern 0: missing expression"]),
        ("allow not", &["pattern 0: missing expression after ‘not’"]),
        (
            "allow tcp ? udp",
            &["pattern 0: missing ‘:’ in ternary expression"],
        ),
        ("5 tcp", &["pattern 0: slot ‘5’ out of range"]),
        ("foo tcp", &["pattern 0: unknown slot ID ‘foo’"]),
        ("", &["empty pattern 0"]),
        (
            "allow ip[1:5] 3",
            &[
                "pattern 0: LEN in ‘[POS:LEN]’ out of range, should be between 1 and 4",
                "pattern 0: specify header field or ‘port’",
            ],
        ),
        (
            "allow ip[3:2] 3",
            &[
                "pattern 0: field [3:2] does not fit in a single word",
                "pattern 0: specify header field or ‘port’",
            ],
        ),
        (
            "allow ip[3 3",
            &[
                "pattern 0: missing ‘]’",
                "pattern 0: specify header field or ‘port’",
                "pattern 0: specify header field or ‘port’",
            ],
        ),
        (
            "allow ip ttl 300",
            &["pattern 0: ‘ip ttl’: out of range, bound 255"],
        ),
        (
            "allow ip ttl < 300",
            &["pattern 0: warning: relation ‘< 300’ is always true (range 0-255)"],
        ),
        (
            "allow dst tcp",
            &["pattern 0: warning: ‘dst proto’: ‘src’ or ‘dst’ ignored"],
        ),
        (
            "allow src src 1.2.3.4",
            &["pattern 0: ‘src’ or ‘dst’ specified twice"],
        ),
        ("allow icmp port 5", &["pattern 0: ‘port’: bad protocol 1"]),
        (
            "allow echo",
            &["pattern 0: ‘<none>  echo’ is ambiguous; \
                 try ‘port  echo’, ‘port  echo’, ‘icmp type  echo’"],
        ),
        (
            "allow tcp opt 300",
            &["pattern 0: ‘tcp opt’: value 300 out of range"],
        ),
        (
            "allow tcp opt != syn",
            &["pattern 0: ‘tcp opt’: operator or mask not supported"],
        ),
        (
            "allow host > 1.2.3.4",
            &["pattern 0: ‘ip host’: operator not supported"],
        ),
        ("allow port & 0 5", &["pattern 0: zero mask ignored"]),
        (
            "allow port >",
            &[
                "pattern 0: ‘port’: value missing",
                "pattern 0: empty term near ‘>’",
                "pattern 0: garbage after expression at ‘>’",
            ],
        ),
    ] {
        assert_eq!(filter_messages(&[rule]), messages, "{rule}");
    }
}

#[test]
fn patterns_beyond_the_limits_are_refused_with_a_sentence() {
    let deep = String::from("allow ") + &"(".repeat(100_000) + "tcp" + &")".repeat(100_000);
    assert_eq!(
        filter_messages(&[&deep]),
        ["pattern 0: expression nests more than 512 levels deep"]
    );
    assert_eq!(
        filter_messages(&["allow ip[300] 5"])[0],
        "pattern 0: field [300:1] out of range, bound 255"
    );
    assert_eq!(
        filter_messages(&["allow ip proto 300"]),
        ["pattern 0: ‘ip proto 300’: out of range, bound 255"]
    );
    assert_eq!(
        classifier_messages(&["70000/00"]),
        ["pattern 0: offset out of range, bound 65528"]
    );
}

#[test]
fn outputs_without_packets_are_warned_of() {
    let compiled = ip_classifier(&["tcp", "tcp dst port 80", "-"], &ProtocolNames).unwrap();
    assert_eq!(
        compiled.warnings.to_string(),
        "warning: output 1 matches no packets"
    );
    assert_eq!(
        classifier_messages(&["12/0806 12/0800", "-"]),
        ["warning: output 0 matches no packets"]
    );
}

#[test]
fn classifier_errors_name_the_pattern_and_the_problem() {
    for (pattern, message) in [
        ("x", "pattern 1: expected a digit"),
        ("12 08", "pattern 1: expected ‘/’"),
        ("0/012", "pattern 1: value has odd number of hex digits"),
        ("0/0", "pattern 1: value has less than 2 hex digits"),
        ("0/00%f", "pattern 1: mask has too few hex digits"),
        ("0/00%ffff", "pattern 1: mask has too many hex digits"),
    ] {
        assert_eq!(
            classifier_messages(&["1/01", pattern]),
            [message],
            "{pattern}"
        );
    }
}

#[test]
fn names_are_resolved_by_the_caller() {
    struct Own;
    impl Names for Own {
        fn number(&self, kind: NumberName, name: &str) -> Option<u32> {
            (kind == NumberName::TcpPort && name == "http-alt").then_some(8080)
        }
        fn ip_address(&self, name: &str) -> Option<[u8; 4]> {
            (name == "GATEWAY").then_some([10, 0, 0, 1])
        }
        fn ip_prefix(&self, name: &str) -> Option<([u8; 4], [u8; 4])> {
            (name == "LAN").then_some(([10, 0, 0, 0], [255, 0, 0, 0]))
        }
    }
    let rules = ["allow src GATEWAY and dst net LAN and dst port http-alt"];
    let text = ip_filter(&rules, 1, &Own).unwrap().program.text();
    assert!(text.contains("268/0a000001%ffffffff"), "{text}");
    assert!(text.contains("272/0a000000%ff000000"), "{text}");
    assert!(text.contains("512/00001f90%0000ffff"), "{text}");
}
