use super::raw_socket::RawSocket;
use super::transport::one_way;

one_way! {
    /// Sends IP packets over a raw socket: an old name of a RawSocket without output, which takes the same arguments.
    ///
    /// # Example
    /// ```click
    /// RatedSource(RATE 1) -> UDPIPEncap(127.0.0.1, 1234, 127.0.0.1, 1234) -> Queue
    ///     -> ToRawSocket(UDP);
    /// ```
    ///
    /// # See also
    /// RawSocket, FromRawSocket
    ToRawSocket, "1/0", "l", RawSocket
}
