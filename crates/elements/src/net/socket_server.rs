use super::nsm_socket::NsmSocket;
use crate::prelude::*;

/// Serves TCP connections or UDP datagrams in a guest, by a network stack module.
///
/// The guest needs no interface and no TCP of its own: its socket is one of the NSM that it was given (`weir create
/// --nsm`), at the NSM's addresses.
///
/// What a peer sends leaves by the output, in packets of at most 1856 bytes. Each carries its connection's name as its
/// aggregate annotation; of UDP, its sender's. A packet on the input goes to the connection that its annotation names,
/// or, if that is 0, to the latest one; it is dropped if that has ended. Elements in between keep the annotation. The
/// bytes of a connection become packets as they arrive; a packet without bytes closes its connection, after what was
/// sent before.
///
/// A pull input waits while the next packet's connection takes no more: one slow reader holds up the others. A packet
/// that is pushed then is dropped, and with it a part of the stream: use a Queue. While a Queue downstream is full,
/// nothing is received, and the peers wait. A connection that the peer has ended is closed when the guest has nothing
/// to do, and after a second in a guest that always has.
///
/// Its connections outlive a hotswap to an element of the same name, TYPE, ADDR and PORT.
///
/// # Example
/// An echo server:
/// ```click
/// s :: SocketServer(TCP, 0.0.0.0, 7) -> Queue -> s;
/// ```
///
/// # See also
/// SocketClient, Socket
#[derive(Element)]
#[element(ports = "0-1/0-1", processing = "a/h", flow = "x/y")]
#[inputs("packets to send")]
#[outputs("packets received")]
pub struct SocketServer {
    #[delegate]
    #[init(NsmSocket::new(true))]
    socket: NsmSocket,
}
