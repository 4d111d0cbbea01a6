//! Live migration of a guest to another node. Its memory, rings and buffers are sent while it runs; pages that it
//! writes meanwhile are sent again. For the last pages, the guest is suspended.
//!
//! ```text
//! source                                        target
//!   POST /v1/migration, upgrade  ────────────>
//!   arrival: what the guest is   ────────────>   makes record, names and process ready
//!                                <────────────   ready
//!   records, in rounds           ────────────>   fills a copy
//!                                <────────────   ready, after each round
//!   the guest stands still
//!   records: the last            ────────────>
//!   start                        ────────────>   starts the guest, announces its addresses
//!                                <────────────   started
//!   its ports leave the switch
//!   frames that came meanwhile   ────────────>   delivers them
//!   finish                       ────────────>   keeps the guest
//!                                <────────────   done
//!   removes the guest
//! ```
//!
//! Until `finish` the guest belongs to the source. After an earlier failure it goes on there, and the target removes
//! what it made when the connection ends. If `done` gets lost, the source asks the target's API whether it has the
//! guest.

mod message;
mod source;
mod target;

pub use source::{finish_departures, migrate};
pub use target::{PROTOCOL, receive};
