//! A tenant that submits queue elements itself.
#![allow(dead_code)]

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use abi::nqe::{Nqe, STREAM, operation};
use abi::tenant::CHUNK_BYTES;
use netkernel::process::Process;
use netkernel::protocol::Token;

pub const TIME: Duration = Duration::from_secs(10);

/// A tenant's process.
pub struct Tenant {
    pub process: Process,
    /// What was delivered and not asked for.
    pub later: Vec<Nqe>,
}

impl Tenant {
    pub fn join(door: &Path, token: Token) -> Tenant {
        Tenant {
            process: Process::join(door, token).unwrap(),
            later: Vec::new(),
        }
    }

    pub fn submit(&mut self, nqe: Nqe) {
        assert!(self.process.submit(nqe));
        self.process.flush();
    }

    /// The next element of an operation for a socket.
    pub fn next(&mut self, socket: u32, operation: u8) -> Nqe {
        let end = Instant::now() + TIME;
        loop {
            let found = |nqe: &Nqe| nqe.socket == socket && nqe.operation == operation;
            if let Some(at) = self.later.iter().position(found) {
                return self.later.remove(at);
            }
            while let Some(nqe) = self.process.delivered() {
                self.later.push(nqe);
            }
            if !self.later.iter().any(found) {
                assert!(
                    Instant::now() < end,
                    "no {operation} for {socket}: {:?}",
                    self.later
                );
                self.process.wait(Duration::from_secs(1)).unwrap();
            }
        }
    }

    pub fn result(&mut self, nqe: Nqe) -> Nqe {
        self.submit(nqe);
        let result = self.next(nqe.socket, operation::RESULT);
        assert_eq!(result.flags, nqe.operation);
        result
    }

    pub fn open(&mut self, socket: u32, kind: u64) {
        let nqe = Nqe::new(operation::SOCKET, socket);
        self.submit(nqe.with_data(kind).with_family(4));
    }

    pub fn connect(&mut self, socket: u32, to: SocketAddr) -> Nqe {
        self.open(socket, STREAM);
        self.result(Nqe::new(operation::CONNECT, socket).with_address(to))
    }

    /// Sends by a chunk of its own choosing.
    pub fn send(&mut self, socket: u32, chunk: u64, bytes: &[u8]) {
        let offset = chunk * CHUNK_BYTES as u64;
        let len = bytes.len() as u32;
        assert_eq!(
            self.process.payload(offset, len).unwrap().write(bytes),
            bytes.len()
        );
        self.submit(Nqe::new(operation::SEND, socket).with_chunk(offset, len));
    }

    /// Receives so many bytes, and gives the chunks back.
    pub fn receive(&mut self, socket: u32, wanted: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < wanted {
            let data = self.next(socket, operation::DATA);
            let mut bytes = vec![0; data.len as usize];
            self.process
                .payload(data.offset, data.len)
                .unwrap()
                .read(&mut bytes);
            all.extend(bytes);
            let consumed = Nqe::new(operation::CONSUMED, socket);
            self.submit(consumed.with_chunk(data.offset, data.len));
        }
        all
    }
}
