//! Specifications and statuses of all resources, shared by the API, the store, wire files, the
//! client and the commands; and the store's records around them.

mod application;
mod chain;
mod configuration;
mod copy;
mod crash;
mod event;
mod flow;
mod guest;
mod health;
mod link;
mod log;
mod migrate;
mod name;
mod nsm;
mod object;
mod on_demand;
mod properties;
mod settled;
mod stats;
mod stub;
mod switch;
mod verb;
mod vnic;
mod wire;

pub use self::switch::{
    Address, Entry, EntryRecord, EntryStatus, SwitchFunction, SwitchStatus, action_text, output,
};
pub use application::{
    Admission, Admitted, Application, ApplicationRecord, ApplicationStatus, CommandLine, Ended,
    Intercept,
};
pub use chain::Chain;
pub use configuration::{Configuration, ConfigurationState, MAIN};
pub use copy::{Clones, Restore, Save, Saved};
pub use crash::{CrashRecord, CrashReport, CrashesQuery};
pub use event::{Event, EventsQuery, Happened, Topic};
pub use flow::{Flow, FlowRecord, FlowStats, FlowStatus};
pub use guest::{
    Booted, Destination, Guest, GuestPort, GuestRecord, GuestState, GuestStatus, HandlerRead,
    HandlerValue, HandlerWrite, Isolation, Leaving, Limits, Memory, NoSize, Restart, Run,
};
pub use health::{Health, NoHealth};
pub use link::{
    Class, LINK_FORMS, LINK_HELP, Link, LinkRecord, LinkStatus, Mode, Neighbor, State, Tunnel,
};
pub use log::{LogLine, LogQuery, LogsQuery, NoTime, Since, rfc3339};
pub use migrate::{Arrival, ArrivalPort, Migrate, Migrated};
pub use name::{INTERFACE_NAME_MAX, NAME_MAX, check_interface, check_name};
pub use nsm::{
    Nsm, NsmKind, NsmRecord, NsmStatus, Others, Socket, SocketCall, SocketState, SocketTrace,
    SocketTransport, TraceQuery,
};
pub(crate) use object::parsed_from;
pub(crate) use object::plain;
pub use object::{Object, Record, Spec, Verb, check_status, name_of, parsed, patched};
pub use on_demand::{Idle, NoIdle, OnDemand, Trigger};
pub use settled::SettledFlow;
pub use stats::{LaneStats, PortStats, Scrape};
pub use stub::{STUB_MTUS, Stub, check_stub_mtu};
pub use verb::{
    Action, GuestAction, GuestOutcome, GuestSeries, NUMBER, Rename, Selection, is_pattern,
};
pub(crate) use verb::{pattern, select};
pub(crate) use vnic::takes_less;
pub use vnic::{LOCATIONS, Location, Vnic, VnicRecord, VnicStatus, is_usable};
pub use wire::{
    Forwarding, Namespace, NoRoute, Patch, Route, Table, Wire, WireChange, WireGuest, WireProcess,
    WireRecord, WireStatus,
};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The node itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct NodeStatus {
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// The switch's process; none while there is none.
    pub switch_pid: Option<u32>,
    /// The control store's process; none while there is none.
    #[serde(default)]
    pub store_pid: Option<u32>,
    /// Number of times that this node had to start a switch because the last one ended.
    pub switch_restarts: u64,
    /// Flows whose packets the kernel passes on, in one direction each.
    pub settled_flows: u64,
    /// Links, stubs included.
    pub links: usize,
    /// VNICs.
    pub vnics: usize,
    /// Flows.
    pub flows: usize,
    /// Guests.
    pub guests: usize,
    /// CoreEngine's process, which switches between applications and network stack modules; none without any of these.
    #[serde(default)]
    pub core_pid: Option<u32>,
    /// Network stack modules.
    #[serde(default)]
    pub nsms: usize,
    /// Applications whose sockets network stack modules serve.
    #[serde(default)]
    pub applications: usize,
    /// Records of the state that are damaged, as in `guests/fw`. Their resources are not there; the others are.
    #[serde(default)]
    pub damaged: Vec<String>,
    /// Guests that run and of which no record is left.
    #[serde(default)]
    pub unknown_guests: Vec<UnknownGuest>,
}

/// A guest that an earlier node started and of which no record is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnknownGuest {
    /// The name that it was started with.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// When that was started, in clock ticks since the boot of the machine.
    pub started: u64,
}

impl UnknownGuest {
    /// Whether it still runs.
    pub(crate) fn runs(&self) -> bool {
        vmm::started(self.pid) == Some(self.started)
    }
}

/// The confirmation that everything is to be removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Purge {
    /// Has to be true.
    #[serde(default)]
    pub confirm: bool,
}
