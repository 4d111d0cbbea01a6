//! Generic receive offload on interfaces that are attached by AF_PACKET.
//!
//! A port carries segments of up to 64 KB ([`crate::port::offload`]). With GRO, an interface joins
//! received packets of 1500 bytes to such segments. Most NICs have GRO on from the start, veth
//! pairs do not. Each frame costs the same on its way through switch and guest, so TCP is two to
//! three times as fast with GRO.
//!
//! When the link goes, GRO is disabled again if it was disabled before. The node records that with
//! the link. A killed `weir run` leaves it enabled.

use std::os::fd::{AsFd, OwnedFd};

use crate::sys;

/// GRO that was turned on for a link; turned off again when this is dropped.
#[derive(Debug)]
pub struct Gro {
    interface: Option<(OwnedFd, String)>,
}

impl Gro {
    /// Turns it on; `None` if it is on already, or the interface has none.
    pub fn turn_on(name: &str) -> Option<Gro> {
        let socket = sys::interface_socket().ok()?;
        if sys::gro(socket.as_fd(), name).ok()? {
            return None;
        }
        sys::set_gro(socket.as_fd(), name, true).ok()?;
        Some(Gro {
            interface: Some((socket, name.into())),
        })
    }

    /// Leaves it on until [`turn_off`](Self::turn_off): for links that outlive this process.
    pub fn keep(mut self) {
        self.interface = None;
    }

    /// Turns GRO off, if the interface still exists.
    pub fn turn_off(name: &str) {
        if let Ok(socket) = sys::interface_socket() {
            let _ = sys::set_gro(socket.as_fd(), name, false);
        }
    }
}

impl Drop for Gro {
    fn drop(&mut self) {
        if let Some((socket, name)) = &self.interface {
            // The interface may be gone, and GRO with it.
            let _ = sys::set_gro(socket.as_fd(), name, false);
        }
    }
}
