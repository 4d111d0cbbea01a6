use crate::prelude::*;

/// Longest packet that bytes are copied from and to.
const LONGEST: u64 = 1 << 16;

/// Bytes of a packet: where they start and how many.
#[derive(Clone, Copy)]
struct Range {
    offset: usize,
    length: usize,
}

/// Copies bytes of packets on one path into packets on another.
///
/// Packets from input 0 pass unchanged; the bytes of the last one at the ranges are kept. Packets
/// from input 1 get the kept bytes at the same ranges; before the first packet from input 0, these
/// are zeros. If a packet from input 0 ends within a range, only its existing bytes are kept. A
/// packet from input 1 that is too short for a range does not change.
///
/// A path may lead from output 0 to input 1: with Strip and Unstrip on it, bytes of a packet are
/// copied to another position of the same packet. The router then works packet by packet, not in
/// batches.
///
/// # Example
/// ```click
/// c :: Clipboard(6/6);
/// TimedSource(1s, LIMIT 1) -> [0] c [0] -> Discard;
/// TimedSource(2s, LIMIT 1) -> [1] c [1] -> Print -> Discard;
/// ```
///
/// # See also
/// StoreData, Strip, Unstrip
#[derive(Element)]
#[element(ports = "2/2", flow = "#/#", live)]
#[inputs(
    "packets that bytes are copied from",
    "packets that bytes are copied into"
)]
#[outputs("packets from input 0", "packets from input 1")]
pub struct Clipboard {
    /// A range of bytes, within the first 65536.
    #[arg(rest, name = "OFFSET/LENGTH", kind = "any number of times")]
    texts: Vec<String>,
    ranges: Vec<Range>,
    kept: Vec<u8>,
    /// Shortest packet that has all the ranges.
    least: usize,
    /// Most packets pulled at a time.
    #[init(packet::BATCH)]
    most: usize,
}

impl Clipboard {
    fn copy(&mut self, packet: &Packet) {
        let mut to = self.kept.as_mut_slice();
        for range in &self.ranges {
            let (here, behind) = to.split_at_mut(range.length);
            let from = packet.data().get(range.offset..).unwrap_or_default();
            let there = here.len().min(from.len());
            here[..there].copy_from_slice(&from[..there]);
            to = behind;
        }
    }

    fn paste(&self, packet: &mut Packet) {
        if packet.len() < self.least {
            return;
        }
        let mut from = self.kept.as_slice();
        for range in &self.ranges {
            let (here, behind) = from.split_at(range.length);
            packet.data_mut()[range.offset..][..range.length].copy_from_slice(here);
            from = behind;
        }
    }

    #[inline]
    fn pass(&mut self, port: usize, batch: &mut Batch) {
        match port {
            // Nothing reads the kept bytes between the packets of a batch: the last packet counts,
            // and those before it only where it is too short.
            0 => batch.iter().for_each(|packet| self.copy(packet)),
            _ => batch.iter_mut().for_each(|packet| self.paste(packet)),
        }
    }
}

/// The range `text`, or what is wrong with it.
fn parse(args: &Args<'_>, text: &str) -> Result<Range, &'static str> {
    let parts = text
        .split_once('/')
        .filter(|(offset, length)| !offset.is_empty() && !length.is_empty());
    let (offset, length) = parts.ok_or("expected ‘/’ between offset and length")?;
    let number = |name, text: &str| {
        let number = args.context().parse::<u32>(text.trim());
        number.inspect_err(|invalid| args.error_in(name, invalid))
    };
    match (number("OFFSET", offset), number("LENGTH", length)) {
        (Ok(offset), Ok(length)) if u64::from(offset) + u64::from(length) > LONGEST => {
            Err("offset or length beyond 65536 bytes")
        }
        (Ok(offset), Ok(length)) => Ok(Range {
            offset: offset as usize,
            length: length as usize,
        }),
        _ => Err("invalid offset or length"),
    }
}

impl Element for Clipboard {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut ranges = Vec::new();
        for (i, text) in self.texts.iter().enumerate() {
            match parse(args, text) {
                Ok(range) => ranges.push(range),
                Err(reason) => return Err(args.fail(format_args!("range {i}: {reason}"))),
            }
        }
        let ends = ranges.iter().map(|range| range.offset + range.length);
        self.least = ends.max().unwrap_or(0);
        let length = ranges.iter().map(|range| range.length).sum();
        self.kept.resize(length, 0);
        self.ranges = ranges;
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        // A packet has to be back before the next is copied from.
        if cx.graph().leads(cx.id(), 0, cx.id()) {
            self.most = 1;
            cx.limit_batches(1);
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, _cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        self.pass(port, batch);
        port
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, _batch: &mut Batch, most: usize) {
        cx.pull_through(port, most.min(self.most));
    }

    fn pulled(&mut self, _cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.pass(port, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const TWO: &str =
        "a :: Inject -> [0] k [0] -> c :: Collect; b :: Inject -> [1] k [1] -> d :: Collect;";

    #[test]
    fn bytes_go_from_one_path_to_the_other() {
        let mut rig = Rig::new(&format!("k :: Clipboard(0/1, 2/2); {TWO}"));
        rig.push("b", &[1, 2, 3, 4]);
        rig.push("a", &[11, 12, 13, 14, 15]);
        rig.push("b", &[1, 2, 3, 4, 5]);
        rig.push("b", &[1, 2, 3]);
        rig.push("a", &[21, 22, 23]);
        rig.push("b", &[1, 2, 3, 4]);
        assert_eq!(rig.data("c"), [&[11, 12, 13, 14, 15][..], &[21, 22, 23]]);
        let pasted: [&[u8]; 4] = [
            &[0, 2, 0, 0],
            &[11, 2, 13, 14, 5],
            &[1, 2, 3],
            &[21, 2, 23, 14],
        ];
        assert_eq!(rig.data("d"), pasted);
    }

    #[test]
    fn a_packet_can_be_led_through_twice() {
        // The first two bytes are copied to the last two.
        let path = "[0] k :: Clipboard(0/2) -> Strip(2) -> [1] k; k[1] -> Unstrip(2)";
        let mut rig = Rig::new(&format!(
            "i :: Inject -> Queue -> {path} -> u :: Unqueue(BURST 64) -> c :: Collect;"
        ));
        rig.push_all("i", &[vec![1, 2, 3, 4], vec![5, 6, 7, 8]]);
        rig.run();
        assert_eq!(rig.data("c"), [[1, 2, 1, 2], [5, 6, 5, 6]]);
        let mut rig = Rig::new(&format!("i :: Inject -> {path} -> c :: Collect;"));
        rig.push_all("i", &[vec![1, 2, 3, 4], vec![5, 6, 7, 8]]);
        assert_eq!(rig.data("c"), [[1, 2, 1, 2], [5, 6, 5, 6]]);
    }

    #[test]
    fn wrong_ranges_are_refused() {
        for (range, message) in [
            ("5", "range 1: expected '/' between offset and length"),
            ("/5", "range 1: expected '/'"),
            ("5/", "range 1: expected '/'"),
            ("x/5", "range 1: invalid offset or length"),
            ("-1/5", "range 1: invalid offset or length"),
            ("x/5", "OFFSET: invalid number"),
            ("5/6-", "LENGTH: invalid number"),
            ("65000/1000", "range 1: offset or length beyond 65536 bytes"),
            ("4294967295/4294967295", "range 1: offset or length beyond"),
        ] {
            Rig::refuses(&format!("k :: Clipboard(0/1, {range}); {TWO}"), message);
        }
    }
}
