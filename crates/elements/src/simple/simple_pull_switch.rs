use crate::prelude::*;
use crate::standard::chosen_input::ChosenInput;

/// Pulls from one input, which can be changed while it runs, without a notifier.
///
/// The puller sleeps only while there is nothing to be pulled from any input.
///
/// # Example
/// ```click
/// s :: SimplePullSwitch(1);
/// InfiniteSource(LIMIT 10) -> Queue -> [0]s;
/// InfiniteSource(LIMIT 10) -> Queue -> [1]s;
/// s -> Discard;
/// ```
///
/// # See also
/// PullSwitch, StaticPullSwitch
#[derive(Element)]
#[element(ports = "-/1", processing = "l", segments, live, provides(Llrpcs))]
pub struct SimplePullSwitch {
    #[delegate]
    #[init(ChosenInput::silent())]
    chosen: ChosenInput,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_input_can_be_switched() {
        let config = "i :: Inject -> Queue -> [0] s :: SimplePullSwitch(1) -> p :: Puller;
            j :: Inject -> Queue -> [1] s;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1]);
        rig.push("j", &[2]);
        assert_eq!(rig.pull("p", 9)[0].data(), [2]);
        rig.write("s.switch", "0");
        assert_eq!(rig.pull("p", 9)[0].data(), [1]);
        rig.write("s.switch", "9");
        assert_eq!(rig.read("s.switch"), "-1");
    }
}
