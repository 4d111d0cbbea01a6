use alloc::string::{String, ToString};

use packet::{Packet, anno};
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

use crate::values;

/// Shortens packets that are longer than a number of bytes.
///
/// # Arguments
/// - `LENGTH` (integer): most bytes that are left of a packet.
/// - `EXTRA_LENGTH` (boolean, true): whether the bytes taken off are added to the packet's extra
///   length annotation. Pad puts as many back.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `nbytes` (read, write): LENGTH.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Truncate(68) -> ToDump(headers.pcap, EXTRA_LENGTH true);
/// ```
///
/// # See also
/// Pad, Strip, Resize, CheckLength
#[derive(Default)]
pub struct Truncate {
    length: u32,
    extra: bool,
}

impl Class for Truncate {
    const NAME: &'static str = "Truncate";
    const PORTS: &'static str = "1/1";
}

impl Declared for Truncate {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.extra = true;
        args.mandatory_positional("LENGTH", &mut self.length)
            .keyword("EXTRA_LENGTH", &mut self.extra)
            .complete()
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("nbytes");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "nbytes" => Ok(self.length.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "nbytes" {
            return Err(HandlerError::Unknown);
        }
        self.length = values::unsigned(cx, value)?;
        Ok(())
    }
}

impl Element for Truncate {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let surplus = packet.len().saturating_sub(self.length as usize);
        if surplus > 0 {
            packet.take(surplus);
            if self.extra {
                let extra = packet.anno(anno::EXTRA_LENGTH);
                packet.set_anno(anno::EXTRA_LENGTH, extra.saturating_add(surplus as u32));
            }
        }
        Verdict::Forward
    }
}

/// Lengthens packets that are shorter than a number of bytes.
///
/// Without LENGTH it puts back what packets lack by their extra length annotation: what Truncate
/// took off, or a capture left out. The annotation is 0 afterwards. A packet for which there is no
/// memory is dropped.
///
/// # Arguments
/// - `LENGTH` (integer): least bytes of a packet; if it is 0 or not given, the annotation counts.
/// - `ZERO` (boolean, true): whether added bytes are zeroes. Otherwise they are what the buffer
///   held before, which may be part of other packets.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// InfiniteSource(DATA \<0800>, LIMIT 10) -> Pad(60) -> Discard;
/// ```
///
/// # See also
/// Truncate, Resize
#[derive(Default)]
pub struct Pad {
    length: u32,
    zero: bool,
}

impl Class for Pad {
    const NAME: &'static str = "Pad";
    const PORTS: &'static str = "1/1";
}

impl Declared for Pad {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        (self.length, self.zero) = (0, true);
        args.positional("LENGTH", &mut self.length)
            .keyword("ZERO", &mut self.zero)
            .complete()
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
}

impl Element for Pad {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let before = packet.len();
        let missing = match self.length {
            0 => packet.anno(anno::EXTRA_LENGTH) as usize,
            length => (length as usize).saturating_sub(before),
        };
        if missing > 0 {
            if !packet.put(missing) {
                return Verdict::Drop;
            }
            if self.zero {
                packet.data_mut()[before..].fill(0);
            }
        }
        packet.set_anno(anno::EXTRA_LENGTH, 0);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use packet::anno;

    use crate::testing::Rig;

    #[test]
    fn what_is_taken_off_is_put_back_as_zeroes() {
        let config = "i :: Inject -> t :: Truncate(2) -> a :: Tee -> x :: Collect;
            a[1] -> Pad -> y :: Collect; a[2] -> Pad(3) -> z :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1, 2, 3, 4]);
        rig.push("i", &[5]);
        let cut = rig.collected("x");
        assert_eq!((cut[0].data(), cut[0].anno(anno::EXTRA_LENGTH)), (&[1, 2][..], 2));
        assert_eq!((cut[1].data(), cut[1].anno(anno::EXTRA_LENGTH)), (&[5][..], 0));
        let back = rig.collected("y");
        assert_eq!((back[0].data(), back[0].anno(anno::EXTRA_LENGTH)), (&[1, 2, 0, 0][..], 0));
        assert_eq!(back[1].data(), [5]);
        assert_eq!(rig.data("z"), [[1, 2, 0], [5, 0, 0]]);
        rig.write("t.nbytes", "0");
        assert_eq!(rig.read("t.nbytes"), "0");
        rig.push("i", &[1, 2]);
        assert!(rig.collected("x")[0].is_empty());
        assert_eq!(rig.data("y"), [[0, 0]]);
        assert!(rig.try_write("t.nbytes", "-1").is_err());
    }

    #[test]
    fn the_annotation_can_be_left_alone() {
        let config = "i :: Inject -> Truncate(LENGTH 1, EXTRA_LENGTH false) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1, 2]);
        let packets = rig.collected("c");
        assert_eq!((packets[0].data(), packets[0].anno(anno::EXTRA_LENGTH)), (&[1][..], 0));
    }

    #[test]
    fn padding_that_no_memory_has_room_for_drops_the_packet() {
        let mut rig = Rig::new("i :: Inject -> Pad -> c :: Collect;");
        rig.push_with("i", &[1], |packet| packet.set_anno(anno::EXTRA_LENGTH, u32::MAX));
        assert!(rig.collected("c").is_empty());
        assert_eq!(rig.outstanding(), 0);
        let mut rig = Rig::new("i :: Inject -> Pad(5000, ZERO false) -> c :: Collect;");
        rig.push("i", &[7]);
        assert_eq!((rig.data("c")[0].len(), rig.data("c").len()), (5000, 0));
    }

    #[test]
    fn the_length_to_cut_to_must_be_given() {
        let errors = Rig::errors("Idle -> Truncate -> Discard;");
        assert!(errors.contains("LENGTH: required argument missing"), "{errors}");
    }
}
