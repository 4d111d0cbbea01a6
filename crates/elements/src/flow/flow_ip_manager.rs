use super::table::{Key, Table};
use super::{FlowManager, FlowUser};
use crate::prelude::*;
use crate::rewriter::headers;
use crate::rewriter::key::FlowKey;

/// Most flows, for which memory is allocated at once: some 200 MB.
const CAPACITY_MAX: u32 = 1 << 22;

/// Finds the flow of each packet, for the elements behind it.
///
/// A flow is the packets of one IP protocol from one address and port to another. Packets that
/// have no ports, and later fragments, are told by protocol and addresses alone. Packets must have
/// their IP header marked; packets without one are of no flow, and pass. The flow's number stays
/// with the packet until another flow manager replaces it.
///
/// All memory is allocated when the router is initialized: about 50 bytes a flow, and more in the
/// elements behind that keep state. Packets of new flows are dropped while the table is full.
///
/// # Arguments
/// - `RESERVE`, `CACHE`, `LF`, `VERBOSE`: accepted and ignored. The elements behind allocate what
///   they need.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> MarkIPHeader(14)
///     -> FlowIPManager(CAPACITY 4096, TIMEOUT 30) -> c :: FlowCounter -> Discard;
/// DriverManager(wait, print c.count);
/// ```
///
/// # See also
/// FlowCounter, CTXManager, AggregateIPFlows
#[derive(Element)]
#[element(
    ports = "1/1",
    processing = "h/h",
    segments,
    raw,
    handlers,
    provides(FlowManager),
    is_a("VirtualFlowManager"),
    alias(
        "FlowIPManagerMP",
        "FlowIPManagerIMP",
        "FlowIPManagerHMP",
        "FlowIPManager_CuckooPP",
        "FlowIPManager_CuckooPPIMP",
        "FlowIPManager_DPDK",
        "FlowIPManager_DPDKMP"
    )
)]
pub struct FlowIPManager {
    /// Most flows.
    #[arg(positional, default = 65536, read)]
    capacity: u32,
    /// Seconds that a flow lives after its last packet; 0: for ever.
    #[arg(default = 60)]
    timeout: u32,
    /// Seconds between two searches for flows whose time is up.
    #[arg(default = 1)]
    recycle_interval: u32,
    /// Packets dropped because the table was full.
    #[handler(read)]
    drops: u64,
    table: Table,
    timer: Option<TimerId>,
    users: Vec<Link<dyn FlowUser>>,
    ended: Vec<u32>,
}

/// Arguments without meaning here.
const IGNORED: [&str; 4] = ["RESERVE", "CACHE", "LF", "VERBOSE"];

#[handlers]
impl FlowIPManager {
    /// Flows in the table.
    #[read]
    fn count(&self) -> usize {
        self.table.count()
    }
}

impl FlowIPManager {
    fn interval(&self) -> u64 {
        u64::from(self.recycle_interval) * 1_000_000_000
    }

    fn tick(&self, cx: &Cx<'_>) -> u32 {
        (cx.steady().0 / self.interval()) as u32
    }

    #[cold]
    fn refuse(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if self.drops == 0 {
            let (declaration, capacity) = (cx.declaration(), self.capacity);
            cx.chatter(format_args!(
                "{declaration}: all {capacity} flows are in use; packets of new flows are dropped"
            ));
        }
        self.drops += packet.stands_for() as u64;
        cx.kill(packet);
    }
}

/// What tells a packet's flow from others; `None` if it has no IP header.
#[inline]
fn key(packet: &Packet) -> Option<Key> {
    let (ip, transport) = headers::parts(packet)?;
    let protocol = headers::protocol(ip);
    let ported = matches!(protocol, IpProtocol::TCP | IpProtocol::UDP) && headers::is_first(ip);
    let ports = transport.first_chunk::<4>().filter(|_| ported);
    let ends = FlowKey {
        addresses: headers::addresses(ip),
        ports: ports.map_or(0, |ports| u32::from_be_bytes(*ports)),
    };
    Some(Key {
        ends,
        protocol: protocol.0,
    })
}

impl Element for FlowIPManager {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.ignore(&IGNORED)?;
        if !(1..=CAPACITY_MAX).contains(&self.capacity) {
            return Err(args.fail(format_args!("CAPACITY must be from 1 to {CAPACITY_MAX}")));
        }
        if self.recycle_interval == 0 {
            return Err(args.fail("RECYCLE_INTERVAL must be at least 1"));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let seeds = [cx.random().next_u64(), cx.random().next_u64()];
        let timeout = self.timeout.div_ceil(self.recycle_interval);
        let capacity = self.capacity as usize;
        let table = Table::new(capacity, timeout, seeds);
        self.table = table.map_err(|_| {
            cx.error(format_args!(
                "out of memory for {capacity} flows; give a smaller CAPACITY"
            ))
        })?;
        self.table.advance(self.tick(cx), |_| {});
        if self.ended.try_reserve(capacity).is_err() {
            return Err(cx.error(format_args!("out of memory for {capacity} flows")));
        }
        if timeout > 0 {
            let timer = cx.timer();
            cx.schedule_after(timer, self.interval());
            self.timer = Some(timer);
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let mut keys = [None; BATCH];
        for (packet, slot) in batch.iter().zip(&mut keys) {
            *slot = key(packet).map(|key| {
                let hash = self.table.hash(&key);
                self.table.prefetch(hash);
                (key, hash)
            });
        }
        let mut keys = keys.iter();
        batch.filter_keeping(
            Facts::ALL,
            &mut (self, cx),
            |(this, _), packet| {
                let found = keys.next().copied().flatten();
                let Some((key, hash)) = found else {
                    packet.set_flow(None);
                    return None;
                };
                let flow = this.table.find(&key, hash);
                packet.set_flow(flow);
                flow.is_none().then_some(())
            },
            |(this, cx), packet, ()| this.refuse(cx, packet),
        );
        0
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let (now, ended) = (self.tick(cx), &mut self.ended);
        self.table.advance(now, |flow| ended.push(flow));
        for flow in self.ended.drain(..) {
            for user in &self.users {
                cx.reach(*user, |user, cx| user.flow_ended(cx, flow));
            }
        }
        cx.schedule_after(timer, self.interval());
    }
}

impl FlowManager for FlowIPManager {
    fn capacity(&self) -> usize {
        self.capacity as usize
    }

    fn register(&mut self, user: Link<dyn FlowUser>) {
        self.users.push(user);
    }
}
