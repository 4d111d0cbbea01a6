use crate::prelude::*;

/// Adds bytes to packets at the front and at the end, or removes them.
///
/// Added bytes have the buffer's old content. A packet with fewer bytes than are removed becomes
/// empty. Without memory, a packet is dropped.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Resize(-14, +4) -> Discard;
/// ```
///
/// # See also
/// Strip, Unstrip, Truncate, Pad
#[derive(Element)]
#[element(ports = "1/1", live)]
pub struct Resize {
    /// Bytes added at the front; if negative, bytes removed.
    #[arg(positional, default = 0, read, write, error = "expected integer")]
    head: i32,
    /// The same for the end.
    #[arg(positional, default = 0, read, write, error = "expected integer")]
    tail: i32,
}

impl Element for Resize {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let (head, tail) = (
            self.head.unsigned_abs() as usize,
            self.tail.unsigned_abs() as usize,
        );
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
    use crate::testing::*;

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
        rig.assert_handlers(&[("r.head", "0"), ("r.tail", "0")]);
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
