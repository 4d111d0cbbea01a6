use super::socket::Socket;
use super::transport::one_way;

one_way! {
    /// Sends packets over a socket: an old name of a Socket without output, which takes the same arguments.
    ///
    /// # Example
    /// ```click
    /// RatedSource("hello", RATE 1) -> Queue -> ToSocket(UDP, 127.0.0.1, 12345);
    /// ```
    ///
    /// # See also
    /// Socket, FromSocket
    ToSocket, "1/0", "l", Socket
}
