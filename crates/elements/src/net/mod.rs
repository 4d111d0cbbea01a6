//! A guest's network devices: the rings it shares with the switch.

use crate::prelude::*;

mod guest;
mod receiver;
mod sender;

crate::elements! {
    from_netfront: FromNetfront;
    to_netfront: ToNetfront;
}

#[cfg(test)]
mod tests;

/// The classes of a guest in the place of the host's: the devices under Click's
/// names, and a reason for each class that needs a host.
pub static GUEST: &[ClassEntry] = guest::CLASSES;
