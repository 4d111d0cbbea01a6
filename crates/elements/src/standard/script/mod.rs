//! Scripts: Script and DriverManager.

mod calculate;
mod call;
mod driver_manager;
mod errors;
mod expand;
mod format;
mod handlers;
mod machine;
mod output;
mod program;
mod script_type;
#[cfg(feature = "host")]
mod signal;

mod words;

use machine::ScriptMachine;

use crate::prelude::*;

pub use driver_manager::DriverManager;
#[cfg(feature = "host")]
pub use signal::is_taken as takes_signal;

/// Runs a script: reads, writes and prints handlers, waits, and stops the router.
///
/// Each argument is an instruction. In the text of an instruction, `$x` is the value of variable x
/// and `$(HANDLER TEXT)` that of a read handler, inside double quotes too. Names of handlers
/// without an element are the script's own or the router's. Instructions that end in `q` take a
/// layer of quotes off their text.
///
/// Variables that a script finds set:
/// - `$args`, `$1`, `$2`, `$#`: the value that `run` was called with, its words, and their number.
/// - `$?`: the result of the last write: 0 on success, -17 if what was to be added exists, -2 if what
///   was to be removed does not, -1 or -22 if the value is wrong. `$$`: the process.
/// - `$input`: the input that a packet came by. `$0`, `$write`: the handler that was called, and
///   whether it was written.
///
/// # Arguments
/// Instructions:
/// - `set VAR TEXT`, `setq VAR TEXT`: sets a variable.
/// - `init VAR TEXT`, `initq VAR TEXT`: sets it once, when the router starts.
/// - `export VAR [TEXT]`, `exportq VAR [TEXT]`: the same; it can be read as a handler, too.
/// - `print [>FILE | >>FILE] [TEXT | HANDLER]`, `printq`: prints text, or a read handler's value if
///   the text starts with a letter, `_` or `@`, and a line end. `printn`, `printnq`: without a line
///   end. `save HANDLER FILE`, `append HANDLER FILE`: the same into a file.
/// - `read HANDLER [TEXT]`, `readq`: prints a handler's name and value to the log.
/// - `write HANDLER [TEXT]`, `writeq`: writes a handler.
/// - `pause [COUNT]`: waits until `step` was called COUNT times, default once.
/// - `wait TIME`: waits for a time or a step.
/// - `label NAME`, `goto NAME [CONDITION]`, `loop`: jumps, if the condition is true. `begin` names
///   the first instruction, `end`, `exit`, `stop` and `error` those instructions. A script that
///   jumps 1000 times without waiting is ended.
/// - `return [TEXT]`, `returnq [TEXT]`: ends the script with a value.
/// - `end`: ends it; a packet leaves by output 0, and all its signals run the script again: until then, a
///   signal that came has its default effect. `exit`: ends it; a packet is dropped. `stop`: ends it and stops the driver. `error [TEXT]`,
///   `errorq [TEXT]`: ends it with an error.
///
/// # Handlers
/// - `add`, `sub`, `mul`, `div`, `idiv`, `min`, `max`, `avg` (read with numbers), `mod`, `rem`
///   (with two), `neg`, `abs`, `ceil`, `floor`, `round` (with one): arithmetic. `random` (with
///   none, N, or N1 and N2): a random number up to 2³¹ − 1, below N, from N1 to N2.
/// - `count`, `popcount`, `gt_vec` (read with numbers): how many there are, how many are not zero,
///   how many are above the first. The average of integers is rounded towards zero. These, `avg`,
///   `ceil`, `floor`, and `round` are for scripts, and not for `-h` or a ControlSocket.
/// - `eq`, `ne`, `lt`, `le`, `gt`, `ge` (read with two words): comparison, of numbers if they
///   are. `in` (with words): whether the first is among the others.
/// - `not`, `and`, `or`, `nand`, `nor` (read with truth values), `if` (with a truth value and
///   two words).
/// - `first`, `length`, `unquote`, `sprintf` (read with text).
/// - `htons`, `htonl`, `ntohs`, `ntohl` (read with a number).
/// - `readable`, `writable` (read with handlers): whether all exist. `now` (read): the time.
/// - `cat`, `catq` (read with a file), `kill` (read with a signal and processes): on a host
///   only, and not from outside.
///
/// # Example
/// ```click
/// c :: Counter;
/// RatedSource(RATE 1000) -> c -> Discard;
/// Script(set i 0,
///        label again,
///        wait 0.1s,
///        print "$i: $(c.count) packets",
///        set i $(add $i 1),
///        goto again $(lt $i 3),
///        stop);
/// ```
///
/// # See also
/// DriverManager
#[derive(Element)]
#[element(ports = "-/-", processing = "ah/ah", provides(Descriptors, DriverHook))]
pub struct Script {
    #[delegate]
    machine: ScriptMachine,
}

#[cfg(test)]
mod tests;
