use alloc::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

pub mod protocol;
mod reach;

use super::listener::{CONNECTIONS, Listener, Retry, transient, unix_path};
use super::os_error;
use crate::prelude::*;
use protocol::Session;
use reach::Reach;

/// Ports that `PORT+` tries after the first.
const PORTS_TRIED: u16 = 11;

/// Lets other programs read and write handlers over a socket.
///
/// The socket has version 1.3 of Click's control protocol. A client sends commands, each a line of
/// words: `READ`, `WRITE`, `READDATA`, `WRITEDATA`, `READUNTIL`, `WRITEUNTIL`, `CHECKREAD`,
/// `CHECKWRITE`, `LLRPC`, `HELP`, `QUIT`. The answer is a line that starts with a code (2xx:
/// success, 5xx: failure); a read's answer continues with `DATA n` and n bytes. A handler is named
/// `ELEMENT.HANDLER`, `NUMBER.HANDLER` (elements count from 1), or just `HANDLER` for a handler of
/// the router.
///
/// Connections outlive a hotswap if the new configuration has an element of the same name with
/// the same type and address, and with RETRIES of 1 or more.
///
/// A client can make the router hold at most 16 MiB of data and a line of 1 MiB; a client that sends
/// more is refused.
///
/// # Arguments
/// After TYPE:
/// - `PORT` (TCP port): with `TCP`, the port; `PORT+` takes the first free one from there on.
/// - `FILENAME` (file name): with `UNIX`, the socket's path, which may not exist.
/// - `FD` (integer): with `SOCKET`, an open descriptor of the connection.
///
/// # Example
/// ```click
/// ControlSocket(TCP, 7777, LOCALHOST true);
/// ```
///
/// # See also
/// Script
#[derive(Element)]
#[element(ports = "0/0", raw, handlers, take_over, provides(Descriptors))]
pub struct ControlSocket {
    /// The kind of socket: `TCP`, `UNIX` or `SOCKET`.
    #[arg(mandatory, name = "TYPE")]
    kind: String,
    /// Whether to refuse writes.
    #[arg(name = "READONLY")]
    read_only: bool,
    /// Whether to print when connections come and go.
    #[arg]
    verbose: bool,
    /// With `TCP`, whether to listen on 127.0.0.1 only.
    #[arg(name = "LOCALHOST")]
    local: bool,
    #[flatten]
    retry: Retry,
    /// An element whose handlers replace the router's: `E.H` is its handler `E.H`.
    #[arg]
    proxy: Option<ElementRef>,
    place: Place,
    /// Any port from the first one on will do.
    flexible: bool,
    listener: Option<Listener>,
    connections: BTreeMap<RawFd, Connection>,
    timer: Option<TimerId>,
}

/// What to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A port; with true, or one of the following ports.
    Tcp(u16, bool),
    Unix(String),
    Descriptor(RawFd),
}

impl Default for Place {
    fn default() -> Self {
        Place::Tcp(0, false)
    }
}

/// A client: a socket, as a file because only reading and writing are wanted of it, and what is
/// said over it.
struct Connection {
    socket: File,
    session: Session,
    /// The other side takes no more answers.
    broken: bool,
}

impl Connection {
    fn receive(&mut self) {
        let mut buffer = [0; 16384];
        if !self.session.wants_input() {
            return;
        }
        match self.socket.read(&mut buffer) {
            Ok(0) => self.session.close(),
            Ok(count) => self.session.input(&buffer[..count]),
            Err(error) if transient(&error) => {}
            Err(_) => self.session.close(),
        }
    }

    fn send(&mut self) {
        while !self.session.output().is_empty() && !self.broken {
            match self.socket.write(self.session.output()) {
                Ok(count) => self.session.sent(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.broken = true,
            }
        }
    }

    fn over(&self) -> bool {
        self.broken || self.session.over()
    }
}

impl ControlSocket {
    /// Tries to listen.
    fn listen(&mut self) -> io::Result<()> {
        let listener = match &mut self.place {
            Place::Tcp(port, more) => {
                let address = if self.local {
                    Ipv4Addr::LOCALHOST
                } else {
                    Ipv4Addr::UNSPECIFIED
                };
                let last = if *more {
                    port.saturating_add(PORTS_TRIED)
                } else {
                    *port
                };
                let (listener, found) = Listener::tcp(address, *port, last)?;
                (*port, *more) = (found, false);
                listener
            }
            Place::Unix(path) => Listener::unix(path)?,
            Place::Descriptor(_) => return Ok(()),
        };
        self.listener = Some(listener);
        Ok(())
    }

    /// Tries to listen; if it cannot, says so and tries again later, while tries are left. An
    /// error is what is wrong when none are.
    fn try_to_listen(&mut self, cx: &mut Cx<'_>) -> Result<Option<String>, String> {
        match self.listen() {
            Ok(()) => {
                if let Some(listener) = &self.listener {
                    cx.watch(listener.fd(), true, false);
                }
                Ok(None)
            }
            Err(error) => {
                let failed = self.retry.failed(cx, self.timer, &error);
                failed.map_err(|text| match &self.place {
                    Place::Unix(path) => format!("{text} (‘{path}’)"),
                    _ => text,
                })
            }
        }
    }

    /// Begins to speak on a descriptor that this process inherited.
    fn adopt(&mut self, cx: &mut Cx<'_>, fd: RawFd) {
        // A second descriptor of the same socket: the first one stays its owner's.
        let duplicate = || -> io::Result<OwnedFd> {
            let own = rustix::process::getpid();
            let own = rustix::process::pidfd_open(own, rustix::process::PidfdFlags::empty())?;
            let flags = rustix::process::PidfdGetfdFlags::empty();
            let stream = UnixStream::from(rustix::process::pidfd_getfd(own, fd, flags)?);
            stream.set_nonblocking(true)?;
            Ok(stream.into())
        };
        match duplicate() {
            Ok(socket) => self.connect(cx, socket),
            Err(error) => {
                let declaration = cx.declaration();
                cx.chatter(format!("{declaration}: FD {fd}: {}", os_error(&error)));
            }
        }
    }

    fn connect(&mut self, cx: &mut Cx<'_>, socket: OwnedFd) {
        let fd = socket.as_raw_fd();
        let connection = Connection {
            socket: socket.into(),
            session: Session::new(self.read_only),
            broken: false,
        };
        self.connections.insert(fd, connection);
        self.serve(cx, fd);
    }

    fn accept(&mut self, cx: &mut Cx<'_>) {
        let Some(listener) = &self.listener else {
            return;
        };
        let (socket, from) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                if !transient(&error) {
                    let declaration = cx.declaration();
                    cx.chatter(format!("{declaration}: accept: {}", os_error(&error)));
                }
                return;
            }
        };
        let declaration = cx.declaration();
        if self.connections.len() >= CONNECTIONS {
            cx.chatter(format!(
                "{declaration}: {CONNECTIONS} connections are open, another{from} was refused"
            ));
            return;
        }
        if self.verbose {
            let fd = socket.as_raw_fd();
            cx.chatter(format!("{declaration}: opened connection {fd}{from}"));
        }
        self.connect(cx, socket);
    }

    /// Takes what came in on a connection, carries out a command, and sends answers.
    fn serve(&mut self, cx: &mut Cx<'_>, fd: RawFd) {
        let Some(mut connection) = self.connections.remove(&fd) else {
            return;
        };
        connection.receive();
        // One command at a time, so that many of them do not hold packets up.
        let again = connection.session.step(&mut Reach {
            element: self,
            cx: &mut *cx,
        });
        connection.send();
        if connection.over() {
            cx.watch(fd, false, false);
            drop(connection);
            if self.verbose {
                let declaration = cx.declaration();
                cx.chatter(format!("{declaration}: closed connection {fd}"));
            }
            return;
        }
        let waits = !connection.session.output().is_empty();
        cx.watch(fd, connection.session.wants_input(), again || waits);
        self.connections.insert(fd, connection);
    }
}

#[handlers]
impl ControlSocket {
    /// The port.
    #[read(when = matches!(self.place, Place::Tcp(..)))]
    fn port(&self) -> String {
        match self.place {
            Place::Tcp(port, true) => format!("{port}+"),
            Place::Tcp(port, false) => port.to_string(),
            _ => String::new(),
        }
    }

    /// The path.
    #[read(when = matches!(self.place, Place::Unix(_)))]
    fn filename(&self) -> &str {
        match &self.place {
            Place::Unix(path) => path,
            _ => "",
        }
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut ControlSocket) {
        let same = match (&self.place, &old.place) {
            (Place::Tcp(port, _), Place::Tcp(other, _)) => self.flexible || port == other,
            (place, other) => place == other,
        };
        if !same {
            return;
        }
        if let Some(listener) = self.listener.take() {
            cx.watch(listener.fd(), false, false);
        }
        self.place = old.place.clone();
        self.listener = old.listener.take();
        self.connections = core::mem::take(&mut old.connections);
        if let Some(listener) = &self.listener {
            cx.watch(listener.fd(), true, false);
        }
        for fd in self.connections.keys() {
            // Writable as well: a command may be waiting to be carried out.
            cx.watch(*fd, true, true);
        }
    }
}

impl Descriptors for ControlSocket {
    fn selected(&mut self, cx: &mut Cx<'_>, fd: i32, _readable: bool, _writable: bool) {
        // A new connection may have sent a command already.
        cx.whole(|cx| match &self.listener {
            Some(listener) if listener.fd() == fd => self.accept(cx),
            _ => self.serve(cx, fd),
        });
    }
}

impl Element for ControlSocket {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.place = match self.kind.to_ascii_uppercase().as_str() {
            "TCP" => {
                let mut port = String::new();
                args.read()
                    .mandatory_positional_with("PORT", WordArg, &mut port)
                    .complete()?;
                let Some((port, more)) = parse_port(&port, cx) else {
                    return Err(args.fail("PORT requires TCP port"));
                };
                self.flexible = more;
                Place::Tcp(port, more)
            }
            "UNIX" => Place::Unix(unix_path(args)?),
            "SOCKET" => {
                let mut fd: i32 = -1;
                args.read().mandatory_positional("FD", &mut fd).complete()?;
                Place::Descriptor(fd)
            }
            _ => return Err(args.fail(format!("unknown socket type ‘{}’", self.kind))),
        };
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let timer = cx.timer();
        self.timer = Some(timer);
        if let Place::Descriptor(_) = self.place {
            // Not before it is known whether the connection is taken over.
            cx.schedule_after(timer, 0);
            return Ok(());
        }
        match self.try_to_listen(cx) {
            Ok(None) => {}
            Ok(Some(warning)) => cx.warning(warning),
            Err(error) => return Err(cx.error(error)),
        }
        Ok(())
    }

    fn cleanup(&mut self, _cx: &mut Cx<'_>) {
        if self.listener.take().is_some()
            && let Place::Unix(path) = &self.place
        {
            let _ = std::fs::remove_file(router::args::path(path));
        }
        for (_, mut connection) in core::mem::take(&mut self.connections) {
            connection.send();
        }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        if let Place::Descriptor(fd) = self.place {
            if self.connections.is_empty() {
                self.adopt(cx, fd);
            }
            return;
        }
        if self.listener.is_some() {
            return;
        }
        match self.try_to_listen(cx) {
            Ok(None) => {}
            Ok(Some(warning)) => cx.chatter(format!("warning: {warning}")),
            Err(error) => {
                cx.chatter(error);
                cx.stop();
            }
        }
    }
}

/// A port, and whether one of the following ports will do.
fn parse_port(text: &str, cx: &Cx<'_>) -> Option<(u16, bool)> {
    if let Ok(port) = cx.names().parse::<TcpPort>(text) {
        return Some((port.0, false));
    }
    let first: u16 = cx.names().parse(text.strip_suffix('+')?).ok()?;
    (first > 0).then_some((first, true))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use crate::testing::*;

    /// Sends `commands`, and takes what is answered until it ends in `end`.
    fn talk(rig: &mut Rig, client: &mut UnixStream, commands: &str, end: &str) -> String {
        client.write_all(commands.as_bytes()).unwrap();
        receive(rig, client, end)
    }

    #[test]
    fn clients_read_and_write_handlers() {
        let socket = TempFile::new("control");
        let config =
            format!("s :: ControlSocket(UNIX, \"{socket}\"); Idle -> p :: Paint(3) -> Discard;");
        let mut rig = Rig::new(&config);
        assert_eq!(rig.read("s.filename"), format!("{socket}"));
        assert!(rig.try_read("s.port").is_err());
        let mut client = connect(&socket);
        let greeting = talk(&mut rig, &mut client, "", "\r\n");
        assert_eq!(greeting, "Click::ControlSocket/1.3\r\n");
        let received = talk(&mut rig, &mut client, "READ p.color\r\n", "DATA 1\r\n3");
        assert!(received.starts_with("200 "), "{received}");
        let received = talk(&mut rig, &mut client, "WRITE p.color 5\r\n", "\r\n");
        assert!(received.starts_with("200 "), "{received}");
        assert_eq!(rig.read("p.color"), "5");
    }

    #[test]
    fn a_read_only_socket_refuses_writes() {
        let socket = TempFile::new("control-readonly");
        let config = format!(
            "ControlSocket(UNIX, \"{socket}\", READONLY true); Idle -> p :: Paint(3) -> Discard;"
        );
        let mut rig = Rig::new(&config);
        let mut client = connect(&socket);
        talk(&mut rig, &mut client, "", "\r\n");
        let received = talk(&mut rig, &mut client, "WRITE p.color 5\r\n", "\r\n");
        assert!(received.starts_with("5"), "{received}");
        assert_eq!(rig.read("p.color"), "3");
    }
}
