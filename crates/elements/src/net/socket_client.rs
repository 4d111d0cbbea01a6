use super::nsm_socket::NsmSocket;
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
    #[delegate]
    #[init(NsmSocket::new(false))]
    socket: NsmSocket,
}
