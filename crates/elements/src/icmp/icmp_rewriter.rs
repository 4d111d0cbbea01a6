use click::config;

use crate::filters::dispatch::{self, DROP};
use crate::prelude::*;
use crate::rewriter::base::{Rewriter, Translation};
use crate::rewriter::flow::Direction;
use crate::rewriter::headers;
use crate::rewriter::quoted::Quoted;

/// Rewrites ICMP errors about packets that a rewriter has rewritten.
///
/// An ICMP error carries the first part of the packet that it is about. If a rewriter had rewritten
/// that packet, this element changes the error to what it would be for the original packet: the
/// packet inside and its checksums, the error's destination, and the error's checksums. The first
/// rewriter that has a mapping is used. Errors are destination unreachable, time exceeded,
/// parameter problem, source quench and redirect.
///
/// Packets must have their IP header marked. Packets that are not ICMP are dropped. Other ICMP
/// messages, and errors about packets that no rewriter knows, leave by output 1 if there is one and
/// MAPS has no PORT, and are dropped otherwise.
///
/// # Example
/// ```click
/// rw :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop);
/// FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> [0] rw;
/// FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> c :: IPClassifier(icmp, -);
/// c [0] -> ICMPRewriter(rw) -> in :: EtherEncap(0x0800, 1:1:1:1:1:1, 3:3:3:3:3:3);
/// c [1] -> [1] rw;
/// rw [0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Queue -> ToDevice(eth1);
/// rw [1] -> in -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// IPRewriter, IPAddrRewriter, ICMPPingRewriter, ICMPError
#[derive(Element)]
#[element(ports = "1/1-", processing = "h", segments)]
pub struct ICMPRewriter {
    /// Names of IPRewriter, TCPRewriter, UDPRewriter, IPAddrRewriter, IPAddrPairRewriter or
    /// ICMPPingRewriter elements. With `:PORT` after a name, an error leaves by output PORT plus
    /// the rewriter's output for the mapping; else by output 0.
    #[arg(mandatory, name = "MAPS", with = Any, kind = "rewriters, separated by spaces")]
    names: String,
    /// Whether to set the destination address annotation.
    #[arg(default = true)]
    dst_anno: bool,
    /// An annotation that errors about forward packets copy from the first packet of their flow;
    /// the same as that of the rewriters.
    #[arg]
    reply_anno: Option<AnnoOf<1>>,
    /// Rewriters, with the first of their outputs here.
    maps: Vec<(Link<dyn Rewriter>, Option<u32>)>,
    /// The output of messages that no rewriter knows.
    #[init(DROP)]
    unknown: u32,
}

impl Element for ICMPRewriter {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        for word in config::split_space(&self.names) {
            self.add_map(cx, args, &word);
        }
        if self.maps.is_empty() {
            return Err(args.fail("no IP rewriters supplied"));
        }
        let own_outputs = self.maps.iter().any(|(_, output)| output.is_some());
        if cx.outputs() == 2 && !own_outputs {
            self.unknown = 1;
        }
        args.finish()
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let mut outputs = [DROP; BATCH];
        for (packet, output) in batch.iter_mut().zip(&mut outputs) {
            *output = self.handle(cx, packet);
        }
        dispatch::send(cx, batch, &outputs)
    }
}

impl ICMPRewriter {
    fn add_map(&mut self, cx: &Cx<'_>, args: &Args<'_>, word: &str) {
        let (context, ours) = (args.context(), cx.outputs());
        let (name, port) = match word.split_once(':') {
            Some((name, port)) => (name, Some(context.parse::<u32>(port))),
            None => (word, None),
        };
        let element = context.find_element(name);
        let (Some((index, _)), Ok(port)) = (element, port.transpose()) else {
            return args.error(format!("{name} not an IP rewriter"));
        };
        let theirs = cx.graph().info(ElementId::new(index)).outputs.len();
        if port.is_some_and(|port| port as usize + theirs > ours) {
            let outputs = if ours == 1 { "output" } else { "outputs" };
            args.error(format!(
                "{word} port offset requires more than {ours} {outputs}"
            ));
        } else if let Ok(link) = context.parse(name) {
            self.maps.push((link, port));
        } else {
            args.error(format!("{name} not an IP rewriter"));
        }
    }

    /// Rewrites a packet if it is to be, and says which output it leaves by.
    fn handle(&self, cx: &mut Cx<'_>, packet: &mut Packet) -> u32 {
        match headers::parts(packet) {
            Some((ip, _)) if headers::protocol(ip) == IpProtocol::ICMP => {}
            _ => return DROP,
        }
        let Some(inner) = Quoted::of(packet) else {
            return self.unknown;
        };
        for &(link, first) in &self.maps {
            let translation = cx.reach(link, |rewriter, cx| {
                rewriter.translate(cx, inner.protocol, inner.answer)
            });
            if let Some(translation) = translation.flatten() {
                self.rewrite(&inner, &translation, packet);
                return first.map_or(0, |first| first + u32::from(translation.output));
            }
        }
        self.unknown
    }

    fn rewrite(&self, inner: &Quoted, translation: &Translation, packet: &mut Packet) {
        let Some((ip, icmp)) = headers::parts_mut(packet) else {
            return;
        };
        let (old, new) = (inner.answer.destination(), translation.key.destination());
        let ours = headers::addresses(ip) as u32 == old.to_bits();
        if ours {
            headers::set_destination(ip, new);
            headers::update_ip_sum(Delta::of_u32(old.to_bits(), new.to_bits()), ip);
        }
        inner.rewrite(translation.key.reverse(), icmp);
        if ours && self.dst_anno {
            packet.set_dst_ip(new);
        }
        if let (Some(at), Direction::Reply) = (self.reply_anno, translation.direction)
            && let Some(byte) = packet.annotations_mut().get_mut(at.offset())
        {
            *byte = translation.annotation;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const A: Ipv4Addr = Ipv4Addr::new(18, 26, 4, 44);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 8);

    /// What comes back for `packet` if what `rewriter` makes of it meets an error on its way.
    fn back(rewriter: &str, packet: &[u8]) -> Vec<u8> {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> CheckIPHeader -> rw :: {rewriter}
                 -> ICMPError(19.19.19.19, timeexceeded) -> CheckIPHeader -> Paint(0)
                 -> ICMPRewriter(rw, REPLY_ANNO PAINT) -> CheckIPHeader -> c :: Collect;"
        ));
        rig.push_with("i", packet, |packet| packet.set_paint(5));
        let mut back = rig.collected("c");
        let back = back.pop().expect("the error comes back");
        assert_eq!((back.paint(), back.dst_ip()), (5, A));
        back.data().to_vec()
    }

    #[test]
    fn errors_come_back_as_about_the_original() {
        let reply = "REPLY_ANNO PAINT";
        let port = format!("pattern 21.0.0.1 1024-65535# - - 0 0, {reply}");
        let address = format!("pattern 21.0.0.1-21.0.0.9 - 0 0, {reply}");
        let data = tcp((A, 20), (B, 80), 0x10, b"data");
        let datagram = udp((A, 20), (B, 80), b"data");
        let mut no_sum = datagram.clone();
        no_sum[26..28].fill(0);
        let echo = ping(A, B, b"data");
        for (rewriter, packet) in [
            (format!("IPRewriter({port})"), &data),
            (format!("IPRewriter({port})"), &datagram),
            (format!("IPRewriter({port})"), &no_sum),
            (format!("TCPRewriter({port})"), &data),
            (format!("UDPRewriter({port})"), &datagram),
            (format!("IPAddrRewriter({address})"), &data),
            (format!("IPAddrRewriter({address})"), &echo),
            (format!("IPAddrPairRewriter({address})"), &datagram),
            (format!("ICMPPingRewriter({port})"), &echo),
        ] {
            let error = back(&rewriter, packet);
            assert_eq!(error[12..20], [19, 19, 19, 19, 18, 26, 4, 44], "{rewriter}");
            assert_eq!(checksum(&error[..20]), 0, "{rewriter}");
            assert_eq!(checksum(&error[20..]), 0, "{rewriter}");
            assert_eq!(error[28..], packet[..], "{rewriter}");
        }
    }

    #[test]
    fn what_nobody_knows_leaves_apart() {
        let mut rig = Rig::new(
            "rw :: IPRewriter(pattern 21.0.0.1 1024-65535# - - 0 0);
             Idle -> rw -> Discard;
             i :: Inject -> CheckIPHeader -> r :: ICMPRewriter(rw) -> c :: Collect;
             r [1] -> d :: Collect;
             j :: Inject -> CheckIPHeader -> ICMPRewriter(rw) -> c;",
        );
        for name in ["i", "j"] {
            rig.push(name, &ping(A, B, &[]));
            rig.push(name, &udp((A, 1), (B, 2), &[]));
        }
        assert_eq!(rig.data("c").len(), 0);
        assert_eq!(rig.data("d"), [ping(A, B, &[])]);
    }

    #[test]
    fn outputs_can_be_the_rewriters_own() {
        let mut rig = Rig::new(
            "i :: Inject -> CheckIPHeader -> rw :: IPRewriter(pattern 21.0.0.1 1-9# - - 0 1)
                 -> ICMPError(19.19.19.19, timeexceeded) -> CheckIPHeader
                 -> r :: ICMPRewriter(rw:1) -> c :: Collect;
             rw [1] -> Discard; r [1] -> c; r [2] -> d :: Collect;",
        );
        rig.push("i", &udp((A, 20), (B, 80), b"data"));
        assert_eq!((rig.data("c").len(), rig.data("d").len()), (0, 1));
    }

    #[test]
    fn mistakes_are_named() {
        for (arguments, message) in [
            ("", "MAPS: required argument missing"),
            ("d", "d not an IP rewriter"),
            ("x", "x not an IP rewriter"),
            ("rw:x", "rw not an IP rewriter"),
            ("rw:1", "rw:1 port offset requires more than 1 output"),
        ] {
            let errors = Rig::errors(&format!(
                "rw :: IPRewriter(drop); Idle -> rw -> d :: Discard;
                 Idle -> ICMPRewriter({arguments}) -> d;"
            ));
            assert!(errors.contains(message), "{arguments}: {errors}");
        }
    }
}
