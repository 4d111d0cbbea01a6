//! Exchanging packets with the host by an interface of this program's own: what KernelTun and
//! KernelTap share.

use rustix::io::Errno;

use super::host_device::{HostDevice, Setup};
use super::transport::{HEADROOM_MAX, Inlet, Outlet, Sent};
use crate::headers::link_type::LinkType;
use crate::prelude::*;

/// The kernel's own MTU for a new device.
const MTU: u32 = 1500;

/// An interface of the host whose other end is an element.
#[derive(Component)]
pub struct Kernel {
    /// The host's address on the interface, with the network.
    #[arg(mandatory, name = "ADDR")]
    #[init(Ipv4Prefix::ANY)]
    address: Ipv4Prefix,
    /// An address in ADDR that the host's default route leads to.
    #[arg(positional)]
    gateway: Option<Ipv4Addr>,
    /// The interface's name; the kernel's choice if not given.
    #[arg(name = "DEVNAME", read, handler = "dev_name")]
    name: String,
    /// An old name of DEVNAME.
    #[arg(name = "DEV_NAME", deprecated)]
    old_name: String,
    /// Bytes in front of each packet.
    #[arg(default = HEADROOM as u32, default_text = "128")]
    headroom: u32,
    /// Most packets received each time the interface has some.
    #[arg(default = 1)]
    burst: i32,
    /// The Ethernet address of a TAP interface; the kernel's choice if not given.
    #[arg]
    ether: Option<EtherAddress>,
    /// Whether to report a full queue only once.
    #[arg(name = "IGNORE_QUEUE_OVERFLOWS")]
    ignore_overflows: bool,
    /// Largest IP packet, in bytes; larger ones are dropped with a message.
    #[arg(name = "MTU", default = MTU as i32, default_text = "1500")]
    mtu_arg: i32,
    mtu: u32,
    tap: bool,
    /// How messages name the element's class.
    class: &'static str,
    said_write: bool,
    said_read: bool,
    /// How often the interface had packets.
    #[handler(read)]
    selected_calls: u64,
    /// Packets received.
    #[handler(read)]
    packets: u64,
    inlet: Inlet,
    #[flatten]
    outlet: Outlet,
    device: Option<HostDevice>,
}

impl Kernel {
    /// Checks the arguments of an element of `class`.
    pub fn complete(
        &mut self,
        args: &mut Args<'_>,
        class: &'static str,
        tap: bool,
    ) -> Result<(), Failed> {
        (self.class, self.tap) = (class, tap);
        if self.name.is_empty() {
            self.name = core::mem::take(&mut self.old_name);
        }
        self.gateway = self.gateway.filter(|gateway| !gateway.is_unspecified());
        if self
            .gateway
            .is_some_and(|gateway| !self.address.contains(gateway))
        {
            return Err(args.fail("bad GATEWAY"));
        }
        if self.burst < 1 {
            return Err(args.fail("BURST must be >= 1"));
        }
        if self.mtu_arg < 20 {
            return Err(args.fail("MTU must be greater than 20"));
        }
        if self.mtu_arg > u16::MAX.into() {
            return Err(args.fail("MTU must be at most 65535"));
        }
        if self.headroom > HEADROOM_MAX {
            return Err(args.fail("HEADROOM too big"));
        }
        if self.address.length().is_none() {
            return Err(args.fail("ADDR must be an address with a prefix, such as 192.0.2.1/24"));
        }
        self.mtu = self.mtu_arg as u32;
        self.inlet.headroom = self.headroom;
        self.inlet.snaplen = self.mtu + if self.tap { 18 } else { 4 };
        Ok(())
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
}

impl Element for Kernel {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let device = HostDevice::open(self.tap, &self.name).map_err(|error| cx.error(error))?;
        let setup = Setup {
            address: Some(self.address),
            gateway: self.gateway,
            ether: self.ether,
            mtu: (self.mtu != MTU).then_some(self.mtu as u16),
        };
        device.set_up(&setup).map_err(|error| cx.error(error))?;
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

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        for packet in batch.drain() {
            self.send(cx, &packet);
            cx.kill(packet);
        }
        0
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        let mut outlet = core::mem::take(&mut self.outlet);
        let ran = outlet.run(cx, |cx, packet| {
            self.send(cx, packet);
            Sent::Done
        });
        self.outlet = outlet;
        ran
    }
}

impl Descriptors for Kernel {
    fn selected(&mut self, cx: &mut Cx<'_>, _fd: i32, _readable: bool, _writable: bool) {
        self.selected_calls += 1;
        for _ in 0..self.burst {
            if !self.receive(cx) {
                break;
            }
        }
    }
}
