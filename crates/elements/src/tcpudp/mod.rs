//! Click's tcpudp group: TCP and UDP headers.

mod fast;
mod fast_flows;

crate::elements! {
    check_tcp_header: CheckTCPHeader;
    check_udp_header: CheckUDPHeader;
    dynamic_udp_ip_encap: DynamicUDPIPEncap;
    fast_tcp_flows: FastTCPFlows;
    fast_udp_flows: FastUDPFlows;
    fast_udp_source: FastUDPSource;
    fast_udp_source_ip6: FastUDPSourceIP6;
    ip_rewriter: IPRewriter;
    reset_ip_checksum: ResetIPChecksum;
    set_tcp_checksum: SetTCPChecksum;
    set_udp_checksum: SetUDPChecksum;
    snoop_tcp: SnoopTCP;
    stateless_tcp_responder: StatelessTCPResponder;
    strip_transport_header: StripTransportHeader;
    tcp_fragmenter: TCPFragmenter;
    tcp_ip_send: TCPIPSend;
    tcp_rewriter: TCPRewriter;
    udp_ip6_encap: UDPIP6Encap;
    udp_ip_encap: UDPIPEncap;
    udp_rewriter: UDPRewriter;
}
