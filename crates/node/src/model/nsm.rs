//! Network stack modules (NSMs), and the applications whose sockets they serve.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use ipnet::IpNet;
use netkernel::protocol::{self, Limits, SocketStatus, Token};
use netkernel::user::Network;
use serde::{Deserialize, Serialize};
use switch::properties::{ApplicationProperties, Bandwidth, NsmProperties};
use utoipa::ToSchema;

use super::State;
use super::log::rfc3339;
use super::object::{Object, Spec, Verb, is_default, record};
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
}

/// A network stack module: a process whose network stack serves the sockets of applications.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Nsm {
    /// What its network stack is.
    #[serde(default)]
    pub kind: NsmKind,
    /// Of a kernel NSM: the network namespace that it is in, by its name (`ip netns`); default: one of its own,
    /// `weir-nsm-NAME`, which is made and removed with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Of a kernel NSM: connections between its own sockets go through shared memory, not through its network stack.
    #[serde(default, skip_serializing_if = "is_default")]
    pub local: bool,
    /// Of a user NSM: the link or stub of its VNIC, which has the NSM's name, and is made and removed with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Of a user NSM: its IP addresses, with their prefixes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, example = json!(["10.0.0.2/24"]))]
    pub addresses: Vec<IpNet>,
    /// Of a user NSM: the routers for what is in none of its networks, at most one of each IP version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, example = json!(["10.0.0.1"]))]
    pub gateways: Vec<IpAddr>,
    /// What it may have, for all its applications together: `maxbw`, `conns`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = Object)]
    pub properties: NsmProperties,
}

impl Nsm {
    /// The namespace of an NSM of this name, if its kind has one.
    pub fn place(&self, name: &str) -> Option<String> {
        let own = || format!("weir-nsm-{name}");
        let place = || self.namespace.clone().unwrap_or_else(own);
        (self.kind == NsmKind::Kernel).then(place)
    }

    /// Whether a namespace is made and removed with it.
    pub fn owns_namespace(&self) -> bool {
        self.kind == NsmKind::Kernel && self.namespace.is_none()
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
        let of_other = |field| Fault::NsmField { field };
        let kernel = [
            ("`namespace`", self.namespace.is_some()),
            ("`local`", self.local),
        ];
        let user = [
            ("`link`", self.link.is_some()),
            ("`addresses`", !self.addresses.is_empty()),
            ("`gateways`", !self.gateways.is_empty()),
        ];
        let others = match self.kind {
            NsmKind::Kernel => &user[..],
            NsmKind::User => &kernel[..],
        };
        if let Some((field, _)) = others.iter().find(|(_, given)| *given) {
            return Err(of_other(field).into());
        }
        if self.kind == NsmKind::User {
            if self.link.is_none() {
                return Err(Fault::NsmWithoutLink {}.into());
            }
            self.network().check().map_err(Error::invalid)?;
        }
        Ok(())
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
    /// Queue elements that it was given.
    pub requests: u64,
    /// Queue elements that it gave.
    pub answers: u64,
    /// Seconds of processor time that its process has used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Bytes of memory that its process has in use, those of applications' payload included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident: Option<u64>,
}

impl Spec for Nsm {
    type Status = NsmStatus;
    const PATH: &'static str = "nsms";
    const NOUN: &'static str = "nsm";
    const CALLED: [&'static str; 2] = ["a network stack module", "network stack modules"];
    const VERBS: &'static [Verb] = &[
        Verb::List,
        Verb::Show,
        Verb::Create,
        Verb::Patch,
        Verb::Delete,
    ];

    fn note(verb: Verb) -> &'static str {
        match verb {
            Verb::Patch => "Its `properties` can change, at once.",
            Verb::Create => "The answer comes when it serves; one that does not start is removed.",
            Verb::Delete => "No application may use it.",
            _ => "",
        }
    }

    fn example() -> Object<Nsm> {
        let mut nsm = Object::new("stack1", Nsm::default());
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

/// An application: a program, with its children, whose sockets an NSM serves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Application {
    /// The NSM that its new sockets go to.
    pub nsm: String,
    /// What it may have: `maxbw`, `conns`, `weight`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = Object)]
    pub properties: ApplicationProperties,
}

impl Application {
    /// What it may have, as CoreEngine is told.
    pub fn limits(&self) -> Limits {
        let properties = &self.properties;
        Limits {
            weight: properties.weight,
            bytes_per_second: properties.maxbw.map(bytes),
            sockets: properties.conns,
        }
    }
}

/// A rate in bytes a second.
fn bytes(rate: Bandwidth) -> u64 {
    rate.bits().div_ceil(8)
}

/// An application as it is. Counters run from its start, or the last one of CoreEngine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct ApplicationStatus {
    /// The process that it was started as.
    pub pid: u32,
    /// Processes of it that use sockets.
    pub processes: usize,
    /// Its sockets.
    pub sockets: usize,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Connections made and accepted.
    pub connections: u64,
    /// Queue elements that broke the protocol.
    pub violations: u64,
}

impl Spec for Application {
    type Status = ApplicationStatus;
    const PATH: &'static str = "applications";
    const NOUN: &'static str = "application";
    const CALLED: [&'static str; 2] = ["an application", "applications"];
    const VERBS: &'static [Verb] = &[Verb::List, Verb::Show, Verb::Patch, Verb::Delete];

    fn note(verb: Verb) -> &'static str {
        match verb {
            Verb::Patch => {
                "With another `nsm`, new sockets go there; those that there are stay where they are."
            }
            Verb::Delete => "Its sockets are closed; its processes go on without any.",
            _ => "",
        }
    }

    fn example() -> Object<Application> {
        let mut application = Object::new("curl-4711", Application::default());
        application.spec.nsm = "stack1".into();
        application.spec.properties.conns = Some(100);
        application.status = ApplicationStatus {
            pid: 4711,
            processes: 1,
            sockets: 1,
            sent: 78,
            received: 612,
            connections: 1,
            violations: 0,
        };
        application
    }
}

record!(ApplicationRecord: "applications", Application);

/// An application.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ApplicationRecord {
    /// Its name.
    pub name: String,
    /// What is wanted.
    pub spec: Application,
    /// By what its processes prove to CoreEngine that they are its.
    pub token: Token,
    /// The process that it was started as.
    pub pid: u32,
    /// When that was started, in clock ticks since the boot of the machine; none if it had ended.
    pub started: Option<u64>,
}

/// A program that is to become an application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Admission {
    /// The application's name.
    pub name: String,
    /// The NSM that its sockets are to go to.
    pub nsm: String,
    /// What it may have: `maxbw`, `conns`, `weight`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = Object)]
    pub properties: ApplicationProperties,
    /// The program's process: the application lasts at least as long.
    pub pid: u32,
}

/// What an application's programs need in their environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Admitted {
    /// `LD_PRELOAD`: the library that redirects sockets.
    #[schema(value_type = String)]
    pub library: PathBuf,
    /// `WEIR_SOCK`: where, and as which application, its processes join CoreEngine. Whoever knows it can be one of them.
    pub sock: String,
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
