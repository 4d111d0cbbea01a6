//! A guest goes on at another node, live: its memory, rings and buffers are sent while it runs, what was written
//! meanwhile is sent again, and for the last of it the guest stands still.
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
//! Until `finish` the guest is the source's: whatever fails before, it goes on there, and the target removes what it
//! made when the connection ends. If the word that it is done gets lost, the source asks the target's API whose the
//! guest is.

mod message;
mod source;
mod target;

pub use source::{finish_departures, migrate};
pub use target::{PROTOCOL, receive};
