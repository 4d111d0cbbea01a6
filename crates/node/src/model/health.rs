//! Checks of guests' health.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How often a guest is checked, unless the check says otherwise.
const EVERY: Duration = Duration::from_secs(10);
/// How often it may be checked.
const EVERY_RANGE: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(24 * 3600)];
/// Failures in a row by which a guest is unhealthy, unless the check says otherwise.
const FAILURES: u32 = 3;
const FAILURES_MAX: u32 = 100;

/// How the value of a handler compares with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Less,
    AtMost,
    Equal,
    Unequal,
    AtLeast,
    Greater,
}

const OPERATORS: [(&str, Operator); 6] = [
    ("<", Operator::Less),
    ("<=", Operator::AtMost),
    ("==", Operator::Equal),
    ("!=", Operator::Unequal),
    (">=", Operator::AtLeast),
    (">", Operator::Greater),
];

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = OPERATORS.iter();
        let (text, _) = all.find(|(_, it)| it == self).unwrap_or(&OPERATORS[0]);
        f.write_str(text)
    }
}

/// A check of a guest's health: a handler, and what it has to say. As text, `HANDLER [OPERATOR VALUE] [every TIME]
/// [failures N]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Health {
    /// The handler that is read, with its argument behind a space.
    pub handler: String,
    /// None: it says anything but false.
    expected: Option<(Operator, String)>,
    /// How often.
    pub every: Duration,
    /// By how many failures in a row the guest is unhealthy.
    pub failures: u32,
}

/// A text that is no check.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "‘{text}’ is not a health check: {why}; write a handler, an operator and a value, as in ‘c.count > 0 every 5s failures 3’"
)]
pub struct NoHealth {
    text: String,
    why: String,
}

impl FromStr for Health {
    type Err = NoHealth;

    fn from_str(text: &str) -> Result<Health, NoHealth> {
        parse(text).map_err(|why| NoHealth {
            text: text.into(),
            why,
        })
    }
}

fn parse(text: &str) -> Result<Health, String> {
    let operator = |word: &str| OPERATORS.iter().find(|(text, _)| *text == word);
    let is_option = |word: &&str| ["every", "failures"].contains(word);
    let mut words = text.split_whitespace().peekable();
    let mut handler = Vec::new();
    while let Some(word) = words.next_if(|word| operator(word).is_none() && !is_option(word)) {
        handler.push(word);
    }
    if handler.is_empty() {
        return Err("it names no handler".into());
    }
    let compares = |word: &&str| word.bytes().all(|byte| b"<>=!~".contains(&byte));
    if let Some(odd) = handler.iter().copied().find(compares) {
        let operators = OPERATORS.map(|(text, _)| text).join(" ");
        return Err(format!(
            "‘{odd}’ is no operator, of which there are {operators}"
        ));
    }
    let mut expected = None;
    if let Some((_, is)) = words.peek().and_then(|word| operator(word)) {
        words.next();
        let mut value = Vec::new();
        while let Some(word) = words.next_if(|word| !is_option(word)) {
            value.push(word);
        }
        if value.is_empty() {
            return Err(format!("it has no value behind ‘{is}’"));
        }
        let value = value.join(" ");
        let orders = !matches!(is, Operator::Equal | Operator::Unequal);
        if orders && value.parse::<f64>().is_err() {
            return Err(format!("‘{is}’ compares numbers, and ‘{value}’ is none"));
        }
        expected = Some((*is, value));
    }
    let (mut every, mut failures) = (EVERY, FAILURES);
    while let Some(option) = words.next() {
        let value = words.next().unwrap_or_default();
        let in_range = match option {
            "every" => {
                every = humantime::parse_duration(value).unwrap_or_default();
                (EVERY_RANGE[0]..=EVERY_RANGE[1]).contains(&every)
            }
            "failures" => {
                failures = value.parse().unwrap_or_default();
                (1..=FAILURES_MAX).contains(&failures)
            }
            _ => return Err(format!("‘{option}’ is neither ‘every’ nor ‘failures’")),
        };
        if !in_range {
            return Err(match option {
                "every" => format!("‘{value}’ is not a time from 100ms to 1day"),
                _ => format!("‘{value}’ is not a number from 1 to {FAILURES_MAX}"),
            });
        }
    }
    Ok(Health {
        handler: handler.join(" "),
        expected,
        every,
        failures,
    })
}

impl Health {
    /// What is checked, without how often.
    pub fn condition(&self) -> String {
        match &self.expected {
            Some((operator, value)) => format!("{} {operator} {value}", self.handler),
            None => self.handler.clone(),
        }
    }

    /// Whether a value of the handler passes.
    pub fn passes(&self, value: &str) -> bool {
        let value = value.trim();
        let Some((operator, expected)) = &self.expected else {
            return !["", "0", "false"].contains(&value);
        };
        let numbers = value.parse::<f64>().ok().zip(expected.parse::<f64>().ok());
        let order = match numbers {
            Some((value, expected)) => value.partial_cmp(&expected),
            // Texts have no order that anybody would mean.
            None if value == expected => Some(std::cmp::Ordering::Equal),
            None => None,
        };
        match operator {
            Operator::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Operator::AtMost => order.is_some_and(std::cmp::Ordering::is_le),
            Operator::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
            Operator::Unequal => order.is_none_or(std::cmp::Ordering::is_ne),
            Operator::AtLeast => order.is_some_and(std::cmp::Ordering::is_ge),
            Operator::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without spaces, so that it is one word.
        let every = humantime::format_duration(self.every).to_string();
        let every = every.replace(' ', "");
        let failures = self.failures;
        write!(f, "{} every {every} failures {failures}", self.condition())
    }
}

impl From<Health> for String {
    fn from(health: Health) -> String {
        health.to_string()
    }
}

impl TryFrom<String> for Health {
    type Error = NoHealth;

    fn try_from(text: String) -> Result<Health, NoHealth> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(text: &str) -> Health {
        let health: Health = text.parse().unwrap();
        assert_eq!(health.to_string().parse(), Ok(health.clone()), "{text}");
        health
    }

    #[test]
    fn a_check_is_a_handler_and_what_it_has_to_say() {
        let check = health("c.count > 0 every 1m30s failures 2");
        assert_eq!((check.handler.as_str(), check.failures), ("c.count", 2));
        assert_eq!(check.every, Duration::from_secs(90));
        assert!(check.passes("7\n") && !check.passes("0") && !check.passes("many"));
        assert_eq!(check.condition(), "c.count > 0");
        let check = health("rt.lookup 10.0.0.1 == 1 gw");
        assert_eq!(check.handler, "rt.lookup 10.0.0.1");
        assert!(check.passes("1 gw") && !check.passes("0"));
        assert_eq!((check.every, check.failures), (EVERY, FAILURES));
        let check = health("s.active");
        assert!(check.passes("true") && !check.passes("false\n") && !check.passes(""));
        assert!(health("a.b != up").passes("down") && !health("a.b != 1.0").passes("1"));
        assert!(health("a.b <= 2").passes("2.0") && !health("a.b < 2").passes("nan"));
        assert!(health("a.b >= 1e3").passes("1000") && health("a.b == x").passes("x"));
    }

    #[test]
    fn a_check_that_is_none_says_why() {
        for (text, why) in [
            ("", "it names no handler"),
            ("> 3", "it names no handler"),
            (
                "c.count >> 1",
                "‘>>’ is no operator, of which there are < <= == != >= >",
            ),
            (
                "c.count => 1",
                "‘=>’ is no operator, of which there are < <= == != >= >",
            ),
            ("c.count >", "it has no value behind ‘>’"),
            ("c.count > 0 every soon", "‘soon’ is not a time"),
            ("c.count > 0 every 1ms", "‘1ms’ is not a time from 100ms"),
            ("c.count every", "‘’ is not a time"),
            ("c.count failures 0", "‘0’ is not a number from 1 to 100"),
            ("c.count every 5s often", "‘often’ is neither"),
        ] {
            let error = text.parse::<Health>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
