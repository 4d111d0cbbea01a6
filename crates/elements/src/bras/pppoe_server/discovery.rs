//! Discovery (RFC 2516, section 5): offers that keep no state, and sessions that begin.

use super::PPPoEServer;
use crate::bras::frame::{DiscoveryFrame, DiscoveryTags, ETHER, Header, PAYLOAD_MAX, code, tag};
use crate::bras::layer::Env;
use crate::bras::ppp::{Cause, Ppp};
use crate::bras::sessions::Session;
use crate::bras::table::{number, slot};
use crate::prelude::*;
use crate::rates::token_bucket::TokenBucket;

/// Nanoseconds that a cookie is right for, at least.
const COOKIE: u64 = 64_000_000_000;

impl PPPoEServer {
    /// The cookie of a host's offer, of the present time or the one before.
    fn cookie(&self, now: u64, host: EtherAddress, before: u64) -> [u8; 16] {
        let epoch = (now / COOKIE).wrapping_sub(before);
        self.secrets.tag(&[&host.0, &epoch.to_le_bytes()])
    }

    fn is_offered(&self, service: &[u8]) -> bool {
        let mut known = self.services.iter();
        service.is_empty()
            || self.services.is_empty()
            || known.any(|known| known.as_bytes() == service)
    }

    /// Takes a discovery frame; `None` if it is wrong.
    pub fn discover(&mut self, cx: &mut Cx<'_>, data: &[u8]) -> Option<()> {
        let (ether, rest) = data.split_first_chunk::<ETHER>()?;
        let ether = EthernetFrame::new_checked(ether).ok()?;
        let (header, payload) = Header::parse(rest)?;
        let (host, to) = (ether.source(), ether.destination());
        if host.is_group() || payload.len() > PAYLOAD_MAX {
            return None;
        }
        match header.code {
            code::PADI if to.is_broadcast() || to == self.ether => {
                let request = DiscoveryTags::parse(payload).filter(|_| header.session == 0)?;
                self.offer(cx, host, &request)
            }
            code::PADR if to == self.ether => {
                let request = DiscoveryTags::parse(payload).filter(|_| header.session == 0)?;
                self.confirm(cx, host, &request)
            }
            code::PADT if to == self.ether => {
                let slot = slot(header.session);
                let session = self.sessions.get_mut(slot)?;
                if session.peer != host {
                    return None;
                }
                session.ppp.cause = Cause::UserRequest;
                self.end(cx, slot, false);
                Some(())
            }
            // What other concentrators say.
            code::PADO | code::PADS => Some(()),
            _ => None,
        }
    }

    /// Answers a PADI.
    fn offer(
        &mut self,
        cx: &mut Cx<'_>,
        host: EtherAddress,
        request: &DiscoveryTags<'_>,
    ) -> Option<()> {
        if !self.is_offered(request.service) {
            return Some(());
        }
        if self.sessions.is_full() && self.sessions.longest_waiting().is_none() {
            self.full += 1;
            return Some(());
        }
        if !allows(&mut self.offer_rate, cx.steady()) {
            self.over_rate += 1;
            return Some(());
        }
        let cookie = self.cookie(cx.steady().0, host, 0);
        let mut answer = DiscoveryFrame::new(self.ether, host, code::PADO, 0)
            .tag(tag::AC_NAME, self.name.as_bytes())
            .tag(tag::SERVICE_NAME, request.service);
        for service in &self.services {
            if service.as_bytes() != request.service {
                answer = answer.tag(tag::SERVICE_NAME, service.as_bytes());
            }
        }
        let frame = answer
            .tag(tag::AC_COOKIE, &cookie)
            .marks_of(request)
            .finish()?;
        self.offers += 1;
        emit(cx, &frame);
        Some(())
    }

    /// Answers a PADR.
    fn confirm(
        &mut self,
        cx: &mut Cx<'_>,
        host: EtherAddress,
        request: &DiscoveryTags<'_>,
    ) -> Option<()> {
        let now = cx.steady();
        let mut right = [0, 1]
            .map(|before| self.cookie(now.0, host, before))
            .into_iter();
        let cookie = request.cookie?;
        if !right.any(|right| bool::from(subtle::ConstantTimeEq::ct_eq(&right[..], cookie))) {
            return None;
        }
        let answer = |session| {
            DiscoveryFrame::new(self.ether, host, code::PADS, session)
                .tag(tag::SERVICE_NAME, request.service)
                .marks_of(request)
        };
        if !self.is_offered(request.service) {
            let text = b"this service is not offered";
            let frame = answer(0).tag(tag::SERVICE_NAME_ERROR, text).finish()?;
            emit(cx, &frame);
            return Some(());
        }
        let confirmed = answer(0).finish()?;
        let failed = answer(0)
            .tag(tag::AC_SYSTEM_ERROR, b"no session is free")
            .finish();
        match self.place(cx, host) {
            Some(slot) => {
                let mut frame = confirmed;
                let place = frame.get_mut(ETHER + 2..)?.first_chunk_mut()?;
                *place = number(slot).to_be_bytes();
                emit(cx, &frame);
            }
            None => emit(cx, &failed?),
        }
        Some(())
    }

    /// The slot of a host's new session.
    fn place(&mut self, cx: &mut Cx<'_>, host: EtherAddress) -> Option<usize> {
        let known = self.sessions.of_host(host);
        let is_new = |slot: &usize| {
            let session = self.sessions.get(*slot);
            session.is_some_and(|session| session.ppp.is_new())
        };
        // The answer was lost.
        if let Some(slot) = known.iter().copied().find(is_new) {
            return Some(slot);
        }
        let now = cx.steady();
        if !allows(&mut self.session_rate, now) {
            self.over_rate += 1;
            return None;
        }
        if known.len() >= usize::from(self.host_sessions) {
            let id = |slot: &usize| self.sessions.get(*slot).map(|session| session.id);
            let oldest = known.iter().copied().min_by_key(id)?;
            self.preempt(cx, oldest);
        }
        if self.sessions.is_full() {
            self.full += 1;
            let longest = self.sessions.longest_waiting()?;
            self.preempt(cx, longest);
        }
        let mut env = Env {
            now: now.0,
            secrets: &mut self.secrets,
            random: cx.random(),
            out: &mut self.out,
        };
        let ppp = Ppp::new(&self.settings, &mut env);
        self.next_id += 1;
        let session = Session::new(ppp, host, self.next_id);
        let slot = self.sessions.add(session, now.0)?;
        self.table.add(slot, host);
        self.begun += 1;
        self.settle(cx, slot);
        Some(slot)
    }

    /// Ends a session because another one takes its place.
    pub fn preempt(&mut self, cx: &mut Cx<'_>, slot: usize) {
        if let Some(session) = self.sessions.get_mut(slot) {
            session.ppp.cause = Cause::PortPreempted;
        }
        self.end(cx, slot, true);
    }
}

/// Takes a token, if there is one.
fn allows(bucket: &mut TokenBucket, now: Steady) -> bool {
    bucket.fill(now);
    let allows = bucket.tokens() > 0;
    bucket.take(1);
    allows
}

pub fn emit(cx: &mut Cx<'_>, frame: &[u8]) {
    if let Some(packet) = cx.pool().copy(frame) {
        cx.emit(0, packet);
    }
}
