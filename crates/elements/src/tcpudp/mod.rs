//! Click's tcpudp group: TCP and UDP headers.

crate::elements! {
    ip_rewriter: IPRewriter;
    set_tcp_checksum: SetTCPChecksum;
    set_udp_checksum: SetUDPChecksum;
    tcp_rewriter: TCPRewriter;
    udp_rewriter: UDPRewriter;
    check_tcp_header: CheckTCPHeader;
    check_udp_header: CheckUDPHeader;
    set_tcp_checksum: SetTCPChecksum;
    set_udp_checksum: SetUDPChecksum;
    udp_ip_encap: UDPIPEncap;
}
