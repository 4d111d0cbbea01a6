//! A firewall's rules: one a line, of which the first that matches decides.
//!
//! `ACTION [from SIDE] [PATTERN]`, where the action is `allow`, `deny` or `reject`, the side is the name
//! of one of the firewall's inputs, and the pattern is one of IPFilter's, with addresses of both versions of IP;
//! without a pattern, the rule matches every packet. `#` begins a comment.

use crate::classification::{Names, ProtocolNames, flow_filter};
use crate::prelude::*;

/// What a rule does with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// The packet passes, and so does its connection.
    Allow,
    /// The packet is dropped.
    #[default]
    Deny,
    /// The packet is dropped, and its sender is told.
    Reject,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule<'t> {
    /// Its line, from 1.
    pub line: usize,
    /// The line without its comment.
    pub text: &'t str,
    /// What it does.
    pub action: Action,
    /// The input that it is about, if not about all.
    pub side: Option<&'t str>,
    /// IPFilter's pattern.
    pub pattern: &'t str,
}

/// A line that is wrong, and the reason.
pub type Wrong = (usize, String);

/// Most rules of a firewall.
pub const RULES_MAX: usize = 1 << 14;

/// The first word of a text, and the rest.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    text.split_at(end)
}

/// The rules in a text; patterns are not looked into.
pub fn parse(text: &str) -> Result<Vec<Rule<'_>>, Wrong> {
    let mut rules = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        if rules.len() == RULES_MAX {
            return Err((line, format!("there are more than {RULES_MAX} rules")));
        }
        let (action, rest) = word(text);
        let action = match action {
            "allow" => Action::Allow,
            "deny" => Action::Deny,
            "reject" => Action::Reject,
            other => {
                let text = format!("‘{other}’ is no action: write allow, deny or reject");
                return Err((line, text));
            }
        };
        let (side, pattern) = match word(rest) {
            ("from", rest) => match word(rest) {
                ("", _) => return Err((line, "‘from’ needs the name of a side".into())),
                (side, rest) => (Some(side), rest),
            },
            _ => (None, rest),
        };
        let pattern = match pattern.trim() {
            "" => "all",
            pattern => pattern,
        };
        rules.push(Rule {
            line,
            text,
            action,
            side,
            pattern,
        });
    }
    Ok(rules)
}

/// What is wrong with a text of rules, as far as a firewall's names are not needed.
pub fn check(text: &str) -> Option<Wrong> {
    match parse(text) {
        Err(wrong) => Some(wrong),
        Ok(rules) => rules
            .iter()
            .find_map(|rule| check_pattern(rule, &ProtocolNames)),
    }
}

/// What is wrong with a rule's pattern.
pub fn check_pattern(rule: &Rule<'_>, names: &dyn Names) -> Option<Wrong> {
    let texts = [format!("allow {}", rule.pattern)];
    let said = flow_filter(&texts, 1, names).err()?;
    let reason = said.into_first()?;
    Some((rule.line, reason.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_mistakes_the_error_is_told() {
        let wrong = check("allow tcp dst prt 5\n").unwrap();
        assert!(wrong.1.contains("prt"), "{wrong:?}");
    }

    #[test]
    fn rules_have_an_action_a_side_and_a_pattern() {
        let text = "# Two sides.\nallow from inside tcp dst port 80 # web\n\n reject from inside\ndeny src net 10.0.0.0/8\n";
        let rules = parse(text).unwrap();
        let shown: Vec<_> = rules
            .iter()
            .map(|rule| (rule.line, rule.action, rule.side, rule.pattern))
            .collect();
        assert_eq!(
            shown,
            [
                (2, Action::Allow, Some("inside"), "tcp dst port 80"),
                (4, Action::Reject, Some("inside"), "all"),
                (5, Action::Deny, None, "src net 10.0.0.0/8"),
            ]
        );
        assert_eq!(check(text), None);
    }

    #[test]
    fn wrong_rules_are_told_with_their_line() {
        for (text, line, reason) in [
            (
                "allow\npermit tcp",
                2,
                "‘permit’ is no action: write allow, deny or reject",
            ),
            ("allow from", 1, "‘from’ needs the name of a side"),
            ("\nallow tcp dst prot 80", 2, ""),
            ("allow tcp dst port", 1, "‘dst port’: value missing"),
        ] {
            let (at, said) = check(text).unwrap();
            assert_eq!(at, line, "{said}");
            assert!(said.contains(reason), "{said}");
        }
        let many = "allow\n".repeat(RULES_MAX + 1);
        assert_eq!(check(&many).unwrap().0, RULES_MAX + 1);
    }
}
