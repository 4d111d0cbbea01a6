//! The operations that are not those of every resource.

use super::{Method, Operation};
use crate::error::Kind;
use crate::model::{
    Address, Entry, EntryStatus, FlowStats, HandlerRead, HandlerValue, HandlerWrite, LaneStats,
    NodeStatus, Object, PortStats, Purge, Spec, State, Wire, WireChange,
};

use Kind::{Invalid, NotFound, Refused};
use Method::{Delete, Get, Post, Put};

/// The node itself.
pub fn node() -> Operation<(), NodeStatus> {
    let example = NodeStatus {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: 4700,
        switch_pid: Some(4701),
        ..NodeStatus::default()
    };
    let says = (
        "show-node",
        "Shows the node's version, processes and number of resources.",
    );
    Operation::new((Get, "/v1/node"), says, &[], (), example)
}

/// The end of everything.
pub fn purge() -> Operation<Purge, ()> {
    let says = (
        "purge-node",
        "Removes all guests, VNICs, links, the switch and the state, and ends the node; `confirm` has to be true.",
    );
    let body = Purge { confirm: true };
    Operation::new((Delete, "/v1/node"), says, &[Invalid], body, ())
}

/// Reads a handler.
pub fn read() -> Operation<HandlerRead, HandlerValue> {
    let says = ("read-handler", "Reads a handler of a guest.");
    let body = HandlerRead {
        handler: "ping.count".into(),
    };
    let answer = HandlerValue { value: "3".into() };
    let errors = [Invalid, NotFound, Refused];
    Operation::new(
        (Post, "/v1/guests/{name}/read"),
        says,
        &errors,
        body,
        answer,
    )
}

/// Writes a handler.
pub fn write() -> Operation<HandlerWrite, HandlerValue> {
    let says = (
        "write-handler",
        "Writes a handler of a guest; `hotconfig` replaces its configuration, which is kept.",
    );
    let body = HandlerWrite {
        handler: "ping.reset_counts".into(),
        value: String::new(),
    };
    let answer = HandlerValue {
        value: String::new(),
    };
    let errors = [Invalid, NotFound, Refused];
    Operation::new(
        (Post, "/v1/guests/{name}/write"),
        says,
        &errors,
        body,
        answer,
    )
}

/// The addresses that a switch knows.
pub fn macs() -> Operation<(), Vec<Address>> {
    let says = (
        "list-macs",
        "Lists the Ethernet addresses that the switch of a link knows.",
    );
    let example = Address {
        mac: switch::lookup::Mac([2, 0, 0, 0, 0, 1]),
        vlan: 0,
        port: "desk0".into(),
        age: Some(3),
    };
    let errors = [NotFound, Refused];
    Operation::new(
        (Get, "/v1/switches/{name}/macs"),
        says,
        &errors,
        (),
        vec![example],
    )
}

/// Removes what was learned.
pub fn flush() -> Operation<(), ()> {
    let says = (
        "flush-macs",
        "Removes the addresses that the switch of a link has learned.",
    );
    let errors = [NotFound, Refused];
    Operation::new((Post, "/v1/switches/{name}/flush"), says, &errors, (), ())
}

fn entry() -> Entry {
    Entry {
        flow: "tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1024,tp_dst=80".into(),
        port: "desk0".into(),
        status: EntryStatus {
            age: None,
            state: State::Up,
        },
    }
}

/// The entries of a flow table.
pub fn entries() -> Operation<(), Vec<Entry>> {
    let says = (
        "list-entries",
        "Lists the entries of a link's flow table: those made by command, and those that were learned.",
    );
    let errors = [Invalid, NotFound, Refused];
    Operation::new(
        (Get, "/v1/switches/{name}/flows"),
        says,
        &errors,
        (),
        vec![entry()],
    )
}

/// Adds an entry.
pub fn add_entry() -> Operation<Entry, Entry> {
    let says = (
        "add-entry",
        "Has a flow go to a port of the link, in the place of the port that it had before.",
    );
    let errors = [Invalid, NotFound, Refused];
    let path = (Post, "/v1/switches/{name}/flows");
    Operation::new(path, says, &errors, entry(), entry()).creates()
}

/// Removes an entry.
pub fn remove_entry() -> Operation<(), ()> {
    let says = (
        "remove-entry",
        "Removes the entry of a flow that was made by command.",
    );
    let path = (Delete, "/v1/switches/{name}/flows/{flow}");
    Operation::new(path, says, &[Invalid, NotFound], (), ())
}

fn port() -> PortStats {
    PortStats {
        name: "desk0".into(),
        link: "lan".into(),
        rx_frames: 3,
        rx_bytes: 294,
        ..PortStats::default()
    }
}

/// Counters of all ports.
pub fn stats() -> Operation<(), Vec<PortStats>> {
    let says = (
        "list-stats",
        "Shows the counters of all attached interfaces, VNICs and patches.",
    );
    Operation::new((Get, "/v1/stats"), says, &[], (), vec![port()])
}

/// Counters of one port.
pub fn stats_of() -> Operation<(), PortStats> {
    let says = (
        "show-stats",
        "Shows the counters of one attached interface, VNIC or end of a patch.",
    );
    Operation::new((Get, "/v1/stats/{name}"), says, &[NotFound], (), port())
}

/// Counters of one port by lane.
pub fn stats_by_lane() -> Operation<(), Vec<PortStats>> {
    let says = (
        "show-lane-stats",
        "Shows the counters of one attached interface, VNIC or end of a patch, of each lane apart.",
    );
    let example = PortStats {
        lane: Some(0),
        ..port()
    };
    let path = (Get, "/v1/stats/{name}/lanes");
    Operation::new(path, says, &[NotFound], (), vec![example])
}

/// Counters of flows.
pub fn flow_stats() -> Operation<(), Vec<FlowStats>> {
    let says = ("list-flow-stats", "Shows the counters of all flows.");
    let example = FlowStats {
        name: "web".into(),
        link: "lan".into(),
        frames: 3,
        bytes: 294,
        ..FlowStats::default()
    };
    Operation::new((Get, "/v1/flow-stats"), says, &[], (), vec![example])
}

/// Counters of one flow.
pub fn flow_stats_of() -> Operation<(), FlowStats> {
    let says = ("show-flow-stats", "Shows the counters of one flow.");
    let example = FlowStats {
        name: "web".into(),
        link: "lan".into(),
        frames: 3,
        bytes: 294,
        ..FlowStats::default()
    };
    Operation::new(
        (Get, "/v1/flow-stats/{name}"),
        says,
        &[NotFound],
        (),
        example,
    )
}

/// Counters of lanes.
pub fn lanes() -> Operation<(), Vec<LaneStats>> {
    let says = ("list-lanes", "Shows the counters of the switch's lanes.");
    let example = LaneStats {
        queues: 2,
        frames: 6,
        ..LaneStats::default()
    };
    Operation::new((Get, "/v1/lanes"), says, &[], (), vec![example])
}

fn change() -> WireChange {
    WireChange {
        steps: vec!["+ stub ‘lan’".into(), "+ vnic ‘desk0’".into()],
        warnings: Vec::new(),
    }
}

const WIRE: [Kind; 5] = [Invalid, NotFound, Kind::Exists, Kind::InUse, Refused];

/// Applies a wire.
pub fn apply_wire() -> Operation<Object<Wire>, WireChange> {
    let says = (
        "apply-wire",
        "Makes a wire what the body says: all of it, or nothing is changed. The answer lists the steps.",
    );
    let body = Object::<Wire>::example_body();
    Operation::new((Put, "/v1/wires/{name}"), says, &WIRE, body, change())
}

/// Compares a wire.
pub fn compare_wire() -> Operation<Object<Wire>, WireChange> {
    let says = (
        "compare-wire",
        "Lists the steps that applying a wire would take.",
    );
    let body = Object::<Wire>::example_body();
    let path = (Post, "/v1/wires/{name}/diff");
    Operation::new(path, says, &WIRE, body, change())
}

impl<S: Spec> Object<S> {
    /// An example as a request has it.
    pub(super) fn example_body() -> Object<S> {
        let example = S::example();
        Object::new(example.name, example.spec)
    }
}
