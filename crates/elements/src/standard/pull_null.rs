use crate::prelude::*;

/// Passes packets on unchanged; only pulls.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> Queue -> PullNull -> Discard;
/// ```
///
/// # See also
/// Null, PushNull
#[derive(Element)]
#[element(ports = "1/1", processing = "l/l", segments)]
pub struct PullNull;

impl Element for PullNull {}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_pass_unchanged() {
        let mut rig = Rig::new("i :: Inject -> Queue -> PullNull -> p :: Puller;");
        rig.push("i", &[1, 2]);
        assert_eq!(rig.pull("p", 1)[0].data(), [1, 2]);
        Rig::refuses("Inject -> PullNull -> Collect;", "PullNull");
    }
}
