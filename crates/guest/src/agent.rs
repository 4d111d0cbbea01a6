//! The guest's end of the control channel: receives requests and answers them.

use alloc::vec::Vec;

use abi::bytes::{Consumer, Producer};
use abi::control::Region;
use abi::message::{
    CONTENTS_MAX, HEADER_BYTES, Header, Outgoing, PAYLOAD_MAX, kind, receive, status,
};

use crate::Application;

/// A complete request.
#[derive(Debug)]
pub struct Request {
    /// See [`kind`].
    pub kind: u32,
    /// The contents, in the form of its kind.
    pub contents: Vec<u8>,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// See [`status`].
    pub status: u32,
    /// The value, or a sentence with the reason for the refusal.
    pub contents: Vec<u8>,
}

impl Answer {
    /// Success, with this value.
    pub fn ok(contents: impl Into<Vec<u8>>) -> Self {
        Self {
            status: status::OK,
            contents: contents.into(),
        }
    }

    /// A refusal: a status and a sentence.
    pub fn refused(status: u32, sentence: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            contents: sentence.into(),
        }
    }
}

/// Answers requests one at a time: the next is received when the last answer is sent.
pub(crate) struct Agent {
    requests: Consumer<'static>,
    answers: Producer<'static>,
    payload: [u8; PAYLOAD_MAX],
    incoming: Vec<u8>,
    /// The incoming request is too long: its contents are dropped.
    too_long: bool,
    outgoing: Option<(Outgoing, Vec<u8>)>,
    stopping: bool,
    suspending: bool,
    broken: bool,
}

impl Agent {
    pub(crate) fn new(region: Region<'static>) -> Self {
        Self {
            requests: region.requests().consumer(),
            answers: region.answers().producer(),
            payload: [0; PAYLOAD_MAX],
            incoming: Vec::new(),
            too_long: false,
            outgoing: None,
            stopping: false,
            suspending: false,
            broken: false,
        }
    }

    /// Whether a stop was requested, and its answer is sent.
    pub(crate) fn stopped(&self) -> bool {
        self.stopping && (self.outgoing.is_none() || self.broken)
    }

    /// Whether the guest is to stand still, and that answer is sent: asked once for each request.
    pub(crate) fn take_suspension(&mut self) -> bool {
        self.outgoing.is_none() && core::mem::take(&mut self.suspending)
    }

    /// Whether [`Self::poll`] has work: room for the outgoing answer, or a request.
    pub(crate) fn has_work(&self) -> bool {
        if self.broken {
            return false;
        }
        let Some((_, contents)) = &self.outgoing else {
            return self.requests.available().is_ok_and(|n| n > 0);
        };
        // Only the last message may be shorter. If only that one fits, the ring isn't empty: the host wakes
        // this guest when it reads the rest.
        let next = HEADER_BYTES + contents.len().min(PAYLOAD_MAX);
        self.answers.free().is_ok_and(|free| free >= next)
    }

    /// Transfers at most one message each way. True if the host has new messages to read.
    pub(crate) fn poll(&mut self, application: &mut impl Application) -> bool {
        if self.broken {
            return false;
        }
        // A broken channel stays shut; packets still flow.
        let result = self.push_answer().and_then(|sent| {
            if self.outgoing.is_none() && self.take_message(application)? {
                return self.push_answer();
            }
            Ok(sent)
        });
        result.unwrap_or_else(|_| {
            self.broken = true;
            false
        })
    }

    fn push_answer(&mut self) -> Result<bool, abi::message::ChannelError> {
        let Some((outgoing, contents)) = &mut self.outgoing else {
            return Ok(false);
        };
        let before = *outgoing;
        if outgoing.send(&mut self.answers, contents)? {
            self.outgoing = None;
            return Ok(true);
        }
        Ok(*outgoing != before)
    }

    /// Receives one message, and answers a complete request. True if there is an answer now.
    fn take_message(
        &mut self,
        application: &mut impl Application,
    ) -> Result<bool, abi::message::ChannelError> {
        let Some(header) = receive(&mut self.requests, &mut self.payload)? else {
            return Ok(false);
        };
        self.collect(header.length as usize);
        if header.more() {
            return Ok(false);
        }
        let contents = core::mem::take(&mut self.incoming);
        let answer = if core::mem::take(&mut self.too_long) {
            Answer::refused(
                status::TOO_LONG,
                "the request is longer than the protocol or the guest's memory allows; give the guest more \
                 memory, as in --memory 32M",
            )
        } else {
            self.answer(application, header, contents)
        };
        let outgoing = Outgoing::new(header.kind, header.request, answer.status);
        self.outgoing = Some((outgoing, answer.contents));
        Ok(true)
    }

    fn collect(&mut self, length: usize) {
        let too_long = self.incoming.len() + length > CONTENTS_MAX;
        if self.too_long || too_long || self.incoming.try_reserve(length).is_err() {
            self.too_long = true;
            self.incoming = Vec::new();
            return;
        }
        self.incoming.extend_from_slice(&self.payload[..length]);
    }

    fn answer(
        &mut self,
        application: &mut impl Application,
        header: Header,
        contents: Vec<u8>,
    ) -> Answer {
        match header.kind {
            kind::PING => Answer::ok(contents),
            kind::STOP => {
                self.stopping = true;
                Answer::ok("")
            }
            kind::SUSPEND => {
                self.suspending = true;
                Answer::ok("")
            }
            kind::RESUME => Answer::ok(""),
            _ => application.request(Request {
                kind: header.kind,
                contents,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use abi::control::{CHANNEL_BYTES, REGION_BYTES};
    use core::ptr::NonNull;
    use std::boxed::Box;
    use std::vec;

    use crate::Round;

    #[repr(align(4096))]
    struct Memory([u8; REGION_BYTES]);

    fn region() -> Region<'static> {
        let memory = Box::leak(Box::new(Memory([0; REGION_BYTES])));
        // SAFETY: aligned, long enough, never freed.
        unsafe { Region::new(NonNull::from(&mut memory.0).cast()) }
    }

    /// Answers everything with this many bytes.
    struct Verbose(usize);

    impl Application for Verbose {
        fn round(&mut self) -> Round {
            Round::Idle(None)
        }

        fn ask_for_wake(&mut self, _wake: bool) -> bool {
            false
        }

        fn request(&mut self, _request: Request) -> Answer {
            Answer::ok(vec![7; self.0])
        }
    }

    #[test]
    fn room_for_a_leaving_answer_is_work() {
        let region = region();
        let mut agent = Agent::new(region);
        let mut host = region.answers().consumer();
        let mut requests = region.requests().producer();
        assert!(!agent.has_work());
        let mut ask = Outgoing::new(kind::READ, 1, status::OK);
        assert_eq!(ask.send(&mut requests, b"x"), Ok(true));
        assert!(agent.has_work(), "a request has come");

        let length = 3 * CHANNEL_BYTES;
        let mut application = Verbose(length);
        assert!(agent.poll(&mut application));
        assert!(agent.outgoing.is_some());
        assert!(!agent.has_work(), "the ring is full");

        let (mut got, mut payload) = (0, [0; PAYLOAD_MAX]);
        while got < length {
            let header = receive(&mut host, &mut payload).unwrap().unwrap();
            got += header.length as usize;
            if agent.outgoing.is_some() && agent.has_work() {
                assert!(agent.poll(&mut application));
            }
        }
        assert!(agent.outgoing.is_none() && !agent.has_work());
    }
}
