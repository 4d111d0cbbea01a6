//! Patterns: how an input rewrites the packets of new flows.

use core::sync::atomic::{AtomicU32, Ordering};

use super::key::FlowKey;
use crate::prelude::*;

/// What addresses and ports are to become. A part that is not given stays.
///
/// Several inputs may share one pattern, and then share its sequence of choices.
#[derive(Debug, Default)]
pub struct Pattern {
    source: Option<Ipv4Addr>,
    source_port: Option<u16>,
    destination: Option<Ipv4Addr>,
    destination_port: Option<u16>,
    /// How many more sources, ports or addresses, may be chosen besides the one given.
    variation: u32,
    /// Whether it has ports.
    ports: bool,
    /// Whether ports vary, rather than addresses.
    vary_port: bool,
    choice: Choice,
    /// Where the next search begins, for [`Choice::Sequence`].
    next: AtomicU32,
}

/// How one of several sources is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Choice {
    /// The one it had, or else any.
    #[default]
    Same,
    /// Any.
    Random,
    /// One after the other.
    Sequence,
}

/// Why a text is no pattern.
pub type Reason = &'static str;

/// A range of sources, its first one, and how one is chosen.
struct Range<T> {
    first: T,
    variation: u32,
    choice: Choice,
}

impl Pattern {
    /// The pattern that two to four words describe: `SADDR DADDR`, `SADDR DADDR SPORT` or
    /// `SADDR SPORT DADDR DPORT`.
    pub fn parse(words: &[String], context: &Context<'_>) -> Result<Pattern, Reason> {
        let (source, port, destination, destination_port) = match words {
            [source, destination] => (source, None, destination, None),
            [source, destination, port] => (source, Some(port), destination, None),
            [source, port, destination, to] => (source, Some(port), destination, Some(to)),
            _ => return Err("syntax error"),
        };
        let mut pattern = Pattern {
            ports: port.is_some(),
            ..Pattern::default()
        };
        if source != "-" {
            let range = addresses(source, context).ok_or("bad source address")?;
            pattern.source = specified(range.first);
            pattern.take(range.variation, range.choice);
        }
        if let Some(port) = port.filter(|port| *port != "-") {
            let range = ports(port, context).ok_or("bad source port")?;
            pattern.source_port = Some(range.first);
            if range.variation > 0 {
                pattern.vary_port = true;
                pattern.take(range.variation, range.choice);
            }
        }
        if destination != "-" {
            let address: Ipv4Addr = context
                .parse(destination)
                .map_err(|_| "bad destination address")?;
            pattern.destination = specified(address);
        }
        if let Some(port) = destination_port.filter(|port| *port != "-") {
            let port = port_number(port, context).filter(|port| *port > 0);
            pattern.destination_port = Some(port.ok_or("bad destination port")?);
        }
        Ok(pattern)
    }

    fn take(&mut self, variation: u32, choice: Choice) {
        self.variation = variation;
        self.choice = choice;
    }

    /// What the packets of `key` become. `None` if every source is `taken`.
    pub fn rewrite(
        &self,
        key: FlowKey,
        random: &mut Random,
        taken: impl Fn(FlowKey) -> bool,
    ) -> Option<FlowKey> {
        let rewritten = self.fixed(key);
        if self.variation == 0 {
            return Some(rewritten);
        }
        let value = self.choose(key, random, |value| !taken(self.vary(rewritten, value)))?;
        self.next.store(value.wrapping_add(1), Ordering::Relaxed);
        Some(self.vary(rewritten, value))
    }

    /// What the packets of `key` become but for a choice of sources.
    fn fixed(&self, key: FlowKey) -> FlowKey {
        let mut rewritten = key;
        if let Some(source) = self.source {
            rewritten = rewritten.with_source(source);
        }
        if let Some(port) = self.source_port {
            rewritten = rewritten.with_source_port(port);
        }
        if let Some(destination) = self.destination {
            rewritten = rewritten.with_destination(destination);
        }
        if let Some(port) = self.destination_port {
            rewritten = rewritten.with_destination_port(port);
        }
        rewritten
    }

    /// What all that the packets of `key` may become have in common: two keys with the same ground
    /// have the same choice of sources.
    pub fn ground(&self, key: FlowKey) -> FlowKey {
        self.vary(self.fixed(key), 0)
    }

    /// `key` with the source that is `value` places from the first.
    fn vary(&self, key: FlowKey, value: u32) -> FlowKey {
        if self.vary_port {
            let first = self.source_port.unwrap_or(0);
            key.with_source_port(first.wrapping_add(value as u16))
        } else {
            let first = self.source.unwrap_or(Ipv4Addr::UNSPECIFIED);
            key.with_source(Ipv4Addr::from_bits(first.to_bits().wrapping_add(value)))
        }
    }

    /// Where a search begins. A search that is known to find nothing takes its random number all the
    /// same, so that later choices do not depend on what is known.
    pub fn start(&self, random: &mut Random) -> u32 {
        let start = match self.choice {
            Choice::Sequence => self.next.load(Ordering::Relaxed),
            _ => random.below(self.variation.saturating_add(1)),
        };
        if start > self.variation { 0 } else { start }
    }

    /// The first value that is free, from where the choice begins.
    fn choose(&self, key: FlowKey, random: &mut Random, free: impl Fn(u32) -> bool) -> Option<u32> {
        if self.choice == Choice::Same && self.vary_port {
            let port = u32::from(key.source_port());
            let same = port.wrapping_sub(self.source_port.unwrap_or(0).into());
            if same <= self.variation && free(same) {
                return Some(same);
            }
        }
        let start = self.start(random);
        let mut values = (start..=self.variation).chain(0..start);
        values.find(|value| free(*value))
    }
}

/// As handlers show it.
impl core::fmt::Display for Pattern {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let dash = |part: Option<String>| part.unwrap_or_else(|| "-".into());
        let source = self.source.map(|source| match self.variation {
            n if n > 0 && !self.vary_port => {
                let last = Ipv4Addr::from_bits(source.to_bits().wrapping_add(n));
                format!("{source}-{last}")
            }
            _ => source.to_string(),
        });
        f.write_str(&dash(source))?;
        if self.ports {
            let port = self.source_port.map(|port| match self.variation {
                n if n > 0 && self.vary_port => format!("{port}-{}", u32::from(port) + n),
                _ => port.to_string(),
            });
            write!(f, " {}", dash(port))?;
        }
        write!(f, " {}", dash(self.destination.map(|a| a.to_string())))?;
        if self.ports {
            write!(f, " {}", dash(self.destination_port.map(|p| p.to_string())))?;
        }
        Ok(())
    }
}

/// 0.0.0.0 stands for no address.
fn specified(address: Ipv4Addr) -> Option<Ipv4Addr> {
    Some(address).filter(|address| !address.is_unspecified())
}

/// Splits off the mark that says how to choose.
fn choice(text: &str) -> (&str, Choice) {
    if let Some(rest) = text.strip_suffix('#') {
        (rest, Choice::Sequence)
    } else if let Some(rest) = text.strip_suffix('?') {
        (rest, Choice::Random)
    } else {
        (text, Choice::Same)
    }
}

/// `ADDR`, `ADDR-ADDR` or `ADDR/PREFIX`. A prefix leaves out its first and last address.
fn addresses(text: &str, context: &Context<'_>) -> Option<Range<Ipv4Addr>> {
    let address = |text: &str| context.parse::<Ipv4Addr>(text).ok();
    if let Some(first) = address(text) {
        return Some(Range {
            first,
            variation: 0,
            choice: Choice::Same,
        });
    }
    let (text, choice) = choice(text);
    let range = |first: u32, variation: u32| Range {
        first: Ipv4Addr::from_bits(first),
        variation,
        choice,
    };
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (address(first)?.to_bits(), address(last)?.to_bits());
        return Some(range(first, last.checked_sub(first)?));
    }
    let prefix: Ipv4Prefix = context.parse_with(IpPrefixArg::OR_ADDRESS, text).ok()?;
    let (address, mask) = (prefix.address.to_bits(), prefix.mask.to_bits());
    let contiguous = mask.leading_ones() + mask.trailing_zeros() == 32;
    if address == 0 || mask == 0 || !contiguous {
        return None;
    }
    Some(match !mask {
        0 => range(address, 0),
        1 => range(address & mask, 1),
        rest => range(address & mask | 1, rest - 2),
    })
}

fn port_number(text: &str, context: &Context<'_>) -> Option<u16> {
    context.parse_with(Int::ANY, text).ok()
}

/// `PORT` or `PORT-PORT`.
fn ports(text: &str, context: &Context<'_>) -> Option<Range<u16>> {
    if let Some(first) = port_number(text, context).filter(|port| *port > 0) {
        return Some(Range {
            first,
            variation: 0,
            choice: Choice::Same,
        });
    }
    let (text, choice) = choice(text);
    let (first, last) = text.split_once('-')?;
    let (first, last) = (port_number(first, context)?, port_number(last, context)?);
    Some(Range {
        first,
        variation: last.checked_sub(first)?.into(),
        choice,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn parse(text: &str) -> Result<Pattern, Reason> {
        Pattern::parse(&click::config::split_space(text), &Context::blank())
    }

    #[test]
    fn patterns_are_read_and_shown() {
        let show = |text: &str| parse(text).map(|pattern| pattern.to_string());
        let same = |text: &str| assert_eq!(show(text).as_deref(), Ok(text));
        same("1.0.0.1 1 - -");
        same("1.0.0.1 1-65535 - -");
        same("- - 2.0.0.2 80");
        same("1.0.0.1-1.0.255.255 -");
        let becomes = |text: &str, shown: &str| assert_eq!(show(text).as_deref(), Ok(shown));
        becomes("1.0.0.1/24 -", "1.0.0.1-1.0.0.254 -");
        becomes("1.0.0.1/8# -", "1.0.0.1-1.255.255.254 -");
        becomes("1.0.0.7/31 -", "1.0.0.6-1.0.0.7 -");
        becomes("1.0.0.7/32 -", "1.0.0.7 -");
        becomes("1.0.0.1 - 0-65535", "1.0.0.1 0-65535 - -");
        becomes("1.0.0.1-1.0.0.3 80 - -", "1.0.0.1-1.0.0.3 80 - -");
        becomes("1.0.0.1 10-20# 2.0.0.2 0x50", "1.0.0.1 10-20 2.0.0.2 80");
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let reason = |text: &str| parse(text).map(|_| ()).unwrap_err();
        for text in ["1.0.0.x -", "1.255.0.0-1.0.255.255 -", "0.0.0.0/0 -"] {
            assert_eq!(reason(text), "bad source address");
        }
        for text in ["1x", "0", "456-19", "456-65536", "-5-5", "70000"] {
            assert_eq!(reason(&format!("1.0.0.1 {text} - -")), "bad source port");
        }
        assert_eq!(reason("- 1 x -"), "bad destination address");
        assert_eq!(reason("- 1 2.0.0.2 0"), "bad destination port");
        assert_eq!(reason("- - - - -"), "syntax error");
        assert_eq!(reason("-"), "syntax error");
    }

    /// Rewrites flows from port 9 until nothing is left: the ports given.
    fn given(text: &str) -> Vec<u16> {
        let pattern = parse(text).unwrap();
        let mut random = Random::new(7);
        let mut taken = HashSet::new();
        let key = FlowKey::new((Ipv4Addr::LOCALHOST, 9), (Ipv4Addr::LOCALHOST, 80));
        let mut ports = Vec::new();
        while let Some(rewritten) = pattern.rewrite(key, &mut random, |key| taken.contains(&key)) {
            assert!(taken.insert(rewritten));
            ports.push(rewritten.source_port());
        }
        ports
    }

    #[test]
    fn every_source_is_given_once() {
        assert_eq!(given("1.0.0.1 7-11# - -"), [7, 8, 9, 10, 11]);
        let mut same = given("1.0.0.1 7-11 - -");
        assert_eq!(same[0], 9);
        same.sort();
        assert_eq!(same, [7, 8, 9, 10, 11]);
        let mut any = given("1.0.0.1 7-1000? - -");
        assert_ne!(any[..3], [9, 10, 11]);
        any.sort();
        assert!(any.into_iter().eq(7..=1000));
    }
}
