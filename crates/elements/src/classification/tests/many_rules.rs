//! Rules too many for every form but the linear one.

use super::super::wide_tables::MAX_PRODUCTS;
use super::*;
use core::cell::Cell;

/// A rule for each of `count` addresses, written with words that have to be looked up.
fn rules(count: usize, action: impl Fn(usize) -> String) -> Vec<String> {
    let rule = |i: usize| {
        let [_, b, c, d] = (i as u32).to_be_bytes();
        let action = action(i);
        format!("{action}src host 10.{b}.{c}.{d} && dst tcp port web && not tcp opt syn")
    };
    (0..count).map(rule).collect()
}

fn packet(source: u32, port: u16) -> Vec<u8> {
    let [a, b] = port.to_be_bytes();
    let mut packet = ip_packet(6, &[0, 0, a, b, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0]);
    let [_, b, c, d] = source.to_be_bytes();
    packet[12..16].copy_from_slice(&[10, b, c, d]);
    packet
}

/// Knows `web`, and counts how often it is asked for it.
struct Web(Cell<u32>);

impl Names for Web {
    fn number(&self, kind: NumberName, name: &str) -> Option<u32> {
        if (kind, name) != (NumberName::TcpPort, "web") {
            return ProtocolNames.number(kind, name);
        }
        self.0.set(self.0.get() + 1);
        Some(8080)
    }
}

#[test]
fn the_first_of_many_rules_decides() {
    let names = Web(Cell::new(0));
    let rules = rules(MAX_PRODUCTS + 1, |i| format!("{} ", i % 3));
    let program = ip_filter(&rules, 3, &names).unwrap().program;
    assert_eq!(program.form(), Form::Linear);
    for rule in [0, 1, 2, MAX_PRODUCTS - 1, MAX_PRODUCTS] {
        let packet = packet(rule as u32, 8080);
        let output = program.classify(&Headers::ip(&packet, 20));
        assert_eq!(output, Some(rule % 3), "{rule}");
    }
    for (source, port) in [(MAX_PRODUCTS + 1, 8080), (0, 80)] {
        let packet = packet(source as u32, port);
        assert_eq!(program.classify(&Headers::ip(&packet, 20)), None);
    }
    let asked = names.0.get() as usize;
    assert!(asked < rules.len() / 10, "asked {asked} times");
}

#[test]
fn outputs_that_none_of_many_patterns_reaches_are_named() {
    let mut patterns = rules(MAX_PRODUCTS + 1, |_| String::new());
    patterns.extend(["ip proto 6 or true".into(), "udp".into()]);
    let compiled = ip_classifier(&patterns, &Web(Cell::new(0))).unwrap();
    let warnings: Vec<String> = compiled.warnings.0.iter().map(|w| w.text.clone()).collect();
    let last = patterns.len() - 1;
    assert_eq!(warnings, [format!("output {last} matches no packets")]);
}
