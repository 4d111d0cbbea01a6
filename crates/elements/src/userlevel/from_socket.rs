use super::socket::Socket;
use crate::prelude::*;

/// Receives packets from a socket: an old name of a Socket without input, with the same
/// arguments.
///
/// # Example
/// ```click
/// FromSocket(UDP, 127.0.0.1, 12345) -> Print -> Discard;
/// ```
///
/// # See also
/// Socket, ToSocket
#[derive(Element)]
#[element(
    ports = "0/1",
    processing = "/h",
    flow = "x/y",
    raw,
    provides(Descriptors),
    deprecated = "FromSocket is deprecated, use Socket instead"
)]
pub struct FromSocket {
    #[delegate]
    socket: Socket,
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use crate::testing::*;

    #[test]
    fn it_receives_as_a_socket_does() {
        let file = TempFile::new("from-socket");
        let config = format!("FromSocket(UNIX_DGRAM, \"{file}\") -> c :: Collect;");
        let mut rig = Rig::new(&config);
        let warning = "FromSocket is deprecated, use Socket instead";
        assert!(rig.printed().concat().contains(warning));
        let sender = UnixDatagram::unbound().unwrap();
        sender.send_to(b"hello", file.path()).unwrap();
        let mut received = Vec::new();
        run_until(&mut rig, |rig| {
            received.extend(rig.data("c"));
            !received.is_empty()
        });
        assert_eq!(received, [b"hello"]);
    }
}
