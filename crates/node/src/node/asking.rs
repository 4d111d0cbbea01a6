//! Asking guests: requests, and the answers to them as they come.

use std::time::Instant;

use abi::message::kind;

use super::{ANSWER, Node};
use crate::error::{Error, Fault, Result};

/// A request to a guest that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    /// The guest's number.
    pub guest: u64,
    /// The request's.
    pub request: u32,
}

impl Node {
    /// Asks a guest to read a handler.
    pub fn ask_read(&mut self, name: &str, handler: &str) -> Result<Asked> {
        self.ask(name, kind::READ, handler)
    }

    /// Asks a guest to write a handler.
    pub fn ask_write(&mut self, name: &str, handler: &str, value: &str) -> Result<Asked> {
        if handler == "hotconfig" {
            let text = self.find_guest(name)?.text_of(value);
            return self.ask_swap(name, &text);
        }
        self.ask(name, kind::WRITE, &format!("{handler} {value}"))
    }

    /// Asks a guest to take another configuration, whose variables are in front of it.
    pub fn ask_swap(&mut self, name: &str, text: &str) -> Result<Asked> {
        self.check_settled(&self.find_guest(name)?)?;
        self.ask(name, kind::WRITE, &format!("hotconfig {text}"))
    }

    pub(super) fn ask(&mut self, name: &str, kind: u32, contents: &str) -> Result<Asked> {
        let guest = self.find_guest(name)?;
        if guest.paused && self.host.runs(guest.id) {
            return Err(Fault::Paused { guest: guest.name }.into());
        }
        if guest.template && self.host.runs(guest.id) {
            return Err(Fault::Template { guest: guest.name }.into());
        }
        if self.guests.suspending.contains(&guest.id) {
            return Err(Fault::Suspended { guest: guest.name }.into());
        }
        let guest = guest.id;
        let request = self
            .host
            .ask(guest, kind, contents)
            .map_err(|error| error.within(|why| format!("guest ‘{name}’: {why}")))?;
        let asked = Asked { guest, request };
        self.guests.asked.insert(asked, None);
        if kind == abi::message::kind::WRITE {
            self.guests.writing.insert(asked);
        }
        Ok(asked)
    }

    /// Takes a guest's answer to a request, if it is there. When it is not to be expected any
    /// more, the request is forgotten.
    pub fn answer(&mut self, asked: Asked) -> Result<Option<vmm::Answer>> {
        let heard = if self.host.runs(asked.guest) {
            self.take_answers(asked.guest)
        } else {
            Err(Error::refused("the guest ended before it answered"))
        };
        let answer = self.guests.asked.get_mut(&asked).and_then(Option::take);
        if answer.is_some() || heard.is_err() {
            self.forget(asked);
        }
        match answer {
            None => heard.map(|()| None),
            answer => Ok(answer),
        }
    }

    /// Takes a guest's answers, for the jobs that wait for them. A guest that a request ends answers that request
    /// first.
    pub(super) fn take_answers(&mut self, guest: u64) -> Result<()> {
        while let Some(answer) = self.host.answer(guest)? {
            let request = answer.request;
            if self.guests.writing.remove(&Asked { guest, request }) {
                self.host.take_back(guest);
            }
            // An answer without a waiting job is dropped.
            if let Some(entry) = self.guests.asked.get_mut(&Asked { guest, request }) {
                *entry = Some(answer);
            }
        }
        Ok(())
    }

    /// Forgets a request whose answer is no longer needed.
    pub fn forget(&mut self, asked: Asked) {
        self.guests.asked.remove(&asked);
        if self.guests.writing.remove(&asked) {
            self.host.take_back(asked.guest);
        }
    }

    /// Forgets a request, made at `since`, that got no answer in time. The time that a guest is paused does not count.
    pub fn give_up(&mut self, asked: Asked, since: Instant) {
        self.forget(asked);
        let id = asked.guest;
        let guest = self.guest_with(id);
        let stands_still = guest.is_some_and(|guest| guest.paused || guest.template);
        if !stands_still && self.host.awake_since(id, since).elapsed() >= ANSWER {
            self.host.note_silence(id);
        }
    }

    /// Keeps the configuration that took the place of a guest's, for its next start.
    pub fn keep_config(&mut self, name: &str, config: &str) -> Result<()> {
        let mut guest = self.find_guest(name)?;
        guest.config = config.into();
        if let Some(booted) = &mut guest.booted {
            booted.config = None;
        }
        Ok(self.store.put(&guest)?)
    }
}
