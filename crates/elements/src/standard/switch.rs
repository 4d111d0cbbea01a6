use alloc::string::{String, ToString};

use packet::{Batch, Packet};
use router::args::{Args, Failed};
use router::{Capability, Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Llrpc, Llrpcs, Verdict, llrpc};

/// No output: what is sent there is dropped.
const NOWHERE: usize = u32::MAX as usize;

fn output(number: i32, outputs: usize) -> Option<usize> {
    usize::try_from(number).ok().filter(|port| *port < outputs)
}

/// Sends all packets to one output, which can be changed while it runs.
///
/// # Arguments
/// - `OUTPUT` (integer, 0): the output; packets are dropped if negative.
///
/// # Ports
/// One push input, any number of push outputs.
///
/// # Handlers
/// - `switch` (read, write): the argument. A number that is no output's drops packets.
/// - `config` (read, write): the same; an output that does not exist is refused.
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
#[derive(Default)]
pub struct Switch {
    output: i32,
}

impl Class for Switch {
    const NAME: &'static str = "Switch";
    const PORTS: &'static str = "1/-";
    const PROCESSING: &'static str = "h";
    const SEGMENTS: bool = true;
    const CAPABILITIES: &'static [Capability] = router::provides!(Switch: Llrpcs);
}

impl Declared for Switch {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut number = 0;
        args.positional("OUTPUT", &mut number).complete()?;
        if number >= 0 && output(number, cx.outputs()).is_none() {
            return Err(args.fail(format_args!("output must be < {}", cx.outputs())));
        }
        self.output = number;
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
            "switch" | "config" => Ok(self.output.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "switch" {
            return Err(HandlerError::Unknown);
        }
        let number = cx.names().parse::<i32>(value);
        let number = number.map_err(|_| "Switch output must be integer")?;
        self.output = match output(number, cx.outputs()) {
            Some(_) => number,
            None if number < 0 => number,
            None => -1,
        };
        Ok(())
    }
}

impl Llrpcs for Switch {
    fn llrpc(&mut self, cx: &mut Cx<'_>, call: Llrpc, data: &mut [u8]) -> Result<(), HandlerError> {
        match call {
            Llrpc::GET_SWITCH => llrpc::set_word(data, self.output as u32),
            Llrpc::SET_SWITCH => {
                let number = llrpc::word(data)? as i32;
                if number >= 0 && output(number, cx.outputs()).is_none() {
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
    #[inline]
    fn push(&mut self, _cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch) -> usize {
        usize::try_from(self.output).unwrap_or(NOWHERE)
    }
}

/// Sends all packets to one output.
///
/// # Arguments
/// - `OUTPUT` (integer): the output; packets are dropped if there is none of that number.
///
/// # Ports
/// One push input, any number of push outputs.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// s :: StaticSwitch(1);
/// InfiniteSource(LIMIT 100) -> s;
/// s[0] -> Print(never) -> Discard;
/// s[1] -> Discard;
/// ```
///
/// # See also
/// Switch
#[derive(Default)]
pub struct StaticSwitch {
    output: i32,
}

impl Class for StaticSwitch {
    const NAME: &'static str = "StaticSwitch";
    const PORTS: &'static str = "1/-";
    const PROCESSING: &'static str = "h";
    const SEGMENTS: bool = true;
}

impl Declared for StaticSwitch {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.mandatory_positional("OUTPUT", &mut self.output)
            .complete()
    }
}

impl Element for StaticSwitch {
    #[inline]
    fn push(&mut self, _cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch) -> usize {
        usize::try_from(self.output).unwrap_or(NOWHERE)
    }
}

/// Sends packets to its outputs in turn.
///
/// # Arguments
/// None.
///
/// # Ports
/// One push input, one or more push outputs.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// r :: RoundRobinSwitch;
/// InfiniteSource(LIMIT 100) -> r;
/// r[0] -> Discard;
/// r[1] -> Discard;
/// ```
///
/// # See also
/// Switch, RoundRobinSched
#[derive(Default)]
pub struct RoundRobinSwitch {
    next: usize,
}

impl Class for RoundRobinSwitch {
    const NAME: &'static str = "RoundRobinSwitch";
    const PORTS: &'static str = "1/1-";
    const PROCESSING: &'static str = "h";
    const SEGMENTS: bool = true;
}

impl Declared for RoundRobinSwitch {}

impl Element for RoundRobinSwitch {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, _packet: &mut Packet) -> Verdict {
        let port = self.next;
        self.next = if port + 1 < cx.outputs() { port + 1 } else { 0 };
        Verdict::To(port)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use router::Llrpc;

    use crate::testing::Rig;

    const TWO: &str = "s[0] -> a :: Collect; s[1] -> b :: Collect;";

    #[test]
    fn the_output_can_be_switched() {
        let mut rig = Rig::new(&[" i :: Inject -> s :: Switch(1);", TWO].concat());
        rig.push("i", &[1]);
        assert_eq!(rig.data("b"), [[1]]);
        rig.write("s.switch", "0");
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
        assert!(rig.llrpc("s", Llrpc::SET_SWITCH, 2u32.to_ne_bytes()).is_err());
        assert!(rig.llrpc("s", Llrpc::GET_RATE, [0; 4]).is_err());
    }

    #[test]
    fn outputs_that_do_not_exist_are_refused() {
        let errors = Rig::errors(&["Inject -> s :: Switch(2);", TWO].concat());
        assert!(errors.contains("output must be < 2"), "{errors}");
        let mut rig = Rig::new(&["Inject -> s :: Switch;", TWO].concat());
        let refused = rig.try_write("s.switch", "x");
        assert_eq!(refused, Err("Switch output must be integer".into()));
    }

    #[test]
    fn a_static_switch_drops_what_has_no_output() {
        let mut rig = Rig::new(&["i :: Inject -> s :: StaticSwitch(1);", TWO].concat());
        rig.push("i", &[1]);
        assert_eq!(rig.data("b"), [[1]]);
        let mut rig = Rig::new(&["i :: Inject -> s :: StaticSwitch(5);", TWO].concat());
        rig.push("i", &[1]);
        assert_eq!(rig.outstanding(), 0);
        let errors = Rig::errors(&["Inject -> s :: StaticSwitch;", TWO].concat());
        assert!(errors.contains("OUTPUT: required argument missing"), "{errors}");
    }

    #[test]
    fn outputs_take_turns_packet_by_packet() {
        for batch in [1, 64] {
            let config = ["i :: Inject -> s :: RoundRobinSwitch;", TWO].concat();
            let mut rig = Rig::with_batch(&config, batch);
            rig.push_all("i", &[vec![1], vec![2], vec![3]]);
            rig.push("i", &[4]);
            assert_eq!(rig.data("a"), [[1], [3]]);
            assert_eq!(rig.data("b"), [[2], [4]]);
        }
    }
}
