use super::raw_socket::RawSocket;
use crate::prelude::*;

/// Receives IP packets from a raw socket: an old name of a RawSocket without input, with the
/// same arguments.
///
/// # Example
/// ```click
/// FromRawSocket(UDP, 53) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// RawSocket, ToRawSocket
#[derive(Element)]
#[element(
    ports = "0/1",
    processing = "/h",
    flow = "x/y",
    raw,
    provides(Descriptors),
    deprecated = "FromRawSocket is deprecated, use RawSocket instead"
)]
pub struct FromRawSocket {
    #[delegate]
    socket: RawSocket,
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use crate::testing::*;

    #[test]
    fn it_receives_as_a_raw_socket_does() {
        let namespace = Namespace::new("from-raw-socket");
        namespace.ip("link set lo up");
        namespace.within(|| {
            let mut rig = Rig::new("FromRawSocket(UDP) -> c :: Collect;");
            let warning = "FromRawSocket is deprecated, use RawSocket instead";
            assert!(rig.printed().concat().contains(warning));
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            sender.send_to(b"hello", "127.0.0.1:4000").unwrap();
            let mut received = Vec::new();
            run_until(&mut rig, |rig| {
                received.extend(rig.data("c"));
                !received.is_empty()
            });
            assert_eq!(received[0][28..], *b"hello");
        });
    }
}
