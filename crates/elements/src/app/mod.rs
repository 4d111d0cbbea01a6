//! Click's app group: protocols above TCP and UDP.

crate::elements! {
    ftp_port_mapper: FTPPortMapper;
}
