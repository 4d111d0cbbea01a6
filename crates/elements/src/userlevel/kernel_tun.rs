use alloc::string::{String, ToString};
use core::net::Ipv4Addr;
use std::os::fd::RawFd;

use packet::{Batch, Packet};
use router::args::read::Flags;
use router::args::{Args, EtherAddress, Failed, Ipv4Prefix};
use router::{Capability, Class, Cx, Declared, Descriptors, Element, HandlerError, HandlerList, Ran, TaskId, phase};
use rustix::io::Errno;

use super::host_device::{HostDevice, Setup};
use super::transport::{HEADROOM_MAX, Inlet, Outlet, Sent};
use crate::link_type::LinkType;

/// The kernel's own MTU for a new device.
const MTU: u32 = 1500;

/// What both elements do: the name of one of them, and the interface.
#[derive(Default)]
struct Kernel {
    class: &'static str,
    tap: bool,
    name: String,
    setup: Setup,
    mtu: u32,
    burst: u32,
    ignore_overflows: bool,
    said_write: bool,
    said_read: bool,
    selected_calls: u64,
    packets: u64,
    inlet: Inlet,
    outlet: Outlet,
    device: Option<HostDevice>,
}

impl Kernel {
    fn of(class: &'static str, tap: bool) -> Kernel {
        Kernel {
            class,
            tap,
            ..Kernel::default()
        }
    }

    fn configure(&mut self, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut near, mut burst, mut mtu) = (Ipv4Prefix::ANY, 1i32, MTU as i32);
        let (mut gateway, mut ether) = (Ipv4Addr::UNSPECIFIED, EtherAddress::default());
        let mut has_ether = false;
        let deprecated = Flags::DEPRECATED;
        args.mandatory_positional("ADDR", &mut near)
            .positional("GATEWAY", &mut gateway)
            .keyword("TAP", &mut self.tap)
            .keyword("HEADROOM", &mut self.inlet.headroom)
            .keyword("BURST", &mut burst)
            .keyword("ETHER", &mut ether)
            .given(&mut has_ether)
            .keyword("IGNORE_QUEUE_OVERFLOWS", &mut self.ignore_overflows)
            .keyword("MTU", &mut mtu)
            .consume()?;
        let mut old_name = String::new();
        args.read()
            .arg("DEV_NAME", deprecated, string(), &mut old_name)
            .keyword("DEVNAME", &mut self.name)
            .complete()?;
        if self.name.is_empty() {
            self.name = old_name;
        }
        let gateway = (!gateway.is_unspecified()).then_some(gateway);
        if gateway.is_some_and(|gateway| !near.contains(gateway)) {
            return Err(args.fail("bad GATEWAY"));
        }
        if burst < 1 {
            return Err(args.fail("BURST must be >= 1"));
        }
        if mtu < 20 {
            return Err(args.fail("MTU must be greater than 20"));
        }
        let Ok(wide) = u16::try_from(mtu) else {
            return Err(args.fail("MTU must be at most 65535"));
        };
        if self.inlet.headroom > HEADROOM_MAX {
            return Err(args.fail("HEADROOM too big"));
        }
        if near.length().is_none() {
            return Err(args.fail("ADDR must be an address with a prefix, such as 192.0.2.1/24"));
        }
        (self.burst, self.mtu) = (burst as u32, mtu as u32);
        self.inlet.snaplen = self.mtu + if self.tap { 18 } else { 4 };
        self.setup = Setup {
            address: Some(near),
            gateway,
            ether: has_ether.then_some(ether),
            mtu: (self.mtu != MTU).then_some(wide),
        };
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let device = HostDevice::open(self.tap, &self.name).map_err(|error| cx.error(error))?;
        device.set_up(&self.setup).map_err(|error| cx.error(error))?;
        cx.watch(device.fd(), true, false);
        self.name = device.name().to_string();
        self.device = Some(device);
        self.outlet.initialize(cx);
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.outlet.clear(cx);
        if let Some(device) = self.device.take() {
            cx.watch(device.fd(), false, false);
        }
    }

    fn selected(&mut self, cx: &mut Cx<'_>) {
        self.selected_calls += 1;
        for _ in 0..self.burst {
            if !self.receive(cx) {
                break;
            }
        }
    }

    /// Receives one packet; false if none is there.
    fn receive(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(device) = &self.device else {
            return false;
        };
        let received = self.inlet.receive(cx, |room| {
            let count = device.receive(room)?;
            Ok((count, count, ()))
        });
        match received {
            Ok(Some((mut packet, ()))) => {
                self.packets += 1;
                let is_right = self.tap || LinkType::RAW.force_ip(&mut packet);
                cx.emit(usize::from(!is_right), packet);
                true
            }
            Ok(None) | Err(Errno::AGAIN | Errno::INTR) => false,
            Err(errno) => {
                let quiet = self.ignore_overflows && self.said_read && errno == Errno::NOBUFS;
                if !quiet {
                    self.said_read = true;
                    let reason = super::os_error(&errno.into());
                    self.say(cx, format_args!("read: {reason}"));
                }
                false
            }
        }
    }

    fn say(&self, cx: &mut Cx<'_>, text: core::fmt::Arguments<'_>) {
        let (class, name) = (self.class, &self.name);
        cx.chatter(format_args!("{class}({name}): {text}"));
    }

    /// What of a packet goes to the host; says why if nothing does.
    fn payload<'p>(&self, cx: &mut Cx<'_>, packet: &'p Packet) -> Option<&'p [u8]> {
        let payload = if self.tap {
            if packet.len() < 14 {
                self.say(cx, format_args!("packet too small"));
                return None;
            }
            packet.data()
        } else {
            let header = packet.network_header().filter(|header| header.len() >= 20);
            let Some(header) = header else {
                self.say(cx, format_args!("no network header"));
                return None;
            };
            let version = header[0] >> 4;
            if version != 4 && version != 6 {
                self.say(cx, format_args!("unknown IP version {version}"));
                return None;
            }
            header
        };
        let length = payload.len() - if self.tap { 14 } else { 0 };
        if length > self.mtu as usize {
            self.say(cx, format_args!("packet larger than MTU ({})", self.mtu));
            return None;
        }
        Some(payload)
    }

    fn send(&mut self, cx: &mut Cx<'_>, packet: &Packet) {
        let Some(payload) = self.payload(cx, packet) else {
            return;
        };
        let Some(device) = &self.device else {
            return;
        };
        if let Err(errno) = device.send(payload) {
            let quiet = self.ignore_overflows && self.said_write && errno == Errno::NOBUFS;
            if !quiet {
                self.said_write = true;
                let reason = super::os_error(&errno.into());
                self.say(cx, format_args!("write failed: {reason}"));
            }
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.drain() {
            self.send(cx, &packet);
            cx.kill(packet);
        }
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> Ran {
        let mut outlet = core::mem::take(&mut self.outlet);
        let ran = outlet.run(cx, |cx, packet| {
            self.send(cx, packet);
            Sent::Done
        });
        self.outlet = outlet;
        ran
    }

    fn handlers(&self, list: &mut HandlerList) {
        if self.outlet.pulls() {
            list.task(true);
        }
        list.read("dev_name").read("selected_calls").read("packets");
    }

    fn read(&self, name: &str) -> Result<String, HandlerError> {
        match name {
            "dev_name" => Ok(self.name.clone()),
            "selected_calls" => Ok(self.selected_calls.to_string()),
            "packets" => Ok(self.packets.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }
}

fn string() -> impl router::args::Parser<String> {
    |text: &str, context: &router::args::Context<'_>| context.parse::<String>(text)
}

macro_rules! kernel {
    ($(#[$doc:meta])* $name:ident, $tap:literal, is_a: $is_a:expr) => {
        $(#[$doc])*
        pub struct $name(Kernel);

        impl Default for $name {
            fn default() -> Self {
                $name(Kernel::of(stringify!($name), $tap))
            }
        }

        impl Class for $name {
            const NAME: &'static str = stringify!($name);
            const PORTS: &'static str = "0-1/1-2";
            const PROCESSING: &'static str = "a/h";
            const FLOW: &'static str = "x/y";
            const PHASE: i32 = phase::PRIVILEGED - 1;
            const IS_A: &'static [&'static str] = $is_a;
            const CAPABILITIES: &'static [Capability] = router::provides!($name: Descriptors);
        }

        impl Declared for $name {
            fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
                self.0.configure(args)
            }

            fn handlers(&self, list: &mut HandlerList) {
                self.0.handlers(list);
            }

            fn read(
                &mut self,
                _cx: &mut Cx<'_>,
                name: &str,
                _: &str,
            ) -> Result<String, HandlerError> {
                self.0.read(name)
            }
        }

        impl Descriptors for $name {
            fn selected(&mut self, cx: &mut Cx<'_>, _: RawFd, _readable: bool, _writable: bool) {
                self.0.selected(cx);
            }
        }

        impl Element for $name {
            fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
                self.0.initialize(cx)
            }

            fn cleanup(&mut self, cx: &mut Cx<'_>) {
                self.0.cleanup(cx);
            }

            fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
                self.0.push(cx, batch);
                0
            }

            fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
                self.0.run_task(cx)
            }
        }
    };
}

kernel! {
    /// Exchanges IP packets with the host by a TUN interface of this program's own.
    ///
    /// The interface has the address ADDR, which stays the host's: what is sent there, the host
    /// answers itself. What the host sends to any other address of the network, or by way of the
    /// gateway, goes out; what comes in, from its network header on, the host takes as received.
    /// Packets do not pass through it. The interface is gone when the router ends, unless it was
    /// there before.
    ///
    /// # Arguments
    /// - `ADDR` (IP prefix): the host's address on the interface, and the network behind it.
    /// - `GATEWAY` (IP address): an address in ADDR by way of which the host's default route leads.
    /// - `DEVNAME` (string): the interface's name; the kernel's choice if not given. An old name
    ///   of the argument is DEV_NAME.
    /// - `TAP` (boolean, false): whether it is a TAP interface, as KernelTap's.
    /// - `ETHER` (Ethernet address): the Ethernet address of a TAP interface.
    /// - `MTU` (integer, 1500): largest IP packet, in bytes; larger ones are dropped with a
    ///   message.
    /// - `BURST` (integer, 1): most packets received each time the interface has some.
    /// - `HEADROOM` (integer, 128): bytes in front of each packet.
    /// - `IGNORE_QUEUE_OVERFLOWS` (boolean, false): whether to complain of a full queue only once.
    ///
    /// # Ports
    /// One optional agnostic input. Output 0 is push; output 1, optional, is push: what is not IP.
    ///
    /// # Handlers
    /// - `dev_name` (read): the interface's name.
    /// - `packets` (read): packets received.
    /// - `selected_calls` (read): how often the interface had some.
    /// - `scheduled`, `tickets`, `home_thread`: the task's, if the input is pull.
    ///
    /// # Example
    /// ```click
    /// tun :: KernelTun(192.0.2.1/24);
    /// tun -> IPClassifier(icmp type echo) -> ICMPPingResponder -> IPPrint -> tun;
    /// ```
    ///
    /// # See also
    /// KernelTap, FromHost, FromDevice
    KernelTun, false, is_a: &[]
}

kernel! {
    /// Exchanges Ethernet frames with the host by a TAP interface of this program's own.
    ///
    /// As KernelTun, with Ethernet headers. The host asks for the addresses of its network by ARP,
    /// which has to be answered, and takes only frames for the interface's Ethernet address: it is
    /// known by ETHER.
    ///
    /// # Arguments
    /// - `ADDR` (IP prefix): the host's address on the interface, and the network behind it.
    /// - `GATEWAY` (IP address): an address in ADDR by way of which the host's default route leads.
    /// - `DEVNAME` (string): the interface's name; the kernel's choice if not given. An old name
    ///   of the argument is DEV_NAME.
    /// - `TAP` (boolean, true): if false, it is a TUN interface, as KernelTun's.
    /// - `ETHER` (Ethernet address): the interface's address; the kernel's choice if not given.
    /// - `MTU` (integer, 1500): largest IP packet, in bytes; larger ones are dropped with a
    ///   message.
    /// - `BURST` (integer, 1): most frames received each time the interface has some.
    /// - `HEADROOM` (integer, 128): bytes in front of each frame.
    /// - `IGNORE_QUEUE_OVERFLOWS` (boolean, false): whether to complain of a full queue only once.
    ///
    /// # Ports
    /// One optional agnostic input; one push output, and a second one that nothing leaves by.
    ///
    /// # Handlers
    /// - `dev_name` (read): the interface's name.
    /// - `packets` (read): frames received.
    /// - `selected_calls` (read): how often the interface had some.
    /// - `scheduled`, `tickets`, `home_thread`: the task's, if the input is pull.
    ///
    /// # Example
    /// ```click
    /// tap :: KernelTap(192.0.2.1/24) -> c :: Classifier(12/0806, 12/0800);
    /// c[0] -> ARPResponder(0.0.0.0/0 1:1:1:1:1:1) -> tap;
    /// c[1] -> IPPrint -> Discard;
    /// ```
    ///
    /// # See also
    /// KernelTun, FromHost, ToHost
    KernelTap, true, is_a: &["KernelTun"]
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::super::testing::{Namespace, can_run, run_until};
    use crate::testing::Rig;

    fn within(test: &str, work: impl FnOnce(&Namespace) + Send) {
        if can_run() {
            let namespace = Namespace::new(test);
            namespace.within(|| work(&namespace));
        }
    }

    /// Lets the host ping an address, and the router run meanwhile; returns whether it was
    /// answered.
    fn ping(rig: &mut Rig, namespace: &Namespace, address: &str) -> bool {
        let mut command = Command::new("ip");
        let command = command.args(["netns", "exec", namespace.name()]);
        let arguments = ["ping", "-c", "1", "-W", "2", address];
        let mut child = command.args(arguments).stdout(Stdio::null()).spawn().unwrap();
        let mut status = None;
        run_until(rig, |_| {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap_or_else(|| child.wait().unwrap()).success()
    }

    #[test]
    fn the_host_pings_the_router_by_a_tun_interface() {
        within("tun", |namespace| {
            let config = "t :: KernelTun(192.0.2.1/24, 192.0.2.2, MTU 1400, DEVNAME weirtun)
                -> ICMPPingResponder -> t; t[1] -> o :: Counter -> Discard;";
            let mut rig = Rig::new(config);
            assert!(namespace.ip("link show weirtun").contains("mtu 1400"));
            assert!(namespace.ip("route").contains("default via 192.0.2.2 dev weirtun"));
            assert!(ping(&mut rig, namespace, "192.0.2.77"));
            assert_ne!(rig.read("t.packets"), "0");
            assert_eq!(rig.read("t.dev_name"), "weirtun");
        });
    }

    #[test]
    fn the_host_pings_the_router_by_a_tap_interface() {
        within("tap", |namespace| {
            let config = "t :: KernelTap(192.0.2.1/24, ETHER 2:0:0:0:0:1, BURST 8)
                -> c :: Classifier(12/0806, 12/0800, -);
                q :: Queue -> t; c[0] -> ARPResponder(192.0.2.77 2:0:0:0:0:2) -> q;
                c[1] -> StoreEther :: EtherMirror -> Strip(14) -> CheckIPHeader
                -> ICMPPingResponder -> Unstrip(14) -> q; c[2] -> Discard;";
            let mut rig = Rig::new(config);
            assert!(ping(&mut rig, namespace, "192.0.2.77"));
        });
    }

    #[test]
    fn what_cannot_go_to_the_host_is_said() {
        within("tun-bad", |_| {
            let config = "i :: Inject -> t :: KernelTun(192.0.2.1/24, MTU 100, DEVNAME weirtun)
                -> Discard; j :: Inject -> MarkIPHeader -> t;";
            let mut rig = Rig::new(config);
            rig.push("i", &[0x45; 40]);
            rig.push("j", &[0x75; 40]);
            rig.push("j", &[0x45; 140]);
            let expected = [
                "KernelTun(weirtun): no network header",
                "KernelTun(weirtun): unknown IP version 7",
                "KernelTun(weirtun): packet larger than MTU (100)",
            ];
            assert_eq!(rig.printed(), expected);
            assert_eq!(rig.outstanding(), 0);
        });
    }

    #[test]
    fn a_pulled_packet_reaches_a_socket() {
        within("tun-pull", |_| {
            let config = "i :: Inject -> UDPIPEncap(192.0.2.9, 7, 192.0.2.1, 5000) -> Queue
                -> KernelTun(192.0.2.1/24) -> Discard;";
            let mut rig = Rig::new(config);
            let socket = UdpSocket::bind("192.0.2.1:5000").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            rig.push("i", b"datagram");
            rig.run();
            let mut room = [0; 100];
            assert_eq!(socket.recv(&mut room).unwrap(), 8);
        });
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let error = |config: &str, text: &str| {
            let errors = Rig::errors(config);
            assert!(errors.contains(text), "{errors}");
        };
        error("KernelTun(10.0.0.1/8, 11.0.0.1) -> Discard;", "bad GATEWAY");
        error("KernelTun(10.0.0.1/8, BURST 0) -> Discard;", "BURST must be >= 1");
        error("KernelTap(10.0.0.1/8, MTU 19) -> Discard;", "MTU must be greater than 20");
        error("KernelTap(10.0.0.1/8, HEADROOM 9000) -> Discard;", "HEADROOM too big");
    }
}
