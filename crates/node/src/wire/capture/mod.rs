//! Capturing a Linux network as a wire: bridges, VLANs, veth pairs, addresses, routes, namespaces
//! and shapers, read through netlink.
//!
//! It is read first ([`read`]), then described ([`describe`]). The network is not changed.

mod describe;
mod read;
mod seen;
#[cfg(test)]
mod tests;

pub use describe::{Captured, describe};
pub use read::read;

/// Why a network could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// No such namespace.
    #[error(
        "no network namespace ‘{0}’: ‘ip netns’ lists them, and a process id names its namespace"
    )]
    NoNamespace(String),
    /// Entering a namespace takes privileges.
    #[error("no permission to enter network namespaces: run as root")]
    Permission,
    /// A system call.
    #[error("network namespaces cannot be read: {0}")]
    System(#[from] std::io::Error),
    /// Netlink.
    #[error("network namespace ‘{namespace}’ cannot be read: {error}")]
    Read {
        /// Which.
        namespace: String,
        /// Why not.
        error: std::io::Error,
    },
}
