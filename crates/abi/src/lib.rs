//! Every layout that is shared across a wall.
//!
//! A guest and the host share two memory files: the *data region* (packet rings and the buffer
//! pool, [`region`] and [`ring`]), which the switch maps, and the *control region* ([`control`],
//! [`bytes`], [`message`]), which whoever runs the guest's control plane maps. The *boot page* ([`boot`]) tells
//! a starting guest where everything is. This crate is the only place that touches shared memory
//! through raw pointers; what it hands out has been masked, bounded and read exactly once.
//!
//! Both ends are always built from one source tree, and every layout carries a version that is
//! checked when a region is opened, so fields may move between versions.
#![no_std]

pub mod boot;
pub mod bytes;
pub mod control;
pub mod message;
pub mod region;
pub mod ring;

/// Size of a cache line: shared cursors of different writers stand this far apart at least.
pub const CACHE_LINE: usize = 64;

/// Pages are what a memory file is made of.
pub const PAGE: usize = 4096;
