//! Click's icmp group: answers, errors and requests of ICMP.

crate::elements! {
    icmp_error: ICMPError;
    icmp_ping_responder: ICMPPingResponder;
}
