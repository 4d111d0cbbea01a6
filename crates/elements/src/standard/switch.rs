use crate::prelude::*;

/// No output: what is sent there is dropped.
pub(super) const NOWHERE: usize = u32::MAX as usize;

/// Sends all packets to one output, which can be changed while it runs.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 100)
///   -> Counter(COUNT_CALL 5 s.switch 1)
///   -> s :: Switch;
/// s[0] -> Discard;
/// s[1] -> Discard;
/// ```
///
/// # See also
/// StaticSwitch, PullSwitch, RoundRobinSwitch, PaintSwitch
#[derive(Element)]
#[element(
    ports = "1/-",
    processing = "h",
    segments,
    live,
    handlers,
    provides(Llrpcs)
)]
pub struct Switch {
    /// The output; packets are dropped if negative.
    #[arg(positional, default = 0, read, handler = "switch")]
    output: i32,
}

impl Switch {
    /// Whether a number that is not negative is no output's.
    fn is_beyond(number: i32, outputs: usize) -> bool {
        usize::try_from(number).is_ok_and(|port| port >= outputs)
    }
}

#[handlers]
impl Switch {
    /// The argument OUTPUT.
    #[read]
    fn config(&self) -> i32 {
        self.output
    }

    /// The argument OUTPUT. A number that is no output's drops packets.
    #[write(error = "Switch output must be integer")]
    fn set_switch(&mut self, cx: &mut Cx<'_>, output: i32) {
        self.output = if Self::is_beyond(output, cx.outputs()) {
            -1
        } else {
            output
        };
    }
}

impl Llrpcs for Switch {
    fn llrpc(&mut self, cx: &mut Cx<'_>, call: Llrpc, data: &mut [u8]) -> Result<(), HandlerError> {
        match call {
            Llrpc::GET_SWITCH => llrpc::set_word(data, self.output as u32),
            Llrpc::SET_SWITCH => {
                let number = llrpc::word(data)? as i32;
                if Self::is_beyond(number, cx.outputs()) {
                    return Err("Invalid argument".into());
                }
                self.output = number;
                Ok(())
            }
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Element for Switch {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if Self::is_beyond(self.output, cx.outputs()) {
            return Err(args.fail(format_args!("output must be < {}", cx.outputs())));
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, _cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch) -> usize {
        usize::try_from(self.output).unwrap_or(NOWHERE)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const TWO: &str = "s[0] -> a :: Collect; s[1] -> b :: Collect;";

    #[test]
    fn its_configuration_is_not_calm() {
        let mut rig = Rig::new("Idle -> s :: Switch -> Discard;");
        assert_contains(&rig.read("s.handlers"), "config\trw\n");
        let mut rig = Rig::new("Idle -> s :: Paint(1) -> Discard;");
        assert_contains(&rig.read("s.handlers"), "config\trw.\n");
    }

    #[test]
    fn the_output_can_be_switched() {
        let mut rig = Rig::new(&[" i :: Inject -> s :: Switch(1);", TWO].concat());
        rig.push("i", &[1]);
        assert_eq!(rig.data("b"), [[1]]);
        rig.write("s.switch", "0");
        assert_contains(&rig.read(".flatconfig"), "s :: Switch(0);");
        rig.push("i", &[2]);
        assert_eq!(rig.data("a"), [[2]]);
        rig.write("s.switch", "2");
        assert_eq!(rig.read("s.switch"), "-1");
        rig.push("i", &[3]);
        assert!(rig.data("a").is_empty() && rig.data("b").is_empty());
        assert_eq!(rig.outstanding(), 0);
        rig.write("s.config", "1");
        assert_eq!(rig.read("s.switch"), "1");
    }

    #[test]
    fn llrpcs_read_and_set_it() {
        let mut rig = Rig::new(&["i :: Inject -> s :: Switch(1);", TWO].concat());
        let one = 1u32.to_ne_bytes();
        assert_eq!(rig.llrpc("s", Llrpc::GET_SWITCH, [9; 4]), Ok(one));
        assert!(rig.llrpc("s", Llrpc::SET_SWITCH, [0; 4]).is_ok());
        assert_eq!(rig.read("s.switch"), "0");
        assert!(
            rig.llrpc("s", Llrpc::SET_SWITCH, 2u32.to_ne_bytes())
                .is_err()
        );
        assert!(rig.llrpc("s", Llrpc::GET_RATE, [0; 4]).is_err());
    }

    #[test]
    fn outputs_that_do_not_exist_are_refused() {
        Rig::refuses(
            &["Inject -> s :: Switch(2);", TWO].concat(),
            "output must be < 2",
        );
        let mut rig = Rig::new(&["Inject -> s :: Switch;", TWO].concat());
        let refused = rig.try_write("s.switch", "x");
        assert_eq!(refused, Err("Switch output must be integer".into()));
        // What was set stays if a configuration is refused.
        rig.write("s.switch", "1");
        assert!(rig.try_write("s.config", "3").is_err());
        assert_eq!(rig.read("s.switch"), "1");
    }
}
