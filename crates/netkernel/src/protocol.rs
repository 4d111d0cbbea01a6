//! Messages of CoreEngine with its peers that are no application: the operator ([`Request`], [`Reply`]) and
//! the network stack modules ([`ToNsm`]). Each is one packet of JSON on a Unix socket of packets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use abi::tenant::{Hello, Role, Welcome};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::sys;

/// Longest message, in bytes.
pub const MESSAGE_MAX: usize = 1 << 17;

/// Names a tenant or an NSM to CoreEngine, and is known to it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Token(pub [u8; 16]);

impl Token {
    /// A random one.
    pub fn random() -> Result<Token, Errno> {
        sys::random().map(Token)
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl From<Token> for String {
    fn from(token: Token) -> String {
        token.to_string()
    }
}

impl TryFrom<String> for Token {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Token, &'static str> {
        const WRONG: &str = "a token has 32 hexadecimal digits";
        let digits: &[u8; 32] = text.as_bytes().try_into().map_err(|_| WRONG)?;
        let mut token = [0; 16];
        for (byte, pair) in token.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| WRONG)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| WRONG)?;
        }
        Ok(Token(token))
    }
}

/// The variable by which an NSM's process gets its token.
pub const TOKEN_VARIABLE: &str = "WEIR_NSM_TOKEN";

/// What a tenant, or an NSM, may have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Its share of CoreEngine's rounds beside other tenants', 1 to 100.
    pub weight: u32,
    /// Most bytes a second, both ways together.
    pub bytes_per_second: Option<u64>,
    /// Most sockets.
    pub sockets: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            weight: 1,
            bytes_per_second: None,
            sockets: None,
        }
    }
}

/// What the operator asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// A new tenant, whose sockets go to an NSM. With the request may come the files that an earlier
    /// CoreEngine made for it, in which its processes have their sockets. The answer brings its files.
    AddTenant {
        /// Its name.
        name: String,
        /// How its processes prove that they are its.
        token: Token,
        /// The NSM's name.
        nsm: String,
        /// What it may have.
        #[serde(default)]
        limits: Limits,
    },
    /// Asks for a tenant's files: they come with the answer.
    Files {
        /// Its name.
        name: String,
    },
    /// Ends a tenant: its sockets are closed, its processes' later calls fail.
    RemoveTenant {
        /// Its name.
        name: String,
        /// Refuse if it has a process or a socket.
        #[serde(default)]
        idle: bool,
    },
    /// A new NSM, which will come with this token.
    AddNsm {
        /// Its name.
        name: String,
        /// How it proves that it is the NSM.
        token: Token,
    },
    /// Forgets an NSM. Its connections are reset.
    RemoveNsm {
        /// Its name.
        name: String,
    },
    /// A tenant's new sockets go to another NSM.
    Move {
        /// The tenant's name.
        tenant: String,
        /// The NSM's name.
        nsm: String,
    },
    /// Other limits for a tenant.
    SetLimits {
        /// The tenant's name.
        tenant: String,
        /// The limits.
        limits: Limits,
    },
    /// How many workers an NSM is to have, 1 to [`CORES_MAX`]. One that runs ends, and comes again with so many.
    SetCores {
        /// The NSM's name.
        nsm: String,
        /// How many.
        cores: u8,
    },
    /// Limits for an NSM, for all tenants together; the weight says nothing.
    SetNsmLimits {
        /// The NSM's name.
        nsm: String,
        /// The limits.
        limits: Limits,
    },
    /// Asks for the [`Status`].
    Status,
    /// Asks for a tenant's sockets, by number from one on: at most [`SOCKETS_MAX`].
    Sockets {
        /// The tenant's name.
        tenant: String,
        /// The least number.
        from: u32,
    },
    /// Asks for what a tenant's sockets do, from the record behind a number on: at most [`TRACE_MAX`]
    /// records. The first such request begins the trace; it ends when none comes for 10 s.
    Trace {
        /// The tenant's name.
        tenant: String,
        /// The number of the last record that is known; 0: none.
        after: u64,
    },
}

/// Most workers of an NSM.
pub const CORES_MAX: u8 = 16;
/// Most sockets of an answer.
pub const SOCKETS_MAX: usize = 256;
/// Most records of a trace in an answer.
pub const TRACE_MAX: usize = 256;

/// The answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It is done.
    Done,
    /// It is not done, and why.
    Refused(String),
    /// The status.
    Status(Status),
    /// A tenant's sockets.
    Sockets(Vec<SocketStatus>),
    /// What a tenant's sockets did.
    Trace(Trace),
}

/// What a tenant's sockets did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Trace {
    /// The records, in order.
    pub records: Vec<TraceRecord>,
    /// The number of the last record.
    pub next: u64,
    /// Records before these that were dropped, since nobody asked for them in time.
    pub lost: u64,
}

/// A queue element of a trace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TraceRecord {
    /// Its number, from 1 on.
    pub number: u64,
    /// When it passed CoreEngine, in nanoseconds since 1970.
    pub at_ns: u64,
    /// The socket's number in the tenant.
    pub socket: u32,
    /// Whether the NSM sent it; else the tenant.
    pub answer: bool,
    /// What was asked, or answered: `connect`, `data`.
    pub operation: String,
    /// The address that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// Bytes of payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub len: Option<u32>,
    /// A socket option, as level and name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<(u32, u32)>,
    /// The error (errno) of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<i32>,
    /// The time from the request to this answer, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<u64>,
}

/// A tenant's socket.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SocketStatus {
    /// Its number in the tenant.
    pub socket: u32,
    /// The NSM that serves it.
    pub nsm: String,
    /// Whether it is one of datagrams (UDP); else one of bytes (TCP).
    pub datagrams: bool,
    /// The address that it was bound to, if it was.
    pub bound: Option<SocketAddr>,
    /// Its address, if the NSM has told it.
    pub local: Option<SocketAddr>,
    /// The peer's address, if it has one.
    pub peer: Option<SocketAddr>,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Whether it listens.
    pub listens: bool,
    /// Whether its NSM, and the connection with it, are gone.
    pub failed: bool,
    /// Whether it is being closed.
    pub closing: bool,
    /// Processes that it was shared with, by fork or a message.
    pub shares: u32,
    /// The smoothed round-trip time, in microseconds, if the NSM knows it.
    #[serde(default)]
    pub rtt_us: Option<u32>,
    /// Its variance.
    #[serde(default)]
    pub rtt_variance_us: Option<u32>,
    /// Segments that were sent again.
    #[serde(default)]
    pub retransmits: Option<u32>,
}

/// What CoreEngine has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// CoreEngine's version.
    pub version: String,
    /// The tenants.
    pub tenants: Vec<TenantStatus>,
    /// The network stack modules.
    pub nsms: Vec<NsmStatus>,
}

/// A tenant's status. Counters run from its start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TenantStatus {
    /// Its name.
    pub name: String,
    /// The NSM that its new sockets go to.
    pub nsm: String,
    /// Processes that use sockets.
    pub processes: usize,
    /// Sockets.
    pub sockets: usize,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Connections made, both ways.
    pub connections: u64,
    /// Sockets refused, since the tenant or its NSM had as many as it may.
    #[serde(default)]
    pub refused: u64,
    /// Elements that broke the protocol.
    pub violations: u64,
}

/// An NSM's status.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NsmStatus {
    /// Its name.
    pub name: String,
    /// Whether it runs.
    pub present: bool,
    /// Its process, if it runs.
    pub pid: Option<u32>,
    /// Sockets.
    pub sockets: usize,
    /// Queue elements delivered to it.
    pub requests: u64,
    /// Queue elements that it submitted.
    pub answers: u64,
    /// Bytes given to it to send.
    #[serde(default)]
    pub sent: u64,
    /// Bytes that it received.
    #[serde(default)]
    pub received: u64,
    /// Connections made, both ways.
    #[serde(default)]
    pub connections: u64,
    /// Sockets and connections refused, since it had as many as it may.
    #[serde(default)]
    pub refused: u64,
}

/// What CoreEngine tells an NSM.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToNsm {
    /// A tenant's sockets are to come. The payload file comes with the message.
    Tenant {
        /// The tenant.
        tenant: u8,
        /// The first chunk that is the NSM's to receive into.
        first: u32,
        /// How many.
        count: u32,
    },
    /// A tenant is gone. No socket of it is left.
    TenantGone {
        /// The tenant.
        tenant: u8,
    },
    /// CoreEngine asks what the NSM knows of connections.
    Measure {
        /// Names the question.
        id: u32,
        /// The sockets' numbers at the NSM.
        sockets: Vec<u32>,
    },
}

/// What an NSM tells CoreEngine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromNsm {
    /// What it knows of connections that it was asked for. Those of which it knows nothing are left out.
    Measured {
        /// The question.
        id: u32,
        /// The connections.
        sockets: Vec<Measured>,
    },
}

/// What an NSM knows of a connection.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Its socket's number at the NSM.
    pub socket: u32,
    /// The smoothed round-trip time, in microseconds.
    pub rtt_us: u32,
    /// Its variance.
    pub rtt_variance_us: u32,
    /// Segments that were sent again.
    pub retransmits: u32,
}

/// Sends a message, with descriptors.
pub(crate) fn send(
    to: impl AsFd,
    message: &impl Serialize,
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    Ok(sys::send_message(to, &bytes, files)?)
}

/// Receives a message and its descriptors; `None` at the end.
pub(crate) fn receive<T: DeserializeOwned>(
    from: impl AsFd,
    wait: bool,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; MESSAGE_MAX];
    let Some((n, files)) = sys::receive_message(from, &mut bytes, wait)? else {
        return Ok(None);
    };
    Ok(Some((serde_json::from_slice(&bytes[..n])?, files)))
}

/// A connection to a Unix socket of packets.
pub(crate) fn connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// What CoreEngine has welcomed a process or an NSM with.
pub(crate) struct Welcomed {
    pub welcome: Welcome,
    /// CoreEngine's connection; it ends with CoreEngine.
    pub control: OwnedFd,
    /// Wakes this side.
    pub waker: OwnedFd,
    /// What came with the welcome.
    pub files: Vec<OwnedFd>,
}

/// A tenant's queue file and its payload file, for the operator to keep: what they are of outlives the
/// CoreEngine that made them.
#[derive(Debug)]
pub struct TenantFiles([OwnedFd; 2]);

/// Says hello at CoreEngine's socket.
pub(crate) fn join(door: &Path, role: Role, token: Token) -> io::Result<Welcomed> {
    let visitor = connect(door)?;
    let (control, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let waker = sys::waker()?;
    let hello = Hello {
        role,
        token: token.0,
        returns_to: None,
    };
    sys::send_message(
        &visitor,
        &hello.to_bytes(),
        &[theirs.as_fd(), waker.as_fd()],
    )?;
    drop(theirs);
    let ended = || io::Error::other("CoreEngine ended the connection");
    let mut bytes = [0; Welcome::LEN];
    let (n, files) = sys::receive_message(&control, &mut bytes, true)?.ok_or_else(ended)?;
    let welcome = Welcome::from_bytes(&bytes[..n]).ok_or_else(ended)?;
    match welcome.refused {
        0 => Ok(Welcomed {
            welcome,
            control,
            waker,
            files,
        }),
        error => Err(io::Error::from_raw_os_error(error as i32)),
    }
}

/// Asks CoreEngine for the operator.
pub struct Operator {
    connection: OwnedFd,
}

impl Operator {
    /// Connects to the operator's socket.
    pub fn connect(path: &Path) -> io::Result<Operator> {
        Ok(Operator {
            connection: connect(path)?,
        })
    }

    /// Has it wait no longer than this for an answer.
    pub fn with_timeout(self, time: Duration) -> io::Result<Operator> {
        let receive = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&self.connection, receive, Some(time))?;
        Ok(self)
    }

    /// CoreEngine's process.
    pub fn pid(&self) -> io::Result<u32> {
        Ok(sys::peer(&self.connection)?)
    }

    /// Asks, and waits for the answer. A refusal is an error of the kind [`io::ErrorKind::Other`].
    pub fn ask(&self, request: &Request) -> io::Result<Reply> {
        Ok(self.ask_with(request, &[])?.0)
    }

    /// Asks for a tenant's files, or has a tenant that had these before be added.
    pub fn files(
        &self,
        request: &Request,
        before: Option<&TenantFiles>,
    ) -> io::Result<TenantFiles> {
        let before = before.map(|TenantFiles(files)| files.each_ref().map(AsFd::as_fd));
        let (_, files) = self.ask_with(request, before.as_ref().map_or(&[], |files| files))?;
        let files = <[OwnedFd; 2]>::try_from(files);
        let wrong = |_| io::Error::new(io::ErrorKind::InvalidData, "CoreEngine sent no files");
        files.map(TenantFiles).map_err(wrong)
    }

    fn ask_with(
        &self,
        request: &Request,
        files: &[BorrowedFd<'_>],
    ) -> io::Result<(Reply, Vec<OwnedFd>)> {
        send(&self.connection, request, files)?;
        match receive(&self.connection, true)? {
            Some((Reply::Refused(why), _)) => Err(io::Error::other(why)),
            Some(answer) => Ok(answer),
            None => Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "CoreEngine has ended",
            )),
        }
    }

    /// Asks for a tenant's sockets.
    pub fn sockets(&self, tenant: &str) -> io::Result<Vec<SocketStatus>> {
        let mut all = Vec::new();
        loop {
            let from = all.last().map_or(0, |last: &SocketStatus| last.socket + 1);
            let tenant = tenant.to_owned();
            match self.ask(&Request::Sockets { tenant, from })? {
                Reply::Sockets(some) if some.is_empty() => return Ok(all),
                Reply::Sockets(some) => all.extend(some),
                _ => {
                    return Err(io::Error::other("CoreEngine did not answer with sockets"));
                }
            }
        }
    }

    /// Asks for what a tenant's sockets did since the record of this number.
    pub fn trace(&self, tenant: &str, after: u64) -> io::Result<Trace> {
        let tenant = tenant.to_owned();
        match self.ask(&Request::Trace { tenant, after })? {
            Reply::Trace(trace) => Ok(trace),
            _ => Err(io::Error::other("CoreEngine did not answer with a trace")),
        }
    }

    /// Asks for the status.
    pub fn status(&self) -> io::Result<Status> {
        match self.ask(&Request::Status)? {
            Reply::Status(status) => Ok(status),
            _ => Err(io::Error::other(
                "CoreEngine did not answer with its status",
            )),
        }
    }
}
