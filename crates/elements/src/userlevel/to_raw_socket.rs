use super::raw_socket::RawSocket;
use crate::prelude::*;

/// Sends IP packets over a raw socket: an old name of a RawSocket without output, with the same
/// arguments.
///
/// # Example
/// ```click
/// RatedSource(RATE 1) -> UDPIPEncap(127.0.0.1, 1234, 127.0.0.1, 1234) -> Queue
///     -> ToRawSocket(UDP);
/// ```
///
/// # See also
/// RawSocket, FromRawSocket
#[derive(Element)]
#[element(
    ports = "1/0",
    processing = "l",
    flow = "x/y",
    raw,
    provides(Descriptors),
    deprecated = "ToRawSocket is deprecated, use RawSocket instead"
)]
pub struct ToRawSocket {
    #[delegate]
    socket: RawSocket,
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use crate::testing::*;

    #[test]
    fn it_sends_as_a_raw_socket_does() {
        let namespace = Namespace::new("to-raw-socket");
        namespace.ip("link set lo up");
        namespace.within(|| {
            let receiver = UdpSocket::bind("127.0.0.1:4000").unwrap();
            receiver.set_nonblocking(true).unwrap();
            let mut rig = Rig::new("i :: Inject -> Queue -> ToRawSocket(UDP);");
            let warning = "ToRawSocket is deprecated, use RawSocket instead";
            assert!(rig.printed().concat().contains(warning));
            let local = [127, 0, 0, 1].into();
            rig.push("i", &udp((local, 5000), (local, 4000), b"hello"));
            let (mut room, mut length) = ([0; 16], 0);
            run_until(&mut rig, |_| {
                length = receiver.recv(&mut room).unwrap_or(length);
                length > 0
            });
            assert_eq!(room[..length], *b"hello");
        });
    }
}
