//! What a concentrator asks of an element that knows users and keeps accounts.

use super::ppp::{Cause, Proof};
use crate::prelude::*;

/// Most bytes of a class: what an authority has told with each account of a session.
pub const CLASS_MAX: usize = 128;

/// The session that a decision is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    pub slot: u32,
    /// The session's number in accounts.
    pub session: u64,
    /// Tells the decisions about a slot from each other.
    pub attempt: u32,
}

/// What tells a session from others.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'s> {
    /// Its number in frames.
    pub number: u16,
    /// Its number in accounts, which no other has.
    pub id: u64,
    pub user: &'s [u8],
    pub peer: EtherAddress,
}

/// What a session gets, by its user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    pub address: Option<Ipv4Addr>,
    pub interface_id: Option<[u8; 8]>,
    /// Seconds that the session lasts at most; 0: for ever.
    pub lasts: u32,
    /// Seconds without packets of the subscriber after which it ends; 0: never.
    pub idle: u32,
    /// Seconds between two accounts; 0: as the concentrator has it.
    pub interim: u32,
    pub class: heapless::Vec<u8, CLASS_MAX>,
}

/// What an authority decides.
#[derive(Clone, Debug)]
pub enum Decision<'d> {
    Accept(&'d Terms),
    /// With a text for the user.
    Reject(&'d str),
}

/// When an account is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Start,
    Interim,
    Stop(Cause),
}

/// An account of a session.
#[derive(Clone, Copy, Debug)]
pub struct Account<'s> {
    pub moment: Moment,
    pub facts: Facts<'s>,
    pub address: Ipv4Addr,
    /// The upper half of its addresses of IPv6.
    pub prefix: Option<u64>,
    pub class: &'s [u8],
    /// Whether the concentrator itself knows the user.
    pub local: bool,
    pub seconds: u32,
    pub in_packets: u64,
    pub in_bytes: u64,
    pub out_packets: u64,
    pub out_bytes: u64,
}

/// An element that knows users and keeps accounts.
pub trait Authority {
    /// Whether there is a server to ask.
    fn is_there(&self) -> bool;

    /// Asks for a decision, which comes by [`Asker::decided`]; false if there are too many questions.
    fn ask(
        &mut self,
        cx: &mut Cx<'_>,
        asker: ElementId,
        ticket: Ticket,
        facts: &Facts<'_>,
        proof: &Proof,
    ) -> bool;

    /// Sends an account.
    fn account(&mut self, cx: &mut Cx<'_>, account: &Account<'_>);
}

impl Interface for dyn Authority {
    const NAME: &'static str = "Authority";
}

/// An element that asks.
pub trait Asker {
    /// Takes a decision.
    fn decided(&mut self, cx: &mut Cx<'_>, ticket: Ticket, decision: Decision<'_>);
}

impl Interface for dyn Asker {
    const NAME: &'static str = "Asker";
}
