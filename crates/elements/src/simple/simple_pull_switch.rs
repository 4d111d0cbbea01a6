use alloc::string::String;

use packet::Batch;
use router::args::{Args, Failed};
use router::{Capability, Class, Cx, Declared, Element, HandlerError, HandlerList, Llrpc, Llrpcs};

use crate::standard::pull_switch::Chosen;

/// Pulls from one input, which can be changed while it runs, without a notifier.
///
/// Whoever pulls from it sleeps only while there is nothing to be pulled from any input.
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
/// s :: SimplePullSwitch(1);
/// InfiniteSource(LIMIT 10) -> Queue -> [0]s;
/// InfiniteSource(LIMIT 10) -> Queue -> [1]s;
/// s -> Discard;
/// ```
///
/// # See also
/// PullSwitch, StaticPullSwitch
#[derive(Default)]
pub struct SimplePullSwitch {
    chosen: Chosen,
}

impl Class for SimplePullSwitch {
    const NAME: &'static str = "SimplePullSwitch";
    const PORTS: &'static str = "-/1";
    const PROCESSING: &'static str = "l";
    const SEGMENTS: bool = true;
    const CAPABILITIES: &'static [Capability] = router::provides!(SimplePullSwitch: Llrpcs);
}

impl Declared for SimplePullSwitch {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.chosen.configure(cx, args)
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
        self.chosen.write(cx, name, value)
    }
}

impl Llrpcs for SimplePullSwitch {
    fn llrpc(&mut self, cx: &mut Cx<'_>, call: Llrpc, data: &mut [u8]) -> Result<(), HandlerError> {
        self.chosen.llrpc(cx, call, data)
    }
}

impl Element for SimplePullSwitch {
    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        self.chosen.pull(cx, batch, most);
    }
}
