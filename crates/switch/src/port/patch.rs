//! A patch's port: the other end is a port in another domain of the same switch. It has no link:
//! the worker looks a frame up again in the other domain.

use super::backend::Kind;

/// One end of a patch.
pub struct Patch;

impl Kind for Patch {
    const UPLINK: bool = true;
}
