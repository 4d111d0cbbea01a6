use alloc::string::{String, ToString};
use alloc::vec::Vec;

use packet::Batch;
use router::args::{Args, Failed};
use router::{Capability, Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Llrpc, Llrpcs, Notice, Search, Signal, SignalId, llrpc};

/// The input that is pulled from, if any.
#[derive(Default)]
pub(crate) struct Chosen(Option<usize>);

impl Chosen {
    fn set(&mut self, cx: &Cx<'_>, number: i32) {
        let input = usize::try_from(number).ok();
        self.0 = input.filter(|input| *input < cx.inputs());
    }

    pub fn configure(&mut self, cx: &Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut number = 0;
        args.positional("INPUT", &mut number).complete()?;
        self.set(cx, number);
        Ok(())
    }

    #[inline]
    pub fn pull(&self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize) {
        if let Some(input) = self.0 {
            cx.pull(input, batch, most);
        }
    }

    pub fn handlers(&self, list: &mut HandlerList) {
        list.read_write("switch");
        list.add("config", HandlerFlags::CALM);
    }

    pub fn read(&self, name: &str) -> Result<String, HandlerError> {
        match (name, self.0) {
            ("switch" | "config", Some(input)) => Ok(input.to_string()),
            ("switch" | "config", None) => Ok("-1".to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    pub fn write(&mut self, cx: &Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "switch" {
            return Err(HandlerError::Unknown);
        }
        let number = cx.names().parse(value).map_err(|_| "syntax error")?;
        self.set(cx, number);
        Ok(())
    }

    pub fn llrpc(&mut self, cx: &Cx<'_>, call: Llrpc, data: &mut [u8]) -> Result<(), HandlerError> {
        match call {
            Llrpc::GET_SWITCH => {
                let input = self.0.map_or(-1, |input| input as i32);
                llrpc::set_word(data, input as u32)
            }
            Llrpc::SET_SWITCH => {
                self.set(cx, llrpc::word(data)? as i32);
                Ok(())
            }
            _ => Err(HandlerError::Unknown),
        }
    }
}

/// Pulls from one input, which can be changed while it runs.
///
/// Whoever pulls from it sleeps while there is nothing to be pulled from that input.
///
/// # Arguments
/// - `INPUT` (integer, 0): the input; nothing can be pulled if there is none of that number.
///
/// # Ports
/// Any number of pull inputs, one pull output.
///
/// # Handlers
/// - `switch` (read, write): the argument; -1 if there is no such input.
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
#[derive(Default)]
pub struct PullSwitch {
    chosen: Chosen,
    signal: Option<SignalId>,
    inputs: Vec<Signal>,
}

impl Class for PullSwitch {
    const NAME: &'static str = "PullSwitch";
    const PORTS: &'static str = "-/1";
    const PROCESSING: &'static str = "l";
    const IS_A: &'static [&'static str] = &["SimplePullSwitch"];
    const SEGMENTS: bool = true;
    const CAPABILITIES: &'static [Capability] = router::provides!(PullSwitch: Llrpcs);
}

impl PullSwitch {
    /// Whether there may be something to be pulled.
    fn may_give(&self, cx: &Cx<'_>) -> bool {
        match self.chosen.0 {
            // Before all is initialized nothing is known of the inputs.
            Some(input) => self.inputs.get(input).is_none_or(|s| cx.is_active(s)),
            None => false,
        }
    }

    /// Says what the input chosen now may give.
    fn tell(&self, cx: &mut Cx<'_>) {
        if let Some(signal) = self.signal {
            let active = self.may_give(cx);
            // Who is asleep is woken; who is awake finds out by the next pull.
            if active || self.chosen.0.is_none() {
                cx.set_signal(signal, active);
            }
        }
    }
}

impl Declared for PullSwitch {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.chosen.configure(cx, args)?;
        let active = self.may_give(cx);
        let signal = *self.signal.get_or_insert_with(|| cx.signal(Notice::Empty, active));
        cx.set_signal(signal, active);
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        self.chosen.handlers(list);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.chosen.read(name)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.chosen.write(cx, name, value)?;
        self.tell(cx);
        Ok(())
    }
}

impl Llrpcs for PullSwitch {
    fn llrpc(&mut self, cx: &mut Cx<'_>, call: Llrpc, data: &mut [u8]) -> Result<(), HandlerError> {
        self.chosen.llrpc(cx, call, data)?;
        self.tell(cx);
        Ok(())
    }
}

impl Element for PullSwitch {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        // An input that has something wakes whoever pulls; if it is not the chosen one, the next
        // pull lets them sleep again.
        if let Some(signal) = self.signal {
            let inputs = 0..cx.inputs();
            self.inputs = inputs.map(|i| cx.lead_upstream(i, signal)).collect();
        }
        Ok(())
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        self.chosen.pull(cx, batch, most);
        if let Some(signal) = self.signal {
            let active = !batch.is_empty() || self.may_give(cx);
            cx.set_signal(signal, active);
        }
    }

    fn notifier(&self, notice: Notice, _port: usize) -> Search {
        match (notice, self.signal) {
            (Notice::Empty, Some(signal)) => Search::Stop(signal),
            _ => Search::Pass,
        }
    }
}

/// Pulls from one input.
///
/// # Arguments
/// - `INPUT` (integer): the input; nothing can be pulled if there is none of that number.
///
/// # Ports
/// Any number of pull inputs, one pull output.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// s :: StaticPullSwitch(1);
/// InfiniteSource(LIMIT 10) -> Queue -> [0]s;
/// InfiniteSource(LIMIT 10) -> Queue -> [1]s;
/// s -> Discard;
/// ```
///
/// # See also
/// PullSwitch, StaticSwitch
#[derive(Default)]
pub struct StaticPullSwitch {
    chosen: Chosen,
}

impl Class for StaticPullSwitch {
    const NAME: &'static str = "StaticPullSwitch";
    const PORTS: &'static str = "-/1";
    const PROCESSING: &'static str = "l";
    const SEGMENTS: bool = true;
}

impl Declared for StaticPullSwitch {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut number = 0;
        args.mandatory_positional("INPUT", &mut number).complete()?;
        self.chosen.set(cx, number);
        Ok(())
    }
}

impl Element for StaticPullSwitch {
    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        self.chosen.pull(cx, batch, most);
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;

    use crate::testing::Rig;

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
    fn a_static_switch_keeps_its_input() {
        let mut rig = two("StaticPullSwitch(1)", "p :: Puller");
        assert_eq!(rig.pull("p", 1)[0].data(), [11]);
        let mut rig = two("StaticPullSwitch(-1)", "p :: Puller");
        assert!(rig.pull("p", 1).is_empty());
    }

    #[test]
    fn whoever_pulls_sleeps_while_the_chosen_input_is_empty() {
        let mut rig = two("PullSwitch(-1)", "u :: Unqueue -> c :: Collect");
        rig.run();
        assert_eq!(rig.read("u.scheduled"), "false");
        rig.write("s.switch", "1");
        assert_eq!(rig.read("u.scheduled"), "true");
        rig.run();
        assert_eq!(rig.data("c"), [[11], [12]]);
        assert_eq!(rig.read("u.scheduled"), "false");
        // The other input wakes nobody for good.
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
