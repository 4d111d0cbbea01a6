//! Rules in a subset of Suricata's syntax.
//!
//! ```text
//! alert tcp $EXTERNAL_NET any -> $HOME_NET [80,8080] (msg:"…"; content:"/etc/passwd"; sid:1; rev:2;)
//! ```

mod address;
mod options;

pub use address::{Set, addresses, number};

use crate::prelude::*;

/// Most rules.
pub const RULES_MAX: usize = 1 << 15;

/// A line that is wrong, and the reason.
pub type Wrong = (usize, String);

/// A rule: which packets it is about, and what they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The protocol, if not all of IP.
    pub protocol: Option<IpProtocol>,
    /// Addresses and ports of the sender and of the receiver.
    pub source: (Set, Set),
    /// Those of the receiver.
    pub destination: (Set, Set),
    /// Whether sender and receiver may be exchanged.
    pub both_ways: bool,
    /// What the alert says.
    pub message: String,
    /// The rule's number.
    pub sid: u32,
    /// The number of the group that numbered it.
    pub gid: u32,
    /// How often it was changed.
    pub revision: u32,
    /// How severe it is: 1 is the most.
    pub priority: u8,
    /// The class of attack.
    pub class: String,
    /// Which packets of a flow it is about.
    pub flow: Flow,
    /// What the payload holds, in order.
    pub contents: Vec<Content>,
    /// How alerts are limited.
    pub threshold: Option<Threshold>,
}

/// The packets of a flow that a rule is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Whether both sides have sent; `None`: it does not matter.
    pub established: Option<bool>,
    /// Whether they go to the side that did not begin the flow.
    pub to_server: Option<bool>,
}

/// Bytes that a payload holds, or does not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether they must not be there.
    pub negated: bool,
    /// Whether letters of either case are the same.
    pub nocase: bool,
    /// Whether the rule is searched for by this one.
    pub fast: bool,
    /// The first byte of the payload that counts.
    pub offset: Option<u32>,
    /// How many bytes count from there on.
    pub depth: Option<u32>,
    /// How many bytes after the match before it the match begins at least.
    pub distance: Option<i32>,
    /// Within how many bytes of the match before it the match ends.
    pub within: Option<i32>,
}

impl Content {
    /// Whether its place is told from the match before it.
    pub fn is_relative(&self) -> bool {
        self.distance.is_some() || self.within.is_some()
    }
}

/// A limit on a rule's alerts about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// What is limited.
    pub kind: ThresholdKind,
    /// Whether the address is the sender's; else it is the receiver's.
    pub by_source: bool,
    /// How many matches.
    pub count: u32,
    /// In how many seconds.
    pub seconds: u32,
}

/// What a threshold limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdKind {
    /// At most COUNT alerts.
    Limit,
    /// An alert at each COUNT matches.
    Threshold,
    /// One alert at COUNT matches.
    Both,
}

/// The next word of a header, and the rest; a list in brackets is a word.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            b' ' | b'\t' if depth <= 0 => return text.split_at(at),
            _ => {}
        }
    }
    (text, "")
}

fn rule(text: &str, home: &Set) -> Result<Rule, String> {
    let open = text
        .find('(')
        .ok_or("the options in parentheses are missing")?;
    let (header, options) = text.split_at(open);
    let options = options
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
        .ok_or("the rule lacks its ‘)’")?;
    let (action, rest) = word(header);
    if action != "alert" {
        return Err(format!("‘{action}’ is no action: there is alert"));
    }
    let (protocol, rest) = word(rest);
    let protocol = match protocol {
        "tcp" => Some(IpProtocol::TCP),
        "udp" => Some(IpProtocol::UDP),
        "icmp" => Some(IpProtocol::ICMP),
        "icmpv6" => Some(IpProtocol::ICMPV6),
        "ip" => None,
        _ => {
            return Err(format!(
                "‘{protocol}’ is no protocol: there are tcp, udp, icmp, icmpv6 and ip"
            ));
        }
    };
    let (source, rest) = word(rest);
    let (source_ports, rest) = word(rest);
    let (direction, rest) = word(rest);
    let (destination, rest) = word(rest);
    let (destination_ports, rest) = word(rest);
    if destination_ports.is_empty() || !rest.trim().is_empty() {
        return Err("a rule begins as: alert tcp any any -> any 80 (".into());
    }
    let both_ways = match direction {
        "->" => false,
        "<>" => true,
        _ => {
            return Err(format!(
                "‘{direction}’ is no direction: there are -> and <>"
            ));
        }
    };
    let mut rule = Rule {
        protocol,
        source: (addresses(source, home)?, address::ports(source_ports)?),
        destination: (
            addresses(destination, home)?,
            address::ports(destination_ports)?,
        ),
        both_ways,
        gid: 1,
        priority: 3,
        ..Rule::default()
    };
    for (name, value) in options::split(options)? {
        options::take(&mut rule, name, value)?;
    }
    if rule.sid == 0 {
        return Err("the rule lacks its sid".into());
    }
    if rule.contents.iter().filter(|content| content.fast).count() > 1 {
        return Err("fast_pattern stands at two contents".into());
    }
    for content in &rule.contents {
        let absolute = content.offset.is_some() || content.depth.is_some();
        if content.is_relative() && absolute {
            return Err("a content has offset or depth, or distance or within, not both".into());
        }
        let length = content.bytes.len() as i64;
        let room = content
            .depth
            .map(i64::from)
            .or(content.within.map(i64::from));
        if room.is_some_and(|room| room < length) {
            return Err("depth and within are not less than the content’s bytes".into());
        }
    }
    Ok(rule)
}

/// The rules in a text, one a line; a line that ends in a backslash goes on in the next. `#` begins a
/// comment line.
pub fn parse(text: &str, home: &Set) -> Result<Vec<Rule>, Wrong> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut sids = hashbrown::HashMap::new();
    // A rule of several lines, and the number of its first.
    let mut begun: Option<(usize, String)> = None;
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if begun.is_none() && (text.is_empty() || text.starts_with('#')) {
            continue;
        }
        let (at, mut whole) = begun.take().unwrap_or((line, String::new()));
        if let Some(part) = text.strip_suffix('\\') {
            whole += part;
            begun = Some((at, whole));
            continue;
        }
        whole += text;
        if rules.len() == RULES_MAX {
            return Err((at, format!("there are more than {RULES_MAX} rules")));
        }
        let rule = rule(&whole, home).map_err(|why| (at, why))?;
        if let Some(before) = sids.insert((rule.gid, rule.sid), at) {
            return Err((at, format!("the sid {} is that of line {before}", rule.sid)));
        }
        rules.push(rule);
    }
    match begun {
        Some((at, _)) => Err((at, "the rule goes on in a line that is not there".into())),
        None => Ok(rules),
    }
}

/// What is wrong with a text of rules.
pub fn check(text: &str) -> Option<Wrong> {
    parse(text, &Set::default()).err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    fn one(text: &str) -> Rule {
        parse(text, &Set::default()).unwrap().remove(0)
    }

    #[test]
    fn rules_are_read() {
        let rule = one(concat!(
            r#"alert tcp any any -> 10.0.0.0/8 [80, 8080] (msg:"a \"quoted\"; text"; flow:established,to_server; "#,
            r#"content:"GET |20 2f|x"; nocase; depth:20; content:!"\;safe"; distance:0; within:30; "#,
            r#"classtype:web; threshold:type limit, track by_src, count 1, seconds 60; sid:7; rev:2;)"#,
        ));
        assert_eq!(rule.message, "a \"quoted\"; text");
        assert_eq!(
            (rule.sid, rule.revision, rule.class.as_str()),
            (7, 2, "web")
        );
        assert_eq!(rule.flow.to_server, Some(true));
        let [first, second] = &rule.contents[..] else {
            panic!("two contents");
        };
        assert_eq!(first.bytes, b"GET  /x");
        assert!(first.nocase && first.depth == Some(20) && !first.is_relative());
        assert_eq!(second.bytes, b";safe");
        assert!(second.negated && second.is_relative());
        assert_eq!(rule.threshold.unwrap().seconds, 60);
        let two = "# c\n\nalert ip any any <> any any \\\n  (sid:1;)\nalert udp any any -> any 53 (sid:2;)\n";
        assert_eq!(parse(two, &Set::default()).unwrap().len(), 2);
    }

    #[test]
    fn wrong_rules_are_told_with_their_line() {
        for (text, line, reason) in [
            (
                "drop tcp any any -> any any (sid:1;)",
                1,
                "‘drop’ is no action",
            ),
            (
                "\nalert http any any -> any any (sid:1;)",
                2,
                "‘http’ is no protocol",
            ),
            ("alert tcp any any -> any (sid:1;)", 1, "a rule begins as"),
            (
                "alert tcp any any => any any (sid:1;)",
                1,
                "‘=>’ is no direction",
            ),
            (
                "alert tcp any 1-2 -> any any (sid:1;)",
                1,
                "‘1-2’ is no port",
            ),
            ("alert tcp any any -> any any", 1, "options in parentheses"),
            ("alert tcp any any -> any any (sid:1;", 1, "lacks its ‘)’"),
            (
                "alert tcp any any -> any any (sid:1)",
                1,
                "‘sid:1’ lacks its ‘;’",
            ),
            (
                "alert tcp any any -> any any (msg:\"x\";)",
                1,
                "lacks its sid",
            ),
            (
                "alert tcp any any -> any any (nocase; sid:1;)",
                1,
                "needs a content",
            ),
            (
                "alert tcp any any -> any any (content:\"|4|\"; sid:1;)",
                1,
                "hexadecimal",
            ),
            (
                "alert tcp any any -> any any (pcre:\"/x/\"; sid:1;)",
                1,
                "pcre is not supported",
            ),
            (
                "alert tcp any any -> any any (content:\"abc\"; depth:2; sid:1;)",
                1,
                "not less than",
            ),
            (
                "alert ip any any -> any any (sid:1;)\nalert ip any any -> any any (sid:1;)",
                2,
                "is that of line 1",
            ),
            ("alert ip any any -> any any \\", 1, "goes on"),
        ] {
            let (at, why) = check(text).unwrap();
            assert_eq!(at, line, "{why}");
            assert!(why.contains(reason), "{why}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_told(text: String, inner in "[ -~]{0,80}") {
            for text in [text, format!("alert tcp any any -> any any ({inner})")] {
                if let Some((line, why)) = check(&text) {
                    prop_assert!(line >= 1 && !why.is_empty());
                }
            }
        }
    }
}
