use super::raw_socket::RawSocket;
use super::transport::one_way;

one_way! {
    /// Receives IP packets from a raw socket: an old name of a RawSocket without input, which takes the same arguments.
    ///
    /// # Example
    /// ```click
    /// FromRawSocket(UDP, 53) -> IPPrint -> Discard;
    /// ```
    ///
    /// # See also
    /// RawSocket, ToRawSocket
    FromRawSocket, "0/1", "/h", RawSocket
}
