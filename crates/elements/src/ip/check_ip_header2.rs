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
    #[delegate(configured = set_checksum)]
    check: Check,
}

impl CheckIPHeader2 {
    fn set_checksum(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.check.set_checksum(self.checksum);
        Ok(())
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
