//! The commands that ask a node: `weir link`, `stub`, `switch`, `vnic`, `flow`, `create`, `ls`, `destroy`;
//! and `weir node`, which is one. Modelled on dladm and flowadm.

pub mod flow;
pub mod guest;
pub mod link;
pub mod node;
pub mod output;
pub mod stat;
pub mod stub;
pub mod switch;
pub mod vnic;
pub mod wire;

use ::node::client::Client;
use ::node::error::Error;

/// The result of a command.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// The node that the environment names.
fn client() -> Client {
    Client::from_environment()
}

/// `-p` and what may be given several times: `a=1,b=2` each.
fn joined(parts: &[String]) -> String {
    parts.join(",")
}
