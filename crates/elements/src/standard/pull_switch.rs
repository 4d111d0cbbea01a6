use super::chosen_input::ChosenInput;
use crate::prelude::*;

/// Pulls from one input, which can be changed while it runs.
///
/// The puller sleeps while there is nothing to be pulled from that input.
///
/// # Example
/// ```click
/// s :: PullSwitch(1);
/// InfiniteSource(LIMIT 10) -> Queue -> [0]s;
/// InfiniteSource(LIMIT 10) -> Queue -> [1]s;
/// s -> Discard;
/// ```
///
/// # See also
/// SimplePullSwitch, StaticPullSwitch, PrioSched, RoundRobinSched, Switch
#[derive(Element)]
#[element(
    ports = "-/1",
    processing = "l",
    segments,
    live,
    provides(Llrpcs),
    is_a("SimplePullSwitch")
)]
pub struct PullSwitch {
    #[delegate]
    chosen: ChosenInput,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn two(class: &str, end: &str) -> Rig {
        let config = format!(
            "a :: Inject -> Queue -> [0] s :: {class} -> {end};
             b :: Inject -> Queue -> [1] s;"
        );
        let mut rig = Rig::new(&config);
        rig.push_all("a", &[vec![1], vec![2]]);
        rig.push_all("b", &[vec![11], vec![12]]);
        rig
    }

    #[test]
    fn the_input_can_be_switched() {
        for class in ["PullSwitch", "SimplePullSwitch"] {
            let mut rig = two(class, "p :: Puller");
            assert_eq!(rig.pull("p", 1)[0].data(), [1]);
            rig.write("s.switch", "1");
            assert_eq!(rig.pull("p", 9).len(), 2);
            rig.write("s.switch", "2");
            assert_eq!(rig.read("s.switch"), "-1");
            assert!(rig.pull("p", 1).is_empty());
            rig.write("s.config", "0");
            assert_eq!(rig.pull("p", 1)[0].data(), [2]);
        }
    }

    #[test]
    fn the_puller_sleeps_while_the_chosen_input_is_empty() {
        let mut rig = two("PullSwitch(-1)", "u :: Unqueue -> c :: Collect");
        rig.run();
        assert_eq!(rig.read("u.scheduled"), "false");
        rig.write("s.switch", "1");
        assert_eq!(rig.read("u.scheduled"), "true");
        rig.run();
        assert_eq!(rig.data("c"), [[11], [12]]);
        assert_eq!(rig.read("u.scheduled"), "false");
        // The other input wakes the puller for one pull only.
        rig.push("a", &[3]);
        rig.run();
        assert_eq!(rig.read("u.scheduled"), "false");
        rig.push("b", &[13]);
        rig.run();
        assert_eq!(rig.data("c"), [[13]]);
        rig.write("s.switch", "0");
        rig.run();
        assert_eq!(rig.data("c"), [[1], [2], [3]]);
    }
}
