//! Click's userlevel group: files, sockets and devices of the host.

crate::elements! {
    control_socket: ControlSocket;
}
