//! What happens to sessions: decisions, packets that begin and cease to flow, accounts, the end.

use super::discovery::emit;
use super::{PPPoEServer, SECOND, TICK};
use crate::bras::authority::{Account, Facts, Moment, Terms, Ticket};
use crate::bras::control::protocol;
use crate::bras::frame::{DiscoveryFrame, HEADERS, code};
use crate::bras::ip6;
use crate::bras::layer::{Env, NEVER};
use crate::bras::ppp::{Cause, Grant, Note, Ppp, Settings};
use crate::bras::table::{headers, number};
use crate::prelude::*;

/// How often a session may ask for a decision, or begin its negotiation again.
const ATTEMPTS: u32 = 8;

impl PPPoEServer {
    /// Works on a session, and does what follows.
    pub fn drive(
        &mut self,
        cx: &mut Cx<'_>,
        slot: usize,
        work: impl FnOnce(&mut Ppp, &Settings, &mut Env<'_>) -> Option<Note>,
    ) {
        let note = self.work(cx, slot, work);
        self.follow(cx, slot, note);
        self.settle(cx, slot);
    }

    /// Works on a session, and sends what it says.
    fn work(
        &mut self,
        cx: &mut Cx<'_>,
        slot: usize,
        work: impl FnOnce(&mut Ppp, &Settings, &mut Env<'_>) -> Option<Note>,
    ) -> Option<Note> {
        let session = self.sessions.get_mut(slot)?;
        let mut env = Env {
            now: cx.steady().0,
            secrets: &mut self.secrets,
            random: cx.random(),
            out: &mut self.out,
        };
        let note = work(&mut session.ppp, &self.settings, &mut env);
        let peer = session.peer;
        for (protocol, packet) in self.out.packets() {
            let header = headers(self.ether, peer, slot, protocol, packet.len());
            if let Some(mut frame) = cx.pool().packet(packet::HEADROOM, HEADERS + packet.len()) {
                let (front, rest) = frame.data_mut().split_at_mut(HEADERS);
                front.copy_from_slice(&header);
                rest.copy_from_slice(packet);
                cx.emit(0, frame);
            }
        }
        self.out.clear();
        note
    }

    /// Does what follows from a session's work.
    fn follow(&mut self, cx: &mut Cx<'_>, slot: usize, note: Option<Note>) {
        match note {
            None => {}
            Some(Note::Credentials) => self.decide(cx, slot),
            Some(Note::Up) => self.up(cx, slot),
            Some(Note::Down) => {
                self.down(cx, slot);
                self.count_attempt(cx, slot);
            }
            Some(Note::Ended) => self.end(cx, slot, true),
        }
    }

    /// Lets packets of IPv6 flow as far as that is negotiated.
    fn settle6(&mut self, cx: &mut Cx<'_>, slot: usize) {
        let is_up = self.sessions.get(slot).map(|it| it.ppp.is_up6());
        let is_open = self.table.line(slot).map(|line| line.open6);
        if is_up == is_open {
            return;
        }
        self.table.set_open6(slot, is_up == Some(true));
        if is_up == Some(true) {
            self.advertise(cx, slot);
        } else if let Some(session) = self.sessions.get_mut(slot) {
            session.advertise = NEVER;
        }
    }

    /// Tells a session's host its prefix.
    pub fn advertise(&mut self, cx: &mut Cx<'_>, slot: usize) {
        let prefix = self.table.prefix(slot);
        let Some(session) = self.sessions.get_mut(slot) else {
            return;
        };
        session.advertise = later(cx.steady().0, ip6::INTERVAL);
        let packet = ip6::advertisement(session.ppp.ipv6cp.options.own, prefix, self.mtu);
        let header = headers(self.ether, session.peer, slot, protocol::IPV6, packet.len());
        emit(cx, &[&header[..], &packet].concat());
    }

    /// Notes when a session is due.
    pub fn settle(&mut self, cx: &mut Cx<'_>, slot: usize) {
        self.settle6(cx, slot);
        let due = self.sessions.settle(slot);
        let earliest = cx.steady().0 + TICK;
        if due < self.due
            && let Some(timer) = self.timer
        {
            self.due = due.max(earliest);
            cx.schedule_at(timer, Steady(self.due));
        }
    }

    /// Counts that a session negotiates again, and ends one that does so all the time; whether it goes on.
    fn count_attempt(&mut self, cx: &mut Cx<'_>, slot: usize) -> bool {
        let Some(session) = self.sessions.get_mut(slot) else {
            return false;
        };
        session.attempt += 1;
        let goes_on = session.attempt <= ATTEMPTS;
        if !goes_on {
            let note = self.work(cx, slot, |ppp, _, env| ppp.close(Cause::UserError, env));
            if note == Some(Note::Ended) {
                self.end(cx, slot, true);
            }
        }
        goes_on
    }

    /// Decides on a user, or asks.
    fn decide(&mut self, cx: &mut Cx<'_>, slot: usize) {
        if !self.count_attempt(cx, slot) {
            return;
        }
        let Some(session) = self.sessions.get_mut(slot) else {
            return;
        };
        let radius = self.radius.filter(|radius| {
            let is_there = cx.reach(*radius, |radius, _| radius.is_there());
            is_there == Some(true)
        });
        let (user, proof) = (session.ppp.user(), session.ppp.proof());
        if self.users.has(user) || radius.is_none() {
            let terms = self.users.verify(user, proof).map(|user| Terms {
                address: user.address,
                ..Terms::default()
            });
            session.local = true;
            match terms {
                Some(terms) => self.accept(cx, slot, &terms),
                None => self.refuse(cx, slot, "the name or the secret is wrong"),
            }
            return;
        }
        session.local = false;
        let ticket = Ticket {
            slot: slot as u32,
            session: session.id,
            attempt: session.attempt,
        };
        let (user, proof) = (session.ppp.user(), session.ppp.proof());
        let facts = Facts {
            number: number(slot),
            id: session.id,
            user,
            peer: session.peer,
        };
        let asker = cx.id();
        let asked = radius.and_then(|radius| {
            cx.reach(radius, |radius, cx| {
                radius.ask(cx, asker, ticket, &facts, proof)
            })
        });
        if asked != Some(true) {
            self.refuse(cx, slot, "too many users ask at the moment; try again");
        }
    }

    pub fn refuse(&mut self, cx: &mut Cx<'_>, slot: usize, text: &str) {
        self.refused += 1;
        let note = self.work(cx, slot, |ppp, _, env| ppp.reject(text, env));
        self.follow(cx, slot, note);
    }

    pub fn accept(&mut self, cx: &mut Cx<'_>, slot: usize, terms: &Terms) {
        self.sessions.release(slot);
        if terms.address.is_some_and(|it| !self.pool.contains(it)) {
            self.refuse(cx, slot, "the user's address is none of the pool's");
            return;
        }
        let (table, fixed) = (&self.table, &self.fixed);
        // After a hotswap, an address of the pool may have become a user's own.
        let is_used = |address| table.find(address).is_some() || fixed.contains(&address);
        let address = match terms.address {
            Some(address) => Some((address, false)),
            None => {
                let address = self.sessions.take_address(is_used);
                address.map(|address| (address, true))
            }
        };
        let Some((granted, _)) = address else {
            self.refuse(cx, slot, "no address is free");
            return;
        };
        if let Some(session) = self.sessions.get_mut(slot) {
            session.address = address;
            session.terms = terms.clone();
            session.ends = later(cx.steady().0, terms.lasts);
        }
        self.accepted += 1;
        let grant = Grant {
            address: granted,
            interface_id: terms.interface_id,
        };
        self.work(cx, slot, |ppp, settings, env| {
            ppp.accept(grant, settings, env);
            None
        });
    }

    /// Lets packets flow.
    fn up(&mut self, cx: &mut Cx<'_>, slot: usize) {
        let now = cx.steady().0;
        let address = self.sessions.get(slot).and_then(|it| it.address);
        let Some((address, _)) = address else {
            return;
        };
        let other = self.table.find(address.to_bits());
        if let Some(other) = other.filter(|other| *other != slot) {
            self.preempt(cx, other);
        }
        self.table.open(slot, address);
        if let Some(session) = self.sessions.get_mut(slot) {
            if session.terms.interim == 0 {
                session.terms.interim = self.interim;
            }
            session.up = now;
            session.interim = later(now, session.terms.interim);
            session.idle = later(now, session.terms.idle);
            session.seen = 0;
        }
        self.account(cx, slot, Moment::Start);
    }

    /// Stops packets.
    fn down(&mut self, cx: &mut Cx<'_>, slot: usize) {
        let cause = self.sessions.get(slot).map(|session| session.ppp.cause);
        let is_open = self.table.line(slot).is_some_and(|line| line.open);
        if let Some(cause) = cause.filter(|_| is_open) {
            self.account(cx, slot, Moment::Stop(cause));
        }
        self.table.close(slot);
        if let Some(session) = self.sessions.get_mut(slot) {
            (session.up, session.interim, session.idle) = (NEVER, NEVER, NEVER);
            // If packets flow again, that is another account.
            self.next_id += 1;
            session.id = self.next_id;
        }
    }

    /// Ends a session, and tells its host unless that knows.
    pub fn end(&mut self, cx: &mut Cx<'_>, slot: usize, tells: bool) {
        self.down(cx, slot);
        self.table.remove(slot);
        let Some(session) = self.sessions.remove(slot) else {
            return;
        };
        if session.ppp.cause == Cause::LostCarrier {
            self.silent += 1;
        }
        let answer = DiscoveryFrame::new(self.ether, session.peer, code::PADT, number(slot));
        if let Some(frame) = answer.finish().filter(|_| tells) {
            emit(cx, &frame);
        }
    }

    /// Sends an account of a session.
    fn account(&mut self, cx: &mut Cx<'_>, slot: usize, moment: Moment) {
        let (Some(radius), Some(session)) = (self.radius, self.sessions.get(slot)) else {
            return;
        };
        let line = self.table.line(slot).copied().unwrap_or_default();
        let account = Account {
            moment,
            facts: Facts {
                number: number(slot),
                id: session.id,
                user: session.ppp.user(),
                peer: session.peer,
            },
            address: Ipv4Addr::from_bits(line.address),
            prefix: line.open6.then(|| self.table.prefix(slot)),
            class: &session.terms.class,
            local: session.local,
            seconds: (cx.steady().0.saturating_sub(session.up) / SECOND) as u32,
            in_packets: line.in_packets,
            in_bytes: line.in_bytes,
            out_packets: line.out_packets,
            out_bytes: line.out_bytes,
        };
        cx.reach(radius, |radius, cx| radius.account(cx, &account));
    }

    /// Ends a session, sends an account, or lets it send again, when it is time.
    pub fn serve(&mut self, cx: &mut Cx<'_>, slot: usize, now: u64) {
        let in_packets = self.table.line(slot).map_or(0, |line| line.in_packets);
        let Some(session) = self.sessions.get_mut(slot) else {
            return;
        };
        let mut cause = (session.ends <= now).then_some(Cause::SessionTimeout);
        if session.idle <= now {
            if session.seen == in_packets {
                cause = cause.or(Some(Cause::IdleTimeout));
            }
            session.seen = in_packets;
            session.idle = later(now, session.terms.idle);
        }
        if let Some(cause) = cause {
            session.ends = NEVER;
            self.drive(cx, slot, |ppp, _, env| ppp.close(cause, env));
            return;
        }
        if session.interim <= now {
            session.interim = later(now, session.terms.interim);
            self.account(cx, slot, Moment::Interim);
        }
        if self
            .sessions
            .get(slot)
            .is_some_and(|it| it.advertise <= now)
        {
            self.advertise(cx, slot);
        }
        self.drive(cx, slot, |ppp, settings, env| ppp.tick(settings, env));
    }
}

/// So many seconds from now; never if there are none.
fn later(now: u64, seconds: u32) -> u64 {
    match seconds {
        0 => NEVER,
        seconds => now + u64::from(seconds) * SECOND,
    }
}
