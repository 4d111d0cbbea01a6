//! What the NSMs of this crate do alike: sockets that are marked or wait for chunks, requests that are answered, bytes that
//! wait to be sent.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::ops::DerefMut;

use abi::SharedBytes;
use abi::nqe::{MORE, Nqe, operation};
use rustix::io::Errno;

use crate::service::Service;
use crate::sockets::{Common, Sending, Sockets};
use crate::sys::Patience;

/// The parts of an NSM that its sockets' work is done with.
pub(crate) struct Parts<'a, S> {
    pub service: &'a mut Service,
    pub sockets: &'a mut Sockets<S>,
    /// Sockets to look at before the NSM sleeps, each once.
    pub ready: &'a mut Vec<u32>,
    /// By tenant: sockets that wait for a chunk.
    pub starving: &'a mut Vec<Vec<u32>>,
}

/// With so little work at a time, an NSM looks for more before it sleeps.
const ALONE: usize = 4;

/// Runs an NSM until one of its functions fails: `step` does what there is to do, and returns how much that was; after a
/// step with little work, `look` looks for more for a while; `sleep` waits. With many sockets at work there is more
/// soon, and a look costs what a sleep does.
pub(crate) fn run<N>(
    mut nsm: N,
    step: impl Fn(&mut N) -> io::Result<usize>,
    look: impl Fn(&mut N) -> io::Result<usize>,
    sleep: impl Fn(&mut N) -> io::Result<()>,
) -> io::Result<()> {
    let mut patience = Patience::new();
    loop {
        let worked = step(&mut nsm)?;
        let more = match worked {
            0 => false,
            1..=ALONE => patience.look(|| Ok::<_, io::Error>(look(&mut nsm)? > 0))?,
            _ => true,
        };
        if !more {
            patience.sleep(|| sleep(&mut nsm))?;
        }
    }
}

/// An NSM of this crate.
pub(crate) trait Serving {
    /// A socket of it.
    type Socket: DerefMut<Target = Common>;

    fn parts(&mut self) -> Parts<'_, Self::Socket>;

    /// Submits what concerns a socket.
    fn tell(&mut self, nqe: Nqe) {
        self.parts().service.answer(nqe);
    }

    /// Has a socket looked at before the NSM sleeps.
    fn mark(&mut self, number: u32) {
        let Parts { sockets, ready, .. } = self.parts();
        if let Some(socket) = sockets.get(number)
            && !std::mem::replace(&mut socket.marked, true)
        {
            ready.push(number);
        }
    }

    /// A socket waits for a chunk of its tenant's.
    fn starve(&mut self, number: u32) {
        if let Some(socket) = self.parts().sockets.get(number) {
            let tenant = socket.tenant;
            self.starve_for(number, tenant);
        }
    }

    /// A socket waits for a chunk of a tenant's.
    fn starve_for(&mut self, number: u32, tenant: u8) {
        let Parts {
            sockets, starving, ..
        } = self.parts();
        let Some(socket) = sockets.get(number) else {
            return;
        };
        if std::mem::replace(&mut socket.starved, true) {
            return;
        }
        let at = tenant as usize;
        if at >= starving.len() {
            starving.resize_with(at + 1, Vec::new);
        }
        starving[at].push(number);
    }

    /// Chunks of a tenant's are free: sockets that wait for one go on.
    fn feed(&mut self, tenant: u8) {
        let starving = self.parts().starving.get_mut(tenant as usize);
        for number in starving.map(std::mem::take).unwrap_or_default() {
            if let Some(socket) = self.parts().sockets.get(number) {
                socket.starved = false;
                self.mark(number);
            }
        }
    }

    /// Answers a request, with an address or an error.
    fn answer(&mut self, nqe: Nqe, done: Result<Option<SocketAddr>, Errno>) {
        let result = Nqe::new(operation::RESULT, nqe.socket).with_flags(nqe.operation);
        let result = match done {
            Ok(Some(address)) => result.with_address(address),
            Ok(None) => result,
            Err(error) => result.with_error(error.raw_os_error()),
        };
        self.tell(Nqe {
            queue_set: nqe.queue_set,
            ..result
        });
    }

    /// Answers a request about an option, with its chunk.
    fn give_back(&mut self, nqe: Nqe, done: Result<u32, Errno>) {
        let (len, error) = match done {
            Ok(len) => (len, 0),
            Err(error) => (0, error.raw_os_error()),
        };
        let result = Nqe::new(operation::RESULT, nqe.socket)
            .with_flags(nqe.operation)
            .with_chunk(nqe.offset, len)
            .with_error(error);
        self.tell(Nqe {
            queue_set: nqe.queue_set,
            ..result
        });
    }

    /// Does what a request about an option asks, with its level, name and the bytes of its value, and answers it with the
    /// length of the value.
    fn option(
        &mut self,
        nqe: Nqe,
        ask: impl FnOnce(&mut Self::Socket, i32, i32, SharedBytes) -> Result<u32, Errno>,
    ) {
        let Parts {
            service, sockets, ..
        } = self.parts();
        let (level, name) = ((nqe.data >> 32) as i32, nqe.data as i32);
        let value = service.payload(nqe.tenant, nqe.offset, nqe.len);
        let done = match (sockets.get(nqe.socket), value) {
            (Some(socket), Some(value)) => ask(socket, level, name, value),
            (None, _) => Err(Errno::BADF),
            (_, None) => Err(Errno::FAULT),
        };
        self.give_back(nqe, done);
    }

    /// Takes a chunk to be sent, if its socket is `ready`; else it is given back with an error.
    fn enqueue(&mut self, nqe: Nqe, ready: impl FnOnce(&Self::Socket) -> Result<(), Errno>) {
        let Parts {
            service, sockets, ..
        } = self.parts();
        let inside = service.payload(nqe.tenant, nqe.offset, nqe.len).is_some();
        let failed = match sockets.get(nqe.socket) {
            None => Errno::BADF,
            Some(_) if !inside => Errno::FAULT,
            Some(socket) if socket.failed.is_some() || socket.shut => Errno::PIPE,
            Some(socket) => match ready(socket) {
                Ok(()) => {
                    socket.sending.push_back(Sending {
                        offset: nqe.offset,
                        len: nqe.len,
                        done: 0,
                        more: nqe.flags & MORE != 0,
                        set: nqe.queue_set,
                    });
                    return;
                }
                Err(error) => error,
            },
        };
        let sent = Nqe::new(operation::SENT, nqe.socket)
            .with_chunk(nqe.offset, 0)
            .with_error(failed.raw_os_error());
        self.tell(Nqe {
            queue_set: nqe.queue_set,
            ..sent
        });
    }

    /// Takes back a chunk that was lent to a socket; `false`: it was not.
    fn take_back(&mut self, nqe: Nqe) -> bool {
        let Parts {
            service, sockets, ..
        } = self.parts();
        let back = service.consumed(nqe.tenant, nqe.socket, nqe.offset);
        if let (Some(_), Some(socket)) = (back, sockets.get(nqe.socket)) {
            socket.lent = socket.lent.saturating_sub(1);
        }
        back.is_some()
    }

    /// Gives back the chunks that were to be sent by a socket.
    fn unsend(&mut self, number: u32, sending: VecDeque<Sending>, error: i32) {
        for sending in sending {
            let sent = Nqe::new(operation::SENT, number).with_chunk(sending.offset, 0);
            self.tell(Nqe {
                queue_set: sending.set,
                ..sent.with_error(error)
            });
        }
    }

    /// Takes back the chunks that are lent to a socket which is gone.
    fn reclaim(&mut self, number: u32, gone: &Common) {
        if gone.lent > 0 {
            self.parts().service.reclaim(gone.tenant, number);
            self.feed(gone.tenant);
        }
    }

    /// A connection is broken: what was to be sent is given back.
    fn fail(&mut self, number: u32, error: Errno) {
        let Some(socket) = self.parts().sockets.get(number) else {
            return;
        };
        socket.failed = Some(error);
        let offered = socket.listener.is_some();
        let sending = std::mem::take(&mut socket.sending);
        self.unsend(number, sending, error.raw_os_error());
        if !offered {
            let failed = Nqe::new(operation::FAILED, number);
            self.tell(failed.with_error(error.raw_os_error()));
        }
    }
}
