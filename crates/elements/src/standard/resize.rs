use alloc::string::{String, ToString};

use packet::Packet;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

use crate::values;

/// Adds bytes to packets at the front and at the end, or removes them.
///
/// Added bytes are what the buffer held before. Of a packet that has fewer bytes than are to be
/// removed nothing is left; one for which there is no memory is dropped.
///
/// # Arguments
/// - `HEAD` (integer, 0): bytes added at the front; if negative, bytes removed.
/// - `TAIL` (integer, 0): the same for the end.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `head`, `tail` (read, write): the arguments.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Resize(-14, +4) -> Discard;
/// ```
///
/// # See also
/// Strip, Unstrip, Truncate, Pad
#[derive(Default)]
pub struct Resize {
    head: i32,
    tail: i32,
}

impl Class for Resize {
    const NAME: &'static str = "Resize";
    const PORTS: &'static str = "1/1";
}

impl Declared for Resize {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.read()
            .positional_or("HEAD", &mut self.head, 0)
            .positional_or("TAIL", &mut self.tail, 0)
            .complete()
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("head").read_write("tail");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "head" => Ok(self.head.to_string()),
            "tail" => Ok(self.tail.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "head" => self.head = values::integer(cx, value)?,
            "tail" => self.tail = values::integer(cx, value)?,
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

impl Element for Resize {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let (head, tail) = (self.head.unsigned_abs() as usize, self.tail.unsigned_abs() as usize);
        if self.head < 0 {
            packet.pull(head);
        } else if !packet.push(head) {
            return Verdict::Drop;
        }
        if self.tail < 0 {
            packet.take(tail);
        } else if !packet.put(tail) {
            return Verdict::Drop;
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::testing::Rig;

    proptest! {
        /// What is neither added nor removed keeps its place, whatever the numbers.
        #[test]
        fn the_rest_stays(head in -60i32..300, tail in -60i32..3000, length in 0usize..100) {
            let config = alloc::format!("i :: Inject -> Resize({head}, {tail}) -> c :: Collect;");
            let mut rig = Rig::new(&config);
            let data: alloc::vec::Vec<u8> = (0..length as u8).collect();
            rig.push("i", &data);
            let kept = &data[length.min((-head).max(0) as usize)..];
            let out = &rig.data("c")[0];
            let (front, behind) = (head.max(0) as usize, tail.max(0) as usize);
            let cut = ((-tail).max(0) as usize).min(front + kept.len());
            prop_assert_eq!(out.len(), front + kept.len() + behind - cut);
            let shown = &out[front.min(out.len())..out.len() - behind];
            prop_assert_eq!(shown, &kept[..shown.len()]);
        }
    }

    #[test]
    fn handlers_change_the_numbers() {
        let mut rig = Rig::new("i :: Inject -> r :: Resize(TAIL -1) -> c :: Collect;");
        rig.push("i", &[1, 2, 3]);
        rig.write("r.head", "-1");
        rig.write("r.tail", "0");
        rig.push("i", &[1, 2, 3]);
        assert_eq!(rig.data("c"), [[1, 2], [2, 3]]);
        rig.write("r.config", "");
        assert_eq!((rig.read("r.head"), rig.read("r.tail")), ("0".into(), "0".into()));
        assert!(rig.try_write("r.head", "many").is_err());
    }

    #[test]
    fn a_packet_that_no_memory_has_room_for_is_dropped() {
        let mut rig = Rig::new("i :: Inject -> Resize(2147483647) -> c :: Collect;");
        rig.push("i", &[1]);
        assert!(rig.collected("c").is_empty());
        assert_eq!(rig.outstanding(), 0);
    }
}
