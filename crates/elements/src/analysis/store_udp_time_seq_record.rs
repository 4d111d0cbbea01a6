use crate::prelude::*;

const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const IP6_HEADER: usize = 40;
/// A number, a time and a difference of times.
const RECORD: usize = 20;

const PER_SECOND: i64 = 1_000_000_000;

/// Stores sequence numbers and times in UDP packets, to measure their delay.
///
/// The payload of each packet starts with a record of 20 bytes in network order: its number, then
/// seconds and nanoseconds of the time at which it passed, then seconds and nanoseconds of a
/// difference, which is 0. A second element, with `DELTA`, writes the time since into the
/// difference. The UDP checksum is updated, if there is one. Packets that are too short, or not UDP
/// over IPv4 or IPv6, are dropped, also those with IPv6 extension headers.
///
/// # Example
/// ```click
/// RatedSource(LENGTH 22, LIMIT 100) -> UDPIPEncap(10.0.1.1, 6667, 20.0.0.2, 6667)
///     -> StoreUDPTimeSeqRecord(0) -> Queue -> DelayShaper(100ms)
///     -> StoreUDPTimeSeqRecord(0, DELTA true) -> ToDump(out.pcap, ENCAP IP);
/// ```
///
/// # See also
/// StoreTimestamp, SetTimestampDelta
#[derive(Element)]
#[element(ports = "1/1", handlers)]
pub struct StoreUDPTimeSeqRecord {
    /// Where the IP header starts, in bytes from the start of the data.
    #[arg(mandatory)]
    offset: u32,
    /// Whether to write the difference.
    #[arg]
    delta: bool,
    /// Packets that were written to.
    #[handler(read)]
    count: u32,
    /// The present, as of the batch at work.
    now: i64,
}

/// Seconds and nanoseconds in network order.
fn time_bytes(time: i64) -> [u8; 8] {
    let seconds = (time.div_euclid(PER_SECOND) as u32).to_be_bytes();
    let nanoseconds = (time.rem_euclid(PER_SECOND) as u32).to_be_bytes();
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&seconds);
    bytes[4..].copy_from_slice(&nanoseconds);
    bytes
}

/// The UDP header and record in an IP packet.
fn udp(ip: &mut [u8]) -> Option<&mut [u8; UDP_HEADER + RECORD]> {
    let header = match (ip.first()? >> 4, ip.get(6), ip.get(9)) {
        (4, _, Some(&UDP)) => usize::from(ip.first()? & 15) * 4,
        (6, Some(&UDP), _) => IP6_HEADER,
        _ => return None,
    };
    ip.get_mut(header..)?.first_chunk_mut()
}

impl StoreUDPTimeSeqRecord {
    fn record(&mut self, old: &[u8; RECORD]) -> [u8; RECORD] {
        let mut record = *old;
        if self.delta {
            let word = |at: usize| {
                let bytes = [old[at], old[at + 1], old[at + 2], old[at + 3]];
                i64::from(u32::from_be_bytes(bytes))
            };
            let sent = word(4) * PER_SECOND + word(8);
            record[12..].copy_from_slice(&time_bytes(self.now.saturating_sub(sent)));
        } else {
            record[..4].copy_from_slice(&self.count.to_be_bytes());
            record[4..12].copy_from_slice(&time_bytes(self.now));
            record[12..].fill(0);
        }
        record
    }
}

#[handlers]
impl StoreUDPTimeSeqRecord {
    /// Sets `count` to 0: the next packet's number is 1.
    #[write]
    fn reset(&mut self) {
        self.count = 0;
    }
}

impl Element for StoreUDPTimeSeqRecord {
    #[inline]
    fn batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        self.now = cx.wall();
        filter(self, cx, batch);
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let ip = packet.data_mut().get_mut(self.offset as usize..);
        let Some(udp) = ip.and_then(udp) else {
            return Verdict::Drop;
        };
        self.count = self.count.wrapping_add(1);
        let mut old = [0; RECORD];
        old.copy_from_slice(&udp[UDP_HEADER..]);
        let new = self.record(&old);
        udp[UDP_HEADER..].copy_from_slice(&new);
        let sum = u16::from_be_bytes([udp[6], udp[7]]);
        if sum != 0 {
            let sum = Delta::of_sums(Sum::of(&old), Sum::of(&new)).apply(sum);
            // 0 would say that there is no checksum (RFC 768).
            let sum = if sum == 0 { u16::MAX } else { sum };
            [udp[6], udp[7]] = sum.to_be_bytes();
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn word(packet: &[u8], at: usize) -> i64 {
        u32::from_be_bytes(packet[at..at + 4].try_into().unwrap()).into()
    }

    #[test]
    fn records_say_when_and_how_long() {
        let mut rig = Rig::new(
            "i :: Inject -> s :: StoreUDPTimeSeqRecord(2) -> q :: Queue -> u :: Unqueue(ACTIVE false)
               -> StoreUDPTimeSeqRecord(2, DELTA true) -> Strip(2) -> MarkIPHeader
               -> CheckUDPHeader -> c :: Collect;",
        );
        let ends = (([1, 0, 0, 1].into(), 1), ([2, 0, 0, 2].into(), 2));
        let packet = udp(ends.0, ends.1, &[7; 23]);
        let other = tcp(ends.0, ends.1, 0, &[7; 40]);
        for packet in [&packet[..], &packet, &packet[..40], &other] {
            rig.push("i", &[&[0, 0], packet].concat());
        }
        assert_eq!(rig.read("s.count"), "2");
        rig.pause(1_500_000_000);
        rig.write("u.active", "true");
        rig.run();
        let out = rig.data("c");
        assert_eq!(out.len(), 2);
        for (n, packet) in out.iter().enumerate() {
            let start = START / 1_000_000_000;
            let record = [28, 32, 36, 40, 44].map(|at| word(packet, at));
            assert_eq!(record, [n as i64 + 1, start, 0, 1, 500_000_000]);
            assert_eq!(packet[48..], [7; 3]);
        }
        rig.write("s.reset", "");
        assert_eq!(rig.read("s.count"), "0");
    }
}
