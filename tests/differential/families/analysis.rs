//! Aggregates, counters and summary dumps.
//!
//! Left out are the field `ts_usec1`, whose words Click prints swapped, the fields `sport` and
//! `dport` without a protocol and the header `data`, which Click documents but refuses, and `reaggregate_counts`, which
//! counts inner nodes of Click's tree, `ZERO false`, with which bytes have no value, and `!aggregate`,
//! which has no effect in Click.

use super::noise;
use crate::case::Case;
use crate::packets;
use crate::random::Random;
use std::collections::BTreeSet;

const FIELDS: &str = "timestamp|ts_sec|ts_usec|ip_src|ip_dst|ip_frag|ip_fragoff|ip_len|ip_proto|ip_hl|\
    ip_id|ip_tos|ip_dscp|ip_ecn|ip_ttl|ip_sum|ip_opt|sport|dport|tcp_seq|tcp_ack|tcp_off|tcp_flags|\
    tcp_opt|tcp_ntopt|tcp_sack|tcp_window|tcp_urp|udp_len|icmp_type|icmp_code|icmp_type_name|icmp_code_name|\
    icmp_flowid|icmp_seq|icmp_nextmtu|payload|payload_len|payload_md5|payload_md5_hex|ip_capture_len|\
    count|direction|link|paint|aggregate|first_timestamp|eth_src|eth_dst|wire_len|ip_vers|bogus|\"ip src\"|none";

pub fn make(random: &mut Random, size: usize) -> Case {
    match random.below(3) {
        0 => aggregates(random, size),
        1 => dump_of_packets(random, size),
        _ => dump_of_dump(random, size),
    }
}

fn fields(random: &mut Random, size: usize) -> Vec<String> {
    random.list(1..=size.min(8), |random| random.one(FIELDS).to_string())
}

fn to_dump(random: &mut Random, size: usize) -> String {
    let fields = fields(random, size).join(" ");
    let options = random.list(0..=2, |random| {
        random.one(", BAD_PACKETS true|, CAREFUL_TRUNC false|, MULTIPACKET true|, HEADER false|, EXTRA_LENGTH false|, BANNER hello").to_string()
    });
    format!("ToIPSummaryDump(-, FIELDS {fields}{})", options.concat())
}

fn dump_of_packets(random: &mut Random, size: usize) -> Case {
    let mut case = Case::default();
    let mark =
        random.one("CheckIPHeader|MarkIPHeader|MarkIPHeader|Null|Paint(1)|AggregateIP(ip src)");
    let dump = to_dump(random, size);
    case.config.push(format!(
        "FromDump(packets.pcap, STOP true) -> {mark} -> {dump};"
    ));
    case.packets = packets::stamped(random, size * 3, packets::ip);
    case
}

/// A value of a field, nearly always of its form.
fn value(random: &mut Random, field: &str) -> String {
    if field.contains("timestamp") {
        // Later times than Click's 32 bits of seconds hold are left out.
        let time = format!("{}.{:06}", random.below(100), random.below(1_000_000));
        return if random.chance(5) { "-" } else { &time }.to_string();
    }
    if random.chance(5) {
        return random
            .one("-|foo|-1|99999999999|1.2.3|0x10|\"\"|.|+")
            .into();
    }
    match field {
        "ip_src" | "ip_dst" => packets::address(random).into(),
        "ip_proto" => random.one("T|U|I|6|17|1|4|255").into(),
        "ip_frag" => random.one("F|f|!|.").into(),
        "ip_fragoff" => random.one("0|0+|8|8+|0!|160+|3").into(),
        "ip_ecn" => random.one("no|ect1|ect2|ce|1").into(),
        "tcp_flags" => random.one("S|SA|.|FA|R|PA|SAFRPUECN|2").into(),
        "tcp_opt" | "tcp_ntopt" | "tcp_sack" => {
            random.one("mss1400|wscale3|sackok|sack1:2;3:4|ts1:2|nop;eol|mss1400;wscale2|.|5=1:2").into()
        }
        "ip_opt" => random.one("rr{1.2.3.4^}+2|ssrr{1.2.3.4^5.6.7.8}|lsrr{1.2.3.4^5.6.7.8}|rr{}+3|nop;eol|ts{1,2}|.|7=1").into(),
        "direction" => random.one(">|<|2|300").into(),
        "icmp_type_name" => random.one("echo|echo-reply|unreach|200").into(),
        "icmp_code_name" => random.one("host|port|needfrag|3").into(),
        "payload" => random.one("\"hello\"|\"\"|\"a\\nb\"|\"\\x41\"|\"a long enough payload\"").into(),
        "eth_src" | "eth_dst" => random.one("00-0A-95-A6-D9-BC|0:1:2:3:4:5").into(),
        "ip_hl" | "tcp_off" => random.one("20|24|60|0|5").into(),
        // Shorter than the headers: Click reads memory of no packet, or counts below 0.
        "ip_len" => random.one("0|100|1500|65535").into(),
        "wire_len" => random.one("0|100|1500").into(),
        "payload_len" | "ip_capture_len" | "udp_len" => random.one("0|20|40|100|1500|8|28").into(),
        _ => random.one("0|1|5|80|255|256|65535|1000").into(),
    }
}

fn dump_of_dump(random: &mut Random, size: usize) -> Case {
    let mut case = Case::default();
    let mut fields = fields(random, size);
    fields.retain(|field| field != "ip_capture_len");
    fields.push("ip_src".into());
    // What Click makes of a field given twice is a mixture.
    let mut seen = BTreeSet::new();
    fields.retain(|field| seen.insert(field.clone()));
    if fields.iter().any(|field| field.starts_with("eth_")) {
        // Click counts the link header twice beside another length, and writes behind the end of a
        // packet whose length is that of its link header.
        fields.retain(|field| field != "payload_len" && field != "ip_len");
    }
    if fields.iter().any(|field| field == "payload") {
        // Click writes it where it is before options fill the length.
        fields.retain(|field| field != "wire_len" && field != "ip_len");
    }
    case.input.push(format!("!data {}", fields.join(" ")));
    for _ in 0..random.within(1..=size * 2) {
        let line = match random.below(40) {
            0 => random
                .one("!bad something|# comment|!proto T|!proto U|!|")
                .to_string(),
            _ => {
                let mut values: Vec<String> =
                    fields.iter().map(|field| value(random, field)).collect();
                if random.chance(4) {
                    values.pop();
                }
                values.join(" ")
            }
        };
        case.input.push(line);
    }
    let options = random.list(0..=2, |random| {
        random.one(", CHECKSUM true|, CHECKSUM true|, PROTO 6|, PROTO 17|, PROTO I|, ZERO true|, MULTIPACKET true||, FIELDS ip_src ip_dst sport dport").to_string()
    });
    let dump = to_dump(random, size);
    let print = random.one("Null|Print(x, -1)|Print(x, -1)");
    let from = format!(
        "FromIPSummaryDump(input.txt, STOP true{})",
        options.concat()
    );
    case.config.push(format!("{from} -> {print} -> {dump};"));
    case
}

fn aggregates(random: &mut Random, size: usize) -> Case {
    let mut case = Case::default();
    let aggregate = match random.below(20) {
        0 => format!("AggregateIP({})", noise(random)),
        1..12 => {
            let field = random.one("ip src|ip dst|ip proto|ip id|ip len|ip ttl|ip tos|ip src/8|ip dst/24|ip vers|ip hl|tcp sport|ip sport|udp dport|icmp type|ip[8:1]|tcp [13:1]|tcp[13:1]|transp [0:2]|transp[0:2]|udp{0-15}|payload [0]|ip[12:4]/8|ip[8]|ip ecn|ip dscp|ip fragoff|tcp flags");
            format!(
                "AggregateIP({field}{})",
                random.one("||, INCOMPLETE true|, UNSHIFT_IP_ADDR true")
            )
        }
        12..14 => "AggregateLength".into(),
        14..16 => "AggregateIPAddrPair".into(),
        _ => {
            let options = random.list(0..=2, |random| {
                random.one(", TCP_TIMEOUT 10|, UDP_TIMEOUT 5|, ICMP true|, FRAGMENTS false|, FRAGMENTS true|, REAP 1|, FRAGMENT_TIMEOUT 2").to_string()
            });
            format!("AggregateIPFlows(TRACEINFO -{})", options.concat())
                .replace("TRACEINFO -, ", "")
                .replace("(TRACEINFO -)", "")
        }
    };
    case.config.push(format!(
        "FromDump(packets.pcap, STOP true) -> CheckIPHeader -> a :: {aggregate};"
    ));
    let options = random.list(0..=2, |random| {
        random.one("BYTES true|IP_BYTES true|PACKET_COUNT false|AGGREGATE_FREEZE 2|COUNT_FREEZE 5|EXTRA_PACKETS false|BOGUS").to_string()
    });
    let counter = format!("c :: AggregateCounter({})", options.join(", "));
    let dump = "ToIPSummaryDump(-, FIELDS aggregate link ip_src ip_dst)";
    case.config.push(format!("a -> {counter} -> {dump};"));
    for handler in ["count", "nagg", "counts_pdf", "count_ip", "banner"] {
        if random.chance(20) {
            case.handlers.push(format!("c.{handler}"));
        }
    }
    case.config.push("DriverManager(wait_stop,".into());
    for _ in 0..random.below(3) {
        let step = random.one("write c.write_text_file -|write c.write_ip_file -|write c.write_file -|write c.clear|write c.reset");
        case.config.push(format!("{step},"));
    }
    case.config.push("stop);".into());
    case.packets = packets::stamped(random, size * 3, packets::ip);
    case
}
