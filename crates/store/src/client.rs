//! A client of a store on a Unix socket.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::watch::Event;
use crate::wire::{Errno, Header, Kind, PAYLOAD_MAX, append, first_string};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refuses it.
    #[error("{path}: {errno}")]
    Refused {
        /// What it was about.
        path: String,
        /// Why.
        errno: Errno,
    },
    /// The connection failed.
    #[error("the store's socket: {0}")]
    Io(#[from] io::Error),
}

impl Error {
    /// The server's reason, if it was the server that refused.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Error::Refused { errno, .. } => Some(*errno),
            Error::Io(_) => None,
        }
    }
}

/// What a request returns.
pub type Result<T> = std::result::Result<T, Error>;

/// A connection to a store.
pub struct Client {
    stream: UnixStream,
    request: u32,
    transaction: u32,
    events: VecDeque<Event>,
}

impl Client {
    /// Connects to the server at `socket`.
    pub fn connect(socket: &Path) -> io::Result<Client> {
        Ok(Client {
            stream: UnixStream::connect(socket)?,
            request: 0,
            transaction: 0,
            events: VecDeque::new(),
        })
    }

    /// A node's value.
    pub fn read(&mut self, path: &str) -> Result<Vec<u8>> {
        self.ask(Kind::Read, path, b"")
    }

    /// Sets a node's value, and makes the node if it is missing.
    pub fn write(&mut self, path: &str, value: &[u8]) -> Result<()> {
        self.ask(Kind::Write, path, value).map(drop)
    }

    /// Makes a node if it is missing.
    pub fn make(&mut self, path: &str) -> Result<()> {
        self.ask(Kind::Mkdir, path, b"").map(drop)
    }

    /// Removes a node and those below it.
    pub fn remove(&mut self, path: &str) -> Result<()> {
        self.ask(Kind::Rm, path, b"").map(drop)
    }

    /// The names of a node's children, however many.
    pub fn list(&mut self, path: &str) -> Result<Vec<String>> {
        'again: loop {
            let mut list = Vec::new();
            let mut generation = None;
            loop {
                let offset = format!("{}\0", list.len());
                let part = self.ask(Kind::DirectoryPart, path, offset.as_bytes())?;
                let (now, names) = first_string(&part).ok_or_else(malformed)?;
                if generation.get_or_insert(now.to_vec()) != now {
                    // The list changed between two parts.
                    continue 'again;
                }
                list.extend_from_slice(names);
                // An empty name marks the end.
                if list.ends_with(b"\0\0") || list == b"\0" {
                    let names = list
                        .split(|byte| *byte == 0)
                        .filter(|name| !name.is_empty());
                    let names = names.map(|name| String::from_utf8_lossy(name).into_owned());
                    return Ok(names.collect());
                }
            }
        }
    }

    /// A node's permissions, such as `n0` and `b7`, the owner's first.
    pub fn permissions(&mut self, path: &str) -> Result<Vec<String>> {
        let shown = self.ask(Kind::GetPerms, path, b"")?;
        let entries = shown
            .split(|byte| *byte == 0)
            .filter(|entry| !entry.is_empty());
        let entries = entries.map(|entry| String::from_utf8_lossy(entry).into_owned());
        Ok(entries.collect())
    }

    /// Sets a node's permissions.
    pub fn set_permissions(&mut self, path: &str, entries: &[&str]) -> Result<()> {
        let entries: String = entries.iter().map(|entry| format!("{entry}\0")).collect();
        self.ask(Kind::SetPerms, path, entries.as_bytes()).map(drop)
    }

    /// Watches a node and those below it. The first event comes at once.
    pub fn watch(&mut self, path: &str, token: &str) -> Result<()> {
        self.ask(Kind::Watch, path, format!("{token}\0").as_bytes())
            .map(drop)
    }

    /// Ends a watch.
    pub fn unwatch(&mut self, path: &str, token: &str) -> Result<()> {
        self.ask(Kind::Unwatch, path, format!("{token}\0").as_bytes())
            .map(drop)
    }

    /// Waits for an event.
    pub fn event(&mut self) -> Result<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            self.receive()?;
        }
    }

    /// Does `work` in a transaction, and repeats it until no other client changes the nodes in
    /// question meanwhile.
    pub fn transaction<T>(&mut self, mut work: impl FnMut(&mut Client) -> Result<T>) -> Result<T> {
        loop {
            let number = self.ask(Kind::TransactionStart, "", b"")?;
            let number = number.strip_suffix(&[0]).and_then(crate::domain::number);
            self.transaction = number.ok_or_else(malformed)?;
            let worked = work(self);
            let end = if worked.is_ok() { "T" } else { "F" };
            let ended = self.ask(Kind::TransactionEnd, end, b"");
            self.transaction = 0;
            match (worked, ended) {
                (Err(error), _) => return Err(error),
                (Ok(result), Ok(_)) => return Ok(result),
                (Ok(_), Err(error)) if error.errno() == Some(Errno::EAGAIN) => {}
                (Ok(_), Err(error)) => return Err(error),
            }
        }
    }

    /// Sends a request about `path` and returns the reply's payload.
    pub fn ask(&mut self, kind: Kind, path: &str, rest: &[u8]) -> Result<Vec<u8>> {
        self.request = self.request.wrapping_add(1);
        let header = Header {
            kind: kind as u32,
            request: self.request,
            transaction: self.transaction,
            len: 0,
        };
        let mut message = Vec::new();
        append(
            &mut message,
            header,
            &[path.as_bytes(), &[0], rest].concat(),
        );
        self.stream.write_all(&message)?;
        loop {
            let Some((header, payload)) = self.receive()? else {
                continue;
            };
            if header.request != self.request {
                return Err(malformed());
            }
            if header.kind == Kind::Error as u32 {
                let name = payload.strip_suffix(&[0]).unwrap_or(&payload);
                return Err(Error::Refused {
                    path: path.to_string(),
                    errno: Errno::from_name(name),
                });
            }
            return Ok(payload);
        }
    }

    /// Waits for a message. Events are kept; `None` is one.
    fn receive(&mut self) -> Result<Option<(Header, Vec<u8>)>> {
        let mut header = [0; Header::LEN];
        self.stream.read_exact(&mut header)?;
        let header = Header::parse(&header);
        if header.len as usize > PAYLOAD_MAX {
            return Err(malformed());
        }
        let mut payload = vec![0; header.len as usize];
        self.stream.read_exact(&mut payload)?;
        if header.kind != Kind::WatchEvent as u32 {
            return Ok(Some((header, payload)));
        }
        let (path, token) = first_string(&payload).ok_or_else(malformed)?;
        self.events.push_back(Event {
            path: String::from_utf8_lossy(path).into_owned(),
            token: token.strip_suffix(&[0]).unwrap_or(token).into(),
        });
        Ok(None)
    }
}

fn malformed() -> Error {
    Error::Io(io::Error::other("the reply is malformed"))
}
