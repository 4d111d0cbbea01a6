//! An NSM of one machine, which sends back whatever a program sends to it.
//!
//! ```sh
//! mkdir /tmp/echo && cargo run --package netkernel --example echo /tmp/echo &
//! env $(cat /tmp/echo/environment) python3 -c 'import socket
//! s = socket.create_connection(("192.0.2.1", 7)); s.sendall(b"hello"); print(s.recv(9))'
//! ```
//!
//! It comes with a CoreEngine of its own, with one tenant: what a node does for the NSMs that it has.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use abi::nqe::{Nqe, operation};
use abi::tenant::CHUNK_BYTES;
use netkernel::core::CoreEngine;
use netkernel::protocol::{Limits, Operator, Request, ToNsm, Token};
use netkernel::service::Service;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// A socket, by its number at this NSM.
#[derive(Default)]
struct Socket {
    tenant: u8,
    /// Whom it is connected to.
    peer: Option<SocketAddr>,
}

struct Echo {
    service: Service,
    sockets: HashMap<u32, Socket>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("give a folder")?);
    let token = Token::random()?;
    let door = start_core_engine(&folder, token)?;
    let mut echo = Echo {
        service: Service::join(&door, token)?,
        sockets: HashMap::new(),
    };
    Ok(echo.run()?)
}

impl Echo {
    /// Serves until CoreEngine ends.
    fn run(&mut self) -> io::Result<()> {
        loop {
            let mut busy = false;
            while let Some(request) = self.service.request()? {
                self.request(request)?;
                busy = true;
            }
            self.service.flush();
            // A request that comes from here on wakes it, or keeps it from sleeping.
            if !busy && self.service.sleep() {
                let (waker, control) = (self.service.waker(), self.service.control());
                let mut polled =
                    [waker, control].map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
                poll(&mut polled, None)?;
                let heard = !polled[1].revents().is_empty();
                self.service.awake();
                if heard {
                    self.hear()?;
                }
            }
        }
    }

    /// Hears of tenants that come and go.
    fn hear(&mut self) -> io::Result<()> {
        while let Some(heard) = self.service.hear()? {
            if let ToNsm::TenantGone { tenant } = heard {
                self.sockets.retain(|_, socket| socket.tenant != tenant);
            }
        }
        Ok(())
    }

    fn request(&mut self, nqe: Nqe) -> io::Result<()> {
        let number = nqe.socket;
        match nqe.operation {
            operation::SOCKET => {
                // That the tenant is there may not have been heard.
                if !self.service.knows(nqe.tenant) {
                    self.hear()?;
                }
                let socket = Socket {
                    tenant: nqe.tenant,
                    peer: None,
                };
                self.sockets.insert(number, socket);
            }
            operation::CONNECT => {
                let socket = self.sockets.entry(number).or_default();
                socket.peer = nqe.address();
                let own = SocketAddr::from(([192, 0, 2, 2], 1024));
                self.answer(nqe, |result| result.with_address(own));
            }
            operation::PEER_ADDRESS => match self.sockets.get(&number).and_then(|it| it.peer) {
                Some(peer) => self.answer(nqe, |result| result.with_address(peer)),
                None => self.refuse(nqe, Errno::NOTCONN),
            },
            operation::SEND => self.echo(nqe),
            operation::CONSUMED => {
                self.service.consumed(nqe.tenant, number, nqe.offset);
            }
            // An option that is not known is better set than refused.
            operation::SET_OPTION => self.answer(nqe, |result| result.with_chunk(nqe.offset, 0)),
            operation::SHUTDOWN => self.service.answer(Nqe::new(operation::END, number)),
            operation::CLOSE => {
                self.sockets.remove(&number);
                self.service.reclaim(nqe.tenant, number);
                self.service.answer(Nqe {
                    queue_set: nqe.queue_set,
                    ..Nqe::new(operation::CLOSED, number)
                });
            }
            _ => self.refuse(nqe, Errno::OPNOTSUPP),
        }
        Ok(())
    }

    /// Sends back what was sent: a chunk of the tenant's is copied to one that is lent to the socket.
    fn echo(&mut self, nqe: Nqe) {
        let sent = self.service.payload(nqe.tenant, nqe.offset, nqe.len);
        let lent = self.service.lend(nqe.tenant, nqe.socket);
        if let (Some(sent), Some(chunk)) = (sent, lent) {
            let offset = self
                .service
                .payload(nqe.tenant, chunk.offset(), CHUNK_BYTES as u32);
            if let Some(offset) = offset {
                sent.copy_to(&offset);
            }
            let data = Nqe::new(operation::DATA, nqe.socket);
            self.service
                .answer(data.with_chunk(chunk.offset(), nqe.len));
        }
        // The tenant's chunk is the tenant's again. (A stack would wait for a chunk to lend.)
        let sent = Nqe::new(operation::SENT, nqe.socket);
        self.service.answer(Nqe {
            queue_set: nqe.queue_set,
            ..sent.with_chunk(nqe.offset, nqe.len)
        });
    }

    /// Answers a request.
    fn answer(&mut self, nqe: Nqe, with: impl FnOnce(Nqe) -> Nqe) {
        let result = Nqe::new(operation::RESULT, nqe.socket).with_flags(nqe.operation);
        self.service.answer(Nqe {
            queue_set: nqe.queue_set,
            ..with(result)
        });
    }

    fn refuse(&mut self, nqe: Nqe, error: Errno) {
        self.answer(nqe, |result| {
            let result = match nqe.operation {
                // Its chunk is given back.
                operation::GET_OPTION => result.with_chunk(nqe.offset, 0),
                _ => result,
            };
            result.with_error(error.raw_os_error())
        });
    }
}

/// Starts a CoreEngine for this NSM and one tenant, whose programs' environment it writes; returns its socket.
fn start_core_engine(folder: &Path, token: Token) -> Result<PathBuf, Box<dyn Error>> {
    let [door, operator, library] =
        ["door", "operator", "libweir_sock.so"].map(|name| folder.join(name));
    std::fs::write(&library, netkernel::LIBRARY)?;
    let core = CoreEngine::listen(&door, &operator)?;
    std::thread::spawn(move || core.run());
    let operator = Operator::connect(&operator)?;
    let name = "echo".to_owned();
    operator.ask(&Request::AddNsm { name, token })?;
    let tenant = Token::random()?;
    operator.ask(&Request::AddTenant {
        name: "programs".to_owned(),
        token: tenant,
        nsm: "echo".to_owned(),
        limits: Limits::default(),
    })?;
    let (library, at) = (library.display(), door.display());
    let environment = format!("LD_PRELOAD={library} WEIR_SOCK={at}:{tenant}\n");
    std::fs::write(folder.join("environment"), environment)?;
    Ok(door)
}
