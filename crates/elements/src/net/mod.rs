//! A guest's network devices: the rings it shares with the switch, and its sockets.

use crate::prelude::*;

pub mod dpdk;
mod guest;
mod nsm_socket;
mod receiver;
mod rss;
mod sender;

crate::elements! {
    dpdk_info: DpdkInfo;
    ensure_dpdk_buffer: EnsureDpdkBuffer;
    from_dpdk_device: FromDpdkDevice;
    from_netfront: FromNetfront;
    settle_flows: SettleFlows;
    socket_client: SocketClient;
    socket_server: SocketServer;
    to_dpdk_device: ToDpdkDevice;
    to_netfront: ToNetfront;
}

#[cfg(test)]
mod tests;

/// The classes of a guest in the place of the host's: the devices under Click's
/// names, and a reason for each class that needs a host.
pub static GUEST: &[ClassEntry] = guest::CLASSES;
