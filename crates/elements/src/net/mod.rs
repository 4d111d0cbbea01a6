//! A guest's network devices: the rings it shares with the switch.

use router::ClassEntry;

mod guest;
mod receiver;
mod sender;

crate::elements! {
    from_netfront: FromNetfront;
    to_netfront: ToNetfront;
}

#[cfg(test)]
mod tests;

/// What a guest's library has in the place of the host's elements: the devices under Click's
/// names, and a reason for each class that needs a host.
pub static GUEST: &[ClassEntry] = guest::CLASSES;
