//! The words that elements are written in: packets and headers, the router and its arguments, and
//! `alloc`'s types.

pub use alloc::boxed::Box;
pub use alloc::collections::VecDeque;
pub use alloc::string::{String, ToString};
pub use alloc::sync::Arc;
pub use alloc::vec::Vec;
pub use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use packet::anno::*;
pub use packet::checksum::{Delta, Sum, pseudo_header_v4, pseudo_header_v6};
pub use packet::wire::*;
pub use packet::*;
pub use router::args::*;
pub use router::*;
