//! Load balancing: connections distributed over servers, and checks of the servers' health.

use crate::prelude::*;

mod maglev;
mod probe;
mod servers;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests6;

crate::elements! {
    flow_ip_load_balancer: FlowIPLoadBalancer;
    health_check: HealthCheck;
    tcp_reset: TCPReset;
}

pub use servers::SERVERS_MAX;

/// A server, as a health check knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Its address.
    pub address: IpAddr,
    /// Its port; 0 if it is the port that clients connect to.
    pub port: u16,
    /// Whether it is healthy, as far as is known.
    pub healthy: bool,
}

/// An element with servers.
pub trait Servers {
    /// The server of a number below [`SERVERS_MAX`]; `None` if there is none, or it was removed.
    fn server(&self, number: usize) -> Option<Checked>;

    /// Says whether a server is healthy.
    fn set_health(&mut self, cx: &mut Cx<'_>, number: usize, healthy: bool);
}

impl Interface for dyn Servers {
    const NAME: &'static str = "Servers";
}
