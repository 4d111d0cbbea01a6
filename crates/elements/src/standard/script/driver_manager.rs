use super::machine::ScriptMachine;
use super::script_type::ScriptType;
use crate::prelude::*;

/// Runs a script that decides what happens when the driver is stopped.
///
/// It is a Script of TYPE DRIVER, with the instructions of a Script: each time an element or a
/// handler stops the driver, the script continues after its present `pause` or `wait`, and the
/// router stops only when the script ends or reaches `stop`. A router has at most one. Without
/// instructions, the router stops at once.
///
/// # Handlers
/// Script's: `add`, `sub`, `mul`, `div`, `idiv`, `min`, `max`, `avg`, `mod`, `rem`, `neg`, `abs`,
/// `ceil`, `floor`, `round`, `random`, `count`, `popcount`, `gt_vec`, `eq`, `ne`, `lt`, `le`, `gt`,
/// `ge`, `in`, `not`, `and`, `or`, `nand`, `nor`, `if`, `first`, `length`, `unquote`, `sprintf`,
/// `htons`, `htonl`, `ntohs`, `ntohl`, `readable`, `writable`, `now`, `cat`, `catq`, `kill`.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1000, STOP true) -> Queue -> c :: Counter -> Discard;
/// DriverManager(pause, wait 0.1s, print c.count, stop);
/// ```
///
/// # See also
/// Script
#[derive(Element)]
#[element(ports = "-/-", processing = "ah/ah", provides(Descriptors, DriverHook))]
pub struct DriverManager {
    #[delegate(configured = complete)]
    pub(super) machine: ScriptMachine,
}

impl DriverManager {
    fn complete(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.machine.complete(cx, args, Some(ScriptType::Driver))
    }
}
