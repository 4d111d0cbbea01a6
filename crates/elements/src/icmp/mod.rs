//! Click's icmp group: answers, errors and requests of ICMP, and answers of ICMPv6.

pub(crate) mod echo;
mod encap;

crate::elements! {
    check_icmp_header: CheckICMPHeader;
    icmp6_ping_responder: ICMP6PingResponder;
    icmp_error: ICMPError;
    icmp_ip_encap: ICMPIPEncap;
    icmp_ping_encap: ICMPPingEncap;
    icmp_ping_responder: ICMPPingResponder;
    icmp_ping_rewriter: ICMPPingRewriter;
    icmp_ping_source: ICMPPingSource;
    icmp_rewriter: ICMPRewriter;
}
