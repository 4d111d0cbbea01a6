use super::stride::Stride;
use crate::filters::dispatch::{DROP, dispatch};
use crate::prelude::*;

/// Sends packets to its outputs in proportion to their tickets.
///
/// The schedule is stride scheduling, as in StrideSched.
///
/// # Handlers
/// - `tickets0`, `tickets1`, ... (read, write): the tickets of each output.
///
/// # Example
/// ```click
/// s :: StrideSwitch(2, 1);
/// InfiniteSource(LIMIT 30) -> s;
/// s[0] -> Discard;
/// s[1] -> Discard;
/// ```
///
/// # See also
/// StrideSched, RoundRobinSwitch, Switch
#[derive(Element)]
#[element(ports = "1/1-", processing = "h", segments, live)]
pub struct StrideSwitch {
    #[flatten]
    stride: Stride,
}

impl Element for StrideSwitch {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.stride.configured(cx.outputs(), "output", args)
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        dispatch(cx, batch, |_| {
            let port = self.stride.order.first().map_or(DROP, |port| *port as u32);
            self.stride.charge(1);
            port
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn outputs_get_their_shares(a in 0u32..50, b in 1u32..50) {
            let config = alloc::format!(
                "InfiniteSource(LIMIT 1000) -> s :: StrideSwitch({a}, {b});
                 s[0] -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard;"
            );
            let mut rig = Rig::new(&config);
            rig.run();
            let count: u32 = rig.read("a.count").parse().unwrap();
            let expected = 1000 * a / (a + b);
            prop_assert!(count.abs_diff(expected) <= 3, "{count} for {expected}");
        }
    }

    #[test]
    fn tickets_can_be_changed() {
        let config = "i :: Inject -> s :: StrideSwitch(1, 0); s[0] -> a :: Collect;
            s[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        assert_eq!(rig.read("s.config"), "1, 0");
        rig.write("s.tickets0", "0");
        rig.push("i", &[1]);
        assert_eq!(rig.outstanding(), 0);
        rig.write("s.tickets1", "3");
        rig.push("i", &[2]);
        assert_eq!(rig.data("b"), [[2]]);
        rig.assert_handlers(&[("s.tickets0", "0"), ("s.tickets1", "3")]);
        assert!(rig.try_write("s.tickets1", "-1").is_err());
        assert!(rig.try_write("s.tickets2", "1").is_err());
    }

    #[test]
    fn a_refused_configuration_changes_neither_tickets_nor_turns() {
        for refused in ["", "1, 2, 3", "1, -1, x"] {
            let config = "i :: Inject -> s :: StrideSwitch(1, 1); s[0] -> a :: Collect;
                s[1] -> b :: Collect;";
            let mut rig = Rig::new(config);
            rig.write("s.tickets0", "2");
            rig.write("s.tickets1", "2");
            rig.push("i", &[1]);
            rig.push("i", &[2]);
            assert!(rig.try_write("s.config", refused).is_err());
            assert_eq!(rig.read("s.config"), "2, 2");
            rig.push("i", &[3]);
            assert_eq!(
                (rig.data("a"), rig.data("b")),
                (vec![vec![1]], vec![vec![2], vec![3]])
            );
        }
    }

    #[test]
    fn wrong_tickets_are_refused() {
        for (tickets, message) in [
            ("1, 2", "need 1 arguments, one per output port"),
            ("-1", "argument 0 (number of tickets) must be >= 0"),
            ("x", "argument 0 should be number of tickets (integer)"),
        ] {
            let config = alloc::format!("Inject -> StrideSwitch({tickets}) -> Discard;");
            Rig::refuses(&config, message);
        }
    }
}
