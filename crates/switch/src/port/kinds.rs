//! The list of the kinds of ports, and the code that it generates for all of them.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::backend::{Attachment, Backend, HostBackend, Kind, Outcome};
use super::batch::Batch;
use super::{guest, packet, patch, tap, vhost, vxlan, waiting, xdp};
use crate::counters::PortCounters;

/// Makes [`Link`], [`PortKind`], [`LinkRecord`] and `on_link!` from the list; `$d` is a dollar.
macro_rules! kinds {
    ($d:tt
        links { $( $(#[$link_doc:meta])* $Link:ident = $link_name:literal: $link:ty, )* }
        host links { $( $(#[$host_doc:meta])* $Host:ident = $host_name:literal: $host:ty, )* }
        others { $( $(#[$other_doc:meta])* $Other:ident = $other_name:literal: $other:ty, )* }
    ) => {
        /// Where a port leads, for one of its queues.
        pub enum Link {
            $( $(#[$link_doc])* $Link($link), )*
            $( $(#[$host_doc])* $Host($host), )*
        }

        /// What a port leads to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum PortKind {
            $( $(#[$link_doc])* #[serde(rename = $link_name)] $Link, )*
            $( $(#[$host_doc])* #[serde(rename = $host_name)] $Host, )*
            $( $(#[$other_doc])* #[serde(rename = $other_name)] $Other, )*
        }

        /// The data of a host link besides its descriptors.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum LinkRecord {
            $( $(#[$host_doc])* #[serde(rename = $host_name)]
               $Host(<$host as HostBackend>::Record), )*
        }

        impl PortKind {
            /// Its name, as users see it.
            pub const fn name(self) -> &'static str {
                match self {
                    $( PortKind::$Link => $link_name, )*
                    $( PortKind::$Host => $host_name, )*
                    $( PortKind::$Other => $other_name, )*
                }
            }

            /// See [`HostBackend::KEPT`].
            pub fn kept(self) -> Option<LinkRecord> {
                match self {
                    $( PortKind::$Host =>
                        <$host as HostBackend>::KEPT.map(LinkRecord::$Host), )*
                    _ => None,
                }
            }

            const fn facts(self) -> Facts {
                match self {
                    $( PortKind::$Link => Facts::of::<$link>(), )*
                    $( PortKind::$Host => Facts::of::<$host>(), )*
                    $( PortKind::$Other => Facts::of::<$other>(), )*
                }
            }
        }

        impl LinkRecord {
            /// What the link leads to.
            pub const fn kind(&self) -> PortKind {
                match self {
                    $( LinkRecord::$Host(_) => PortKind::$Host, )*
                }
            }

            /// The links of a port, one for each of its queues. The error is the reason, as a
            /// sentence.
            pub(crate) fn attach(self, link: Attachment<'_>) -> Result<Vec<Link>, String> {
                if link.files.is_empty() {
                    return Err("no descriptor came with the link to attach".into());
                }
                match self {
                    $( LinkRecord::$Host(record) => {
                        let links = <$host>::attach(record, link)?;
                        Ok(links.into_iter().map(Link::$Host).collect())
                    } )*
                }
            }
        }

        $( impl Listed for $host {
            fn list(record: Self::Record) -> LinkRecord {
                LinkRecord::$Host(record)
            }
        } )*

        impl Link {
            /// See [`Backend::another_way`].
            pub(crate) fn another_way(&self) -> Option<Link> {
                match self {
                    $( Link::$Link(link) => Some(Link::$Link(link.another_way()?.into())), )*
                    $( Link::$Host(link) => Some(Link::$Host(link.another_way()?.into())), )*
                }
            }

            const fn facts(&self) -> Facts {
                match self {
                    $( Link::$Link(_) => Facts::of::<$link>(), )*
                    $( Link::$Host(_) => Facts::of::<$host>(), )*
                }
            }
        }

        /// An expression with a link of whichever kind.
        macro_rules! on_link {
            ($d link:expr, $d bound:ident => $d value:expr) => {
                match $d link {
                    $( Link::$Link($d bound) => $d value, )*
                    $( Link::$Host($d bound) => $d value, )*
                }
            };
        }
    };
}

kinds! { $
    links {
        /// A guest's rings.
        Guest = "guest": guest::GuestLink,
        /// The rings of a guest that does not run yet.
        Waiting = "waiting": Box<waiting::WaitingLink>,
    }
    host links {
        /// A TAP device.
        Tap = "tap": tap::TapLink,
        /// A host interface, by AF_PACKET sockets.
        Packet = "packet": packet::PacketLink,
        /// A virtual machine, by vhost-user.
        VhostUser = "vhost-user": Box<vhost::VhostLink>,
        /// A host interface, by AF_XDP sockets.
        Xdp = "xdp": xdp::XdpLink,
        /// Other hosts, by VXLAN.
        Vxlan = "vxlan": Box<vxlan::VxlanLink>,
    }
    others {
        /// Another domain of the same switch.
        Patch = "patch": patch::Patch,
    }
}

/// A kind of host link that is in the list.
pub trait Listed: HostBackend {
    /// The kind's record as one of whichever kind.
    fn list(record: Self::Record) -> LinkRecord;
}

/// What opens host links, for [`super::links`].
pub mod open {
    pub use super::tap::{Tap, tap_namespace};
    pub use super::vhost::{SOCKET_PATH_MAX, VhostUser, VhostUserConnected};
    pub use super::vxlan::{NEIGHBORS_MAX, Neighbor, REMOTES_MAX, Tunnel, Vxlan, VxlanError};
    pub use super::xdp::{XdpError, XdpMode};
}

/// The constants of a [`Kind`] as values.
struct Facts {
    uplink: bool,
    in_memory: bool,
    interface: bool,
}

impl Facts {
    const fn of<K: Kind>() -> Facts {
        Facts {
            uplink: K::UPLINK,
            in_memory: K::IN_MEMORY,
            interface: K::INTERFACE,
        }
    }
}

impl PortKind {
    /// Whether such a port leads out of the host, or to another switch.
    pub const fn is_uplink(self) -> bool {
        self.facts().uplink
    }

    /// Whether the host has an interface of its own for the port.
    pub const fn has_interface(self) -> bool {
        self.facts().interface
    }
}

/// Forwards the methods of [`Link`] to the link of its kind, by a match for each method, so that
/// the methods of a guest's link can be inlined.
macro_rules! delegate {
    () => {};
    (fn $name:ident(&mut self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?; $($rest:tt)*) => {
        #[inline]
        pub(crate) fn $name(&mut self $(, $arg: $type)*) $(-> $result)? {
            on_link!(self, link => link.$name($($arg),*))
        }
        delegate!($($rest)*);
    };
    (fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?; $($rest:tt)*) => {
        #[inline]
        pub(crate) fn $name(&self $(, $arg: $type)*) $(-> $result)? {
            on_link!(self, link => link.$name($($arg),*))
        }
        delegate!($($rest)*);
    };
}

/// See [`Backend`] for what each does.
impl Link {
    delegate! {
        fn receive(&mut self, batch: &mut Batch, counters: &PortCounters) -> Outcome;
        fn send(&mut self, batch: &mut Batch, which: &[u16], counters: &PortCounters) -> Outcome;
        fn send_some(&mut self, batch: &mut Batch, which: &[u16], from: &mut usize, work: usize, counters: &PortCounters) -> Outcome;
        fn flush(&mut self);
        fn release(&mut self);
        fn release_before(&mut self, batch: &Batch, first: usize) -> bool;
        fn has_frames(&mut self) -> bool;
        fn holds_back(&mut self, now: Instant) -> bool;
        fn reserve_if_full(&mut self, frames: usize) -> Option<u32>;
        fn leave(&mut self, slots: u32);
        fn notify(&mut self, counters: &PortCounters) -> Outcome;
        fn sleep(&mut self) -> bool;
        fn wake(&mut self);
        fn notice(&mut self);
        fn close(&mut self);
        fn mtu(&self) -> u16;
        fn set_mtu(&mut self, mtu: u16);
        fn set_settles(&mut self, settles: bool);
        fn set_record(&mut self, record: &LinkRecord) -> Result<(), String>;
        fn is_down(&self) -> bool;
        fn is_gone(&self) -> bool;
        fn catch_up(&mut self, counters: &PortCounters);
        fn files(&self) -> Vec<BorrowedFd<'_>>;
        fn descriptors(&self) -> Vec<BorrowedFd<'_>>;
        fn unread(&self) -> Vec<u8>;
    }

    /// Whether it is a look into memory to see if the link has frames, and not a system call.
    #[inline]
    pub(crate) fn is_in_memory(&self) -> bool {
        self.facts().in_memory
    }

    /// Whether it is one of the host's interfaces, or a tunnel: its frames may be from many
    /// senders.
    #[inline]
    pub(crate) fn is_interface(&self) -> bool {
        self.facts().uplink
    }

    /// Whether a sender on the link slows down when its frames are not taken: it has a ring or a
    /// queue of its own.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        !self.is_interface()
    }
}
