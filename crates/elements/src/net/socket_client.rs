use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::nsm_socket::{NsmSocket, any_address, is_stream, port_number};
use crate::prelude::*;

/// Connects to a TCP server or sends to a UDP one in a guest, by a network stack module.
///
/// The guest needs no interface and no TCP of its own: its socket is one of the NSM that it was given (`weir create
/// --nsm`), which has the routes.
///
/// Packets on the input are sent as bytes of one connection, or as a datagram each; what the server sends leaves by
/// the output, in packets of at most 1856 bytes. It connects when the router is initialized. When the connection has
/// ended, the next packet has it connect again; if that fails, the packets that wait for it are dropped, and the
/// console tells why. A packet without bytes closes the connection, after what was sent before.
///
/// A pull input waits for the connection and while that takes no more. A packet that is pushed then is dropped, and
/// with it a part of the stream: use a Queue. While a Queue downstream is full, nothing is received.
///
/// Its connections outlive a hotswap to an element of the same name, TYPE, ADDR and PORT.
///
/// # Example
/// ```click
/// InfiniteSource(DATA "GET / HTTP/1.0\r\n\r\n", LIMIT 1) -> Queue
///     -> SocketClient(TCP, 192.0.2.1, 80) -> Print(MAXLENGTH 200, CONTENTS ASCII) -> Discard;
/// ```
///
/// # See also
/// SocketServer, Socket
#[derive(Element)]
#[element(ports = "0-1/0-1", processing = "a/h", flow = "x/y")]
#[inputs("packets to send")]
#[outputs("packets received")]
pub struct SocketClient {
    /// `TCP` or `UDP`.
    #[arg(mandatory, name = "TYPE", with = is_stream, kind = "socket type")]
    stream: bool,
    /// The IPv4 or IPv6 address of the server.
    #[arg(mandatory, name = "ADDR", with = any_address, kind = "IP address")]
    #[init(IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    address: IpAddr,
    /// Its port.
    #[arg(mandatory, name = "PORT", with = port_number, kind = "port")]
    port: u16,
    #[delegate(configured = complete)]
    socket: NsmSocket,
}

impl SocketClient {
    fn complete(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.port == 0 {
            return Err(args.fail("PORT must be from 1 to 65535"));
        }
        let to = SocketAddr::new(self.address, self.port);
        self.socket.set_endpoint(false, self.stream, to);
        Ok(())
    }
}
