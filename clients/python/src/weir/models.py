# Written by generate.py: change that, or what it reads.

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from weir._model import Model

__all__ = [
    "Action",
    "Address",
    "Admission",
    "Admitted",
    "Application",
    "ApplicationObject",
    "ApplicationProperties",
    "ApplicationStatus",
    "Class",
    "Clones",
    "Configuration",
    "ConfigurationState",
    "CrashReport",
    "Entry",
    "EntryStatus",
    "Error",
    "Event",
    "Flow",
    "FlowAttributes",
    "FlowObject",
    "FlowProperties",
    "FlowStats",
    "FlowStatus",
    "Guest",
    "GuestAction",
    "GuestObject",
    "GuestOutcome",
    "GuestSeries",
    "GuestState",
    "GuestStatus",
    "HandlerRead",
    "HandlerValue",
    "HandlerWrite",
    "Happened",
    "Intercept",
    "Isolation",
    "Kind",
    "LaneStats",
    "Link",
    "LinkObject",
    "LinkStatus",
    "LogLine",
    "Lookup",
    "Migrate",
    "Migrated",
    "Mode",
    "Namespace",
    "Neighbor",
    "NodeStatus",
    "Nsm",
    "NsmKind",
    "NsmObject",
    "NsmProperties",
    "NsmStatus",
    "OnDemand",
    "Others",
    "Patch",
    "PortProperties",
    "PortStats",
    "Priority",
    "Priority1",
    "ProtectionEnum",
    "Purge",
    "Rename",
    "Restart",
    "Restore",
    "Save",
    "Saved",
    "Settle",
    "SettledFlow",
    "Socket",
    "SocketCall",
    "SocketState",
    "SocketTrace",
    "SocketTransport",
    "State",
    "Stub",
    "StubObject",
    "SwitchFunctionObject",
    "SwitchProperties",
    "SwitchStatus",
    "Table",
    "Topic",
    "Trigger",
    "Tunnel",
    "UnknownGuest",
    "Vnic",
    "VnicObject",
    "VnicStatus",
    "WireChange",
    "WireGuest",
    "WireObject",
    "WireProcess",
    "WireStatus",
]


class Action(StrEnum):
    """
    What is done with guests.
    """

    start = "start"
    stop = "stop"
    restart = "restart"
    pause = "pause"
    resume = "resume"
    announce = "announce"
    template = "template"
    destroy = "destroy"


class Address(Model):
    """An address that a link's switch knows."""

    age: int | None = None
    """Seconds since it was last seen; none for one that does not age."""
    mac: str
    """The address."""
    port: str
    """The VNIC or interface that it is behind."""
    vlan: int
    """Its VLAN; 0 for frames without a tag."""


class Admitted(Model):
    """What an application's programs need in their environment."""

    library: str
    """`LD_PRELOAD`: the library that redirects sockets."""
    sock: str
    """`WEIR_SOCK`: where, and as which application, its processes join CoreEngine. It is a secret of the application."""


class ApplicationProperties(Model):
    """What an application may have."""

    conns: int | None = None
    """Most sockets at a time; default: as many as there can be."""
    maxbw: str | None = None
    """Highest rate of its payload, both directions together; default: no limit."""
    weight: int = 1
    """Weight among the applications that have socket calls to pass on."""


class Class(StrEnum):
    """
    What a link is.
    """

    nic = "nic"
    stub = "stub"


class Clones(Model):
    """Copies of a guest that are to be made."""

    count: int
    """How many; at most 100 000."""
    first: int | None = None
    """The first one's number."""
    name: str
    """Their name, with `{}` for the number. One copy needs none."""


class Configuration(Model):
    """A configuration that a guest runs beside its main one."""

    config: str | None = None
    """The configuration, in Click's language. A list of guests leaves it out."""
    file: str | None = None
    """Its file: in a wire's file it is read from there; in the API it is the configuration's name in messages."""
    variables: dict[str, str] | None = None
    """Values of its variables, or of a function's parameters, which are its own."""


class ConfigurationState(StrEnum):
    """
    State of one of the configurations that a guest runs.
    """

    running = "running"
    halted = "halted"
    error = "error"


class CrashReport(Model):
    """How a guest crashed."""

    config_hash: str
    """CRC-32 of the configuration with its variables, in hexadecimal: equal configurations have equal ones."""
    console: list[str] | None = None
    """The last lines that it printed. A list leaves them out."""
    cpu: int | None = None
    """The vCPU, if it has several."""
    element: str | None = None
    """The element that it reported to run, with its line in the configuration."""
    guest: str
    """The guest."""
    number: int
    """Its number, which no other report has."""
    reason: str
    """How it ended: a sentence."""
    registers: dict[str, str] | None = None
    """Registers by their names, in hexadecimal. A list leaves them out."""
    symbol: str | None = None
    """Function and offset of the instruction."""
    time: str
    """When the node noticed the crash (RFC 3339)."""
    uptime: float | None = None
    """Seconds that it ran."""
    version: str
    """The version of the node."""


class FlowAttributes(Model, alias_generator=None):
    """Which frames belong to a flow, by flowadm's names; at least one."""

    dsfield: str | None = None
    """Differentiated services field."""
    local_ip: str | None = None
    """Local IP address or prefix."""
    local_port: int | None = None
    """Local TCP, UDP or SCTP port."""
    remote_ip: str | None = None
    """Remote IP address or prefix."""
    remote_port: int | None = None
    """Remote TCP, UDP or SCTP port."""
    transport: str | None = None
    """Transport protocol."""


class Priority(StrEnum):
    """Level of the flow's frames; default: the port's."""

    low = "low"
    medium = "medium"
    high = "high"


class FlowProperties(Model):
    """Limit and priority of a flow."""

    maxbw: str | None = None
    """Highest rate, both directions together; default: no limit."""
    priority: Priority | None = None
    """Level of the flow's frames; default: the port's."""


class FlowStats(Model):
    """Counters of a flow."""

    bytes: int
    """Bytes of the flow that passed."""
    dropped: int
    """Frames dropped since too many waited."""
    frames: int
    """Frames of the flow that passed."""
    held: int
    """Frames that waited for the flow's limit."""
    link: str
    """The link or VNIC that it is on."""
    name: str
    """Its name."""


class GuestAction(Model):
    """An action on guests."""

    action: Action
    """What is done."""
    guests: list[str]
    """
    Names, and patterns such as `fw-*`: `*` stands for any characters, `?` for one, `[a-c]` for
    one of those.
    """


class GuestState(StrEnum):
    """
    State of a guest.
    """

    starting = "starting"
    running = "running"
    paused = "paused"
    template = "template"
    silent = "silent"
    unhealthy = "unhealthy"
    stopped = "stopped"
    halted = "halted"
    crashed = "crashed"
    arriving = "arriving"


class GuestStatus(Model):
    """A guest as it is."""

    boot_ms: float | None = None
    """Milliseconds from the order to start it to its main loop; none if this node adopted it."""
    configurations: dict[str, ConfigurationState] = {}
    """The state of each configuration that it runs, if there are several. Its main one is `main`."""
    cpu_s: float | None = None
    """Seconds of processor time that its process has used."""
    domain_id: int = 0
    """Its number in the control store, where it is a domain while it runs."""
    id: int = 0
    """Its number; never given twice."""
    messages: str | None = None
    """Warnings about its configuration; in the answer to its creation or change only."""
    pending: list[str] = []
    """Fields that were changed while it runs, and hold from its next start on."""
    pid: int | None = None
    """Its process."""
    reason: str | None = None
    """How it ended."""
    resident: int | None = None
    """Bytes of memory that its process has in use, shared pages included."""
    restarts: int = 0
    """Number of times that this node has restarted it."""
    state: GuestState = GuestState.starting
    """Its state."""
    uptime_s: float | None = None
    """Seconds that it has run."""
    vnics: dict[str, str] = {}
    """The VNIC of each interface."""
    wall: str | None = None
    """The wall that it has got: `vm` or `process`."""


class HandlerRead(Model):
    """A handler to be read."""

    handler: str
    """
    `ELEMENT.HANDLER`, or `HANDLER` for one of the router's own, with its argument behind a
    space.
    """


class HandlerValue(Model):
    """The value of a handler."""

    value: str
    """Its value; bytes that are no text are replaced."""


class HandlerWrite(Model):
    """A handler to be written."""

    handler: str
    """`ELEMENT.HANDLER`, or `HANDLER` for one of the router's own."""
    value: str | None = None
    """The value."""


class Happened(StrEnum):
    """
    What happened.
    """

    created = "created"
    changed = "changed"
    removed = "removed"
    started = "started"
    running = "running"
    ended = "ended"
    crashed = "crashed"
    restarted = "restarted"
    stopped = "stopped"
    paused = "paused"
    resumed = "resumed"
    saved = "saved"
    template = "template"
    arrived = "arrived"
    left = "left"
    in_doubt = "in-doubt"
    renamed = "renamed"
    installed = "installed"
    uninstalled = "uninstalled"
    unhealthy = "unhealthy"
    healthy = "healthy"
    up = "up"
    down = "down"
    applied = "applied"
    lost = "lost"


class Intercept(StrEnum):
    """
    How a program's socket calls come to its NSM.
    """

    auto = "auto"
    preload = "preload"
    syscall = "syscall"


class Isolation(StrEnum):
    """
    The wall around a guest.
    """

    vm = "vm"
    process = "process"
    auto = "auto"


class Kind(StrEnum):
    """
    What kind of thing went wrong.
    """

    invalid = "invalid"
    forbidden = "forbidden"
    not_found = "not-found"
    not_allowed = "not-allowed"
    late = "late"
    exists = "exists"
    in_use = "in-use"
    too_large = "too-large"
    not_json = "not-json"
    refused = "refused"
    unavailable = "unavailable"
    failed = "failed"


class LaneStats(Model):
    """Counters of one lane of the switch."""

    asleep: int
    """Nanoseconds asleep."""
    busy: int
    """Nanoseconds of rounds that moved frames."""
    by_poll: int
    """Frames picked up while their queue was polled."""
    by_wakeup: int
    """Frames picked up first thing after a wake-up."""
    chains_10_to_50: int
    """Chains of 10 to 50 frames picked up at once."""
    chains_over_50: int
    """Chains of more than 50 frames picked up at once."""
    chains_under_10: int
    """Chains of fewer than 10 frames picked up at once."""
    cpu: int | None = None
    """CPU that it keeps to, if it does."""
    frames: int
    """Frames that the lane picked up."""
    handoff_drops: int
    """Frames from other lanes whose port was gone or had moved meanwhile."""
    handoffs: int
    """Frames that came from other lanes."""
    idle: int
    """Nanoseconds of rounds that found none."""
    lane: int
    """Its number."""
    queues: int
    """Queues that it serves."""
    wakeups: int
    """Times that the lane slept until something woke it."""


class LogLine(Model):
    """One line that a guest printed."""

    guest: str
    """The guest."""
    line: str
    """The line, with control characters escaped."""
    lost: int | None = None
    """
    Bytes of text that were lost here, which the line says; the guest printed more than its
    console holds.
    """
    number: int
    """Its number; lines of all guests are numbered in the order in which the node took them."""
    time: str
    """When the node took it from the guest's console (RFC 3339)."""


class Migrate(Model):
    """Where a guest is to go on."""

    links: dict[str, str] | None = None
    """Links of the other node by the guest's interfaces; default: those of the same names."""
    to: str
    """The other node, as `HOST:PORT`."""


class Migrated(Model):
    """How a guest was migrated."""

    blackout_ms: float
    """Milliseconds from the order to stand still to the other node's word that it runs there."""
    bytes: int
    """Bytes that were sent."""
    last_bytes: int
    """Bytes of them that were sent while it stood still."""
    late_frames: int
    """Frames that came meanwhile, and followed it."""
    rounds: int
    """Rounds of copying while it ran."""
    total_ms: float
    """Milliseconds from the request to the end."""


class Mode(StrEnum):
    """
    How an interface of the host is attached.
    """

    auto = "auto"
    xdp = "xdp"
    packet = "packet"
    tap = "tap"


class Namespace(Model):
    """A network namespace, as `ip netns` knows it."""

    existing: bool | None = None
    """Whether it is there already: then the wire neither makes nor removes it."""
    forwarding: bool | None = None
    """Whether it forwards IP packets between its interfaces."""
    routes: list[str] | None = None
    """Its routes, besides the routes that follow from its addresses."""


class Neighbor(Model):
    """An Ethernet address behind another host. Frames to it, and ARP requests for its IP addresses, go to that host alone."""

    ips: list[str] | None = None
    """Its IPv4 addresses."""
    mac: str
    """The address."""
    remote: str
    """The other host, one of the remotes."""


class NsmKind(StrEnum):
    """
    What an NSM's network stack is.
    """

    kernel = "kernel"
    user = "user"
    shm = "shm"
    program = "program"


class NsmProperties(Model):
    """What an NSM may have, for all its applications together."""

    conns: int | None = None
    """Most sockets at a time; default: as many as there can be."""
    maxbw: str | None = None
    """Highest rate of payload, both directions together; default: no limit."""


class Others(StrEnum):
    """
    What connections of an shm NSM to addresses that are not its own fail with.
    """

    unreachable = "unreachable"
    refused = "refused"


class Priority1(StrEnum):
    """Level of the port: a higher level is always served first."""

    low = "low"
    medium = "medium"
    high = "high"


class ProtectionEnum(StrEnum):
    mac_nospoof = "mac-nospoof"
    ip_nospoof = "ip-nospoof"
    dhcp_nospoof = "dhcp-nospoof"
    restricted = "restricted"


class Settle(StrEnum):
    """Whether the guest may settle flows, whose packets the kernel then passes on by itself; on both VNICs between which they go."""

    on = "on"
    off = "off"


class PortProperties(Model):
    """Properties of a port: speed, delay, loss, VLAN, protection and so on."""

    allowed_ips: list[str] | None = Field(None, max_length=64)
    """IP addresses of the port, for `ip-nospoof` and for a guest that is started on demand."""
    cpus: list[int] | None = Field(None, max_length=64)
    """CPUs whose lanes may serve the port; default: any."""
    delay: str = "0us"
    """Delay of each frame to the port."""
    flood_limit: int | None = None
    """Highest rate of broadcast, multicast and unknown unicast frames that the port sends."""
    jitter: str = "0us"
    """Variation of the delay, up and down; frames stay in order."""
    lanes: int | None = None
    """Number of lanes that serve the port; default: one for each queue, or all of `cpus`."""
    loss: str = "0%"
    """Share of the frames to the port that is lost."""
    maxbw: str | None = None
    """Highest rate in each direction; default: no limit."""
    mtu: int | None = None
    """Largest IP packet; default: the link's."""
    priority: Priority1 = Priority1.medium
    """Level of the port: a higher level is always served first."""
    protection: list[ProtectionEnum] | None = Field(None, max_length=64)
    """Frames that the port must not send; they are dropped and counted."""
    settle: Settle = Settle.off
    """Whether the guest may settle flows, whose packets the kernel then passes on by itself; on both VNICs between which they go."""
    share: int = 100
    """Weight among the ports of the same domain and level."""
    vlan: int | None = None
    """VLAN of an access port: its frames are untagged and belong to this VLAN."""


class PortStats(Model):
    """
    Counters of a link's interface, of a VNIC or of an end of a wire's patch, since it was attached
    to the switch that runs.

    "Received" is from its own point of view: from the wire for an interface, from the switch for a
    VNIC or a patch.
    """

    by_poll: int
    """Frames that the switch took from the port while polling it."""
    by_wakeup: int
    """Frames that the switch took from the port first thing after a wake-up."""
    chains_10_to_50: int
    """Chains of 10 to 50 frames that the switch took from the port at once."""
    chains_over_50: int
    """Chains of more than 50 frames that the switch took from the port at once."""
    chains_under_10: int
    """Chains of fewer than 10 frames that the switch took from the port at once."""
    drops: dict[str, int]
    """Frames dropped, by reason; none that never happened."""
    lane: int | None = None
    """The lane that counted it, if it is one's counters alone."""
    link: str
    """The link."""
    name: str
    """The interface or VNIC; for a patch WIRE/PATCH:a or b, as ‘between’ names its ends."""
    rx_bytes: int
    """Bytes received, from the Ethernet header on."""
    rx_frames: int
    """Frames received."""
    tx_bytes: int
    """Bytes sent, from the Ethernet header on."""
    tx_frames: int
    """Frames sent."""
    wakeups: int
    """Times that the port went from sleeping to being polled."""


class Purge(Model):
    """The confirmation that everything is to be removed."""

    confirm: bool | None = None
    """Has to be true."""


class Rename(Model):
    """Another name for a guest."""

    name: str
    """The name."""


class Restart(StrEnum):
    """
    When a guest that ended is restarted.
    """

    always = "always"
    on_failure = "on-failure"
    never = "never"


class Restore(Model):
    """A saved guest that is to go on."""

    file: str
    """The file, by its path on the node's host."""
    name: str | None = None
    """Another name for the guest."""


class Save(Model):
    """Where a guest is saved to."""

    file: str
    """The file, by its path on the node's host. An existing one is replaced."""
    keep: bool | None = None
    """Whether the guest goes on. Otherwise it is stopped, and can be restored as if nothing had happened but time."""


class Saved(Model):
    """A file that a guest was saved to."""

    bytes: int
    """Its length in bytes."""
    file: str
    """Its path."""


class SettledFlow(Model):
    """A flow of which a guest said that it is settled, in one direction."""

    bytes: int
    """Their bytes."""
    destination: str
    """The receiver's."""
    idle_ms: int
    """Milliseconds since the last one."""
    link: str | None = None
    """The link by whose interface they come; none if the flow is not settled."""
    packets: int
    """Packets that the kernel passed on."""
    reason: str | None = None
    """Why the flow is not settled, and all its packets go to the guest; none if it is settled."""
    source: str
    """The sender's address and port when they come."""
    to_destination: str
    """The receiver's."""
    to_link: str | None = None
    """The link by whose interface they leave."""
    to_source: str
    """The sender's address and port when they leave."""
    to_vnic: str
    """The guest's VNIC by which the guest sends them on."""
    transport: str
    """`tcp` or `udp`."""
    vnic: str
    """The guest's VNIC by which its packets come."""


class SocketCall(Model):
    """A socket call that reached an NSM, or what an NSM answered or told."""

    address: str | None = None
    """The address that it names."""
    answer: bool
    """Whether it comes from the NSM; else from the application."""
    bytes: int | None = None
    """Bytes of payload."""
    error: str | None = None
    """The error of an answer."""
    number: int
    """Its number, from 1 on."""
    operation: str
    """What was asked, answered or told: `connect`, `sent`, `data`."""
    option: list[int] | None = Field(None, max_length=2)
    """A socket option, as level and name."""
    socket: int
    """The socket's number in the application."""
    time: str
    """When it passed CoreEngine, in UTC."""
    took_us: float | None = None
    """Microseconds from the request to this answer."""


class SocketState(StrEnum):
    """
    What a socket does.
    """

    open = "open"
    listening = "listening"
    failed = "failed"
    closing = "closing"


class SocketTrace(Model):
    """What the sockets of an application did."""

    lost: int
    """Records before these that were dropped, since nobody asked for them in time."""
    next: int
    """The number of the last record, to ask for the next ones with."""
    records: list[SocketCall]
    """The records, in order; at most 256."""


class SocketTransport(StrEnum):
    """
    The transport protocol of a socket.
    """

    tcp = "tcp"
    udp = "udp"


class State(StrEnum):
    """
    Whether something does what it is there for.
    """

    up = "up"
    down = "down"
    unused = "unused"
    waiting = "waiting"


class Lookup(StrEnum):
    """
    The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as `{"click": {"config": …}}`.
    """

    learning = "learning"
    hash = "hash"
    flow_table = "flow-table"


class Stub(Model):
    """
    A switch without a NIC, as it is written: all in one table, where an unknown key is an error
    with its line.
    """

    aging: int | None = None
    """Seconds after which an address that was not seen again is removed."""
    lookup: Lookup | dict[str, Any] | None = None
    """The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as `{"click": {"config": …}}`."""
    mac_limit: int | None = None
    """Most addresses that are learned behind one port."""
    mtu: int | None = None
    """Largest IP packet, in bytes; 1500 if none is given."""
    speed: str | None = None
    """Highest rate of each port without a `maxbw` of its own."""


class SwitchProperties(Model):
    """Properties of a switch."""

    aging: int = 300
    """Seconds after which an unused address is removed."""
    lookup: Lookup | dict[str, Any] | None = None
    """The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as `{"click": {"config": …}}`."""
    mac_limit: int = 1024
    """Highest number of addresses learned for one port."""
    speed: str | None = None
    """Highest rate in each direction of each port without a `maxbw` of its own."""


class SwitchStatus(Model):
    """The switch of a link as it is."""

    missing: list[str] = []
    """In the answer to a new Click configuration: names in it that no port of the link has yet."""


class Table(Model):
    """A switch's flow table."""

    default: str | None = None
    """
    The action for frames without an entry, in ovs-ofctl's words: `normal` (by addresses), `drop`
    or `output:VNIC`; default: `normal`.
    """
    flows: dict[str, str] | None = None
    """
    Flows, in ovs-ofctl's words, and the VNIC that each goes to, or the switch's own name for
    its NIC.
    """


class Topic(StrEnum):
    """
    What kind of thing an event is of.
    """

    node = "node"
    switch = "switch"
    store = "store"
    link = "link"
    stub = "stub"
    vnic = "vnic"
    patch = "patch"
    flow = "flow"
    guest = "guest"
    wire = "wire"
    namespace = "namespace"
    core_engine = "core-engine"
    nsm = "nsm"
    application = "application"


class Trigger(StrEnum):
    """
    What starts a guest.
    """

    first_packet = "first-packet"
    flow = "flow"


class Tunnel(Model):
    """A network with other hosts by VXLAN (RFC 7348), as a link reaches it."""

    local: str | None = None
    """This host's address; without one, any."""
    neighbors: list[Neighbor] | None = None
    """Ethernet addresses that are known to be behind them; others are learned."""
    port: int | None = None
    """The UDP port, here and there; without one, 4789."""
    remotes: list[str]
    """The other hosts' addresses, all IPv4 or all IPv6. There may be none yet."""
    vni: int
    """The network's number, 24 bits."""


class UnknownGuest(Model):
    """A guest that an earlier node started and of which no record is left."""

    name: str
    """The name that it was started with."""
    pid: int
    """Its process."""
    started: int
    """When that was started, in clock ticks since the boot of the machine."""


class VnicStatus(Model):
    """A VNIC as it is."""

    guest: str | None = None
    """The guest that has it."""
    interface: str | None = None
    """The name of its interface in the namespace or on the host."""
    mtu: int = 0
    """Largest IP packet, in bytes."""
    reason: str | None = None
    """Why not."""
    state: State = State.unused
    """Whether it works."""


class WireChange(Model):
    """The steps that applying a wire took, or would take."""

    steps: list[str]
    """The steps in their order, a line each: `+` makes a part, `-` removes it, `~` changes it."""
    warnings: list[str] | None = None
    """What the wire's author should know."""


class WireGuest(Model):
    """State of a guest of a wire."""

    name: str
    """Its name."""
    reason: str | None = None
    """How it ended."""
    state: GuestState | None = None


class WireProcess(Model):
    """State of an NSM or an application of a wire."""

    name: str
    """Its name."""
    reason: str | None = None
    """Why it is down."""
    state: State | None = None


class WireStatus(Model):
    """A wire as it is."""

    applications: list[WireProcess] = Field([], validate_default=True)
    """The state of each of its applications."""
    changing: bool = False
    """Whether it is being changed."""
    guests: list[WireGuest] = Field([], validate_default=True)
    """The state of each of its guests."""
    nsms: list[WireProcess] = Field([], validate_default=True)
    """The state of each of its NSMs."""


class Admission(Model):
    """A program that is to become an application."""

    name: str
    """The application's name."""
    nsm: str
    """The NSM that its sockets are to go to."""
    pid: int
    """The program's process: the application lasts at least as long."""
    properties: ApplicationProperties | None = None
    """What it may have: `maxbw`, `conns`, `weight`."""


class Application(Model):
    """An application: a program, with its children, whose sockets an NSM serves."""

    directory: str | None = None
    """
    The folder that the program starts in; default: the root folder. In a wire's file it is relative to the wire's
    own folder.
    """
    environment: dict[str, str] | None = None
    """Variables of the program's environment, besides `PATH`, and `HOME`, `USER`, `LOGNAME` and `SHELL` of its user."""
    intercept: Intercept | None = None
    """How the program's socket calls come to the NSM."""
    nsm: str
    """The NSM that its new sockets go to."""
    properties: ApplicationProperties | None = None
    """What it may have: `maxbw`, `conns`, `weight`."""
    restart: Restart | None = None
    """When the node restarts the program that it runs."""
    run: list[str] | None = None
    """
    The program that the node runs, and its arguments, as a shell splits them; none: the program was started by
    `weir sock run`.
    """
    user: str | None = None
    """The user that the program runs as, with the user's groups; default: the node's."""


class ApplicationStatus(Model):
    """An application as it is. Counters run from its start, or the last one of CoreEngine."""

    connections: int = 0
    """Connections made and accepted."""
    cpu_s: float | None = None
    """Seconds of processor time that the process has used that it was started as, and its children that have ended."""
    pid: int = 0
    """The process that it was started as."""
    processes: int = 0
    """Processes of it that use sockets."""
    reason: str | None = None
    """Why not."""
    received: int = 0
    """Bytes received."""
    refused: int = 0
    """Sockets refused, since the application or its NSM had as many as it may."""
    restarts: int = 0
    """Number of times that this node has restarted its program."""
    sent: int = 0
    """Bytes sent."""
    sockets: int = 0
    """Its sockets."""
    state: State = State.unused
    """Whether its program runs."""
    violations: int = 0
    """Queue elements that broke the protocol."""


class EntryStatus(Model):
    """An entry as it is."""

    age: int | None = None
    """
    Seconds since the other direction of a learned one was last seen; none if it was made by
    command.
    """
    state: State = State.unused
    """Whether frames go by it: its port may be down."""


class Error(Model):
    """Why the node did not do what was asked, as the API answers it."""

    error: str
    """What was wrong, where, and what would be right."""
    field: str | None = None
    """The field of the request that is wrong, if it is one."""
    kind: Kind
    """What kind of thing went wrong."""


class Event(Model):
    """Something that happened."""

    by: str | None = None
    """Whose request it was: `root`, or another user of the API; none if it was nobody's."""
    event: Happened
    """What happened."""
    name: str | None = None
    """The name of that; none if there is only one."""
    note: str | None = None
    """What the node does about it, or what else is to be known."""
    number: int
    """Its number, which is higher than that of any earlier event, also of an earlier node."""
    reason: str | None = None
    """Why."""
    time: str
    """When it happened (RFC 3339)."""
    topic: Topic
    """What kind of thing it happened to."""


class Flow(Model):
    """A class of traffic on a link or VNIC."""

    attributes: FlowAttributes
    """Which frames belong to it, by flowadm's names: `local_ip`, `transport`, `local_port` …"""
    link: str
    """The link, stub or VNIC that it is on."""
    properties: FlowProperties | None = None
    """Its limit and priority."""


class FlowStatus(Model):
    """A flow as it is."""

    reason: str | None = None
    """Why not."""
    state: State = State.unused
    """Whether it works."""


class Guest(Model):
    """A network function in a virtual machine."""

    config: str | None = None
    """The configuration, in Click's language. A list of guests leaves it out."""
    configurations: dict[str, Configuration] | None = None
    """Configurations that it runs beside that one, by their names. The elements of one are `NAME/ELEMENT`."""
    cpu_max: float | None = None
    """Processors of the host that its process may use, as in 0.5; default: all."""
    cpus: int | None = None
    """Virtual CPUs; default: 1."""
    file: str | None = None
    """
    The file of its configuration. In a wire's file it is read from there, relative to the wire's
    own folder, unless it is a function's name; in the API it is the configuration's name in messages, and `config` is
    needed beside it.
    """
    health: list[str] | None = None
    """
    Checks of its health, as in `c.count > 0 every 5s failures 3`: a handler is read now and then, and the guest is
    unhealthy after so many failures in a row. One that may be restarted is restarted then.
    """
    interfaces: dict[str, str] | None = None
    """
    By the names of its interfaces: the VNIC of each, or a link for which a VNIC is made that is
    removed with the guest.
    """
    isolation: Isolation | None = None
    """The wall around it."""
    memory: str | int | None = None
    """Private memory, in bytes, or with K, M or G; default: 4 MiB."""
    memory_max: str | int | None = None
    """Memory that its process may use, its private memory included; default: no limit."""
    nsm: str | None = None
    """The NSM that serves its sockets, of SocketServer and SocketClient; default: it has none."""
    pin: list[int] | None = None
    """CPUs of the host that those are tied to, one each in turn; without any, they run on all."""
    restart: Restart | None = None
    """When it is restarted; default: `on-failure`."""
    ring_slots: int | None = None
    """Slots of each of its rings, a power of two from 64 to 2048; default: 256."""
    variables: dict[str, str] | None = None
    """
    Values of the configuration's variables: `{"RATE": "1000"}` is what `RATE=1000` is to `weir click`. Each
    overrides a `define` of the configuration. In a wire's file, `parameters` says the same of a function.
    """


class GuestObject(Model):
    """A network function in a virtual machine."""

    config: str | None = None
    """The configuration, in Click's language. A list of guests leaves it out."""
    configurations: dict[str, Configuration] | None = None
    """Configurations that it runs beside that one, by their names. The elements of one are `NAME/ELEMENT`."""
    cpu_max: float | None = None
    """Processors of the host that its process may use, as in 0.5; default: all."""
    cpus: int | None = None
    """Virtual CPUs; default: 1."""
    file: str | None = None
    """
    The file of its configuration. In a wire's file it is read from there, relative to the wire's
    own folder, unless it is a function's name; in the API it is the configuration's name in messages, and `config` is
    needed beside it.
    """
    health: list[str] | None = None
    """
    Checks of its health, as in `c.count > 0 every 5s failures 3`: a handler is read now and then, and the guest is
    unhealthy after so many failures in a row. One that may be restarted is restarted then.
    """
    interfaces: dict[str, str] | None = None
    """
    By the names of its interfaces: the VNIC of each, or a link for which a VNIC is made that is
    removed with the guest.
    """
    isolation: Isolation | None = None
    """The wall around it."""
    memory: str | int | None = None
    """Private memory, in bytes, or with K, M or G; default: 4 MiB."""
    memory_max: str | int | None = None
    """Memory that its process may use, its private memory included; default: no limit."""
    name: str
    """Its name."""
    nsm: str | None = None
    """The NSM that serves its sockets, of SocketServer and SocketClient; default: it has none."""
    pin: list[int] | None = None
    """CPUs of the host that those are tied to, one each in turn; without any, they run on all."""
    restart: Restart | None = None
    """When it is restarted; default: `on-failure`."""
    ring_slots: int | None = None
    """Slots of each of its rings, a power of two from 64 to 2048; default: 256."""
    status: GuestStatus | None = None
    variables: dict[str, str] | None = None
    """
    Values of the configuration's variables: `{"RATE": "1000"}` is what `RATE=1000` is to `weir click`. Each
    overrides a `define` of the configuration. In a wire's file, `parameters` says the same of a function.
    """


class GuestOutcome(Model):
    """What became of one guest."""

    error: Error | None = None
    guest: str
    """Its name, or a pattern that no guest has."""
    status: GuestStatus | None = None


class GuestSeries(Model):
    """Guests that differ by a number."""

    count: int
    """How many; at most 100 000."""
    first: int | None = None
    """The first one's number."""
    guest: Guest
    """The guest. In the VNICs and links of its interfaces, `{}` is the number, too."""
    name: str
    """Their name, with `{}` for the number."""


class Link(Model):
    """A switch with a NIC: an interface of the host, or other hosts by VXLAN."""

    device: str | None = None
    """The host's interface; without one, that of the link's name. With `vxlan` there is none."""
    mode: Mode | None = None
    """How the interface is attached."""
    port: PortProperties | None = None
    """Properties of the interface's port: `lanes`, `maxbw` and so on."""
    properties: SwitchProperties | None = None
    """Properties of the switch."""
    vxlan: Tunnel | None = None


class LinkStatus(Model):
    """A link or stub as it is."""

    class_: Class = Field(Class.stub, alias="class")
    """Link or stub."""
    mode: str | None = None
    """The kind of its port, as `packet`; none for a stub."""
    mtu: int = 0
    """Largest IP packet, in bytes."""
    reason: str | None = None
    """Why not."""
    state: State = State.unused
    """Whether it works."""
    vnics: int = 0
    """Number of VNICs on it."""


class NodeStatus(Model):
    """The node itself."""

    applications: int | None = None
    """Applications whose sockets network stack modules serve."""
    core_pid: int | None = None
    """CoreEngine's process, which switches between applications and network stack modules; none without any of these."""
    damaged: list[str] | None = None
    """Records of the state that are damaged, as in `guests/fw`. Their resources are not there; the others are."""
    flows: int
    """Flows."""
    guests: int
    """Guests."""
    links: int
    """Links, stubs included."""
    nsms: int | None = None
    """Network stack modules."""
    pid: int
    """Its process."""
    settled_flows: int
    """Flows whose packets the kernel passes on, in one direction each."""
    store_pid: int | None = None
    """The control store's process; none while there is none."""
    switch_pid: int | None = None
    """The switch's process; none while there is none."""
    switch_restarts: int
    """Number of times that this node had to start a switch because the last one ended."""
    unknown_guests: list[UnknownGuest] | None = None
    """Guests that run and of which no record is left."""
    version: str
    """Its version."""
    vnics: int
    """VNICs."""


class Nsm(Model):
    """A network stack module: a process whose network stack serves the sockets of applications."""

    addresses: list[str] | None = None
    """
    Of a user NSM: its IP addresses, with their prefixes. Of an shm NSM: the addresses that its applications have besides the
    loopback's.
    """
    cores: int | None = None
    """Of a kernel NSM: its workers, each a thread with sockets of its own, 1 to 16; default: 1. Another number restarts it."""
    gateways: list[str] | None = None
    """Of a user NSM: the routers for what is in none of its networks, at most one of each IP version."""
    kind: NsmKind | None = None
    """What its network stack is."""
    link: str | None = None
    """Of a user NSM: the link or stub of its VNIC, which has the NSM's name, and is made and removed with it."""
    local: bool | None = None
    """Of a kernel NSM: connections between its own sockets go through shared memory, not through its network stack."""
    namespace: str | None = None
    """
    Of a kernel NSM: the network namespace that it is in, by its name (`ip netns`); default: one of its own,
    `weir-nsm-NAME`, which is made and removed with it. Of a program: that which it is in; default: the node's.
    """
    others: Others | None = None
    """Of an shm NSM: what connections to addresses that are not its own fail with."""
    properties: NsmProperties | None = None
    """What it may have, for all its applications together: `maxbw`, `conns`."""
    run: list[str] | None = None
    """
    Of a program: the program and its arguments. CoreEngine's socket becomes its last argument, its token is in
    `WEIR_NSM_TOKEN`.
    """


class NsmStatus(Model):
    """An NSM as it is."""

    answers: int = 0
    """Queue elements that the NSM gave."""
    applications: int = 0
    """Applications whose new sockets go to it."""
    connections: int = 0
    """Connections made and accepted."""
    cpu_s: float | None = None
    """Seconds of processor time that its process has used."""
    namespace: str | None = None
    """The network namespace that it is in, if its kind has one."""
    pid: int | None = None
    """Its process."""
    reason: str | None = None
    """Why not."""
    received: int = 0
    """Bytes that the NSM received."""
    refused: int = 0
    """Sockets and connections that were refused, since the NSM had as many as it may."""
    requests: int = 0
    """Queue elements given to the NSM."""
    resident: int | None = None
    """Bytes of memory that its process has in use, those of applications' payload included."""
    restarts: int = 0
    """Number of times that this node has restarted it."""
    sent: int = 0
    """Bytes that the NSM was given to send."""
    sockets: int = 0
    """Its sockets."""
    state: State = State.unused
    """Whether it serves."""


class OnDemand(Model):
    """A guest that does not exist before it is needed: the copy of another guest, with the VNIC's name."""

    guests: int | None = None
    """With `flow`, how many connections may have guests of their own at a time, from 1 to 4096; default: 64."""
    idle: str | None = None
    """
    Time without a frame to or from its VNICs, from 1s to 1day, after which it is removed; default: 1m. The VNIC
    waits for the next frame then.
    """
    interface: str | None = None
    """
    The template's interface that the VNIC is; default: its only one, or its only one on the VNIC's link. The others
    get VNICs on the links of the template's.
    """
    on: Trigger | None = None
    """What starts it."""
    template: str
    """
    The guest that it is a copy of. If that stands still as a template, the copy goes on from there; else it boots
    that guest's configuration.
    """
    variables: dict[str, str] | None = None
    """Values of the configuration's variables instead of the template's. With any, the guest boots."""


class Patch(Model):
    """A wire between two switches."""

    back: PortProperties | None = None
    between: list[str]
    """The two stubs or links."""
    properties: PortProperties | None = None
    """Properties from the first to the second; also back, unless `back` is given."""


class Socket(Model):
    """A socket of an application."""

    bound: str | None = None
    """The address that it was bound to, if the application bound it."""
    local: str | None = None
    """Its address, if its NSM has told it."""
    nsm: str
    """The NSM that serves it."""
    number: int
    """Its number in the application."""
    peer: str | None = None
    """The address of its peer."""
    received: int
    """Bytes received."""
    retransmits: int | None = None
    """Segments that were sent again."""
    rtt_ms: float | None = None
    """Milliseconds of the smoothed round-trip time of its connection, if its NSM knows it."""
    rtt_variance_ms: float | None = None
    """Milliseconds of the round-trip time's variance."""
    sent: int
    """Bytes sent."""
    shares: int
    """How many processes, beside the first, it was given to by fork, exec or a message."""
    state: SocketState
    """What it does."""
    transport: SocketTransport
    """Its transport protocol."""


class StubObject(Model):
    """
    A switch without a NIC, as it is written: all in one table, where an unknown key is an error
    with its line.
    """

    aging: int | None = None
    """Seconds after which an address that was not seen again is removed."""
    lookup: Lookup | dict[str, Any] | None = None
    """The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as `{"click": {"config": …}}`."""
    mac_limit: int | None = None
    """Most addresses that are learned behind one port."""
    mtu: int | None = None
    """Largest IP packet, in bytes; 1500 if none is given."""
    name: str
    """Its name."""
    speed: str | None = None
    """Highest rate of each port without a `maxbw` of its own."""
    status: LinkStatus | None = None


class SwitchFunctionObject(Model):
    """How the switch of a link or stub works. It is called as its link."""

    aging: int = 300
    """Seconds after which an address that was not seen again is removed."""
    default: str | None = None
    """
    With a flow table, the action for frames without an entry, in ovs-ofctl's words: `normal` (by
    addresses), `drop`, or `output:VNIC`.
    """
    file: str | None = None
    """The name of a Click configuration in messages. It is not kept."""
    lookup: Lookup | dict[str, Any] | None = None
    """The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as `{"click": {"config": …}}`."""
    mac_limit: int = 1024
    """Most addresses that are learned behind one port."""
    name: str
    """Its name."""
    speed: str | None = None
    """Highest rate of each port without a `maxbw` of its own."""
    status: SwitchStatus | None = None


class Vnic(Model):
    """
    A virtual NIC. It is in a namespace, or the host's own, or a guest's that names it, or a
    program's that speaks vhost-user, or a user NSM's, or starts a guest when it is needed.
    """

    addresses: list[str] | None = None
    """The IP addresses of its interface, with their prefixes."""
    guest: OnDemand | None = None
    host: bool | None = None
    """Whether it is in the host's namespace."""
    interface: str | None = None
    """The interface's name in the namespace or on the host; default: the VNIC's."""
    link: str
    """The stub or link that it is on."""
    mac: str | None = None
    """Its Ethernet address; default: in a wire, derived from the names, else random."""
    namespace: str | None = None
    """The network namespace that it is in: a name (`ip netns`), or a path."""
    nsm: str | None = None
    """The user NSM that has it: it is made with the NSM."""
    properties: PortProperties | None = None
    """Speed, delay, loss, VLAN, protection and so on."""
    vhost_user: str | None = None
    """The socket where a vhost-user frontend connects."""


class VnicObject(Model):
    """
    A virtual NIC. It is in a namespace, or the host's own, or a guest's that names it, or a
    program's that speaks vhost-user, or a user NSM's, or starts a guest when it is needed.
    """

    addresses: list[str] | None = None
    """The IP addresses of its interface, with their prefixes."""
    guest: OnDemand | None = None
    host: bool | None = None
    """Whether it is in the host's namespace."""
    interface: str | None = None
    """The interface's name in the namespace or on the host; default: the VNIC's."""
    link: str
    """The stub or link that it is on."""
    mac: str | None = None
    """Its Ethernet address; default: in a wire, derived from the names, else random."""
    name: str
    """Its name."""
    namespace: str | None = None
    """The network namespace that it is in: a name (`ip netns`), or a path."""
    nsm: str | None = None
    """The user NSM that has it: it is made with the NSM."""
    properties: PortProperties | None = None
    """Speed, delay, loss, VLAN, protection and so on."""
    status: VnicStatus | None = None
    vhost_user: str | None = None
    """The socket where a vhost-user frontend connects."""


class WireObject(Model):
    """
    A virtual wire: a whole network. Each part has a name of its own among those of its kind.

    As text it is TOML:

    ```toml
    wire = "two-subnets"

    [stub.office]
    speed = "1G"

    [namespace.desk]
    routes = ["default via 10.0.1.1"]

    [vnic.desk0]
    link = "office"
    namespace = "desk"
    addresses = ["10.0.1.2/24"]
    properties = { maxbw = "100M", delay = "2ms" }

    [guest.router]
    file = "router.click"
    interfaces = { inside = "router0", outside = "router1" }
    ```
    """

    app: dict[str, Application] | None = None
    """Programs that the node runs, whose sockets NSMs serve."""
    description: str | None = None
    """A description for people."""
    existing: list[str] | None = None
    """Stubs and links of the node that it uses, and neither makes nor removes."""
    flow: dict[str, Flow] | None = None
    """Traffic classes on links and stubs."""
    guest: dict[str, Guest] | None = None
    """Network functions."""
    link: dict[str, Link] | None = None
    """Switches with a NIC: interfaces of the host that are attached."""
    name: str
    """Its name."""
    namespace: dict[str, Namespace] | None = None
    """Hosts that are network namespaces."""
    nsm: dict[str, Nsm] | None = None
    """Network stack modules."""
    patch: dict[str, Patch] | None = None
    """Wires between switches."""
    status: WireStatus | None = None
    stub: dict[str, Stub] | None = None
    """Switches without a NIC, and their properties."""
    table: dict[str, Table] | None = None
    """Flow tables of switches that work by one, by the switches' names."""
    vnic: dict[str, Vnic] | None = None
    """Virtual NICs."""
    wire: str
    """Its name."""


class ApplicationObject(Model):
    """An application: a program, with its children, whose sockets an NSM serves."""

    directory: str | None = None
    """
    The folder that the program starts in; default: the root folder. In a wire's file it is relative to the wire's
    own folder.
    """
    environment: dict[str, str] | None = None
    """Variables of the program's environment, besides `PATH`, and `HOME`, `USER`, `LOGNAME` and `SHELL` of its user."""
    intercept: Intercept | None = None
    """How the program's socket calls come to the NSM."""
    name: str
    """Its name."""
    nsm: str
    """The NSM that its new sockets go to."""
    properties: ApplicationProperties | None = None
    """What it may have: `maxbw`, `conns`, `weight`."""
    restart: Restart | None = None
    """When the node restarts the program that it runs."""
    run: list[str] | None = None
    """
    The program that the node runs, and its arguments, as a shell splits them; none: the program was started by
    `weir sock run`.
    """
    status: ApplicationStatus | None = None
    user: str | None = None
    """The user that the program runs as, with the user's groups; default: the node's."""


class Entry(Model):
    """An entry of a flow table: the port of a link that a flow goes to."""

    flow: str
    """The flow, in one direction, in ovs-ofctl's words."""
    port: str
    """The VNIC, or the link's own interface, that it goes to."""
    status: EntryStatus | None = None
    """Its status; ignored in a request."""


class FlowObject(Model):
    """A class of traffic on a link or VNIC."""

    attributes: FlowAttributes
    """Which frames belong to it, by flowadm's names: `local_ip`, `transport`, `local_port` …"""
    link: str
    """The link, stub or VNIC that it is on."""
    name: str
    """Its name."""
    properties: FlowProperties | None = None
    """Its limit and priority."""
    status: FlowStatus | None = None


class LinkObject(Model):
    """A switch with a NIC: an interface of the host, or other hosts by VXLAN."""

    device: str | None = None
    """The host's interface; without one, that of the link's name. With `vxlan` there is none."""
    mode: Mode | None = None
    """How the interface is attached."""
    name: str
    """Its name."""
    port: PortProperties | None = None
    """Properties of the interface's port: `lanes`, `maxbw` and so on."""
    properties: SwitchProperties | None = None
    """Properties of the switch."""
    status: LinkStatus | None = None
    vxlan: Tunnel | None = None


class NsmObject(Model):
    """A network stack module: a process whose network stack serves the sockets of applications."""

    addresses: list[str] | None = None
    """
    Of a user NSM: its IP addresses, with their prefixes. Of an shm NSM: the addresses that its applications have besides the
    loopback's.
    """
    cores: int | None = None
    """Of a kernel NSM: its workers, each a thread with sockets of its own, 1 to 16; default: 1. Another number restarts it."""
    gateways: list[str] | None = None
    """Of a user NSM: the routers for what is in none of its networks, at most one of each IP version."""
    kind: NsmKind | None = None
    """What its network stack is."""
    link: str | None = None
    """Of a user NSM: the link or stub of its VNIC, which has the NSM's name, and is made and removed with it."""
    local: bool | None = None
    """Of a kernel NSM: connections between its own sockets go through shared memory, not through its network stack."""
    name: str
    """Its name."""
    namespace: str | None = None
    """
    Of a kernel NSM: the network namespace that it is in, by its name (`ip netns`); default: one of its own,
    `weir-nsm-NAME`, which is made and removed with it. Of a program: that which it is in; default: the node's.
    """
    others: Others | None = None
    """Of an shm NSM: what connections to addresses that are not its own fail with."""
    properties: NsmProperties | None = None
    """What it may have, for all its applications together: `maxbw`, `conns`."""
    run: list[str] | None = None
    """
    Of a program: the program and its arguments. CoreEngine's socket becomes its last argument, its token is in
    `WEIR_NSM_TOKEN`.
    """
    status: NsmStatus | None = None
