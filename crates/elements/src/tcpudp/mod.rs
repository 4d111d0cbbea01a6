//! Click's tcpudp group: TCP and UDP headers.

crate::elements! {
    set_tcp_checksum: SetTCPChecksum;
    set_udp_checksum: SetUDPChecksum;
}
