use super::header_check::Check;
use crate::prelude::*;

/// Checks IP headers, all but the checksum; otherwise as CheckIPHeader.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader2(14) -> Discard;
/// ```
///
/// # See also
/// CheckIPHeader, MarkIPHeader
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments)]
#[outputs("right packets", "wrong packets")]
pub struct CheckIPHeader2 {
    /// Whether to check the checksum.
    #[arg(default = false)]
    checksum: bool,
    #[flatten]
    check: Check,
}

impl Element for CheckIPHeader2 {
    fn configured(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.check.configured(self.checksum);
        Ok(())
    }

    #[inline]
    fn effects(&self) -> Effects {
        Effects {
            edit: self.check.edit(),
            ..Effects::default()
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.check.batch(cx, batch);
        0
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        cx.pull(0, batch, most);
        self.check.batch(cx, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn checksums_are_checked_only_where_it_is_asked_for() {
        let config = "i :: Inject -> CheckIPHeader2 -> a :: Collect;
            j :: Inject -> c :: CheckIPHeader2(CHECKSUM true) -> a; c[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        let mut packet = udp(([1; 4].into(), 1), ([2; 4].into(), 2), &[]);
        packet[10] ^= 1;
        rig.push("i", &packet);
        rig.push("j", &packet);
        assert_eq!(rig.data("a"), vec![packet.clone()]);
        assert_eq!(rig.data("b"), vec![packet]);
        assert_eq!(rig.read("c.drops"), "1");
    }
}
