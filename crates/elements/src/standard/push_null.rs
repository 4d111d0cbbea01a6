use crate::prelude::*;

/// Passes packets on unchanged; only pushes.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> PushNull -> Discard;
/// ```
///
/// # See also
/// Null, PullNull
#[derive(Element)]
#[element(ports = "1/1", processing = "h/h", segments)]
pub struct PushNull;

impl Element for PushNull {}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_pass_unchanged() {
        let mut rig = Rig::new("i :: Inject -> PushNull -> c :: Collect;");
        rig.push("i", &[1, 2]);
        assert_eq!(rig.data("c"), [[1, 2]]);
        Rig::refuses("Idle -> Queue -> PushNull -> Puller;", "PushNull");
    }
}
