use crate::prelude::*;

/// Longest frame, in bytes.
const FRAME_MAX: u64 = 1 << 20;
/// Most bytes that wait to be part of a frame.
const WAITING_MAX: usize = 4 << 20;

/// Reassembles frames that were split or joined, for example by a TCP socket.
///
/// The data of all packets is one stream of bytes. A field in each frame states its length: the
/// field's value times MUL, rounded up to a multiple of ALIGN, plus ADD. The arguments' defaults fit
/// IP packets. Frames carry no annotations.
///
/// A frame of length 0 or of more than 1 MiB is an error: the element reports it and drops all
/// waiting bytes. The same happens when more than 4 MiB wait to be pulled.
///
/// # Example
/// ```click
/// Socket(TCP, 127.0.0.1, 12345) -> Reframe -> CheckIPHeader -> IPPrint -> Discard;
/// ```
///
/// # See also
/// Socket
#[derive(Element)]
#[element(ports = "1/1", processing = "h/a")]
pub struct Reframe {
    /// Bytes from a frame's start to the field.
    #[arg(name = "FOFF", default = 2)]
    offset: u32,
    /// The field's length in bytes; 0: there is none, and all frames are ADD bytes long.
    #[arg(name = "FLEN", default = 2, kind = "0, 1, 2 or 4")]
    length: u32,
    /// Whether the field is in network byte order, rather than this machine's.
    #[arg(name = "NTOH", default = true)]
    network_order: bool,
    /// Bytes for each unit of the field.
    #[arg(name = "MUL", default = 1)]
    multiple: u32,
    /// The length is a multiple of this.
    #[arg(default = 1)]
    align: u32,
    /// Bytes that the field does not count.
    #[arg(default = 0)]
    add: u32,
    waiting: VecDeque<u8>,
}

impl Reframe {
    /// The length of the next frame of the stream, whose bytes `at` gives; `None` if that is not known yet.
    #[inline]
    fn frame_len(&self, at: impl Fn(usize) -> Option<u8>) -> Option<u64> {
        if self.length == 0 {
            return Some(self.add.into());
        }
        let mut bytes = [0u8; 4];
        let field = bytes.get_mut(..self.length as usize)?;
        for (i, byte) in field.iter_mut().enumerate() {
            *byte = at(self.offset as usize + i)?;
        }
        let value = match (self.length, self.network_order) {
            (1, _) => u32::from(bytes[0]),
            (2, true) => u32::from(u16::from_be_bytes([bytes[0], bytes[1]])),
            (2, false) => u32::from(u16::from_ne_bytes([bytes[0], bytes[1]])),
            (_, true) => u32::from_be_bytes(bytes),
            (_, false) => u32::from_ne_bytes(bytes),
        };
        let units = u64::from(value) * u64::from(self.multiple);
        Some(units.next_multiple_of(self.align.into()) + u64::from(self.add))
    }

    /// Takes the next whole frame off the stream.
    fn frame(&mut self, cx: &mut Cx<'_>) -> Option<packet::Packet> {
        let length = self.frame_len(|at| self.waiting.get(at).copied())?;
        if length == 0 || length > FRAME_MAX {
            let name = cx.declaration();
            cx.chatter(format_args!(
                "{name}: a frame of {length} bytes: the place is lost"
            ));
            self.waiting.clear();
            return None;
        }
        let length = length as usize;
        if self.waiting.len() < length {
            return None;
        }
        let mut packet = cx.pool().packet(packet::HEADROOM, length)?;
        let (first, second) = self.waiting.as_slices();
        let (first, second) = (
            &first[..first.len().min(length)],
            &second[..length.saturating_sub(first.len())],
        );
        let (to_first, to_second) = packet.data_mut().split_at_mut(first.len());
        to_first.copy_from_slice(first);
        to_second.copy_from_slice(second);
        self.waiting.drain(..length);
        Some(packet)
    }

    /// Sends the whole frames at the start of `data`, before which nothing waits; returns the rest.
    #[inline]
    fn send_whole<'d>(&self, cx: &mut Cx<'_>, mut data: &'d [u8]) -> &'d [u8] {
        while let Some(length @ 1..=FRAME_MAX) = self.frame_len(|at| data.get(at).copied())
            && let Some((frame, rest)) = data.split_at_checked(length as usize)
            && let Some(frame) = cx.pool().copy(frame)
        {
            cx.emit(0, frame);
            data = rest;
        }
        data
    }
}

impl Element for Reframe {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if !matches!(self.length, 0 | 1 | 2 | 4) {
            let (length, valid) = (self.length, "valid field lengths are 0, 1, 2, and 4 bytes");
            return Err(args.fail(format_args!("invalid field length {length} ({valid})")));
        }
        if self.align == 0 {
            return Err(args.fail("ALIGN must be at least 1"));
        }
        if self.length == 0 && self.add == 0 {
            return Err(args.fail("ADD must be at least 1 if FLEN is 0"));
        }
        if u64::from(self.offset) > FRAME_MAX || u64::from(self.add) > FRAME_MAX {
            return Err(args.fail(format_args!("FOFF and ADD must be at most {FRAME_MAX}")));
        }
        Ok(())
    }

    fn cleanup(&mut self, _cx: &mut Cx<'_>) {
        self.waiting = VecDeque::new();
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let pushes = cx.output_is_push(0);
        for packet in batch.drain() {
            let rest = if pushes && self.waiting.is_empty() {
                self.send_whole(cx, packet.data())
            } else {
                packet.data()
            };
            self.waiting.extend(rest);
            cx.kill(packet);
            while let Some(frame) = pushes.then(|| self.frame(cx)).flatten() {
                cx.emit(0, frame);
            }
            if self.waiting.len() > WAITING_MAX {
                let name = cx.declaration();
                cx.chatter(format_args!("{name}: too much waits: the place is lost"));
                self.waiting.clear();
            }
        }
        0
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        for _ in 0..most {
            let Some(frame) = self.frame(cx) else {
                break;
            };
            if let Err(frame) = batch.push(frame) {
                cx.kill(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn reframed(args: &str, pieces: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut rig = Rig::new(&std::format!(
            "i :: Inject -> Reframe({args}) -> c :: Collect;"
        ));
        rig.push_all("i", pieces);
        rig.data("c")
    }

    #[test]
    fn fields_of_every_kind_say_the_length() {
        let two = |bytes: &[u8]| std::vec![bytes.to_vec()];
        assert_eq!(
            reframed("FOFF 0, FLEN 1", &two(&[3, 9, 9, 2, 8])),
            [&[3, 9, 9][..], &[2, 8]]
        );
        let stream = two(&[0, 2, 0, 0, 1, 9]);
        assert_eq!(reframed("FOFF 0, MUL 2, ADD 1", &stream), [[0, 2, 0, 0, 1]]);
        assert_eq!(
            reframed("FOFF 0, ALIGN 3", &stream),
            [&[0, 2, 0][..], &[0, 1, 9]]
        );
        assert_eq!(
            reframed("FLEN 0, ADD 3", &stream),
            [&[0, 2, 0][..], &[0, 1, 9]]
        );
        let native = 5u32.to_ne_bytes();
        let stream = two(&[&native[..], &[1, 2]].concat());
        assert_eq!(reframed("FOFF 0, FLEN 4, NTOH false", &stream)[0].len(), 5);
    }

    #[test]
    fn frames_can_be_pulled() {
        let mut rig = Rig::new("i :: Inject -> Reframe(FLEN 0, ADD 2) -> p :: Puller;");
        rig.push("i", &[1, 2, 3, 4, 5]);
        let pulled = rig.pull("p", 9);
        assert_eq!((pulled.len(), pulled[1].data()), (2, &[3, 4][..]));
    }

    #[test]
    fn impossible_frames_are_dropped() {
        let mut rig = Rig::new("i :: Inject -> r :: Reframe(FOFF 0) -> c :: Collect;");
        rig.push("i", &[0, 0, 1, 2]);
        rig.push("i", &[0, 3, 1]);
        assert_eq!(rig.data("c"), [[0, 3, 1]]);
        assert_eq!(
            rig.printed(),
            ["r :: Reframe: a frame of 0 bytes: the place is lost"]
        );
        for (args, text) in [
            (
                "FLEN 3",
                "invalid field length 3 (valid field lengths are 0, 1, 2, and 4 bytes)",
            ),
            ("FLEN 0", "ADD must be at least 1"),
            ("ALIGN 0", "ALIGN must be at least 1"),
        ] {
            Rig::refuses(&std::format!("Idle -> Reframe({args}) -> Discard;"), text);
        }
    }

    proptest! {
        #[test]
        fn however_packets_are_cut_they_come_out_whole(
            lengths in prop::collection::vec(0usize..50, 1..8),
            cuts in prop::collection::vec(1usize..40, 1..40),
        ) {
            let (a, b) = ([1, 0, 0, 1].into(), [2, 0, 0, 2].into());
            let packets: Vec<Vec<u8>> =
                lengths.iter().map(|n| udp((a, 1), (b, 2), &std::vec![7; *n])).collect();
            let mut rest = &packets.concat()[..];
            let mut pieces = Vec::new();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, more) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece.to_vec());
                rest = more;
            }
            prop_assert_eq!(reframed("", &pieces), packets);
        }
    }
}
