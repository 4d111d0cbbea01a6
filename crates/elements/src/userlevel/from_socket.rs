use super::socket::Socket;
use super::transport::one_way;

one_way! {
    /// Receives packets from a socket: an old name of a Socket without input, which takes the same arguments.
    ///
    /// # Example
    /// ```click
    /// FromSocket(UDP, 127.0.0.1, 12345) -> Print -> Discard;
    /// ```
    ///
    /// # See also
    /// Socket, ToSocket
    FromSocket, "0/1", "/h", Socket
}
