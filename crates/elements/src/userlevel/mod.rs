//! Click's userlevel group: files, sockets and devices of the host.

pub mod capture;
mod host_device;
mod host_interface;
mod kernel;
mod kernel_filter;
mod listener;
mod packet_socket;
pub(crate) mod sample;
mod transport;

crate::elements! {
    chatter_socket: ChatterSocket;
    control_socket: ControlSocket;
    from_device: FromDevice;
    from_dump: FromDump;
    from_host: FromHost;
    from_raw_socket: FromRawSocket;
    from_socket: FromSocket;
    ip_flow_raw_sockets: IPFlowRawSockets;
    kernel_tap: KernelTap;
    kernel_tun: KernelTun;
    mcast_socket: McastSocket;
    progress_bar: ProgressBar;
    raw_socket: RawSocket;
    socket: Socket;
    to_device: ToDevice;
    to_dump: ToDump;
    to_host: ToHost;
    to_raw_socket: ToRawSocket;
    to_socket: ToSocket;
}

pub use host_interface::HostInterface;

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
