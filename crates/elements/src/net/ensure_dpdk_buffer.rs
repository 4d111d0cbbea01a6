use crate::prelude::*;

/// Passes packets on unchanged.
///
/// In FastClick it copies packets into buffers that a DPDK driver can send. Here every packet is
/// in a buffer that can be sent.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> EnsureDPDKBuffer -> Discard;
/// ```
///
/// # See also
/// ToDPDKDevice, Null
#[derive(Element)]
#[element(name = "EnsureDPDKBuffer", ports = "1/1", segments)]
pub struct EnsureDpdkBuffer {
    /// Accepted and ignored.
    #[arg(positional)]
    force_copy: bool,
    /// Accepted and ignored.
    #[arg(positional)]
    extra_headroom: u32,
    /// Accepted and ignored.
    #[arg]
    fail: bool,
}

impl Element for EnsureDpdkBuffer {}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_pass_unchanged() {
        let config = "i :: Inject -> EnsureDPDKBuffer(EXTRA_HEADROOM 8) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1, 2]);
        assert_eq!(rig.data("c"), [[1, 2]]);
    }
}
