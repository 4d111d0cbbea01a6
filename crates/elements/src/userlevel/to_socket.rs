use super::socket::Socket;
use crate::prelude::*;

/// Sends packets over a socket: an old name of a Socket without output, with the same
/// arguments.
///
/// # Example
/// ```click
/// RatedSource("hello", RATE 1) -> Queue -> ToSocket(UDP, 127.0.0.1, 12345);
/// ```
///
/// # See also
/// Socket, FromSocket
#[derive(Element)]
#[element(
    ports = "1/0",
    processing = "l",
    flow = "x/y",
    raw,
    provides(Descriptors),
    deprecated = "ToSocket is deprecated, use Socket instead"
)]
pub struct ToSocket {
    #[delegate]
    socket: Socket,
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use crate::testing::*;

    #[test]
    fn it_sends_as_a_socket_does() {
        let file = TempFile::new("to-socket");
        let receiver = UnixDatagram::bind(file.path()).unwrap();
        receiver.set_nonblocking(true).unwrap();
        let config = format!("i :: Inject -> Queue -> ToSocket(UNIX_DGRAM, \"{file}\");");
        let mut rig = Rig::new(&config);
        let warning = "ToSocket is deprecated, use Socket instead";
        assert!(rig.printed().concat().contains(warning));
        rig.push("i", b"hello");
        let (mut room, mut length) = ([0; 16], 0);
        run_until(&mut rig, |_| {
            length = receiver.recv(&mut room).unwrap_or(length);
            length > 0
        });
        assert_eq!(room[..length], *b"hello");
    }
}
