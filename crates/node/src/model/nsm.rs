//! Network stack modules (NSMs), and the sockets that they serve.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, UNIX_EPOCH};

use ipnet::IpNet;
use netkernel::protocol::{self, CORES_MAX, Limits, SocketStatus, Token};
use netkernel::user::Network;
use serde::{Deserialize, Serialize};
use switch::properties::{Bandwidth, NsmProperties};
use utoipa::ToSchema;

use super::log::rfc3339;
use super::object::{Object, Spec, Verb, is_default, record};
use super::properties::NsmTable;
use super::stats::counters;
use super::{CommandLine, State};
use crate::error::{Error, Fault, Result};

/// What an NSM's network stack is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NsmKind {
    /// Linux's TCP/IP, in the NSM's network namespace.
    #[default]
    Kernel,
    /// A TCP/IP in the NSM's process, on a VNIC of its own, with no kernel between.
    User,
    /// None: connections between its own applications, through shared memory, and no others.
    Shm,
    /// That of a program which serves by ServiceLib.
    Program,
}

/// What connections of an shm NSM to addresses that are not its own fail with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Others {
    /// ENETUNREACH.
    #[default]
    Unreachable,
    /// ECONNREFUSED.
    Refused,
}

/// A network stack module: a process whose network stack serves the sockets of applications.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Nsm {
    /// What its network stack is.
    #[serde(default)]
    pub kind: NsmKind,
    /// Of a kernel NSM: the network namespace that it is in, by its name (`ip netns`); default: one of its own,
    /// `weir-nsm-NAME`, which is made and removed with it. Of a program: that which it is in; default: the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Of a kernel NSM: connections between its own sockets go through shared memory, not through its network stack.
    #[serde(default, skip_serializing_if = "is_default")]
    pub local: bool,
    /// Of a kernel NSM: its workers, each a thread with sockets of its own, 1 to 16; default: 1. Another number restarts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 16)]
    pub cores: Option<u8>,
    /// Of a user NSM: the link or stub of its VNIC, which has the NSM's name, and is made and removed with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Of a user NSM: its IP addresses, with their prefixes. Of an shm NSM: the addresses that its applications have besides the
    /// loopback's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, example = json!(["10.0.0.2/24"]))]
    pub addresses: Vec<IpNet>,
    /// Of a user NSM: the routers for what is in none of its networks, at most one of each IP version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, example = json!(["10.0.0.1"]))]
    pub gateways: Vec<IpAddr>,
    /// Of an shm NSM: what connections to addresses that are not its own fail with.
    #[serde(default, skip_serializing_if = "is_default")]
    pub others: Others,
    /// Of a program: the program and its arguments. CoreEngine's socket becomes its last argument, its token is in
    /// `WEIR_NSM_TOKEN`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = Vec<String>)]
    pub run: CommandLine,
    /// What it may have, for all its applications together: `maxbw`, `conns`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = NsmTable)]
    pub properties: NsmProperties,
}

impl Nsm {
    /// The namespace of an NSM of this name, if its kind has one.
    pub fn place(&self, name: &str) -> Option<String> {
        let own = || format!("weir-nsm-{name}");
        let given = self.namespace.clone();
        match self.kind {
            NsmKind::Kernel => Some(given.unwrap_or_else(own)),
            NsmKind::User | NsmKind::Shm | NsmKind::Program => given,
        }
    }

    /// Whether a namespace is made and removed with it.
    pub fn owns_namespace(&self) -> bool {
        self.kind == NsmKind::Kernel && self.namespace.is_none()
    }

    /// How many workers it has.
    pub fn workers(&self) -> u8 {
        self.cores.unwrap_or(1)
    }

    /// Whether an NSM that is so can become `other`.
    pub fn can_become(&self, other: &Nsm) -> bool {
        let there = Nsm {
            properties: self.properties.clone(),
            cores: self.cores,
            ..other.clone()
        };
        there == *self
    }

    /// The addresses and gateways of a user NSM.
    pub fn network(&self) -> Network {
        let addresses = self.addresses.iter();
        Network {
            addresses: addresses.map(|it| (it.addr(), it.prefix_len())).collect(),
            gateways: self.gateways.clone(),
        }
    }

    /// Refuses what its kind does not have, or lacks.
    pub fn check(&self) -> Result<()> {
        self.properties.check()?;
        use NsmKind::{Kernel, Program, Shm, User};
        let fields: [(&str, bool, &[NsmKind]); 8] = [
            ("namespace", self.namespace.is_some(), &[Kernel, Program]),
            ("local", self.local, &[Kernel]),
            ("cores", self.workers() > 1, &[Kernel]),
            ("link", self.link.is_some(), &[User]),
            ("addresses", !self.addresses.is_empty(), &[User, Shm]),
            ("gateways", !self.gateways.is_empty(), &[User]),
            ("others", self.others != Others::default(), &[Shm]),
            ("run", !self.run.0.is_empty(), &[Program]),
        ];
        let wrong =
            |(_, given, kinds): &&(_, bool, &[NsmKind])| *given && !kinds.contains(&self.kind);
        if let Some(&(field, ..)) = fields.iter().find(wrong) {
            return Err(Fault::NsmField { field }.into());
        }
        if !(1..=CORES_MAX).contains(&self.workers()) {
            let (cores, most) = (self.workers(), CORES_MAX);
            return Err(Fault::NsmCores { cores, most }.into());
        }
        match self.kind {
            User if self.link.is_none() => Err(Fault::NsmWithoutLink {}.into()),
            User => self.network().check().map_err(|error| {
                use netkernel::user::NetworkError;
                let address = |ip| self.addresses.iter().rposition(|it| it.addr() == ip);
                let gateway = |ip| self.gateways.iter().rposition(|it| *it == ip);
                let (list, at) = match error {
                    NetworkError::Addresses(_) => ("addresses", None),
                    NetworkError::Address(ip)
                    | NetworkError::Prefix(ip, _)
                    | NetworkError::Twice(ip) => ("addresses", address(ip)),
                    NetworkError::Gateway(ip) | NetworkError::Gateways(_, ip) => {
                        ("gateways", gateway(ip))
                    }
                };
                let at = at.map_or_else(String::new, |at| format!("[{at}]"));
                Error::invalid(error).of_field(&format!("{list}{at}"))
            }),
            Program if self.run.0.first().is_none_or(String::is_empty) => {
                Err(Fault::NsmWithoutProgram {}.into())
            }
            Program if self.run.0.iter().any(|word| word.contains('\0')) => {
                Err(Fault::ZeroByte { field: "run" }.into())
            }
            Kernel | Shm | Program => Ok(()),
        }
    }

    /// What it may have, as CoreEngine is told.
    pub fn limits(&self) -> Limits {
        Limits {
            bytes_per_second: self.properties.maxbw.map(bytes),
            sockets: self.properties.conns,
            ..Limits::default()
        }
    }
}

/// An NSM as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct NsmStatus {
    /// Whether it serves.
    pub state: State,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The network namespace that it is in, if its kind has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// Number of times that this node has restarted it.
    pub restarts: u32,
    /// Applications whose new sockets go to it.
    pub applications: usize,
    /// Its sockets.
    pub sockets: usize,
    /// Queue elements given to the NSM.
    pub requests: u64,
    /// Queue elements that the NSM gave.
    pub answers: u64,
    /// Bytes that the NSM was given to send.
    pub sent: u64,
    /// Bytes that the NSM received.
    pub received: u64,
    /// Connections made and accepted.
    pub connections: u64,
    /// Sockets and connections that were refused, since the NSM had as many as it may.
    pub refused: u64,
    /// Seconds of processor time that its process has used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Bytes of memory that its process has in use, those of applications' payload included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident: Option<u64>,
}

counters!(
    NsmStatus: requests, answers, sent = "sent_bytes", received = "received_bytes", connections,
    refused = "refused_sockets",
);

impl Spec for Nsm {
    type Status = NsmStatus;
    const PATH: &'static str = "nsms";
    const NOUN: &'static str = "nsm";
    const CALLED: [&'static str; 2] = ["a network stack module", "network stack modules"];
    const CHANGEABLE: &'static [&'static str] = &["properties", "cores"];
    const VERBS: &'static [Verb] = &[
        Verb::List,
        Verb::Show,
        Verb::Create,
        Verb::Put,
        Verb::Patch,
        Verb::Delete,
    ];

    fn note(verb: Verb) -> &'static str {
        match verb {
            Verb::Put | Verb::Patch => {
                "Its `properties` can change, at once, and its `cores`: it restarts, as if it had ended."
            }
            Verb::Create => "The answer comes when it serves; one that does not start is removed.",
            Verb::Delete => "No application may use it.",
            _ => "",
        }
    }

    fn example() -> Object<Nsm> {
        let mut nsm = Object::new("stack1", Nsm::default());
        nsm.spec.properties.conns = Some(1000);
        nsm.status = NsmStatus {
            state: State::Up,
            namespace: Some("weir-nsm-stack1".into()),
            pid: Some(4712),
            applications: 1,
            sockets: 3,
            requests: 1200,
            answers: 1800,
            cpu_s: Some(0.5),
            resident: Some(3 << 20),
            ..NsmStatus::default()
        };
        nsm
    }
}

record!(NsmRecord: "nsms", Nsm);

/// An NSM.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NsmRecord {
    /// Its name.
    pub name: String,
    /// What is wanted.
    pub spec: Nsm,
    /// Its number; never given twice.
    pub id: u64,
    /// By what its process proves to CoreEngine that it is this NSM.
    pub token: Token,
}

/// A rate in bytes a second.
pub(super) fn bytes(rate: Bandwidth) -> u64 {
    rate.bits().div_ceil(8)
}

/// A socket of an application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Socket {
    /// Its number in the application.
    pub number: u32,
    /// The NSM that serves it.
    pub nsm: String,
    /// Its transport protocol.
    pub transport: SocketTransport,
    /// What it does.
    pub state: SocketState,
    /// The address that it was bound to, if the application bound it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub bound: Option<SocketAddr>,
    /// Its address, if its NSM has told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub local: Option<SocketAddr>,
    /// The address of its peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub peer: Option<SocketAddr>,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// How many processes, beside the first, it was given to by fork, exec or a message.
    pub shares: u32,
    /// Milliseconds of the smoothed round-trip time of its connection, if its NSM knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Milliseconds of the round-trip time's variance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_variance_ms: Option<f64>,
    /// Segments that were sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u32>,
}

/// The transport protocol of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SocketTransport {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// What a socket does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SocketState {
    /// It is there.
    #[default]
    Open,
    /// It waits for connections.
    Listening,
    /// Its NSM has ended, and its connection with it.
    Failed,
    /// It sends what it has, and ends.
    Closing,
}

impl From<SocketStatus> for Socket {
    fn from(socket: SocketStatus) -> Socket {
        Socket {
            number: socket.socket,
            nsm: socket.nsm,
            transport: if socket.datagrams {
                SocketTransport::Udp
            } else {
                SocketTransport::Tcp
            },
            state: match (socket.closing, socket.failed, socket.listens) {
                (true, ..) => SocketState::Closing,
                (_, true, _) => SocketState::Failed,
                (.., true) => SocketState::Listening,
                _ => SocketState::Open,
            },
            bound: socket.bound,
            local: socket.local,
            peer: socket.peer,
            sent: socket.sent,
            received: socket.received,
            shares: socket.shares,
            rtt_ms: socket.rtt_us.map(|us| f64::from(us) / 1e3),
            rtt_variance_ms: socket.rtt_variance_us.map(|us| f64::from(us) / 1e3),
            retransmits: socket.retransmits,
        }
    }
}

/// From where on a trace is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceQuery {
    /// The number of the last record that is known; 0: none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after: u64,
}

/// What the sockets of an application did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SocketTrace {
    /// The records, in order; at most 256.
    pub records: Vec<SocketCall>,
    /// The number of the last record, to ask for the next ones with.
    pub next: u64,
    /// Records before these that were dropped, since nobody asked for them in time.
    pub lost: u64,
}

/// A socket call that reached an NSM, or what an NSM answered or told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SocketCall {
    /// Its number, from 1 on.
    pub number: u64,
    /// When it passed CoreEngine, in UTC.
    pub time: String,
    /// The socket's number in the application.
    pub socket: u32,
    /// Whether it comes from the NSM; else from the application.
    pub answer: bool,
    /// What was asked, answered or told: `connect`, `sent`, `data`.
    pub operation: String,
    /// The address that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub address: Option<SocketAddr>,
    /// Bytes of payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
    /// A socket option, as level and name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<(u32, u32)>,
    /// The error of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Microseconds from the request to this answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_us: Option<f64>,
}

impl From<protocol::Trace> for SocketTrace {
    fn from(trace: protocol::Trace) -> SocketTrace {
        SocketTrace {
            records: trace.records.into_iter().map(SocketCall::from).collect(),
            next: trace.next,
            lost: trace.lost,
        }
    }
}

impl From<protocol::TraceRecord> for SocketCall {
    fn from(record: protocol::TraceRecord) -> SocketCall {
        SocketCall {
            number: record.number,
            time: rfc3339(UNIX_EPOCH + Duration::from_nanos(record.at_ns)),
            socket: record.socket,
            answer: record.answer,
            operation: record.operation,
            address: record.address,
            bytes: record.len,
            option: record.option,
            error: record.error.map(|error| {
                let error = std::io::Error::from_raw_os_error(error).to_string();
                // Without its number, which Rust adds.
                error
                    .split(" (os error")
                    .next()
                    .unwrap_or_default()
                    .to_owned()
            }),
            took_us: record.took_ns.map(|time| time as f64 / 1e3),
        }
    }
}
