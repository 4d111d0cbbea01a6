//! Tests of whole programs: text, messages, meaning.

mod many_rules;
mod messages;
mod program_text;
mod properties;
mod short_packets;

use super::*;
use crate::testing::*;

/// An IPFilter that must compile.
fn filter(rules: &[&str], outputs: usize) -> Program {
    ip_filter(rules, outputs, &ProtocolNames)
        .map(|compiled| compiled.program)
        .unwrap_or_else(|errors| panic!("{errors}"))
}

/// The messages of an IPFilter with one output.
fn filter_messages(rules: &[&str]) -> Vec<String> {
    let diagnostics = match ip_filter(rules, 1, &ProtocolNames) {
        Ok(compiled) => compiled.warnings,
        Err(errors) => errors,
    };
    diagnostics.0.iter().map(ToString::to_string).collect()
}

/// A minimal IP packet: 20 bytes of IP header, then `transport`.
fn ip_packet(protocol: u8, transport: &[u8]) -> Vec<u8> {
    let mut packet = alloc::vec![0u8; 20];
    packet[0] = 0x45;
    packet[8] = 64;
    packet[9] = protocol;
    packet[12..16].copy_from_slice(&[1, 0, 0, 1]);
    packet[16..20].copy_from_slice(&[2, 0, 0, 2]);
    packet.extend_from_slice(transport);
    packet
}
