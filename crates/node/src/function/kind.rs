//! The kinds of values that parameters take.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::str::FromStr;

use elements::app::dns_responder::table as records;
use elements::bras::users;
use elements::dpi::policy;
use elements::flow::rules;
use elements::ids::rules as signatures;
use ipnet::{Ipv4Net, Ipv6Net};

use crate::files;

/// Most bytes of a file that a parameter names.
const FILE_MAX: usize = 4 << 20;
/// Most bytes of a secret.
const SECRET_MAX: usize = 128;

/// What values a parameter takes. Its text form is what a function's comments name it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An address.
    Address(Family),
    /// An address that one host can have.
    Unicast(Family),
    /// An address range by its prefix, as in 10.0.0.0/8.
    Prefix(Family),
    /// A whole number from one to another.
    Number(u64, u64),
    /// One of some words.
    Choice(Vec<String>),
    /// A file of a firewall's rules; its content is the value.
    Rules,
    /// A file of an IDS's rules; its content is the value.
    Signatures,
    /// A file of users and their secrets; its content is the value.
    Users,
    /// A file with a secret; its only line is the value.
    Secret,
    /// A file of a DPI's rules; its content is the value.
    Policy,
    /// A file of a DPI's applications; its content is the value.
    Applications,
    /// A file of DNS records; its content is the value.
    Records,
    /// Values of a kind with commas between, or none.
    List(Box<Kind>),
    /// Any text; the function's elements say what is wrong with it.
    Text,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// What is wrong with a value.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The value itself.
    Value(String),
    /// The file that it names: a sentence with the file's name.
    Content(String),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Address(family) => write!(f, "{family} address"),
            Kind::Unicast(family) => write!(f, "unicast {family} address"),
            Kind::Prefix(family) => write!(f, "{family} prefix"),
            Kind::Number(least, most) => write!(f, "number from {least} to {most}"),
            Kind::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Kind::Rules => f.write_str("file of rules"),
            Kind::Signatures => f.write_str("file of signatures"),
            Kind::Users => f.write_str("file of users"),
            Kind::Secret => f.write_str("file with a secret"),
            Kind::Policy => f.write_str("file of policy rules"),
            Kind::Applications => f.write_str("file of applications"),
            Kind::Records => f.write_str("file of records"),
            Kind::List(kind) => write!(f, "list of {kind}"),
            Kind::Text => f.write_str("text"),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        })
    }
}

impl Kind {
    /// The kind of this name.
    pub fn named(name: &str) -> Option<Kind> {
        if let Some(name) = name.strip_prefix("list of ") {
            return Some(Kind::List(Box::new(Kind::named(name)?)));
        }
        if let Some(words) = name.strip_prefix("one of ") {
            return Some(Kind::Choice(words.split(", ").map(String::from).collect()));
        }
        if let Some(range) = name.strip_prefix("number from ") {
            let (least, most) = range.split_once(" to ")?;
            return Some(Kind::Number(least.parse().ok()?, most.parse().ok()?));
        }
        Some(match name {
            "IPv4 address" => Kind::Address(Family::V4),
            "IPv6 address" => Kind::Address(Family::V6),
            "unicast IPv4 address" => Kind::Unicast(Family::V4),
            "unicast IPv6 address" => Kind::Unicast(Family::V6),
            "IPv4 prefix" => Kind::Prefix(Family::V4),
            "IPv6 prefix" => Kind::Prefix(Family::V6),
            "file of rules" => Kind::Rules,
            "file of signatures" => Kind::Signatures,
            "file of users" => Kind::Users,
            "file with a secret" => Kind::Secret,
            "file of policy rules" => Kind::Policy,
            "file of applications" => Kind::Applications,
            "file of records" => Kind::Records,
            "text" => Kind::Text,
            _ => return None,
        })
    }

    /// The kind as help has it.
    pub fn help(&self) -> String {
        match self {
            Kind::List(_) => format!("{self}, separated by commas"),
            kind => kind.to_string(),
        }
    }

    /// Whether values are names of files.
    pub fn is_file(&self) -> bool {
        match self {
            Kind::Rules
            | Kind::Signatures
            | Kind::Users
            | Kind::Secret
            | Kind::Policy
            | Kind::Applications
            | Kind::Records => true,
            Kind::List(kind) => kind.is_file(),
            _ => false,
        }
    }

    /// What a user's value is in Click's language.
    pub fn take(&self, value: &str) -> Result<String, Wrong> {
        let right = match self {
            Kind::Address(Family::V4) => is::<Ipv4Addr>(value),
            Kind::Address(Family::V6) => is::<Ipv6Addr>(value),
            Kind::Unicast(Family::V4) => match value.parse() {
                Ok(address) => return unicast(value, is_unicast_v4(address)),
                Err(_) => false,
            },
            Kind::Unicast(Family::V6) => match value.parse() {
                Ok(address) => return unicast(value, is_unicast_v6(address)),
                Err(_) => false,
            },
            Kind::Prefix(Family::V4) => match value.parse::<Ipv4Net>() {
                Ok(net) => return without_host_bits(value, net, net.trunc()),
                Err(_) => false,
            },
            Kind::Prefix(Family::V6) => match value.parse::<Ipv6Net>() {
                Ok(net) => return without_host_bits(value, net, net.trunc()),
                Err(_) => false,
            },
            Kind::Number(least, most) => {
                let is_plain = value.bytes().all(|byte| byte.is_ascii_digit());
                let number = value.parse().ok().filter(|_| is_plain);
                number.is_some_and(|number: u64| (least..=most).contains(&&number))
            }
            Kind::Choice(words) => words.iter().any(|word| word == value),
            Kind::Rules => return read_lines(value, rules::check),
            Kind::Signatures => return read_lines(value, signatures::check),
            Kind::Users => return read_lines(value, users::check),
            Kind::Secret => return read_secret(value),
            Kind::Policy => return read_lines(value, policy::check_policy),
            Kind::Applications => return read_lines(value, policy::check_applications),
            Kind::Records => return read_lines(value, records::check),
            Kind::List(kind) => {
                let items = value.split(',').map(str::trim);
                for item in items.filter(|_| !value.trim().is_empty()) {
                    kind.take(item)?;
                }
                true
            }
            Kind::Text if click::config::split_args(value).len() > 1 => {
                return Err(Wrong::Value(
                    "commas separate arguments; write it without, or in quotation marks".into(),
                ));
            }
            Kind::Text => true,
        };
        match right {
            true => Ok(value.into()),
            false => Err(Wrong::Value(self.wish())),
        }
    }

    /// What to write.
    fn wish(&self) -> String {
        match self {
            Kind::Address(Family::V4) | Kind::Unicast(Family::V4) => {
                "write an IPv4 address, as in 10.0.0.1".into()
            }
            Kind::Address(Family::V6) | Kind::Unicast(Family::V6) => {
                "write an IPv6 address, as in 2001:db8::1".into()
            }
            Kind::Prefix(Family::V4) => "write an IPv4 prefix, as in 10.0.0.0/8".into(),
            Kind::Prefix(Family::V6) => "write an IPv6 prefix, as in 2001:db8::/32".into(),
            Kind::List(kind) => kind.wish() + "; commas separate several",
            kind => format!("write a {kind}").replace("a one of", "one of"),
        }
    }
}

fn is_unicast_v4(address: Ipv4Addr) -> bool {
    !(address.octets()[0] == 0 || address.is_broadcast() || address.is_multicast())
}

fn is_unicast_v6(address: Ipv6Addr) -> bool {
    !(address.is_unspecified() || address.is_multicast())
}

fn unicast(value: &str, is_unicast: bool) -> Result<String, Wrong> {
    match is_unicast {
        true => Ok(value.into()),
        false => Err(Wrong::Value(
            "no host has this address; write a unicast address".into(),
        )),
    }
}

fn without_host_bits<N: PartialEq + fmt::Display>(
    value: &str,
    net: N,
    truncated: N,
) -> Result<String, Wrong> {
    match net == truncated {
        true => Ok(value.into()),
        false => Err(Wrong::Value(format!(
            "it has bits set beyond its length; write {truncated}"
        ))),
    }
}

fn is<T: FromStr>(text: &str) -> bool {
    text.parse::<T>().is_ok()
}

/// What is wrong with a text: the line, and the reason.
type Check = fn(&str) -> Option<(usize, String)>;

/// The text in a file.
fn read_text(path: &str) -> Result<String, Wrong> {
    let content = files::read(Path::new(path), FILE_MAX)
        .map_err(|error| Wrong::Content(format!("{path}: {error}")))?;
    String::from_utf8(content)
        .map_err(|_| Wrong::Content(format!("{path}: it is no UTF-8 text; write it as such")))
}

/// The lines of a file, as a string of Click's language.
fn read_lines(path: &str, check: Check) -> Result<String, Wrong> {
    let text = read_text(path)?;
    if let Some((line, why)) = check(&text) {
        return Err(Wrong::Content(format!("{path}:{line}: {why}")));
    }
    Ok(click::config::quote_lines(text.as_bytes()))
}

/// The secret in a file, as a string of Click's language.
fn read_secret(path: &str) -> Result<String, Wrong> {
    let text = read_text(path)?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if !(1..=SECRET_MAX).contains(&secret.len()) || secret.contains(char::is_control) {
        return Err(Wrong::Content(format!(
            "{path}: write a line with a secret of 1 to {SECRET_MAX} bytes, and nothing else"
        )));
    }
    Ok(click::config::quote_lines(secret.as_bytes()))
}
