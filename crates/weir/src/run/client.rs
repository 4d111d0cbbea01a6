//! Asking a running guest: `weir read`, `weir write`, `weir top`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use node::model::{Guest, HandlerRead, HandlerWrite};

use super::name::{self, NameError};
use crate::host::print_on;
use crate::nouns;
use crate::nouns::cluster::ClusterOption;
use vmm::printable;

/// How long a guest may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest value that is read or written, in bytes.
const VALUE_MAX: usize = 64 << 20;

/// Reads a handler of a running guest.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir read firewall rules.hits\n  weir read firewall list")]
pub struct ReadArgs {
    /// The guest's name
    pub name: String,
    /// ELEMENT.HANDLER, or HANDLER for a handler of the router
    pub handler: String,
    /// Arguments of the handler
    pub arguments: Vec<OsString>,
    #[command(flatten)]
    pub cluster: ClusterOption,
}

/// Writes a handler of a running guest.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weir write firewall web.reset_counts
  weir write firewall hotconfig <other.click")]
pub struct WriteArgs {
    /// The guest's name
    pub name: String,
    /// ELEMENT.HANDLER, or HANDLER for a handler of the router
    pub handler: String,
    /// The value; ‘-’, or no value for hotconfig, reads standard input
    pub value: Vec<OsString>,
    #[command(flatten)]
    pub cluster: ClusterOption,
}

/// Shows how many packets a second each element of a running guest passes.
///
/// A segmented packet counts once; the element Counter counts its segments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  weir top firewall\n  weir top firewall --count 1 --interval 2"
)]
pub struct TopArgs {
    /// The guest's name
    pub name: String,
    /// Seconds between two samples
    #[arg(short, long, default_value_t = 1.0, value_parser = interval)]
    pub interval: f64,
    /// Exit after this many samples; default: when interrupted
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    #[command(flatten)]
    pub cluster: ClusterOption,
}

/// Seconds between two looks, as an option has them.
pub fn interval(text: &str) -> Result<f64, String> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .filter(|s| (0.1..=3600.0).contains(s));
    seconds.ok_or_else(|| "an interval is 0.1 to 3600 seconds".into())
}

/// An error on the way to a guest, or a guest's own error.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No such guest.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The connection broke.
    #[error("the guest’s control socket: {0}")]
    Socket(#[from] std::io::Error),
    /// No answer came.
    #[error("the guest did not answer within {} s", TIMEOUT.as_secs())]
    Silent,
    /// The value to write cannot be read.
    #[error("standard input: {0}")]
    Input(std::io::Error),
    /// A configuration takes another's place, and there is none.
    #[error("hotconfig needs a configuration: weir write {0} hotconfig <FILE")]
    NoConfig(String),
    /// The value cannot be written to standard output.
    #[error("standard output: {0}")]
    Output(std::io::Error),
    /// It said no.
    #[error("{0}")]
    Refused(String),
    /// The node said no.
    #[error(transparent)]
    Node(#[from] node::error::Error),
    /// The socket sent an invalid answer.
    #[error("the guest’s control socket sent an invalid answer: {0}")]
    Confused(String),
}

/// A running guest that can be asked: one of `weir run`, or one of the node.
pub enum Client {
    /// By its own socket.
    Own(Connection),
    /// By the node.
    OfNode(node::client::Client, String),
}

impl Client {
    /// Finds the guest called `name`: of this host, unless a node of the network was named.
    pub fn connect(name: &str) -> Result<Client, ClientError> {
        let node = nouns::client();
        if !nouns::is_remote() {
            match Connection::open(name) {
                Err(ClientError::Name(NameError::NotRunning(..))) if node.is_there() => {}
                other => return other.map(Client::Own),
            }
        }
        let found = node.show::<Guest>(name)?;
        Ok(Client::OfNode(node, found.name))
    }

    /// Reads a handler.
    pub fn read(&mut self, handler: &[u8]) -> Result<Vec<u8>, ClientError> {
        let (node, name) = match self {
            Client::Own(connection) => return connection.read(handler),
            Client::OfNode(node, name) => (node, name),
        };
        let read = HandlerRead {
            handler: utf8(handler)?,
        };
        Ok(node.read(name, &read)?.value.into_bytes())
    }

    /// Writes a handler.
    pub fn write(&mut self, handler: &str, value: &[u8]) -> Result<(), ClientError> {
        let (node, name) = match self {
            Client::Own(connection) => return connection.write(handler, value),
            Client::OfNode(node, name) => (node, name),
        };
        let write = HandlerWrite {
            handler: handler.into(),
            value: utf8(value)?,
        };
        node.write(name, &write)?;
        Ok(())
    }
}

/// The value as UTF-8, for the node's API.
fn utf8(bytes: &[u8]) -> Result<String, ClientError> {
    let text = String::from_utf8(bytes.to_vec());
    text.map_err(|_| ClientError::Refused("a guest of the node takes UTF-8 text".into()))
}

/// A connection to the socket of a guest of `weir run`.
pub struct Connection {
    stream: BufReader<UnixStream>,
}

impl Connection {
    fn open(name: &str) -> Result<Connection, ClientError> {
        let stream = name::connect(name)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut connection = Connection {
            stream: BufReader::new(stream),
        };
        let greeting = connection.line()?;
        match greeting.starts_with("Click::ControlSocket/1.") {
            true => Ok(connection),
            false => Err(ClientError::Confused(greeting)),
        }
    }

    fn line(&mut self) -> Result<String, ClientError> {
        let mut line = String::new();
        let read = self
            .stream
            .read_line(&mut line)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::WouldBlock => ClientError::Silent,
                _ => error.into(),
            })?;
        if read == 0 {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        Ok(line.trim_end().to_string())
    }

    /// Sends a command with its data; an error if the guest refuses.
    fn order(&mut self, command: &[u8], data: &[u8]) -> Result<(), ClientError> {
        let bytes = [command, b"\r\n", data].concat();
        self.stream.get_mut().write_all(&bytes)?;
        let mut said = Vec::new();
        loop {
            let line = self.line()?;
            said.extend(line.get(4..).map(str::to_string));
            match (line.get(..1), line.get(3..4)) {
                (Some(_), Some("-")) => {}
                (Some("2"), _) => return Ok(()),
                _ => return Err(ClientError::Refused(said.join("\n"))),
            }
        }
    }

    fn read(&mut self, handler: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.order(&[b"READ ", one_line(handler)?].concat(), b"")?;
        let line = self.line()?;
        let length = line
            .strip_prefix("DATA ")
            .and_then(|n| n.parse::<usize>().ok());
        let length = length
            .filter(|n| *n <= VALUE_MAX)
            .ok_or(ClientError::Confused(line))?;
        let mut value = vec![0; length];
        self.stream.read_exact(&mut value)?;
        Ok(value)
    }

    fn write(&mut self, handler: &str, value: &[u8]) -> Result<(), ClientError> {
        let handler = one_line(handler.as_bytes())?;
        match one_line(value) {
            Ok(value) => self.order(&[b"WRITE ", handler, b" ", value].concat(), b""),
            Err(_) => {
                let length = value.len().to_string();
                let command = [b"WRITEDATA ", handler, b" ", length.as_bytes()].concat();
                self.order(&command, value)
            }
        }
    }
}

fn one_line(text: &[u8]) -> Result<&[u8], ClientError> {
    match text.contains(&b'\r') || text.contains(&b'\n') {
        true => Err(ClientError::Refused("a handler’s name is one line".into())),
        false => Ok(text),
    }
}

/// `weir read`.
pub fn read(args: &ReadArgs) -> Result<(), ClientError> {
    args.cluster.choose_host_of(&args.name)?;
    let mut words = vec![args.handler.as_bytes()];
    words.extend(args.arguments.iter().map(|word| word.as_bytes()));
    let value = Client::connect(&args.name)?.read(&words.join(&b' '))?;
    let mut out = std::io::stdout().lock();
    let end: &[u8] = match value.last() {
        None | Some(b'\n') => b"",
        Some(_) => b"\n",
    };
    let written = out.write_all(&value).and_then(|()| out.write_all(end));
    written.map_err(ClientError::Output)
}

/// `weir write`.
pub fn write(args: &WriteArgs) -> Result<(), ClientError> {
    args.cluster.choose_host_of(&args.name)?;
    let mut client = Client::connect(&args.name)?;
    client.write(&args.handler, &value(args)?)
}

/// The value to write.
fn value(args: &WriteArgs) -> Result<Vec<u8>, ClientError> {
    // Other handlers are written without a value, in loops whose input is not meant for them.
    let is_input = match args.value.as_slice() {
        [] => args.handler == "hotconfig",
        [value] => value == "-",
        _ => false,
    };
    if !is_input {
        return Ok(args.value.join(" ".as_ref()).into_vec());
    }
    let input = std::io::stdin().lock();
    if args.value.is_empty() && input.is_terminal() {
        return Err(ClientError::NoConfig(args.name.clone()));
    }
    let mut value = Vec::new();
    let mut all = input.take(VALUE_MAX as u64);
    all.read_to_end(&mut value).map_err(ClientError::Input)?;
    Ok(value)
}

/// One element's line of the `element_counts` handler.
struct Count {
    name: String,
    class: String,
    packets: u64,
}

fn counts(client: &mut Client) -> Result<Vec<Count>, ClientError> {
    let value = client.read(b"element_counts")?;
    let text = String::from_utf8_lossy(&value).into_owned();
    let count = |line: &str| {
        let mut fields = line.split('\t');
        Some(Count {
            name: printable(fields.next()?),
            class: printable(fields.next()?),
            packets: fields.next()?.parse().ok()?,
        })
    };
    let counts: Option<Vec<_>> = text.lines().map(count).collect();
    counts.ok_or_else(|| ClientError::Confused(text.clone()))
}

/// `weir top`.
pub fn top(args: &TopArgs) -> Result<(), ClientError> {
    args.cluster.choose_host_of(&args.name)?;
    let mut client = Client::connect(&args.name)?;
    let (mut before, mut then) = (counts(&mut client)?, Instant::now());
    let screen = std::io::stdout().is_terminal();
    for look in 1.. {
        std::thread::sleep(Duration::from_secs_f64(args.interval));
        let (now, at) = (counts(&mut client)?, Instant::now());
        let seconds = at.duration_since(then).as_secs_f64();
        let mut text = String::new();
        if screen && args.count != Some(1) {
            text += "\x1b[H\x1b[2J";
        }
        let _ = writeln!(
            text,
            "{:<32} {:<20} {:>14} {:>16}",
            "ELEMENT", "CLASS", "PACKETS/S", "PACKETS"
        );
        for (i, count) in now.iter().enumerate() {
            // After a hotswap the elements may be others.
            let old = before.get(i).filter(|old| old.name == count.name);
            let passed = count
                .packets
                .saturating_sub(old.map_or(count.packets, |old| old.packets));
            let rate = passed as f64 / seconds;
            let _ = writeln!(
                text,
                "{:<32} {:<20} {rate:>14.0} {:>16}",
                count.name, count.class, count.packets
            );
        }
        if !print_on(&text).map_err(ClientError::Output)? || Some(look) == args.count {
            break;
        }
        (before, then) = (now, at);
    }
    Ok(())
}
