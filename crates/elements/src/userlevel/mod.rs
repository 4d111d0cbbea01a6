//! Click's userlevel group: files, sockets and devices of the host.

pub mod capture;
mod kernel_filter;
mod packet_socket;

crate::elements! {
    control_socket: ControlSocket;
    from_device: FromDevice;
    from_dump: FromDump;
    to_device: ToDevice;
    to_dump: ToDump;
}

/// What the system says of an error, without its number.
fn os_error(error: &std::io::Error) -> alloc::string::String {
    use alloc::string::ToString;
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_string(),
        None => text,
    }
}

#[cfg(test)]
mod testing;
