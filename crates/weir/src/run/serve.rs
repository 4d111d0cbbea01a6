//! The control socket of a running guest: Click's control protocol, so that its tools work.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use abi::message::{kind, status};
use elements::userlevel::control_socket::protocol::{Missing, Session, Target};
use router::HandlerFlags;

use super::instance::Instance;

/// Most connections at a time; further ones are closed at once.
const CONNECTIONS_MAX: usize = 32;

/// Every connection to a guest's socket.
#[derive(Default)]
pub(super) struct Server {
    connections: Vec<Peer>,
}

struct Peer {
    stream: UnixStream,
    session: Session,
}

impl Server {
    /// Descriptors that are readable when there is something to do.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let streams = self.connections.iter().map(|connection| &connection.stream);
        streams.map(AsFd::as_fd)
    }

    /// Accepts new connections, and answers the requests on all of them.
    pub fn serve(&mut self, listener: &UnixListener, instance: &mut Instance) {
        while let Ok((stream, _)) = listener.accept() {
            if self.connections.len() < CONNECTIONS_MAX && stream.set_nonblocking(true).is_ok() {
                let session = Session::new(false);
                self.connections.push(Peer { stream, session });
            }
        }
        let alive = |connection: &mut Peer| connection.serve(instance).is_ok();
        self.connections.retain_mut(alive);
    }
}

impl Peer {
    /// Moves the connection on; an error ends it.
    fn serve(&mut self, instance: &mut Instance) -> std::io::Result<()> {
        self.take()?;
        while self.session.step(&mut Asked(instance)) {
            self.give()?;
        }
        self.give()?;
        // A client must read its answers: if they pile up, it is disconnected.
        match self.session.over() || !self.session.output().is_empty() {
            true => Err(ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }

    fn take(&mut self) -> std::io::Result<()> {
        let mut bytes = [0; 4096];
        while self.session.wants_input() {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.session.close(),
                Ok(n) => self.session.input(&bytes[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn give(&mut self) -> std::io::Result<()> {
        // The answers of one command at a time; the peer gets a moment to take a long one.
        self.stream.set_nonblocking(false)?;
        let moment = std::time::Duration::from_millis(200);
        self.stream.set_write_timeout(Some(moment))?;
        while !self.session.output().is_empty() {
            let sent = self.stream.write(self.session.output())?;
            self.session.sent(sent);
        }
        self.stream.set_nonblocking(true)
    }
}

/// A guest as a session's target.
struct Asked<'i>(&'i mut Instance);

impl Asked<'_> {
    fn ask(&mut self, kind: u32, contents: &str) -> Result<String, (u32, String)> {
        let answer = self.0.request(kind, contents);
        let answer = answer.map_err(|error| (status::FAILED, error.to_string()))?;
        let text = click::text::decode(&answer.contents).into_owned();
        if answer.ok() {
            Ok(text)
        } else {
            Err((answer.status, text))
        }
    }
}

impl Target for Asked<'_> {
    type Handler = String;

    fn find(&mut self, name: &str) -> Result<(String, HandlerFlags), Missing> {
        let (element, handler) = name.rsplit_once('.').unwrap_or(("", name));
        let all = match element {
            "" => "handlers".to_string(),
            element => format!("{element}.handlers"),
        };
        let all = self
            .ask(kind::READ, &all)
            .map_err(|(status, _)| match status {
                status::NO_ELEMENT => Missing::Element(element.into()),
                _ => Missing::Handler,
            })?;
        let mut lines = all.lines().filter_map(|line| line.split_once('\t'));
        let letters = lines.find(|(found, _)| *found == handler);
        let (_, letters) = letters.ok_or(Missing::Handler)?;
        Ok((name.to_string(), flags(letters)))
    }

    fn read(&mut self, handler: &String, parameter: &str) -> Result<String, String> {
        let contents = match parameter {
            "" => handler.clone(),
            parameter => format!("{handler} {parameter}"),
        };
        self.ask(kind::READ, &contents).map_err(|(_, text)| text)
    }

    /// The guest's console shows warnings.
    fn write(
        &mut self,
        handler: &String,
        value: &str,
        _warnings: &mut Vec<String>,
    ) -> Result<(), String> {
        let contents = format!("{handler} {value}");
        let written = self.ask(kind::WRITE, &contents);
        written.map(|_| ()).map_err(|(_, text)| text)
    }
}

/// Flags by the letters that the `handlers` handler shows them with, as far as sessions ask.
fn flags(letters: &str) -> HandlerFlags {
    let known = [
        ('r', HandlerFlags::READ),
        ('w', HandlerFlags::WRITE),
        ('+', HandlerFlags::PARAMETER),
    ];
    let shown = known.iter().filter(|(letter, _)| letters.contains(*letter));
    shown.fold(HandlerFlags::default(), |all, (_, flag)| all.with(*flag))
}
