//! Operations that only some resources have.

use super::{Method, Operation};
use crate::error::Kind;
use crate::model::{
    Action, Address, Admission, Admitted, Clones, Configuration, ConfigurationState, CrashReport,
    CrashesQuery, Entry, EntryStatus, Event, EventsQuery, FlowStats, Guest, GuestAction,
    GuestOutcome, GuestSeries, HandlerRead, HandlerValue, HandlerWrite, Happened, LaneStats,
    LogLine, LogQuery, LogsQuery, MAIN, Migrate, Migrated, NodeStatus, Object, PortStats, Purge,
    Rename, Restore, Save, Saved, Selection, SettledFlow, Socket, SocketCall, SocketState,
    SocketTrace, Spec, State, Topic, TraceQuery, UnknownGuest, Wire, WireChange,
};

use Kind::{Exists, InUse, Invalid, NotFound, Refused};
use Method::{Delete, Get, Post, Put};

/// Declares operations: the sentence, the name, method and path, kinds of errors, types of body and
/// answer, and an example of each.
macro_rules! operations {
    ($(#[doc = $doc:literal] $name:ident: $method:ident $path:literal $errors:tt,
        $body:ty => $answer:ty, $given:expr => $example:expr;)*) => { $(
        #[doc = $doc]
        pub fn $name() -> Operation<$body, $answer> {
            let name = stringify!($name).replace('_', "-");
            Operation::new(($method, $path), (&name, $doc.trim()), &$errors, $given, $example)
        }
    )* };
}

operations! {
    /// Shows the node's version, processes and number of resources.
    show_node: Get "/v1/node" [], () => NodeStatus, () => node();
    /// Removes all guests, VNICs, links, the switch and the state, and ends the node; `confirm` must be true.
    purge_node: Delete "/v1/node" [Invalid], Purge => (), Purge { confirm: true } => ();
    /// Ends the guests that run and of which no record is left; the answer lists them.
    end_unknown: Post "/v1/node/end-unknown" [], () => Vec<UnknownGuest>, () => vec![unknown()];
    /// Forgets the damaged records of the state.
    forget_damaged: Post "/v1/node/forget-damaged" [], () => (), () => ();

    /// Reads a handler of a guest.
    read_handler: Post "/v1/guests/{name}/read" [Invalid, NotFound, Refused],
        HandlerRead => HandlerValue, HandlerRead { handler: "ping.count".into() } => value("3");
    /// Writes a handler of a guest; `hotconfig` replaces its configuration, which is kept.
    write_handler: Post "/v1/guests/{name}/write" [Invalid, NotFound, Refused],
        HandlerWrite => HandlerValue, written() => value("");

    /// Does something with many guests at once, by names and patterns; the answer has each guest as soon as it is done.
    act_on_guests: Post "/v1/guest-actions" [Invalid],
        GuestAction => Vec<GuestOutcome>, act() => vec![outcome("fw-1")];
    /// Creates guests that differ by a number; the answer has each guest as soon as it runs.
    create_guests: Post "/v1/guest-series" [Invalid],
        GuestSeries => Vec<GuestOutcome>, series() => vec![outcome("fw-1"), outcome("fw-2")];
    /// Gives a guest another name; its VNICs keep theirs.
    rename_guest: Post "/v1/guests/{name}/rename" [Invalid, NotFound, Exists],
        Rename => Object<Guest>, Rename { name: "nat".into() } => Guest::example();

    /// Shows a configuration that a guest runs beside its main one.
    show_configuration: Get "/v1/guests/{name}/configurations/{configuration}" [NotFound],
        () => Configuration, () => configuration();
    /// Installs or replaces another configuration of a guest; others keep their state.
    install_configuration: Put "/v1/guests/{name}/configurations/{configuration}" [Invalid, NotFound, InUse, Refused],
        Configuration => Object<Guest>, configuration() => with_configuration();
    /// Uninstalls a configuration of a guest; the others keep their state.
    uninstall_configuration: Delete "/v1/guests/{name}/configurations/{configuration}" [NotFound, InUse, Refused],
        () => (), () => ();

    /// Saves a guest to a file of the node's host; it is stopped then, or goes on with `keep`.
    save_guest: Post "/v1/guests/{name}/save" [Invalid, NotFound, Refused],
        Save => Saved, save() => Saved { file: save().file, bytes: 250_000 };
    /// Restores a saved guest: into the stopped guest of its name, or as a new one.
    restore_guest: Post "/v1/guest-restore" [Invalid, NotFound, Exists, Refused],
        Restore => Object<Guest>, Restore { file: save().file, name: None } => Guest::example();
    /// Makes copies of a guest, with its state and addresses of their own; the answer has each as soon as it runs.
    clone_guest: Post "/v1/guests/{name}/clone" [Invalid, NotFound, Refused],
        Clones => Vec<GuestOutcome>, clones() => vec![outcome("fw-1"), outcome("fw-2")];

    /// Moves a running guest to another node, with its state, addresses and frames.
    migrate_guest: Post "/v1/guests/{name}/migrate" [Invalid, NotFound, Refused],
        Migrate => Migrated, migrate() => migrated();

    /// Shows what a guest printed: the lines that the node keeps of it.
    show_guest_log: Get "/v1/guests/{name}/log" [Invalid, NotFound],
        LogQuery => Vec<LogLine>, LogQuery::default() => vec![line()];
    /// Shows what guests printed: the lines that the node keeps of them, in the order in which it took them.
    list_guest_logs: Get "/v1/guest-logs" [Invalid, NotFound],
        LogsQuery => Vec<LogLine>, LogsQuery::default() => vec![line()];

    /// Lists what happened: the events that the node keeps.
    list_events: Get "/v1/events" [Invalid],
        EventsQuery => Vec<Event>, EventsQuery::default() => vec![event()];

    /// Lists the crash reports of guests that the node keeps, oldest first.
    list_crashes: Get "/v1/crashes" [Invalid],
        CrashesQuery => Vec<CrashReport>, CrashesQuery::default() => vec![crash().listed()];
    /// Shows a crash report, by its number or as the last one of a guest.
    show_crash: Get "/v1/crashes/{name}" [NotFound], () => CrashReport, () => crash();
    /// Removes a crash report by its number, or those of guests by a name or a pattern.
    remove_crashes: Delete "/v1/crashes/{name}" [NotFound], () => (), () => ();

    /// Lists the Ethernet addresses that the switch of a link knows.
    list_macs: Get "/v1/switches/{name}/macs" [NotFound, Refused],
        () => Vec<Address>, () => vec![address()];
    /// Removes the addresses that the switch of a link has learned.
    flush_macs: Post "/v1/switches/{name}/flush" [NotFound, Refused], () => (), () => ();
    /// Lists the entries of a link's flow table: made by command, or learned.
    list_entries: Get "/v1/switches/{name}/flows" [Invalid, NotFound, Refused],
        () => Vec<Entry>, () => vec![entry()];
    /// Sets the port of the link that a flow goes to.
    add_entry: Post "/v1/switches/{name}/flows" [Invalid, NotFound, Refused],
        Entry => Entry, entry() => entry();
    /// Removes the entry, made by command, of a flow.
    remove_entry: Delete "/v1/switches/{name}/flows/{flow}" [Invalid, NotFound],
        () => (), () => ();

    /// Admits a program as an application, whose sockets a network stack module serves.
    admit_application: Post "/v1/applications" [Invalid, NotFound, Exists, Refused],
        Admission => Admitted, admission() => admitted();
    /// Lists the sockets of an application.
    list_sockets: Get "/v1/applications/{name}/sockets" [NotFound], () => Vec<Socket>, () => vec![socket()];
    /// Shows what the sockets of an application do: the records behind one. The first request begins the trace, which ends after 10 s without a request.
    trace_sockets: Get "/v1/applications/{name}/trace" [Invalid, NotFound],
        TraceQuery => SocketTrace, TraceQuery::default() => trace();

    /// Makes a wire match the body, as a whole or not at all. The answer lists the steps.
    apply_wire: Put "/v1/wires/{name}" [Invalid, NotFound, Exists, InUse, Refused],
        Object<Wire> => WireChange, Object::example_body() => change();
    /// Lists the steps that applying a wire would take.
    compare_wire: Post "/v1/wires/{name}/diff" [Invalid, NotFound, Exists, InUse, Refused],
        Object<Wire> => WireChange, Object::example_body() => change();

    /// Shows the counters of all attached interfaces, VNICs and patches.
    list_stats: Get "/v1/stats" [], () => Vec<PortStats>, () => vec![port()];
    /// Shows the counters of one attached interface, VNIC or end of a patch.
    show_stats: Get "/v1/stats/{name}" [NotFound], () => PortStats, () => port();
    /// Shows the counters of one attached interface, VNIC or end of a patch, for each lane.
    show_lane_stats: Get "/v1/stats/{name}/lanes" [NotFound],
        () => Vec<PortStats>, () => vec![PortStats { lane: Some(0), ..port() }];
    /// Shows the counters of all flows.
    list_flow_stats: Get "/v1/flow-stats" [], () => Vec<FlowStats>, () => vec![flow()];
    /// Lists the flows of which guests said that they are settled, and for those that are not, why; with `name`, of these VNICs.
    list_settled_flows: Get "/v1/settled-flows" [Invalid],
        Selection => Vec<SettledFlow>, Selection::default() => vec![settled()];
    /// Shows the counters of one flow.
    show_flow_stats: Get "/v1/flow-stats/{name}" [NotFound], () => FlowStats, () => flow();
    /// Shows the counters of the switch's lanes.
    list_lanes: Get "/v1/lanes" [], () => Vec<LaneStats>,
        () => vec![LaneStats { queues: 2, frames: 6, ..LaneStats::default() }];
}

fn node() -> NodeStatus {
    NodeStatus {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: 4700,
        switch_pid: Some(4701),
        store_pid: Some(4703),
        ..NodeStatus::default()
    }
}

fn unknown() -> UnknownGuest {
    UnknownGuest {
        name: "fw".into(),
        pid: 4702,
        started: 8_245_011,
    }
}

fn value(value: &str) -> HandlerValue {
    let value = value.into();
    HandlerValue { value }
}

fn written() -> HandlerWrite {
    HandlerWrite {
        handler: "ping.reset_counts".into(),
        value: String::new(),
    }
}

fn configuration() -> Configuration {
    Configuration {
        config: "RatedSource(RATE 10) -> c :: Counter -> Discard;".into(),
        ..Configuration::default()
    }
}

fn with_configuration() -> Object<Guest> {
    let mut guest = Guest::example();
    let name = "probe".to_string();
    guest
        .spec
        .configurations
        .insert(name.clone(), configuration());
    let names = [MAIN.to_string(), name];
    let running = names.map(|name| (name, ConfigurationState::Running));
    guest.status.configurations = running.into();
    guest
}

fn save() -> Save {
    Save {
        file: "/var/lib/weir/fw.saved".into(),
        keep: false,
    }
}

fn clones() -> Clones {
    Clones {
        name: "fw-{}".into(),
        count: 2,
        first: 1,
    }
}

fn migrate() -> Migrate {
    Migrate {
        to: "host2.example.org:6640".into(),
        links: [("lan".into(), "lan0".into())].into(),
    }
}

fn migrated() -> Migrated {
    Migrated {
        rounds: 3,
        bytes: 2_400_000,
        last_bytes: 90_000,
        total_ms: 25.0,
        blackout_ms: 6.5,
        late_frames: 4,
    }
}

fn act() -> GuestAction {
    GuestAction {
        action: Action::Stop,
        guests: vec!["nat".into(), "fw-*".into()],
    }
}

fn series() -> GuestSeries {
    GuestSeries {
        name: "fw-{}".into(),
        count: 2,
        first: 1,
        guest: Guest {
            interfaces: [("lan".into(), "lan".into())].into(),
            ..Guest::example().spec
        },
    }
}

fn outcome(guest: &str) -> GuestOutcome {
    GuestOutcome {
        guest: guest.into(),
        status: Some(Guest::example().status),
        error: None,
    }
}

fn line() -> LogLine {
    LogLine {
        number: 1_900_000_000_000_000,
        time: "2030-01-31T12:00:00.000Z".into(),
        guest: "fw-1".into(),
        line: "ok:   60 | 02000000 00010200 00000002 08004500".into(),
        lost: None,
    }
}

fn event() -> Event {
    let event = Event::of(Topic::Guest, "fw-1", Happened::Stopped);
    Event {
        number: 1_900_000_000_000_000,
        time: "2030-01-31T12:00:00.000Z".into(),
        by: Some("root".into()),
        ..event
    }
}

fn crash() -> CrashReport {
    CrashReport {
        number: 7,
        guest: "fw-1".into(),
        time: "2030-01-31T12:00:00.000Z".into(),
        reason: "the guest crashed: it ran out of stack (at 0x401c10, parse+0x10, in element 3)"
            .into(),
        element: Some("‘filter :: IPFilter’, line 12".into()),
        symbol: Some("parse+0x10".into()),
        registers: [("rip".into(), "0000000000401c10".into())].into(),
        uptime: Some(86_400.5),
        config_hash: "9d1c2b7f".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        console: vec!["ok:   60 | 02000000 00010200 00000002 08004500".into()],
        ..CrashReport::default()
    }
}

fn address() -> Address {
    Address {
        mac: switch::lookup::Mac([2, 0, 0, 0, 0, 1]),
        vlan: 0,
        port: "desk0".into(),
        age: Some(3),
    }
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

fn admission() -> Admission {
    Admission {
        name: "curl-4711".into(),
        nsm: "stack1".into(),
        pid: 4711,
        ..Admission::default()
    }
}

fn admitted() -> Admitted {
    Admitted {
        library: "/run/weir/sock/libweir_sock.so".into(),
        sock: "/run/weir/sock/door:00112233445566778899aabbccddeeff".into(),
    }
}

fn socket() -> Socket {
    Socket {
        number: 3,
        nsm: "stack1".into(),
        state: SocketState::Listening,
        bound: Some(([0, 0, 0, 0], 80).into()),
        local: Some(([0, 0, 0, 0], 80).into()),
        shares: 1,
        ..Socket::default()
    }
}

fn trace() -> SocketTrace {
    let connected = SocketCall {
        number: 1,
        time: "2030-01-31T12:00:00.000200Z".into(),
        socket: 4,
        answer: true,
        operation: "connect".into(),
        address: Some(([10, 0, 0, 2], 40112).into()),
        took_us: Some(213.5),
        ..SocketCall::default()
    };
    SocketTrace {
        records: vec![connected],
        next: 1,
        lost: 0,
    }
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

fn flow() -> FlowStats {
    FlowStats {
        name: "web".into(),
        link: "lan".into(),
        frames: 3,
        bytes: 294,
        ..FlowStats::default()
    }
}

fn settled() -> SettledFlow {
    SettledFlow {
        vnic: "fw-in".into(),
        to_vnic: "fw-out".into(),
        link: Some("eth1".into()),
        to_link: Some("eth2".into()),
        transport: "tcp".into(),
        source: "10.0.0.2:40000".into(),
        destination: "192.0.2.1:80".into(),
        to_source: "192.0.2.9:1024".into(),
        to_destination: "192.0.2.1:80".into(),
        packets: 3,
        bytes: 294,
        idle_ms: 20,
        reason: None,
    }
}

fn change() -> WireChange {
    WireChange {
        steps: vec!["+ stub ‘lan’".into(), "+ vnic ‘desk0’".into()],
        warnings: Vec::new(),
    }
}
