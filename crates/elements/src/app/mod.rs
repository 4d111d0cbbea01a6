//! Protocols above TCP and UDP: Click's app group, and servers that answer a datagram with another.

mod datagram;

crate::elements! {
    dhcp_server: DHCPServer;
    dns_responder: DNSResponder;
    ftp_port_mapper: FTPPortMapper;
}
