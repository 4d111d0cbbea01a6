use super::tee::Arms;
use crate::prelude::*;

/// Sends a full copy of each packet to every output.
///
/// The last output gets the packet itself, the others copies. Tee does the same: no two packets
/// share a buffer.
///
/// # Example
/// ```click
/// d :: Duplicate;
/// InfiniteSource(LIMIT 10) -> d;
/// d[0] -> Discard;
/// d[1] -> Print(original) -> Discard;
/// ```
///
/// # See also
/// Tee, PullTee
#[derive(Element)]
#[element(ports = "1/1-", processing = "h", segments)]
#[outputs("copies; the last one: the packets")]
pub struct Duplicate {
    #[delegate]
    arms: Arms,
    /// Accepted and ignored: a copy has the packet's data, annotations and headers, and room around
    /// the data.
    #[arg(default = true)]
    data_only: bool,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn a_change_of_one_copy_leaves_the_others() {
        let config = "i :: Inject -> d :: Duplicate(3, DATA_ONLY false); d[0] -> a :: Collect;
            d[1] -> StoreData(0, \\<09>) -> b :: Collect; d[2] -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_all("i", &[vec![1, 2], vec![3]]);
        assert_eq!(rig.data("a"), [&[1, 2][..], &[3]]);
        assert_eq!(rig.data("b"), [&[9, 2][..], &[9]]);
        assert_eq!(rig.data("c"), [&[1, 2][..], &[3]]);
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn a_wrong_number_of_outputs_is_refused() {
        Rig::refuses(
            "Inject -> Duplicate(2) -> Collect;",
            "1 outputs implies 1 arms",
        );
    }
}
