//! The trace of a tenant: its last socket operations, each with its time, while the operator asks for them.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use abi::nqe::{Nqe, operation};

use crate::protocol::{TRACE_MAX, Trace, TraceRecord};

/// Most records that wait for the operator. Older ones are dropped and counted.
const KEPT: usize = 8192;
/// Most requests of one kind and socket whose time is measured at once.
const OPEN: usize = 1024;
/// A trace that is not asked for during this time ends.
const IDLE: Duration = Duration::from_secs(10);

/// A trace under way.
pub(crate) struct Tracing {
    records: VecDeque<TraceRecord>,
    /// The number of the next record, from 1.
    next: u64,
    /// Requests without an answer yet, by socket and operation.
    open: HashMap<(u32, u8), VecDeque<Instant>>,
    asked: Instant,
}

impl Default for Tracing {
    fn default() -> Tracing {
        Tracing {
            records: VecDeque::new(),
            next: 1,
            open: HashMap::new(),
            asked: Instant::now(),
        }
    }
}

impl Tracing {
    /// Whether nobody has asked for it for long.
    pub fn is_idle(&self) -> bool {
        self.asked.elapsed() > IDLE
    }

    /// The records behind a number, which are then dropped.
    pub fn take(&mut self, after: u64) -> Trace {
        self.asked = Instant::now();
        while self.records.front().is_some_and(|it| it.number <= after) {
            self.records.pop_front();
        }
        let records: Vec<_> = self.records.iter().take(TRACE_MAX).cloned().collect();
        let first = self.records.front().map_or(self.next, |it| it.number);
        Trace {
            next: records.last().map_or(after, |it| it.number),
            lost: first.saturating_sub(after + 1),
            records,
        }
    }

    fn push(&mut self, record: TraceRecord) {
        if self.records.len() == KEPT {
            self.records.pop_front();
        }
        self.records.push_back(TraceRecord {
            number: self.next,
            ..record
        });
        self.next += 1;
    }

    /// Notes a request; says whether it is one to note.
    pub fn request(&mut self, nqe: &Nqe) -> bool {
        let Some(name) = name(nqe.operation) else {
            return false;
        };
        let mut record = record(nqe, name, false);
        match nqe.operation {
            operation::BIND | operation::CONNECT => record.address = nqe.address(),
            operation::SEND | operation::SEND_TO => record.len = Some(nqe.len),
            operation::SET_OPTION | operation::GET_OPTION => {
                record.option = Some(((nqe.data >> 32) as u32, nqe.data as u32));
            }
            _ => {}
        }
        self.open(nqe);
        self.push(record);
        true
    }

    /// Begins to measure a request, if it is answered, and as long as not too many are open.
    fn open(&mut self, nqe: &Nqe) {
        let unanswered = [operation::SOCKET, operation::ACCEPT, operation::SHUTDOWN];
        if unanswered.contains(&nqe.operation) || self.open.len() == KEPT {
            return;
        }
        let opened = self.open.entry((nqe.socket, nqe.operation)).or_default();
        if opened.len() < OPEN {
            opened.push_back(Instant::now());
        }
    }

    /// Takes the last request back: it was not passed on.
    pub fn take_back(&mut self, nqe: &Nqe) {
        self.records.pop_back();
        self.next -= 1;
        if let Some(opened) = self.open.get_mut(&(nqe.socket, nqe.operation)) {
            opened.pop_back();
        }
    }

    /// Notes an answer or an event.
    pub fn answer(&mut self, nqe: &Nqe) {
        // What it answers, and what it is called.
        let (of, called) = match nqe.operation {
            operation::RESULT => (nqe.flags, name(nqe.flags)),
            operation::SENT => (operation::SEND, Some("sent")),
            operation::CLOSED => (operation::CLOSE, Some("closed")),
            operation::INCOMING => (0, Some("incoming")),
            operation::DATA => (0, Some("data")),
            operation::DATAGRAM => (0, Some("datagram")),
            operation::END => (0, Some("end")),
            operation::FAILED => (0, Some("failed")),
            _ => return,
        };
        let Some(called) = called else { return };
        let mut opened = self.open.get_mut(&(nqe.socket, of));
        if opened.as_ref().is_none_or(|it| it.is_empty()) && nqe.operation == operation::SENT {
            opened = self.open.get_mut(&(nqe.socket, operation::SEND_TO));
        }
        let begun = opened.and_then(VecDeque::pop_front);
        let error = nqe.error();
        let mut record = record(nqe, called, true);
        record.took_ns = begun.map(|at| at.elapsed().as_nanos() as u64);
        record.error = (error != 0).then_some(error);
        match nqe.operation {
            operation::RESULT if error == 0 && gives_address(nqe.flags) => {
                record.address = nqe.address();
            }
            operation::INCOMING => {
                // Its length is the connection's number, and not a scope.
                record.address = Nqe { len: 0, ..*nqe }.address();
            }
            operation::SENT | operation::DATA | operation::DATAGRAM => record.len = Some(nqe.len),
            operation::CLOSED => self.open.retain(|(socket, _), _| *socket != nqe.socket),
            _ => {}
        }
        self.push(record);
    }
}

/// Whether the result of an operation has an address.
const fn gives_address(of: u8) -> bool {
    matches!(
        of,
        operation::BIND
            | operation::LISTEN
            | operation::CONNECT
            | operation::LOCAL_ADDRESS
            | operation::PEER_ADDRESS
    )
}

/// The name of a request; `None`: it is no socket call.
const fn name(of: u8) -> Option<&'static str> {
    Some(match of {
        operation::SOCKET => "socket",
        operation::BIND => "bind",
        operation::LISTEN => "listen",
        operation::CONNECT => "connect",
        operation::ACCEPT => "accept",
        operation::SEND => "send",
        operation::SEND_TO => "send-to",
        operation::SHUTDOWN => "shutdown",
        operation::SET_OPTION => "set-option",
        operation::GET_OPTION => "get-option",
        operation::LOCAL_ADDRESS => "local-address",
        operation::PEER_ADDRESS => "peer-address",
        operation::CLOSE => "close",
        _ => return None,
    })
}

fn record(nqe: &Nqe, name: &str, answer: bool) -> TraceRecord {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    TraceRecord {
        at_ns: since.map_or(0, |it| it.as_nanos() as u64),
        socket: nqe.socket,
        operation: name.to_owned(),
        answer,
        ..TraceRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(trace: &Trace) -> Vec<u64> {
        trace.records.iter().map(|it| it.number).collect()
    }

    #[test]
    fn answers_tell_how_long_their_requests_took() {
        let mut tracing = Tracing::default();
        let peer = "10.0.0.1:80".parse().unwrap();
        assert!(tracing.request(&Nqe::new(operation::CONNECT, 5).with_address(peer)));
        assert!(tracing.request(&Nqe::new(operation::SEND, 5).with_chunk(0, 78)));
        assert!(!tracing.request(&Nqe::new(operation::CONSUMED, 5)));
        let refused = Nqe::new(operation::RESULT, 5).with_flags(operation::CONNECT);
        tracing.answer(&refused.with_error(libc::ECONNREFUSED));
        tracing.answer(&Nqe::new(operation::DATA, 5).with_chunk(0, 612));
        let trace = tracing.take(0);
        assert_eq!(
            (numbers(&trace), trace.next, trace.lost),
            (vec![1, 2, 3, 4], 4, 0)
        );
        assert_eq!(trace.records[0].address, Some(peer));
        let [result, data] = &trace.records[2..] else {
            panic!()
        };
        assert_eq!(result.error, Some(libc::ECONNREFUSED));
        assert!(result.took_ns.is_some() && result.answer);
        assert_eq!((data.len, data.took_ns), (Some(612), None));
    }

    #[test]
    fn a_request_that_is_taken_back_leaves_nothing() {
        let mut tracing = Tracing::default();
        let close = Nqe::new(operation::CLOSE, 1);
        assert!(tracing.request(&close));
        tracing.take_back(&close);
        tracing.answer(&Nqe::new(operation::CLOSED, 1));
        let trace = tracing.take(0);
        assert_eq!(numbers(&trace), [1]);
        assert_eq!(trace.records[0].took_ns, None);
    }

    #[test]
    fn what_is_not_asked_for_in_time_is_counted() {
        let mut tracing = Tracing::default();
        for _ in 0..KEPT + 10 {
            tracing.answer(&Nqe::new(operation::END, 1));
        }
        let first = tracing.take(0);
        assert_eq!((first.lost, first.records.len()), (10, TRACE_MAX));
        assert_eq!(first.next, 10 + TRACE_MAX as u64);
        let second = tracing.take(first.next);
        assert_eq!((second.lost, numbers(&second)[0]), (0, first.next + 1));
    }
}
