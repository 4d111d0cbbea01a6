//! Click's tcpudp group: TCP and UDP headers.

crate::elements! {
    check_tcp_header: CheckTCPHeader;
    check_udp_header: CheckUDPHeader;
    ip_rewriter: IPRewriter;
    set_tcp_checksum: SetTCPChecksum;
    set_udp_checksum: SetUDPChecksum;
    tcp_rewriter: TCPRewriter;
    udp_ip6_encap: UDPIP6Encap;
    udp_ip_encap: UDPIPEncap;
    udp_rewriter: UDPRewriter;
}
