use crate::prelude::*;

/// Passes packets on unchanged.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Null -> Discard;
/// ```
///
/// # See also
/// PushNull, PullNull, Idle
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct Null;

impl Element for Null {}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_pass_unchanged() {
        let mut rig = Rig::new("i :: Inject -> Null -> c :: Collect;");
        rig.push("i", &[1, 2]);
        assert_eq!(rig.data("c"), [[1, 2]]);
    }
}
