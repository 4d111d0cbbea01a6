//! The two texts of a FlowDPI: its table of applications, and its policy. `#` begins a comment in both.
//!
//! An application is a line with its name and the domains of its servers: `video video.example cdn.example`.
//! A rule of the policy is a line with an action, and conditions that must all hold; the first rule that
//! matches decides: `drop name example.com,example.net`.

use hashbrown::HashMap;

use super::guess::Found;
use super::name::{KEPT, Name};
use super::protocol::Protocol;

use crate::prelude::*;

/// A line that is wrong, and the reason.
pub type Wrong = (usize, String);

/// Most applications.
const APPLICATIONS_MAX: usize = 1 << 12;
/// Most domains of all applications.
const DOMAINS_MAX: usize = 1 << 18;
/// Most rules.
const RULES_MAX: usize = 1 << 12;
/// Most items in the lists of all rules.
const ITEMS_MAX: usize = 1 << 14;

/// What a rule's conditions are about.
const CONDITIONS: [&str; 4] = ["protocol", "name", "application", "alpn"];

/// The lines of a text without comments, each with its number.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines());
    lines
        .map(|(number, line)| (number, line.split('#').next().unwrap_or_default().trim()))
        .filter(|(_, line)| !line.is_empty())
}

/// A domain, as names have it.
fn domain(text: &str) -> Result<String, String> {
    let name = Name::new(text.as_bytes()).filter(|name| !name.as_str().starts_with('.'));
    match name {
        Some(name) if text.len() <= KEPT => Ok(name.as_str().into()),
        Some(_) => Err(format!("‘{text}’ is longer than {KEPT} bytes")),
        None => Err(format!(
            "‘{text}’ is no domain: write one as in example.com"
        )),
    }
}

/// Applications by the domains of their servers.
#[derive(Default)]
pub struct Applications {
    names: Vec<String>,
    domains: HashMap<String, u16>,
}

impl Applications {
    /// The applications in a text.
    pub fn parse(text: &str) -> Result<Applications, Wrong> {
        let mut all = Applications::default();
        for (line, text) in lines(text) {
            let mut words = text.split_whitespace();
            let name = words.next().unwrap_or_default();
            if name.contains(',') {
                return Err((
                    line,
                    format!("‘{name}’ is no name of an application: it has a comma"),
                ));
            }
            let number = match all.number(name) {
                Some(number) => number,
                None if all.names.len() == APPLICATIONS_MAX => {
                    return Err((
                        line,
                        format!("there are more than {APPLICATIONS_MAX} applications"),
                    ));
                }
                None => {
                    all.names.push(name.into());
                    all.names.len() as u16 - 1
                }
            };
            let mut count = 0;
            for word in words {
                let domain = domain(word).map_err(|why| (line, why))?;
                if all.domains.len() == DOMAINS_MAX {
                    return Err((line, format!("there are more than {DOMAINS_MAX} domains")));
                }
                if let Some(other) = all.domains.insert(domain, number)
                    && other != number
                {
                    let other = &all.names[usize::from(other)];
                    return Err((line, format!("‘{word}’ is a domain of ‘{other}’ already")));
                }
                count += 1;
            }
            if count == 0 {
                return Err((line, format!("the application ‘{name}’ lacks a domain")));
            }
        }
        Ok(all)
    }

    /// The number of an application.
    fn number(&self, name: &str) -> Option<u16> {
        let at = self.names.iter().position(|own| own == name)?;
        Some(at as u16)
    }

    /// The application of a server: that of the longest domain that the name is in.
    pub fn of(&self, name: &Name) -> Option<u16> {
        if self.domains.is_empty() {
            return None;
        }
        name.domains()
            .find_map(|domain| self.domains.get(domain).copied())
    }

    /// The names, by number.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// What is done with a flow's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// They leave by the output of their side.
    #[default]
    Pass,
    /// They are dropped.
    Drop,
    /// They get a differentiated services code point.
    Dscp(u8),
    /// They get a paint colour.
    Paint(u8),
    /// They leave by another output.
    Output(u16),
}

/// A rule.
#[derive(Debug, PartialEq, Eq)]
struct Rule<'t> {
    text: &'t str,
    action: Action,
    protocols: Option<Vec<Protocol>>,
    domains: Option<Vec<String>>,
    applications: Option<Vec<&'t str>>,
    alpn: Option<Vec<&'t str>>,
}

impl<'t> Rule<'t> {
    fn parse(text: &'t str) -> Result<Rule<'t>, String> {
        let mut words = text.split_whitespace();
        let number = |words: &mut core::str::SplitWhitespace<'_>, most: u16, what: &str| {
            let word = words.next().unwrap_or_default();
            let number = word.parse().ok().filter(|number: &u16| *number <= most);
            number.ok_or_else(|| format!("‘{word}’ is no {what}: write a number from 0 to {most}"))
        };
        let action = match words.next().unwrap_or_default() {
            "pass" => Action::Pass,
            "drop" => Action::Drop,
            "dscp" => Action::Dscp(number(&mut words, 63, "code point")? as u8),
            "paint" => Action::Paint(number(&mut words, 255, "colour")? as u8),
            "output" => Action::Output(number(&mut words, 255, "output")?),
            other => {
                return Err(format!(
                    "‘{other}’ is no action: write pass, drop, dscp, paint or output"
                ));
            }
        };
        let mut rule = Rule {
            text,
            action,
            protocols: None,
            domains: None,
            applications: None,
            alpn: None,
        };
        while let Some(condition) = words.next() {
            let list = words.next().unwrap_or_default();
            if !CONDITIONS.contains(&condition) {
                return Err(format!(
                    "‘{condition}’ is no condition: write {}",
                    CONDITIONS.join(", ")
                ));
            }
            let mut items = list.split(',');
            if items.clone().any(str::is_empty) {
                return Err(format!(
                    "‘{condition}’ needs a value, or several with commas between"
                ));
            }
            let is_new = match condition {
                "protocol" => {
                    let known = |item| Protocol::named(item).ok_or_else(|| no_protocol(item));
                    let protocols = items.map(known).collect::<Result<_, _>>()?;
                    rule.protocols.replace(protocols).is_none()
                }
                "name" => {
                    let domains = items.map(domain).collect::<Result<_, _>>()?;
                    rule.domains.replace(domains).is_none()
                }
                "application" => rule.applications.replace(items.collect()).is_none(),
                _ => match items.find(|item| item.len() > 11) {
                    Some(item) => return Err(format!("‘{item}’ is longer than 11 bytes")),
                    None => rule.alpn.replace(list.split(',').collect()).is_none(),
                },
            };
            if !is_new {
                return Err(format!(
                    "‘{condition}’ is given twice; commas separate several values"
                ));
            }
        }
        Ok(rule)
    }

    fn items(&self) -> usize {
        self.protocols.as_ref().map_or(0, Vec::len)
            + self.domains.as_ref().map_or(0, Vec::len)
            + self.applications.as_ref().map_or(0, Vec::len)
            + self.alpn.as_ref().map_or(0, Vec::len)
    }
}

#[cold]
fn no_protocol(name: &str) -> String {
    let names = Protocol::ALL.iter().map(|protocol| protocol.name());
    let hint = nearest(name, names.clone());
    match hint {
        Some(near) => format!("‘{name}’ is no protocol; did you mean ‘{near}’?"),
        None => {
            let names = names.collect::<Vec<_>>().join(", ");
            format!("‘{name}’ is no protocol: they are {names}")
        }
    }
}

fn parse(text: &str) -> Result<Vec<(usize, Rule<'_>)>, Wrong> {
    let mut rules = Vec::new();
    let mut items = 0;
    for (line, text) in lines(text) {
        let rule = Rule::parse(text).map_err(|why| (line, why))?;
        items += rule.items();
        if rules.len() == RULES_MAX {
            return Err((line, format!("there are more than {RULES_MAX} rules")));
        }
        if items > ITEMS_MAX {
            return Err((
                line,
                format!(
                    "the rules have more than {ITEMS_MAX} values in all; make an application of many names"
                ),
            ));
        }
        rules.push((line, rule));
    }
    Ok(rules)
}

/// What is wrong with a policy, as far as its applications and outputs need not be known.
pub fn check_policy(text: &str) -> Option<Wrong> {
    parse(text).err()
}

/// What is wrong with a table of applications.
pub fn check_applications(text: &str) -> Option<Wrong> {
    Applications::parse(text).err()
}

/// A policy whose applications are known.
#[derive(Default)]
pub struct Policy {
    rules: Vec<Compiled>,
}

/// A rule; no list stands for all.
struct Compiled {
    text: String,
    action: Action,
    /// A bit for each protocol.
    protocols: u64,
    domains: Option<Vec<String>>,
    applications: Option<Vec<u16>>,
    alpn: Option<Vec<String>>,
    hits: u64,
}

const _: () = assert!(Protocol::ALL.len() <= 64);

impl Policy {
    /// The policy of a text. `outputs` is how many there are.
    pub fn compile(
        text: &str,
        applications: &Applications,
        outputs: usize,
    ) -> Result<Policy, Wrong> {
        let compile = |(line, rule): (usize, Rule<'_>)| {
            if let Action::Output(output) = rule.action
                && usize::from(output) >= outputs
            {
                return Err((
                    line,
                    format!("there is no output {output}: the last is {}", outputs - 1),
                ));
            }
            let number = |name: &&str| {
                let why = || (line, format!("there is no application ‘{name}’"));
                applications.number(name).ok_or_else(why)
            };
            let numbers = |names: Vec<&str>| names.iter().map(number).collect::<Result<_, _>>();
            let bits = |all: Vec<Protocol>| all.iter().fold(0, |bits, it| bits | 1 << *it as u8);
            let strings = |all: Vec<&str>| all.into_iter().map(String::from).collect();
            Ok(Compiled {
                text: rule.text.into(),
                action: rule.action,
                protocols: rule.protocols.map_or(u64::MAX, bits),
                domains: rule.domains,
                applications: rule.applications.map(numbers).transpose()?,
                alpn: rule.alpn.map(strings),
                hits: 0,
            })
        };
        let rules = parse(text)?.into_iter().map(compile);
        Ok(Policy {
            rules: rules.collect::<Result<_, _>>()?,
        })
    }

    /// Decides on a flow, and counts it.
    pub fn decide(&mut self, found: &Found, application: Option<u16>) -> Action {
        let mut rules = self.rules.iter_mut();
        let Some(rule) = rules.find(|rule| rule.matches(found, application)) else {
            return Action::Pass;
        };
        rule.hits += 1;
        rule.action
    }

    /// The rules, each with how many flows it decided on.
    pub fn hits(&self) -> impl Iterator<Item = (u64, &str)> {
        self.rules
            .iter()
            .map(|rule| (rule.hits, rule.text.as_str()))
    }

    /// Sets the counts to 0.
    pub fn clear(&mut self) {
        self.rules.iter_mut().for_each(|rule| rule.hits = 0);
    }
}

impl Compiled {
    fn matches(&self, found: &Found, application: Option<u16>) -> bool {
        fn any<T>(list: &Option<Vec<T>>, is_it: impl Fn(&T) -> bool) -> bool {
            list.as_ref().is_none_or(|list| list.iter().any(is_it))
        }
        // Which of several names the server takes is not known: all that may be dropped is.
        let drops = self.action == Action::Drop;
        let named = |is_it: bool| match found.is_ambiguous {
            true => drops,
            false => is_it,
        };
        self.protocols & 1 << found.protocol as u8 != 0
            && any(&self.applications, |own| named(Some(*own) == application))
            && any(&self.alpn, |alpn| found.alpn.as_str() == alpn)
            && any(&self.domains, |domain| named(found.name.is_in(domain)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dpi::name::Alpn;
    use crate::testing::*;

    const APPLICATIONS: &str = "# Some.\nvideo video.example cdn.example # two\nmail mail.video.example\nvideo more.example\n";

    fn found(protocol: Protocol, name: &str, alpn: &str) -> Found {
        Found {
            protocol,
            name: Name::new(name.as_bytes()).unwrap_or_default(),
            alpn: Alpn::new(alpn.as_bytes()),
            ..Found::default()
        }
    }

    #[test]
    fn the_longest_domain_tells_the_application() {
        let all = Applications::parse(APPLICATIONS).unwrap();
        assert_eq!(all.names(), ["video", "mail"]);
        for (name, expected) in [
            ("a.b.video.example", Some(0)),
            ("video.example", Some(0)),
            ("in.mail.video.example", Some(1)),
            ("more.example", Some(0)),
            ("notvideo.example", None),
            ("example", None),
        ] {
            let name = Name::new(name.as_bytes()).unwrap();
            assert_eq!(all.of(&name), expected, "{name}");
        }
    }

    #[test]
    fn of_several_names_all_that_may_be_dropped_is() {
        let all = Applications::parse(APPLICATIONS).unwrap();
        for (text, expected) in [
            ("pass name a.example\ndrop name b.example", Action::Drop),
            (
                "dscp 3 application mail\ndrop application video",
                Action::Drop,
            ),
            ("dscp 3 name a.example", Action::Pass),
            ("drop name a.example protocol tls", Action::Pass),
        ] {
            let found = Found {
                is_ambiguous: true,
                ..found(Protocol::Http, "a.example", "")
            };
            let mut policy = Policy::compile(text, &all, 1).unwrap();
            assert_eq!(policy.decide(&found, None), expected, "{text}");
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let all = Applications::parse(APPLICATIONS).unwrap();
        let text = "drop protocol bittorrent,ssh\n\
            pass name good.bad.example\n\
            drop name bad.example protocol tls,quic # here\n\
            dscp 46 application video,mail\npaint 3 alpn h2\noutput 2 protocol unknown\n";
        let mut policy = Policy::compile(text, &all, 3).unwrap();
        for (protocol, name, alpn, application, expected) in [
            (Protocol::Ssh, "", "", None, Action::Drop),
            (Protocol::Tls, "www.bad.example", "h2", None, Action::Drop),
            (Protocol::Tls, "a.good.bad.example", "", None, Action::Pass),
            (Protocol::Http, "www.bad.example", "", None, Action::Pass),
            (Protocol::Tls, "a.example", "h2", Some(1), Action::Dscp(46)),
            (Protocol::Tls, "a.example", "h2", None, Action::Paint(3)),
            (Protocol::Unknown, "", "", None, Action::Output(2)),
        ] {
            let found = found(protocol, name, alpn);
            assert_eq!(policy.decide(&found, application), expected, "{found:?}");
        }
        let hits: Vec<_> = policy.hits().map(|(hits, _)| hits).collect();
        assert_eq!(hits, [1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn wrong_lines_are_told() {
        for (text, line, reason) in [
            ("drop\nallow", 2, "‘allow’ is no action"),
            (
                "dscp 64",
                1,
                "‘64’ is no code point: write a number from 0 to 63",
            ),
            ("dscp name a.b", 1, "‘name’ is no code point"),
            ("drop port 80", 1, "‘port’ is no condition"),
            ("drop name", 1, "‘name’ needs a value"),
            ("drop name a.b,", 1, "‘name’ needs a value"),
            ("drop name a.b name c.d", 1, "‘name’ is given twice"),
            ("drop name .b", 1, "‘.b’ is no domain"),
            ("drop protocol htttp", 1, "did you mean ‘http’?"),
            ("drop alpn abcdefghijkl", 1, "longer than 11 bytes"),
        ] {
            let (at, said) = check_policy(text).unwrap();
            assert_eq!(at, line, "{said}");
            assert_contains(&said, reason);
        }
        for (text, line, reason) in [
            ("a b.c\nd", 2, "‘d’ lacks a domain"),
            ("a b.c\nd b.c", 2, "‘b.c’ is a domain of ‘a’ already"),
            ("a b/c", 1, "‘b/c’ is no domain"),
        ] {
            let (at, said) = check_applications(text).unwrap();
            assert_eq!(at, line, "{said}");
            assert_contains(&said, reason);
        }
        let none = Applications::default();
        for (text, reason) in [
            ("drop application x", "there is no application ‘x’"),
            ("output 2", "there is no output 2: the last is 1"),
        ] {
            let (_, said) = Policy::compile(text, &none, 2).map(|_| ()).unwrap_err();
            assert_contains(&said, reason);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_told(text: String, rule in "(drop|dscp 4|pass) (name|protocol|alpn)? ?[a-z.,]{0,30}") {
            for text in [&text, &rule] {
                for wrong in [check_policy(text), check_applications(text)].into_iter().flatten() {
                    prop_assert!(wrong.0 >= 1 && !wrong.1.is_empty());
                }
            }
        }
    }
}
