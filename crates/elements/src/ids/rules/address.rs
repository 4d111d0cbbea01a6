//! Sets of addresses and ports in a rule's header.

use crate::prelude::*;

/// A set of numbers: the ranges in it, less others. Without ranges, all numbers are in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    within: Vec<(u128, u128)>,
    without: Vec<(u128, u128)>,
}

impl Set {
    /// Whether a number is in it.
    #[inline]
    pub fn contains(&self, number: u128) -> bool {
        let is_in = |ranges: &[(u128, u128)]| {
            ranges
                .iter()
                .any(|(low, high)| (*low..=*high).contains(&number))
        };
        (self.within.is_empty() || is_in(&self.within)) && !is_in(&self.without)
    }

    /// Adds another set, or all but that set.
    fn add(&mut self, other: Set, negated: bool) -> Result<(), String> {
        if !negated {
            if other.within.is_empty() && other.without.is_empty() {
                // All numbers.
                self.within.push((0, u128::MAX));
                return Ok(());
            }
            if other.within.is_empty() {
                self.without.extend(other.without);
                return Ok(());
            }
            self.within.extend(other.within);
            self.without.extend(other.without);
            return Ok(());
        }
        match (other.within.is_empty(), other.without.is_empty()) {
            (false, true) => self.without.extend(other.within),
            (true, false) => self.within.extend(other.without),
            _ => return Err("‘!’ stands before an address, a port or a list of them".into()),
        }
        Ok(())
    }
}

/// The items of a list in brackets, split at the commas outside of further brackets.
fn items(list: &str) -> Vec<&str> {
    let (mut items, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            b',' if depth == 0 => {
                items.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(list[start..].trim());
    items
}

/// Reads a set; `one` reads an item that is neither a list nor negated.
fn read(
    text: &str,
    depth: usize,
    one: &dyn Fn(&str) -> Result<Set, String>,
) -> Result<Set, String> {
    if depth > 8 {
        return Err("lists are nested more than 8 deep".into());
    }
    let Some(list) = text.strip_prefix('[') else {
        return match text.strip_prefix('!') {
            Some(rest) => {
                let mut set = Set::default();
                set.add(read(rest.trim(), depth + 1, one)?, true)?;
                Ok(set)
            }
            None => one(text),
        };
    };
    let list = list
        .strip_suffix(']')
        .ok_or_else(|| format!("‘{text}’ lacks its ‘]’"))?;
    let mut set = Set::default();
    for item in items(list) {
        let (negated, item) = match item.strip_prefix('!') {
            Some(rest) => (true, rest.trim()),
            None => (false, item),
        };
        set.add(read(item, depth + 1, one)?, negated)?;
    }
    Ok(set)
}

/// Networks, as a rule's header names them. `home`: what `$HOME_NET` stands for; `$EXTERNAL_NET` is all
/// else, or all addresses if `home` is.
pub fn addresses(text: &str, home: &Set) -> Result<Set, String> {
    read(text, 0, &|item| match item {
        "any" => Ok(Set::default()),
        "$HOME_NET" => Ok(home.clone()),
        "$EXTERNAL_NET" => {
            let mut set = Set::default();
            if *home != Set::default() {
                set.add(home.clone(), true)?;
            }
            Ok(set)
        }
        _ if item.starts_with('$') => Err(format!(
            "‘{item}’ is not known: there are $HOME_NET and $EXTERNAL_NET"
        )),
        _ => {
            let Some(network) = prefix(item) else {
                return Err(format!(
                    "‘{item}’ is no address or prefix, as 10.0.0.0/8 or 2001:db8::/32"
                ));
            };
            Ok(Set {
                within: vec![network],
                without: Vec::new(),
            })
        }
    })
}

/// The number of an address in a set: that of IPv6, and of IPv4 that of the mapped address (RFC 4291).
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The first and the last number of an address or a prefix.
fn prefix(text: &str) -> Option<(u128, u128)> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let length = length.unwrap_or(bits);
    let host = u128::MAX.checked_shr(128 - bits.checked_sub(length)?);
    let host = host.filter(|_| length < bits).unwrap_or(0);
    let network = number(address) & !host;
    Some((network, network | host))
}

/// Ports, as a rule's header names them.
pub fn ports(text: &str) -> Result<Set, String> {
    read(text, 0, &|item| {
        if item == "any" {
            return Ok(Set::default());
        }
        let (low, high) = item.split_once(':').unwrap_or((item, item));
        let port = |text: &str, default: u16| match text {
            "" => Some(default),
            text => text.parse::<u16>().ok(),
        };
        let ends = port(low, 0).zip(port(high, u16::MAX));
        match ends.filter(|(low, high)| low <= high && item != ":") {
            Some((low, high)) if !item.is_empty() => Ok(Set {
                within: vec![(low.into(), high.into())],
                without: Vec::new(),
            }),
            _ => Err(format!(
                "‘{item}’ is no port or range of ports, as 1024:2048"
            )),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read() {
        let home = addresses("[10.0.0.0/8,!10.1.0.0/16]", &Set::default()).unwrap();
        let has = |set: &Set, address: [u8; 4]| set.contains(number(address.into()));
        assert!(
            has(&home, [10, 2, 0, 1]) && !has(&home, [10, 1, 2, 3]) && !has(&home, [11, 0, 0, 1])
        );
        let plain = addresses("192.168.0.0/16", &Set::default()).unwrap();
        let external = addresses("$EXTERNAL_NET", &plain).unwrap();
        assert!(has(&external, [8, 8, 8, 8]) && !has(&external, [192, 168, 3, 4]));
        let six: IpAddr = "2001:db8::7".parse().unwrap();
        for (text, is_in) in [
            ("any", true),
            ("2001:db8::/32", true),
            ("[10.0.0.0/8,2001:db8::7]", true),
            ("!2001:db8::/127", true),
            ("::/0", true),
            ("!2001:db8::/64", false),
            ("0.0.0.0/0", false),
        ] {
            let set = addresses(text, &Set::default()).unwrap();
            assert_eq!(set.contains(number(six)), is_in, "{text}");
        }
        let ports = ports("[80,1000:1002,!1001,60000:]").unwrap();
        for (port, is_in) in [
            (80, true),
            (81, false),
            (1001, false),
            (1002, true),
            (65535, true),
        ] {
            assert_eq!(ports.contains(port), is_in, "{port}");
        }
        for text in ["", "[80", "x", "9:1", "70000", ":", "![!1]x"] {
            assert!(super::ports(text).is_err(), "{text}");
        }
        for text in ["10.0.0.0/33", "::/129", "$X", "10.0.0", "!any"] {
            assert!(addresses(text, &Set::default()).is_err(), "{text}");
        }
    }
}
