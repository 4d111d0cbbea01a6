use alloc::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

use super::listener::{CONNECTIONS, Listener, Retry, transient, unix_path};
use super::os_error;
use crate::prelude::*;

/// What is sent first to a client.
const GREETING: &[u8] = b"Click::ChatterSocket/1.0\r\n";
/// A client that has more than this many bytes yet to take is dropped.
const BACKLOG: usize = 500_000;

/// Sends the messages of elements to other programs.
///
/// Each line that an element prints goes to all clients, after a greeting,
/// `Click::ChatterSocket/1.0`. Input from clients is not read. A client that is 500000 bytes behind
/// is disconnected.
///
/// Connections outlive a hotswap if the new configuration has an element of the same name with
/// the same type, address and channel, and with RETRIES of 1 or more.
///
/// # Arguments
/// After TYPE:
/// - `PORT` (TCP port): with `TCP`, the port.
/// - `FILENAME` (file name): with `UNIX`, the socket's path, which may not exist.
///
/// # Example
/// ```click
/// ChatterSocket(TCP, 7778);
/// RatedSource(RATE 1) -> Print -> Discard;
/// ```
///
/// # See also
/// ControlSocket, IPPrint
#[derive(Element)]
#[element(ports = "0/0", phase = phase::INFO, raw, take_over, provides(Descriptors))]
pub struct ChatterSocket {
    /// The kind of socket: `TCP` or `UNIX`.
    #[arg(mandatory, name = "TYPE")]
    kind: String,
    /// The channel to send. Elements print on the default channel unless an argument names another,
    /// such as IPPrint's CHANNEL.
    #[arg(
        with = WordArg,
        kind = "word",
        default = DEFAULT_CHANNEL.to_string(),
        default_text = "default"
    )]
    channel: String,
    /// If false, messages on other channels than the default one are printed on the console too.
    #[arg(default = true)]
    quiet_channel: bool,
    /// Whether to send the greeting.
    #[arg(name = "GREETING", default = true)]
    greets: bool,
    #[flatten]
    retry: Retry,
    place: Place,
    listener: Option<Listener>,
    clients: BTreeMap<RawFd, Client>,
    task: Option<TaskId>,
    timer: Option<TimerId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Tcp(u16),
    Unix(String),
}

impl Default for Place {
    fn default() -> Self {
        Place::Tcp(0)
    }
}

/// A client: a socket, as a file because only reading and writing are wanted of it.
struct Client {
    socket: File,
    waiting: VecDeque<u8>,
}

impl Client {
    /// Sends what it takes; false if it is gone.
    fn send(&mut self) -> bool {
        while !self.waiting.is_empty() {
            let (first, _) = self.waiting.as_slices();
            match self.socket.write(first) {
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// Takes what it said, for nothing; false if it is gone.
    fn ignore(&mut self) -> bool {
        match self.socket.read(&mut [0; 1024]) {
            Ok(count) => count > 0,
            Err(error) => transient(&error),
        }
    }
}

impl ChatterSocket {
    fn listen(&mut self) -> io::Result<()> {
        self.listener = Some(match &self.place {
            Place::Tcp(port) => Listener::tcp(Ipv4Addr::UNSPECIFIED, *port, *port)?.0,
            Place::Unix(path) => Listener::unix(path)?,
        });
        Ok(())
    }

    fn try_to_listen(&mut self, cx: &mut Cx<'_>) -> Result<Option<String>, String> {
        if let Err(error) = self.listen() {
            return self.retry.failed(cx, self.timer, &error);
        }
        if let Some(listener) = &self.listener {
            cx.watch(listener.fd(), true, false);
        }
        Ok(None)
    }

    fn accept(&mut self, cx: &mut Cx<'_>) {
        // What was said before is not for this client.
        self.tell(cx);
        let Some(listener) = &self.listener else {
            return;
        };
        let socket = match listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) => {
                if !transient(&error) {
                    let declaration = cx.declaration();
                    cx.chatter(format!("{declaration}: accept: {}", os_error(&error)));
                }
                return;
            }
        };
        if self.clients.len() >= CONNECTIONS {
            let declaration = cx.declaration();
            let text = format!("{CONNECTIONS} connections are open, another was refused");
            cx.chatter(format!("{declaration}: {text}"));
            return;
        }
        let fd = socket.as_raw_fd();
        let client = Client {
            socket: socket.into(),
            waiting: VecDeque::from(if self.greets { GREETING } else { &[] }.to_vec()),
        };
        self.clients.insert(fd, client);
        self.serve(cx, fd);
    }

    /// Sends a client what it takes, and disconnects one that is gone or too far behind.
    fn serve(&mut self, cx: &mut Cx<'_>, fd: RawFd) {
        let Some(client) = self.clients.get_mut(&fd) else {
            return;
        };
        if client.send() && client.waiting.len() <= BACKLOG {
            cx.watch(fd, true, !client.waiting.is_empty());
        } else {
            cx.watch(fd, false, false);
            self.clients.remove(&fd);
        }
    }

    /// Sends what was said.
    fn tell(&mut self, cx: &mut Cx<'_>) {
        let lines = cx.messages();
        if lines.is_empty() {
            return;
        }
        for client in self.clients.values_mut() {
            for line in &lines {
                client.waiting.extend(&*click::text::encode(line));
                client.waiting.push_back(b'\n');
            }
        }
        let all: alloc::vec::Vec<RawFd> = self.clients.keys().copied().collect();
        for fd in all {
            self.serve(cx, fd);
        }
    }
}

impl ChatterSocket {
    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut ChatterSocket) {
        if self.listener.is_some() || self.place != old.place || self.channel != old.channel {
            return;
        }
        self.listener = old.listener.take();
        self.clients = core::mem::take(&mut old.clients);
        if let Some(listener) = &self.listener {
            cx.watch(listener.fd(), true, false);
        }
        for (fd, client) in &self.clients {
            cx.watch(*fd, true, !client.waiting.is_empty());
        }
    }
}

impl Descriptors for ChatterSocket {
    fn selected(&mut self, cx: &mut Cx<'_>, fd: RawFd, readable: bool, _writable: bool) {
        if self.listener.as_ref().map(Listener::fd) == Some(fd) {
            self.accept(cx);
            return;
        }
        if readable && !self.clients.get_mut(&fd).is_some_and(Client::ignore) {
            cx.watch(fd, false, false);
            self.clients.remove(&fd);
            return;
        }
        self.serve(cx, fd);
    }
}

impl Element for ChatterSocket {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        match self.kind.to_ascii_uppercase().as_str() {
            "TCP" => {
                let mut port = TcpPort(0);
                args.read()
                    .mandatory_positional("PORT", &mut port)
                    .complete()?;
                self.place = Place::Tcp(port.0);
            }
            "UNIX" => self.place = Place::Unix(unix_path(args)?),
            _ => return Err(args.fail(format!("unknown socket type ‘{}’", self.kind))),
        }
        cx.listen(&self.channel, self.quiet_channel);
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let task = cx.task();
        (self.task, self.timer) = (Some(task), Some(cx.timer()));
        cx.wake_on_message(task);
        match self.try_to_listen(cx) {
            Ok(None) => {}
            Ok(Some(warning)) => cx.warning(warning),
            Err(error) => return Err(cx.error(error)),
        }
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.tell(cx);
        for fd in core::mem::take(&mut self.clients).into_keys() {
            cx.watch(fd, false, false);
        }
        if let Some(listener) = self.listener.take() {
            cx.watch(listener.fd(), false, false);
            if let Place::Unix(path) = &self.place {
                let _ = std::fs::remove_file(router::args::path(path));
            }
        }
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        self.tell(cx);
        Ran::Worked
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
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

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn clients_hear_what_elements_say() {
        let socket = TempFile::new("chatter");
        let config = format!(
            "ChatterSocket(UNIX, \"{socket}\");
             i :: Inject -> Print(label, CONTENTS NONE) -> Discard;"
        );
        let mut rig = Rig::new(&config);
        rig.push("i", &[1]);
        rig.run();
        let (mut first, mut second) = (connect(&socket), connect(&socket));
        let greeting = "Click::ChatterSocket/1.0\r\n";
        assert_eq!(receive(&mut rig, &mut first, "\r\n"), greeting);
        assert_eq!(receive(&mut rig, &mut second, "\r\n"), greeting);
        rig.push("i", &[1, 2]);
        assert_eq!(receive(&mut rig, &mut first, "\n"), "label:    2\n");
        drop(second);
        rig.push("i", &[1, 2, 3]);
        assert_eq!(receive(&mut rig, &mut first, "\n"), "label:    3\n");
        // The console has it all the same.
        assert_eq!(rig.printed().len(), 3);
        rig.end();
        assert!(!socket.path().exists());
    }

    #[test]
    fn a_channel_reaches_only_its_listeners() {
        let socket = TempFile::new("channel");
        let config = format!(
            "ChatterSocket(UNIX, \"{socket}\", CHANNEL verbose, GREETING false);
             i :: Inject -> UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2)
                 -> IPPrint(here, CHANNEL verbose, TIMESTAMP false) -> Discard;
             j :: Inject -> Print(there) -> Discard;"
        );
        let mut rig = Rig::new(&config);
        let mut client = connect(&socket);
        run_until(&mut rig, |rig| rig.router.watches().len() == 2);
        rig.push("j", &[1]);
        rig.push("i", &[1]);
        let received = receive(&mut rig, &mut client, "\n");
        assert!(
            received.starts_with("here: 1.0.0.1.1 > 2.0.0.2.2"),
            "{received}"
        );
        let printed = rig.printed();
        assert!(
            printed.len() == 1 && printed[0].starts_with("there"),
            "{printed:?}"
        );
    }

    #[test]
    fn a_client_that_takes_nothing_is_disconnected() {
        let socket = TempFile::new("backlog");
        let config =
            format!("ChatterSocket(UNIX, \"{socket}\"); i :: Inject -> Print(x, 1500) -> Discard;");
        let mut rig = Rig::new(&config);
        let client = connect(&socket);
        run_until(&mut rig, |rig| rig.router.watches().len() == 2);
        for _ in 0..500 {
            rig.push("i", &[7; 1500]);
            rig.run();
        }
        assert_eq!(rig.router.watches().len(), 1);
        drop(client);
    }

    #[test]
    fn connections_outlive_a_hotswap() {
        let socket = TempFile::new("chatter-swap");
        let config = format!(
            "c :: ChatterSocket(UNIX, \"{socket}\", RETRIES 1, RETRY_WARNINGS false);
             i :: Inject -> Print(x, CONTENTS NONE) -> Discard;"
        );
        let mut rig = Rig::new(&config);
        let mut client = connect(&socket);
        receive(&mut rig, &mut client, "\r\n");
        rig.swap(&config);
        rig.push("i", &[1]);
        assert_eq!(receive(&mut rig, &mut client, "\n"), "x:    1\n");
    }

    #[test]
    fn what_cannot_be_is_said() {
        Rig::refuses("ChatterSocket(PIGEON, 1);", "unknown socket type 'PIGEON'");
        Rig::refuses(
            "ChatterSocket(UNIX, /nowhere/at/all);",
            "bind: No such file or directory",
        );
    }
}
