//! Click's userlevel group: files, sockets and devices of the host.

pub mod capture;
mod host_device;
mod kernel_filter;
mod listener;
mod packet_socket;
mod transport;

crate::elements! {
    chatter_socket: ChatterSocket;
    control_socket: ControlSocket;
    from_device: FromDevice;
    from_dump: FromDump;
    from_host: FromHost, ToHost;
    ip_flow_raw_sockets: IPFlowRawSockets;
    kernel_tun: KernelTun, KernelTap;
    mcast_socket: McastSocket;
    progress_bar: ProgressBar;
    raw_socket: RawSocket, FromRawSocket, ToRawSocket;
    socket: Socket, FromSocket, ToSocket;
    to_device: ToDevice;
    to_dump: ToDump;
}

/// What the system says of an error, without its number.
pub(crate) fn os_error(error: &std::io::Error) -> alloc::string::String {
    use alloc::string::ToString;
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_string(),
        None => text,
    }
}

#[cfg(test)]
pub(crate) mod testing;
