//! Elements that read and write headers, one after the other.
//!
//! Some things are left out, since Click reads memory that it never wrote: UDPIPEncap without
//! CHECKSUM, and the bytes that Resize, Unstrip and StoreTimestamp uncover. AnonymizeIPAddr and the Force elements pick at
//! random.

use super::noise;
use crate::case::{Case, Link};
use crate::packets;
use crate::random::Random;

/// Elements for any packet. `#` stands for a small number, `@` for an address.
const ANY: &str = "Strip(#)|StoreData(#, \\<00ff>)|\
    Paint(#)|Paint(300)|Paint(#, ANNO #)|CheckPaint(#)|PaintTee(#)|SetAnnoByte(#, #)|\
    Truncate(#0)|Truncate(20, NULL)|Truncate(#0, EXTRA_ANNO true)|Pad(#0)|Pad(60)|\
    CheckLength(#0)|CheckLength(40, EXTRA_LENGTH true)|MoveData(#, #, #)|\
    EtherEncap(0x0800, 1:2:3:4:5:6, 00-0a-0b-0c-0d-0e)|EtherEncap(#, 1:1:1:1:1:1, 2:2:2:2:2:2)|\
    EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, #, #)|\
    MarkIPHeader|MarkIPHeader(#)|MarkMACHeader|MarkMACHeader(#)|SetTimestamp(#.#)|\
    SetIPAddress(@)|SetPacketType(MULTICAST)|SetCRC32|Align(4, #)|Null|\
    StoreTimestamp(0)|StoreTimestamp(#, TAIL true)|SetTimestampDelta(ZERO)|FirstTimestamp|\
    EnsureEther(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)|\
    Reframe|AdjustTimestamp(#.5)|NumberPacket(#)|CheckNumberPacket(#, 5)|AggregatePaint(#)";

/// Elements for packets that start with an IP header.
const IP: &str = "CheckIPHeader|CheckIPHeader(INTERFACES 10.0.0.1/8)|CheckIPHeader(#)|\
    CheckIPHeader(0, BADSRC 10.0.0.1 10.0.0.2)|CheckIPHeader(CHECKSUM false)|CheckIPHeader2|\
    CheckIPHeader(VERBOSE true)|CheckIPHeader(DETAILS true)|CheckIPHeader(VERBOSE true, DETAILS true)|\
    MarkIPHeader|MarkIPHeader(0)|MarkIPHeader(0)|IPEncap(4, @, @)|\
    IPEncap(ipip, @, @, TTL #, TOS #, DF true)|IPEncap(PROTO #, SRC @, DST @, ECT true)|\
    UDPIPEncap(@, #, @, #, true)|UDPIPEncap(@, 53, @, #, CHECKSUM false)|UDPIPEncap(@, 53, DST_ANNO, 53, CHECKSUM true)|\
    ICMPPingEncap(@, @)|ICMPPingEncap(@, @, IDENTIFIER #)";

/// Elements for packets that have a header annotation.
const MARKED: &str = "DecIPTTL|DecIPTTL(ACTIVE false)|DecIPTTL(MULTICAST false)|\
    SetIPChecksum|SetUDPChecksum|SetTCPChecksum|SetTCPChecksum(FIXOFF true)|CheckTCPHeader|\
    CheckUDPHeader|CheckICMPHeader|CheckTCPHeader(VERBOSE true)|CheckTCPHeader(DETAILS true)|\
    CheckUDPHeader(VERBOSE true)|CheckUDPHeader(DETAILS true)|CheckICMPHeader(DETAILS true)|\
    IPMirror|IPMirror(false)|ICMPPingResponder|GetIPAddress(16)|GetIPAddress(12)|GetIPAddress(#)|\
    GetIPAddress(IP src)|StoreIPAddress(@, src)|StoreIPAddress(@, 16)|\
    SetIPDSCP(#)|SetIPDSCP(64)|SetIPECN(#)|SetIPECN(ce)|MarkIPCE|MarkIPCE(FORCE true)|\
    StripIPHeader|StripToNetworkHeader|UnstripIPHeader|TruncateIPPayload(#)|\
    IPGWOptions(10.0.0.1)|IPGWOptions(10.0.0.2, OTHERS 10.0.0.1)|FixIPSrc(@)|\
    ICMPError(10.0.0.1, unreachable, host)|ICMPError(10.0.0.1, timeexceeded)|\
    ICMPError(10.0.0.1, redirect, host)|ICMPError(10.0.0.2, parameterproblem, #)|\
    ICMPError(10.0.0.1, unreachable, needfrag, MTU #00)|ICMPError(10.0.0.1, #, #)|\
    IPInputCombo(#, INTERFACES 10.0.0.2/8)|IPOutputCombo(#, 10.0.0.1, 60)|\
    EraseIPPayload|ResetIPChecksum|IPPrint(x, TIMESTAMP false)|IPPrint(x, TIMESTAMP false, TTL true, TOS true, ID true)|\
    IPPrint(x, TIMESTAMP false, PAYLOAD hex, LENGTH true)|IPPrint(TIMESTAMP false, CONTENTS ascii)|IPPrint(x, TIMESTAMP false, SWAP true, AGGREGATE true, PAINT true)|\
    IPFilter(allow ip unfrag)|AggregateIPAddrPair|AggregateIP(ip src)|AggregateLength|AggregateLength(IP true)|\
    TCPFragmenter(#0)|AggregateLast|AggregateFirst|SetRandIPAddress(10.0.0.1/32)|DropBroadcasts";

/// Elements for Ethernet frames.
const ETHERNET: &str = "VLANEncap(#)|VLANEncap(#, #)|VLANEncap(4095)|VLANEncap(ANNO)|VLANDecap|\
    VLANDecap(ANNO false)|SetVLANAnno(#)|SetVLANAnno(#, #)|StripEtherVLANHeader|\
    StripEtherVLANHeader(NATIVE_VLAN #)|EtherMirror|EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2)|\
    HostEtherFilter(0:0:c0:0:0:1)|HostEtherFilter(0:0:c0:0:0:1, true, true)|HostEtherFilter(0:0:c0:0:0:2, DROP_OTHER false)|\
    CheckARPHeader(14)|CheckARPHeader(14, VERBOSE true)|ARPResponder(10.0.0.1 0:0:c0:0:0:9, 10.0.0.0/16 0:0:c0:0:0:8)|\
    ARPFaker(@ 1:1:1:1:1:1)|GetEtherAddress(0, #)|StoreEtherAddress(3:3:3:3:3:3, src)|\
    StoreEtherAddress(3:3:3:3:3:3, OFFSET #)|SetEtherAddress(4:4:4:4:4:4)|Classifier(12/0800)|\
    Strip(14)|Strip(14)|MarkIPHeader(14)|CheckIPHeader(14)|CheckIPHeader2(OFFSET 14)|DropBroadcasts";

pub fn make(random: &mut Random, size: usize) -> Case {
    let mut case = Case::default();
    let mut chain = Vec::new();
    if random.chance(40) {
        case.link = Link::Ethernet;
    }
    let (ethernet, mut marked) = (case.link == Link::Ethernet, false);
    for _ in 0..random.within(1..=size.min(5)) {
        let kind = match (random.below(10), ethernet, marked) {
            (0..6, true, _) => ETHERNET,
            (0..3, false, _) => IP,
            (_, _, true) => MARKED,
            (0..7, ..) => IP,
            _ => ANY,
        };
        if kind == MARKED && chain.is_empty() {
            continue;
        }
        let element = filled(random, kind);
        let stripped = chain
            .iter()
            .any(|element: &String| element.contains("Strip"));
        let has_error = chain
            .iter()
            .any(|element: &String| element.starts_with("ICMPError"));
        if (stripped || has_error) && element.starts_with("ICMPError") {
            // Click takes the length of what is left for that of the packet, and numbers the errors
            // of all elements in one row.
            continue;
        }
        let shortened =
            |element: &String| element.contains("Strip") || element.contains("Truncate");
        if chain.iter().any(shortened)
            && (element.starts_with("HostEtherFilter") || element.starts_with("EtherMirror"))
        {
            // Click reads addresses behind the end of what is left.
            continue;
        }
        let is_marked = |element: &String| element.starts_with("MarkIPHeader");
        if chain.iter().any(is_marked)
            && element.starts_with("StoreIPAddress")
            && element.ends_with("src)")
        {
            // Click writes into headers that are cut short.
            continue;
        }
        if element.starts_with("EraseIPPayload") {
            // Click reads the length of a TCP header that is cut short behind its end.
            chain.push(random.one("CheckTCPHeader|CheckUDPHeader").to_string());
        }
        marked |= element.contains("IPHeader") && !element.contains("Strip");
        let is_tagged = element.starts_with("VLANEncap");
        chain.push(element);
        if is_tagged {
            // Click marks a network header 8 bytes into the packet.
            break;
        }
    }
    // The time at which an error or an answer is made is the program's own. So is that of SetTimestamp without a time.
    let is_made = |element: &String| {
        element.starts_with("ICMPError")
            || element.starts_with("ICMPPingResponder")
            || element == "SetTimestamp()"
    };
    let annotations = match chain.iter().any(is_made) {
        true => random.one("|, PRINTANNO true"),
        false => random.one("||, PRINTANNO true, TIMESTAMP true"),
    };
    case.config.push("d :: Discard;".into());
    let mut from = "FromDump(packets.pcap, STOP true)".to_string();
    for (at, element) in chain.iter().enumerate() {
        case.config.push(format!("e{at} :: {element};"));
        case.config.push(format!("{from} -> e{at};"));
        if random.chance(50) && has_second_output(element) {
            case.config
                .push(format!("e{at}[1] -> Print(e{at}, -1) -> d;"));
        }
        from = format!("e{at}");
    }
    case.config
        .push(format!("{from} -> Print(0, -1{annotations}) -> d;"));
    case.packets = packets::stamped(random, size * 2, |random| match ethernet {
        true => packets::ethernet(random),
        false => packets::ip(random),
    });
    let handlers = "drops|drop_details|count|config|color|mtu|offset|length|class";
    if !chain.is_empty() && random.chance(30) {
        let at = random.below(chain.len());
        let handler = random.one(handlers);
        // Click's MarkIPCE counts no drops.
        if handler != "drops" || !chain[at].starts_with("MarkIPCE") {
            case.handlers.push(format!("e{at}.{handler}"));
        }
    }
    case
}

fn has_second_output(element: &str) -> bool {
    let class = element.split('(').next().unwrap_or("");
    class.starts_with("Check")
        || matches!(
            class,
            "DecIPTTL"
                | "PaintTee"
                | "IPGWOptions"
                | "HostEtherFilter"
                | "Null"
                | "SetUDPChecksum"
                | "StripEtherVLANHeader"
                | "ARPResponder"
                | "IPInputCombo"
                | "SetTCPChecksum"
        )
}

/// One of the elements in `texts`, rarely with arguments of another kind.
fn filled(random: &mut Random, texts: &str) -> String {
    let mut element = String::new();
    for c in random.one(texts).chars() {
        match c {
            '#' => element += random.one("0|1|2|3|4|6|8|12|14|16|20"),
            '@' => element += packets::address(random),
            c => element.push(c),
        }
    }
    // Click's Reframe ignores what it does not know.
    if random.chance(4) && element != "Reframe" {
        let class = element.split('(').next().unwrap_or("");
        return format!("{class}({})", noise(random));
    }
    element
}
