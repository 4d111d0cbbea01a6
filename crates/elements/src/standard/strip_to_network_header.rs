use crate::prelude::*;

/// Removes or restores bytes so that packets start with their network header.
///
/// A packet without a marked network header does not change.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> MarkIPHeader(14) -> StripToNetworkHeader -> Discard;
/// ```
///
/// # See also
/// Strip, Unstrip, MarkIPHeader, CheckIPHeader
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct StripToNetworkHeader;

impl Element for StripToNetworkHeader {
    #[inline]
    fn effects(&self) -> Effects {
        Effects::of_move(None)
    }

    #[inline(always)]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let offset = packet.network_offset().unwrap_or(0);
        let bytes = offset.unsigned_abs();
        if offset > 0 {
            packet.pull(bytes);
        } else if !packet.push(bytes) {
            return Verdict::Drop;
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_start_with_their_network_header() {
        let config = "i :: Inject -> StripToNetworkHeader -> a :: Collect;
            j :: Inject -> Strip(4) -> StripToNetworkHeader -> b :: Collect;";
        let mut rig = Rig::new(config);
        for name in ["i", "j"] {
            rig.push_with(name, &[1, 2, 3, 4, 5], |packet| {
                packet.set_network_header(2, 1)
            });
            rig.push(name, &[1, 2, 3, 4, 5]);
        }
        assert_eq!(rig.data("a"), [&[3, 4, 5][..], &[1, 2, 3, 4, 5]]);
        assert_eq!(rig.data("b"), [&[3, 4, 5][..], &[5]]);
    }
}
