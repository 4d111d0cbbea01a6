use crate::prelude::*;

/// The bytes of the addresses in an IP header.
const ADDRESSES: core::ops::Range<usize> = 12..20;
/// Bytes of the ports of TCP and UDP.
const PORTS: usize = 4;

/// Copies addresses and ports of a packet on one path into the packets on another.
///
/// Packets from input 0 pass unchanged; the flow of the first one is kept. Packets from input 1 get
/// its addresses and ports; before that first packet, they pass unchanged. Packets must have their
/// IP header marked. Checksums are left to SetTCPChecksum and SetIPChecksum. Packets too short for
/// addresses and ports are left as they are.
///
/// # Example
/// ```click
/// fid :: CopyFlowID;
/// FromDump(out.pcap, FORCE_IP true) -> [0] fid [0] -> Discard;
/// FromDump(acks.pcap, FORCE_IP true) -> [1] fid [1] -> SetTCPChecksum -> SetIPChecksum -> Discard;
/// ```
///
/// # See also
/// CopyTCPSeq, Clipboard, TCPConn
#[derive(Element)]
#[element(ports = "2/2", flow = "#/#", handlers)]
#[inputs(
    "packets of the flow",
    "packets that get the flow's addresses and ports"
)]
#[outputs("packets from input 0", "packets from input 1")]
pub struct CopyFlowID {
    flow: Option<([u8; 8], [u8; PORTS])>,
}

/// The addresses and ports of a packet.
fn flow(packet: &Packet) -> Option<([u8; 8], [u8; PORTS])> {
    let addresses = packet.network_header()?.get(ADDRESSES)?;
    let ports = packet.transport_header()?.first_chunk::<PORTS>()?;
    Some((addresses.try_into().ok()?, *ports))
}

impl CopyFlowID {
    fn set(&self, packet: &mut Packet) -> Option<()> {
        let (addresses, ports) = self.flow.as_ref()?;
        packet.transport_header()?.get(..PORTS)?;
        let header = packet.network_header_mut()?.get_mut(ADDRESSES)?;
        header.copy_from_slice(addresses);
        let header = packet.transport_header_mut()?.get_mut(..PORTS)?;
        header.copy_from_slice(ports);
        Some(())
    }

    fn pass(&mut self, port: usize, batch: &mut Batch) {
        if port == 1 {
            batch.iter_mut().for_each(|packet| {
                let _ = self.set(packet);
            });
        } else if self.flow.is_none() {
            self.flow = batch.iter().find_map(flow);
        }
    }
}

#[handlers]
impl CopyFlowID {
    /// Forgets the flow: the next packet from input 0 names another.
    #[write(button)]
    fn reset(&mut self) {
        self.flow = None;
    }
}

impl Element for CopyFlowID {
    #[inline]
    fn push(&mut self, _cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        self.pass(port, batch);
        port
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, _batch: &mut Batch, most: usize) {
        cx.pull_through(port, most);
    }

    #[inline]
    fn pulled(&mut self, _cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.pass(port, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const A: (Ipv4Addr, u16) = (Ipv4Addr::new(1, 0, 0, 1), 5);
    const B: (Ipv4Addr, u16) = (Ipv4Addr::new(2, 0, 0, 2), 6);
    const NONE: (Ipv4Addr, u16) = (Ipv4Addr::UNSPECIFIED, 0);

    #[test]
    fn the_first_packets_flow_is_copied() {
        let mut rig = Rig::new(
            "i :: Inject -> MarkIPHeader -> [0] f :: CopyFlowID [0] -> c :: Collect;
             j :: Inject -> MarkIPHeader -> [1] f [1] -> SetTCPChecksum -> SetIPChecksum
                -> d :: Collect;",
        );
        let blank = tcp(NONE, NONE, 0x10, &[9]);
        rig.push("j", &blank);
        assert_eq!(rig.data("d")[0], blank);
        let first = tcp(A, B, 0x18, &[1]);
        rig.push("i", &first[..22]);
        rig.push_all("i", &[first.clone(), tcp(B, A, 0x18, &[2])]);
        assert_eq!(rig.data("c")[1], first);
        rig.push("j", &blank);
        assert_eq!(rig.data("d"), [tcp(A, B, 0x10, &[9])]);
        rig.write("f.reset", "");
        rig.push("i", &tcp(B, A, 0x18, &[2]));
        rig.push("j", &blank);
        assert_eq!(rig.data("d"), [tcp(B, A, 0x10, &[9])]);
    }

    #[test]
    fn packets_can_be_pulled_through() {
        let mut rig = Rig::new(
            "i :: Inject -> MarkIPHeader -> Queue -> [0] f :: CopyFlowID [0] -> p :: Puller;
             j :: Inject -> MarkIPHeader -> Queue -> [1] f [1] -> q :: Puller;",
        );
        rig.push("i", &tcp(A, B, 0x18, &[]));
        rig.push("j", &tcp(NONE, NONE, 0x10, &[]));
        assert_eq!(rig.pull("p", 9).len(), 1);
        assert_eq!(
            rig.pull("q", 9)[0].data()[12..24],
            [1, 0, 0, 1, 2, 0, 0, 2, 0, 5, 0, 6]
        );
    }
}
