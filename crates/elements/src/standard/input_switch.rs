use crate::prelude::*;

/// Passes the packets of one input, and drops the others.
///
/// # Example
/// ```click
/// s :: InputSwitch(1) -> Discard;
/// TimedSource(1s, LIMIT 3) -> [0] s;
/// TimedSource(2s, LIMIT 3) -> [1] s;
/// ```
///
/// # See also
/// Switch, PullSwitch, Suppressor, Bypass
#[derive(Element)]
#[element(ports = "-/1", processing = "h", segments, live, handlers)]
pub struct InputSwitch {
    /// The input, by Click's keyword; all packets are dropped if negative.
    #[arg(positional, name = "OUTPUT", default = 0)]
    input: i32,
}

#[handlers]
impl InputSwitch {
    /// The argument OUTPUT.
    #[read(also = "config")]
    fn read_switch(&self) -> i32 {
        self.input
    }

    /// A number that no input has drops all packets. Written to `config`, it is refused.
    #[write(error = "InputSwitch input must be integer")]
    fn set_switch(&mut self, cx: &mut Cx<'_>, input: i32) {
        self.input = if is_beyond(cx, input) { -1 } else { input };
    }
}

fn is_beyond(cx: &Cx<'_>, input: i32) -> bool {
    usize::try_from(input).is_ok_and(|input| input >= cx.inputs())
}

impl Element for InputSwitch {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if is_beyond(cx, self.input) {
            return Err(args.fail(format_args!("input must be < {}", cx.inputs())));
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        if usize::try_from(self.input) != Ok(port) {
            cx.pool().recycle(batch);
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const TWO: &str = "a :: Inject -> [0] s; b :: Inject -> [1] s -> c :: Collect;";

    #[test]
    fn only_one_input_passes() {
        let mut rig = Rig::new(&["s :: InputSwitch(OUTPUT 1); ", TWO].concat());
        for (switch, shown, passes) in [
            ("1", "1", vec![[2]]),
            ("0", "0", vec![[1]]),
            ("2", "-1", vec![]),
            ("-5", "-5", vec![]),
        ] {
            rig.write("s.switch", switch);
            assert_eq!(rig.read("s.switch"), shown);
            rig.push("a", &[1]);
            rig.push("b", &[2]);
            assert_eq!(rig.data("c"), passes, "{switch}");
        }
        assert_eq!(rig.outstanding(), 0);
        let refused = rig.try_write("s.switch", "x");
        assert_eq!(refused, Err("InputSwitch input must be integer".into()));
        rig.write("s.config", "0");
        assert_eq!(rig.read("s.config"), "0");
    }

    #[test]
    fn an_input_that_does_not_exist_is_refused() {
        Rig::refuses(
            &["s :: InputSwitch(2); ", TWO].concat(),
            "input must be < 2",
        );
    }
}
