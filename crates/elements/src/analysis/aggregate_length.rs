use crate::prelude::*;

/// Sets packets' aggregate annotation to their length.
///
/// The length counts the extra length annotation.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> AggregateLength -> c :: AggregateCounter -> Discard;
/// DriverManager(pause, write c.write_text_file -);
/// ```
///
/// # See also
/// AggregateIP, AggregatePaint, AggregateCounter
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah")]
#[outputs(
    "packets with their length",
    "with IP, packets without a network header mark"
)]
pub struct AggregateLength {
    /// Whether the length is counted from the IP header.
    #[arg]
    ip: bool,
}

impl Element for AggregateLength {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let length = if self.ip {
            match packet.network_header() {
                Some(header) => header.len(),
                None => return Verdict::To(1),
            }
        } else {
            packet.len()
        };
        let extra = packet.anno(EXTRA_LENGTH);
        packet.set_anno(AGGREGATE, extra.saturating_add(length as u32));
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_length_becomes_the_aggregate() {
        let mut rig = Rig::new("i :: Inject -> AggregateLength -> c :: Collect;");
        rig.push_with("i", &[0; 70], |packet| packet.set_anno(EXTRA_LENGTH, 30));
        assert_eq!(rig.collected("c")[0].anno(AGGREGATE), 100);
        let mut rig = Rig::new(
            "i :: Inject -> a :: AggregateLength(IP true) -> c :: Collect; a[1] -> d :: Collect;",
        );
        rig.push_with("i", &[0; 70], |packet| packet.set_network_header(14, 20));
        rig.push("i", &[0; 70]);
        assert_eq!(rig.collected("c")[0].anno(AGGREGATE), 56);
        assert_eq!(rig.collected("d").len(), 1);
    }
}
