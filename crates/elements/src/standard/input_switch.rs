use alloc::string::{String, ToString};

use packet::Batch;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList};

/// Lets the packets of one input pass, which can be changed while it runs, and drops the others.
///
/// # Arguments
/// - `INPUT` (integer, 0): the input; all packets are dropped if negative.
///
/// # Ports
/// Any number of push inputs, one push output.
///
/// # Handlers
/// - `switch` (read, write): the argument. A number that is no input's drops all packets.
/// - `config` (read, write): the same; an input that does not exist is refused.
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
#[derive(Default)]
pub struct InputSwitch {
    input: i32,
}

impl Class for InputSwitch {
    const NAME: &'static str = "InputSwitch";
    const PORTS: &'static str = "-/1";
    const PROCESSING: &'static str = "h";
    const SEGMENTS: bool = true;
}

impl Declared for InputSwitch {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut input = 0;
        args.positional("INPUT", &mut input).complete()?;
        if usize::try_from(input).is_ok_and(|input| input >= cx.inputs()) {
            return Err(args.fail(format_args!("input must be < {}", cx.inputs())));
        }
        self.input = input;
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("switch");
        list.add("config", HandlerFlags::CALM);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "switch" | "config" => Ok(self.input.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "switch" {
            return Err(HandlerError::Unknown);
        }
        let input = cx.names().parse::<i32>(value);
        let input = input.map_err(|_| "InputSwitch input must be integer")?;
        let beyond = usize::try_from(input).is_ok_and(|input| input >= cx.inputs());
        self.input = if beyond { -1 } else { input };
        Ok(())
    }
}

impl Element for InputSwitch {
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
    use alloc::vec;

    use crate::testing::Rig;

    const TWO: &str = "a :: Inject -> [0] s; b :: Inject -> [1] s -> c :: Collect;";

    #[test]
    fn only_one_input_passes() {
        let mut rig = Rig::new(&["s :: InputSwitch(1); ", TWO].concat());
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
        let errors = Rig::errors(&["s :: InputSwitch(2); ", TWO].concat());
        assert!(errors.contains("input must be < 2"), "{errors}");
    }
}
