use crate::ip::check_code_point;
use crate::prelude::*;

/// Sets IPv6 packets' differentiated services code point.
///
/// Packets must have their IPv6 header marked; others pass unchanged. The code point is the upper
/// six bits of the traffic class; the lower two, congestion notification, do not change.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> CheckIP6Header -> SetIP6DSCP(46) -> Discard;
/// ```
///
/// # See also
/// CheckIP6Header, MarkIP6Header
#[derive(Element)]
#[element(ports = "1/1", segments, live)]
pub struct SetIP6DSCP {
    /// The code point, 0 to 63.
    #[arg(
        mandatory,
        read,
        write,
        config,
        calm,
        error = "expected integer",
        then = check
    )]
    dscp: u32,
}

impl SetIP6DSCP {
    fn check(&mut self, _cx: &mut Cx<'_>) -> Result<(), &'static str> {
        check_code_point(self.dscp)
    }
}

impl Element for SetIP6DSCP {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        check_code_point(self.dscp).map_err(|error| args.fail(error))
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let header = packet.network_header_mut().unwrap_or_default();
        let mut ip = Ipv6Packet::new_unchecked(header);
        let class = (self.dscp as u8) << 2 | ip.traffic_class() & 3;
        ip.set_class_and_flow(class, ip.flow_label());
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6::{addr, packet};
    use crate::testing::*;

    #[test]
    fn the_code_point_alone_changes() {
        let mut rig =
            Rig::new("i :: Inject -> MarkIP6Header -> d :: SetIP6DSCP(46) -> c :: Collect;");
        let mut before = packet(59, addr("::1"), addr("::2"), &[]);
        before[..4].copy_from_slice(&[0x6f, 0xfa, 0xbc, 0xde]);
        rig.push("i", &before);
        // Class 0xff: code point 46 (0b101110), notification 3.
        let mut after = before.clone();
        after[..2].copy_from_slice(&[0x6b, 0xba]);
        assert_eq!(rig.data("c"), [after]);
        rig.write("d.dscp", "0");
        rig.assert_handlers(&[("d.dscp", "0"), ("d.config", "0")]);
        rig.push("i", &before);
        assert_eq!(rig.data("c")[0][..2], [0x60, 0x3a]);
    }

    #[test]
    fn code_points_have_six_bits() {
        let mut rig = Rig::new("Inject -> d :: SetIP6DSCP(63) -> Collect;");
        let error = rig.try_write("d.dscp", "64").unwrap_err();
        assert_eq!(error, "diffserv code point out of range".into());
        assert_eq!(rig.read("d.dscp"), "63");
        Rig::refuses(
            "Inject -> SetIP6DSCP(64) -> Collect;",
            "diffserv code point out of range",
        );
    }
}
