use super::dpdk;
use super::receiver::{Receiver, Receives};
use crate::prelude::*;

/// Arguments for a driver, its queues and its threads.
const HARDWARE: &[&str] = &[
    "N_QUEUES",
    "MAXTHREADS",
    "MINTHREADS",
    "THREADOFFSET",
    "VERBOSE",
    "NDESC",
    "MAC",
    "MTU",
    "MINQUEUES",
    "MAXQUEUES",
    "MAX_RSS",
    "RETA_SIZE",
    "PAINT_QUEUE",
    "CLEAR",
    "PAUSE",
    "IPCO",
    "TCO",
    "UCO",
    "POWER_MGMT",
    "NUMA",
    "NUMA_NODE",
    "RX_INTR",
    "SCALE",
    "LRO",
    "JUMBO",
];

/// Receives frames from the interface that stands for a DPDK port.
///
/// A configuration written for FastClick with DPDK runs unchanged in a guest. Port N is the
/// interface of the Nth `--link`, counted from 0. PCI addresses are counted in order of their
/// first appearance in the configuration. An interface's name is right too.
///
/// ```sh
/// weir run router.click --link in=dev:eth1 --link out=dev:eth2
/// ```
///
/// The link decides how frames reach the guest: `xdp:NAME` uses the rings of AF_XDP, `dev:NAME`
/// the best that the driver has. The interface has one queue, so PAINT_QUEUE would paint 0, which
/// packets are anyway.
///
/// # Arguments
/// - `N_QUEUES`, `MAXTHREADS`, `MINTHREADS`, `THREADOFFSET`, `NDESC`, `MAC`, `MTU`, `NUMA`,
///   `VERBOSE` and others for a driver, its queues and its threads: accepted and ignored.
///
/// # Example
/// ```click
/// FromDPDKDevice(0, PROMISC true) -> EtherMirror -> ToDPDKDevice(0);
/// ```
///
/// # See also
/// ToDPDKDevice, DPDKInfo, FromNetfront
#[derive(Element)]
#[element(
    name = "FromDPDKDevice",
    ports = "0/1",
    processing = "/h",
    segments,
    raw,
    handlers,
    provides(Receives, Addressed, Descriptors)
)]
pub struct FromDpdkDevice {
    /// The port: a number, a PCI address, or an interface's name.
    #[arg(mandatory)]
    port: String,
    /// Accepted and ignored: an interface has one queue.
    #[arg(positional)]
    queue: i32,
    /// Accepted and ignored: the link receives all frames.
    #[arg(positional)]
    promisc: bool,
    /// Most frames each time it is scheduled.
    #[arg(default = 32)]
    burst: u32,
    /// Whether frames carry the time at which they were received.
    #[arg]
    timestamp: bool,
    /// Whether frames carry the hash of their flow (Toeplitz, of addresses and ports) in their
    /// aggregate annotation.
    #[arg]
    rss_aggregate: bool,
    /// Whether frames are received.
    #[arg(default = true, read, write, checkbox, then = wake)]
    active: bool,
    /// Whether a port without an interface is no error: it receives nothing then.
    #[arg]
    allow_nonexistent: bool,
    /// Must be `none` or `rss`.
    #[arg(default = String::from("none"))]
    mode: String,
    #[delegate(configured = complete, initialize = start, run_task = receive)]
    receiver: Receiver,
}

#[handlers]
impl FromDpdkDevice {
    /// The interface that stands for the port.
    #[read]
    fn device(&self) -> &str {
        &self.receiver.interface
    }

    /// Frames received.
    #[read]
    fn hw_count(&self) -> u64 {
        self.receiver.count()
    }

    /// Bytes received.
    #[read]
    fn hw_bytes(&self) -> u64 {
        self.receiver.byte_count()
    }
}

impl FromDpdkDevice {
    fn complete(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.ignore(HARDWARE)?;
        if self.burst == 0 {
            return Err(args.fail("BURST must be at least 1"));
        }
        if !["none", "rss", ""].contains(&self.mode.as_str()) {
            let mode = &self.mode;
            return Err(args.fail(format_args!(
                "MODE {mode}: interfaces have one queue; leave MODE out, or give none or rss"
            )));
        }
        (self.receiver.burst, self.receiver.timestamp) = (self.burst, self.timestamp);
        self.receiver.hashes = self.rss_aggregate;
        Ok(())
    }

    fn start(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        match dpdk::interface(cx, &self.port) {
            Ok(interface) => self.receiver.interface = interface,
            Err(_) if self.allow_nonexistent => return Ok(()),
            Err(error) => return Err(cx.error(error)),
        }
        self.receiver.initialize(cx)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        self.receiver.wake(cx);
    }

    #[inline]
    fn receive(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        if !self.active {
            return Ran::Nothing;
        }
        self.receiver.run_task(cx, task)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    #[test]
    fn ports_are_interfaces_by_number_address_or_name() {
        let (a, b) = (Cable::new(MAC), Cable::new([2; 6]));
        let config = "x :: FromDPDKDevice(0000:18:00.1, N_QUEUES 4, PROMISC true) -> Discard;
            y :: FromDPDKDevice(0000:18:00.0, MAXTHREADS 1, NDESC 512) -> Discard;
            Idle -> z :: ToDPDKDevice(0000:18:00.1); Idle -> one :: ToDPDKDevice(1);
            Idle -> named :: ToDPDKDevice(a);";
        let mut rig = Rig::in_guest(config, &[("a", &a), ("b", &b)]).unwrap();
        let devices =
            ["x", "y", "z", "one", "named"].map(|e| rig.read(&std::format!("{e}.device")));
        assert_eq!(devices, ["a", "b", "a", "b", "a"]);
        a.arrive(&[0; 60]);
        rig.run();
        assert_eq!(
            (rig.read("x.count"), rig.read("y.hw_count")),
            ("1".into(), "0".into())
        );
        assert_eq!(rig.read("y.mac"), "02-02-02-02-02-02");
    }

    #[test]
    fn the_hash_of_a_flow_is_its_aggregate() {
        let cable = Cable::new(MAC);
        let config = "FromDPDKDevice(0, RSS_AGGREGATE true) -> c :: Collect;
            FromDPDKDevice(1) -> d :: Collect;";
        let other = Cable::new([2; 6]);
        let mut rig = Rig::in_guest(config, &[("a", &cable), ("b", &other)]).unwrap();
        let (from, to) = (
            ([66, 9, 149, 187].into(), 2794),
            ([161, 142, 100, 80].into(), 1766),
        );
        let frame = ether(MAC, [4; 6], 0x800, &udp(from, to, &[]));
        cable.arrive(&frame);
        other.arrive(&frame);
        rig.run();
        let aggregates = ["c", "d"].map(|c| rig.collected(c)[0].anno(AGGREGATE));
        assert_eq!(aggregates, [0x51cc_c178, 0]);
    }

    #[test]
    fn it_receives_while_it_is_active() {
        let cable = Cable::new(MAC);
        let config = "f :: FromDPDKDevice(0, ACTIVE false) -> c :: Collect;";
        let mut rig = Rig::in_guest(config, &[("a", &cable)]).unwrap();
        cable.arrive(&[0; 60]);
        rig.run();
        assert_eq!(rig.read("f.count"), "0");
        rig.write("f.active", "true");
        rig.run();
        assert_eq!(rig.read("f.count"), "1");
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let cable = Cable::new(MAC);
        for (arguments, said) in [
            ("0, BURST 0", "BURST must be at least 1"),
            ("0, MODE vmdq", "MODE vmdq: interfaces have one queue"),
            ("0, VLAN_STRIP true", "VLAN_STRIP: unknown argument"),
            ("1", "port 1: it needs 2 --link, and there are 1"),
        ] {
            let config = std::format!("FromDPDKDevice({arguments}) -> Discard;");
            let errors = Rig::in_guest(&config, &[("a", &cable)]).err().unwrap();
            assert!(errors.contains(said), "{errors}");
        }
        let mut rig = Rig::new("f :: FromDPDKDevice(0, ALLOW_NONEXISTENT true) -> Discard;");
        rig.run();
        assert_eq!(rig.read("f.count"), "0");
    }
}
