use std::os::fd::RawFd;

use rustix::io::Errno;

use super::host_device::{HostDevice, Setup};
use super::transport::{HEADROOM_MAX, Inlet};
use crate::headers::link_type::LinkType;
use crate::prelude::*;

/// Receives frames that the host sends, by a TAP interface.
///
/// The interface is made when the router is initialized, and removed when the router ends. An
/// existing interface of that name is used, and stays. The host resolves addresses by ARP before it
/// sends IP packets. IP packets have their IP header marked and their destination annotation set.
///
/// While a queue downstream is full, frames wait in the kernel.
///
/// # Example
/// ```click
/// FromHost(fake0, 192.0.2.1/24) -> c :: Classifier(12/0806, 12/0800);
/// c[0] -> ARPResponder(0.0.0.0/0 1:1:1:1:1:1) -> ToHost(fake0);
/// c[1] -> IPPrint -> Discard;
/// ```
///
/// # See also
/// ToHost, KernelTap, KernelTun
#[derive(Element)]
#[element(
    ports = "0/1",
    processing = "/h",
    handlers,
    provides(Descriptors, HostInterface)
)]
pub struct FromHost {
    /// The interface.
    #[arg(mandatory, name = "DEVNAME", read, handler = "dev_name")]
    name: String,
    /// The host's address on the interface, with the network. Without it, the interface is not
    /// configured.
    #[arg(positional, name = "DST")]
    address: Option<Ipv4Prefix>,
    /// An address in DST that the host's default route leads to.
    #[arg]
    gateway: Option<Ipv4Addr>,
    /// The interface's address; the kernel's choice if not given.
    #[arg]
    ether: Option<EtherAddress>,
    /// Bytes in front of each frame.
    #[arg(default = HEADROOM as u32, default_text = "128")]
    headroom: u32,
    /// Most bytes of a frame without its Ethernet header.
    #[arg(default = 2048)]
    mtu: u32,
    inlet: Inlet,
    device: Option<HostDevice>,
    task: Option<TaskId>,
    signal: Signal,
}

/// An element that has an interface of the host.
pub trait HostInterface {
    /// The interface called `name`, if it is this one and open.
    fn device(&self, name: &str) -> Option<HostDevice>;
}

impl Interface for dyn HostInterface {
    const NAME: &'static str = "HostInterface";
}

impl HostInterface for FromHost {
    fn device(&self, name: &str) -> Option<HostDevice> {
        self.device.clone().filter(|_| self.name == name)
    }
}

impl FromHost {
    /// Receives one frame; false if none is there.
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
                packet.set_mac_header(0);
                LinkType::ETHERNET.force_ip(&mut packet);
                cx.emit(0, packet);
                true
            }
            Ok(None) | Err(Errno::AGAIN | Errno::INTR) => false,
            Err(errno) => {
                let reason = super::os_error(&errno.into());
                cx.chatter(format_args!("FromHost({}): read: {reason}", device.name()));
                // The interface was taken down, and can come back.
                false
            }
        }
    }
}

#[handlers]
impl FromHost {
    /// Whether there is room downstream.
    #[read]
    fn signal(&self, cx: &mut Cx<'_>) -> bool {
        cx.is_active(&self.signal)
    }
}

impl Descriptors for FromHost {
    fn selected(&mut self, cx: &mut Cx<'_>, fd: RawFd, _readable: bool, _writable: bool) {
        // What is emitted here arrives downstream when this is over: one frame at a time, so that
        // a queue that fills is noticed.
        self.receive(cx);
        if !cx.is_active(&self.signal) {
            cx.watch(fd, false, false);
        }
    }
}

impl Element for FromHost {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if let (Some(gateway), Some(address)) = (self.gateway, self.address)
            && !address.contains(gateway)
        {
            return Err(args.fail("bad GATEWAY"));
        }
        if self.name.is_empty() {
            return Err(args.fail("must specify device name"));
        }
        if self.headroom > HEADROOM_MAX {
            return Err(args.fail("HEADROOM too large"));
        }
        if !(68..=65535).contains(&self.mtu) {
            return Err(args.fail("MTU must be from 68 to 65535"));
        }
        if self
            .address
            .is_some_and(|address| address.length().is_none())
        {
            return Err(args.fail("DST must be an address with a prefix, such as 192.0.2.1/24"));
        }
        // An Ethernet header, and a VLAN tag.
        self.inlet.snaplen = self.mtu + 18;
        self.inlet.headroom = self.headroom;
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let device = HostDevice::open(true, &self.name).map_err(|error| cx.error(error))?;
        let setup = Setup {
            address: self.address,
            gateway: self.gateway,
            ether: self.ether,
            mtu: None,
        };
        device.set_up(&setup).map_err(|error| cx.error(error))?;
        cx.watch(device.fd(), true, false);
        self.name = device.name().to_string();
        self.device = Some(device);
        let task = cx.task();
        self.task = Some(task);
        self.signal = cx.downstream_signal(0, Some(task));
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if let Some(device) = self.device.take() {
            cx.watch(device.fd(), false, false);
        }
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        match &self.device {
            Some(device) if cx.is_active(&self.signal) => {
                cx.watch(device.fd(), true, false);
                Ran::Worked
            }
            _ => Ran::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use crate::testing::*;

    const CONFIG: &str = "f :: FromHost(fake0, 192.0.2.1/24, ETHER 2:0:0:0:0:1, GATEWAY 192.0.2.2)
        -> c :: Classifier(12/0806, 12/0800, -);
        c[0] -> a :: ARPResponder(0.0.0.0/0 2:0:0:0:0:2) -> t :: ToHost(fake0);
        c[1] -> n :: Counter -> EtherMirror -> Strip(14) -> CheckIPHeader -> IPMirror
            -> SetUDPChecksum -> Unstrip(14) -> t;
        c[2] -> Discard;";

    #[test]
    fn the_host_talks_to_the_router() {
        let namespace = Namespace::new("from-host");
        namespace.within(|| {
            let mut rig = Rig::new(CONFIG);
            assert_eq!(rig.read("f.dev_name"), "fake0");
            assert!(
                namespace
                    .ip("link show fake0")
                    .contains("02:00:00:00:00:01")
            );
            assert!(
                namespace
                    .ip("route")
                    .contains("default via 192.0.2.2 dev fake0")
            );
            let socket = UdpSocket::bind("192.0.2.1:5000").unwrap();
            socket
                .set_read_timeout(Some(Duration::from_millis(1)))
                .unwrap();
            // By the default route, which leads to the router.
            socket.send_to(b"echo", "203.0.113.1:6000").unwrap();
            let (mut room, mut heard) = ([0; 100], 0);
            run_until(&mut rig, |_| {
                heard = socket.recv(&mut room).unwrap_or(heard);
                heard > 0
            });
            assert_eq!(&room[..heard], b"echo");
            assert_eq!(rig.read("n.count"), "1");
            rig.end();
            assert!(!namespace.ip("link").contains("fake0"));
        });
    }

    #[test]
    fn frames_wait_while_there_is_no_room() {
        let namespace = Namespace::new("from-host-full");
        namespace.within(|| {
            let config = "f :: FromHost(fake0, 192.0.2.1/24) -> q :: Queue(3) -> p :: Puller;";
            let mut rig = Rig::new(config);
            namespace.ip("neigh add 192.0.2.9 lladdr 2:0:0:0:0:9 dev fake0");
            let socket = UdpSocket::bind("192.0.2.1:5000").unwrap();
            for _ in 0..20 {
                socket.send_to(b"x", "192.0.2.9:6000").unwrap();
            }
            run_until(&mut rig, |rig| rig.read("q.length") == "3");
            assert_eq!(rig.read("f.signal"), "false");
            let mut pulled = 0;
            run_until(&mut rig, |rig| {
                pulled += rig.pull("p", 3).len();
                pulled >= 20
            });
            assert!(pulled >= 20, "{pulled}");
            assert_eq!(rig.read("q.drops"), "0");
        });
    }

    #[test]
    fn what_cannot_be_is_said() {
        let namespace = Namespace::new("from-host-errors");
        namespace.within(|| {
            let error = |config: &str, text: &str| {
                Rig::refuses(config, text);
            };
            let requires = "ToHost(x) requires an initialized FromHost with the same dev_name";
            error("Idle -> ToHost(x);", requires);
            error(
                "FromHost(x, 10.0.0.1/8, GATEWAY 11.0.0.1) -> Discard;",
                "bad GATEWAY",
            );
            error(
                "FromHost(lo) -> Discard;",
                "/dev/net/tun for lo: Invalid argument; name",
            );
            error(
                "FromHost(x, HEADROOM 9000) -> Discard;",
                "HEADROOM too large",
            );
        });
    }
}
