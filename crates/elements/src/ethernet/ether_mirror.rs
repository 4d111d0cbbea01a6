use crate::prelude::*;

/// Sends frames back to their sender: exchanges Ethernet source and destination.
///
/// Packets must start with an Ethernet header; shorter ones pass unchanged.
///
/// # Example
/// ```click
/// FromDevice(eth0) -> EtherMirror -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// EtherEncap, EtherRewrite, IPMirror
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct EtherMirror;

impl Element for EtherMirror {
    #[inline(always)]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        EthernetFrame::new_unchecked(packet.data_mut()).swap_addresses();
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn addresses_change_places() {
        let mut rig = Rig::new("i :: Inject -> EtherMirror -> c :: Collect;");
        rig.push_all("i", &[ether([1; 6], [2; 6], 0x0800, &[7]), vec![1; 13]]);
        let expected = [ether([2; 6], [1; 6], 0x0800, &[7]), vec![1; 13]];
        assert_eq!(rig.data("c"), expected);
    }
}
