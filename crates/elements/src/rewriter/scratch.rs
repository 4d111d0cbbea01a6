//! Room for what is known of a batch's packets.

use super::flow::{Entry, NO_TABLE};
use super::key::FlowKey;
use crate::prelude::*;

/// What a packet is to a rewriter.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Its flow's key.
    pub key: FlowKey,
    /// The table to look in, among the element's; [`NO_TABLE`]: it is not to be rewritten.
    pub table: u16,
    /// IP protocol, where the flow keeps it; else 0.
    pub protocol: u8,
}

impl Identity {
    /// A packet that is not to be rewritten.
    pub const NONE: Identity = Identity {
        key: FlowKey {
            addresses: 0,
            ports: 0,
        },
        table: NO_TABLE,
        protocol: 0,
    };
}

/// Room for what is known of a batch's packets between the rounds.
pub struct Scratch {
    pub hashes: [u64; BATCH],
    pub guesses: [Entry; BATCH],
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            hashes: [0; BATCH],
            guesses: [Entry::NONE; BATCH],
        }
    }
}
