use super::kernel::Kernel;
use crate::prelude::*;

/// Exchanges IP packets with the host by a TUN interface.
///
/// The interface has the host's address ADDR; the host itself answers packets to it. Packets that
/// the host sends to other addresses of the network, or to the gateway, leave by the output. The
/// host receives the packets of the input, from their network header on. Packets do not pass from
/// input to output. The interface is removed when the router ends, unless it existed before.
///
/// # Example
/// ```click
/// tun :: KernelTun(192.0.2.1/24);
/// tun -> IPClassifier(icmp type echo) -> ICMPPingResponder -> IPPrint -> tun;
/// ```
///
/// # See also
/// KernelTap, FromHost, FromDevice
#[derive(Element)]
#[element(
    ports = "0-1/1-2",
    processing = "a/h",
    flow = "x/y",
    phase = phase::PRIVILEGED - 1,
    provides(Descriptors)
)]
#[inputs("packets to the host")]
#[outputs("IP packets from the host", "other packets from the host")]
pub struct KernelTun {
    /// Whether it is a TAP interface, as KernelTap's.
    #[arg]
    tap: bool,
    #[delegate(configured = complete)]
    kernel: Kernel,
}

impl KernelTun {
    fn complete(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.kernel.complete(args, "KernelTun", self.tap)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use crate::testing::*;

    fn within(test: &str, work: impl FnOnce(&Namespace) + Send) {
        let namespace = Namespace::new(test);
        namespace.within(|| work(&namespace));
    }

    /// Lets the host ping an address, and the router run meanwhile; returns whether it was
    /// answered.
    fn ping(rig: &mut Rig, namespace: &Namespace, address: &str) -> bool {
        let mut command = Command::new("ip");
        let command = command.args(["netns", "exec", namespace.name()]);
        let arguments = ["ping", "-c", "1", "-W", "2", address];
        let mut child = command
            .args(arguments)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
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
            assert!(
                namespace
                    .ip("route")
                    .contains("default via 192.0.2.2 dev weirtun")
            );
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
            socket
                .set_read_timeout(Some(Duration::from_secs(2)))
                .unwrap();
            rig.push("i", b"datagram");
            rig.run();
            let mut room = [0; 100];
            assert_eq!(socket.recv(&mut room).unwrap(), 8);
        });
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let error = |config: &str, text: &str| {
            Rig::refuses(config, text);
        };
        error("KernelTun(10.0.0.1/8, 11.0.0.1) -> Discard;", "bad GATEWAY");
        error(
            "KernelTun(10.0.0.1/8, BURST 0) -> Discard;",
            "BURST must be >= 1",
        );
        error(
            "KernelTap(10.0.0.1/8, MTU 19) -> Discard;",
            "MTU must be greater than 20",
        );
        error(
            "KernelTap(10.0.0.1/8, HEADROOM 9000) -> Discard;",
            "HEADROOM too big",
        );
    }
}
