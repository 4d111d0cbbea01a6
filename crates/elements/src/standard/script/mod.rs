//! Scripts: Script and DriverManager.

mod calculate;
mod call;
mod errors;
mod expand;
mod format;
mod machine;
mod output;
mod program;
#[cfg(feature = "host")]
mod signal;

use alloc::string::{String, ToString};
#[cfg(feature = "host")]
use alloc::vec::Vec;

use packet::Batch;
use router::args::{Any, Args, Failed};
use router::{Capability, Class, Cx, Declared, Descriptors, DriverHook, Element, HandlerError, HandlerFlags, HandlerList, TimerId};

use machine::{Machine, Request};
use program::Program;

/// When a script runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Active,
    Passive,
    Packet,
    Proxy,
    Driver,
    #[cfg(feature = "host")]
    Signal(Vec<i32>),
}

impl Kind {
    /// What TYPE asks for; `None` if it does not say.
    fn parse(text: &str) -> Result<Option<Kind>, &'static str> {
        let words = click::config::split_space(text);
        let Some((first, rest)) = words.split_first() else {
            return Ok(None);
        };
        Ok(Some(match first.as_str() {
            #[cfg(feature = "host")]
            "SIGNAL" => {
                let numbers: Option<Vec<i32>> = rest.iter().map(|s| signal::number(s)).collect();
                let numbers = numbers.filter(|numbers| !numbers.is_empty());
                Kind::Signal(numbers.ok_or("bad signal number")?)
            }
            _ if !rest.is_empty() => return Err("bad TYPE"),
            "ACTIVE" => Kind::Active,
            "PASSIVE" => Kind::Passive,
            "PACKET" | "PUSH" => Kind::Packet,
            "PROXY" => Kind::Proxy,
            "DRIVER" => Kind::Driver,
            _ => return Err("bad TYPE"),
        }))
    }
}

const READ: HandlerFlags = HandlerFlags::READ;
const WRITE: HandlerFlags = HandlerFlags::WRITE;
const READ_WITH: HandlerFlags = READ.with(HandlerFlags::PARAMETER);
/// Handlers of every element, which the router answers.
const EVERYWHERE: &[&str] = &["name", "class", "config", "ports", "handlers"];

impl Machine {
    fn configure(
        &mut self,
        cx: &mut Cx<'_>,
        args: &mut Args<'_>,
        default: Option<Kind>,
    ) -> Result<(), Failed> {
        let mut kind = String::new();
        args.keyword_with("TYPE", Any, &mut kind).consume()?;
        let ports = cx.inputs() + cx.outputs() > 0;
        self.kind = match Kind::parse(&kind).map_err(|e| args.fail(e))?.or(default) {
            Some(kind) => kind,
            None if ports => Kind::Packet,
            None => Kind::Active,
        };
        if self.kind == Kind::Driver && !cx.manage_driver() {
            return Err(args.fail("router has more than one driver script"));
        }
        if self.kind == Kind::Packet && cx.inputs() == 0 {
            return Err(args.fail("PACKET script must have inputs"));
        }
        if self.kind != Kind::Packet && ports {
            return Err(args.fail("ports allowed only on PACKET scripts"));
        }
        let instructions = args.take_raw();
        self.program = Program::compile(&instructions, self.kind == Kind::Driver, args);
        args.finish()
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            match self.packet(cx, port) {
                Some(output) => cx.emit(output, packet),
                None => cx.kill(packet),
            }
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize) {
        cx.pull(0, batch, most);
        batch.filter(
            &mut (self, cx),
            |(machine, cx), _| match machine.packet(cx, 0) {
                Some(0) => None,
                output => Some(output),
            },
            |(_, cx), packet, output| match output {
                Some(output) => cx.emit(output, packet),
                None => cx.kill(packet),
            },
        );
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.write("step").write("goto");
        list.add("run", READ_WITH.with(WRITE));
        for name in calculate::NAMES {
            match *name {
                "now" => list.read("now"),
                name => list.read_with(name),
            };
        }
        #[cfg(feature = "host")]
        for name in output::host::NAMES {
            list.add(*name, READ_WITH.with(HandlerFlags::PRIVATE));
        }
        list.read_with("get").write("set").read_with("shift");
        for (name, _) in self.program.exported() {
            list.read(name.clone());
        }
        if self.kind == Kind::Proxy {
            list.add("*", READ_WITH.with(WRITE));
        }
    }

    /// Whether a handler is among those that are listed by name.
    fn has(&self, name: &str) -> bool {
        let mut list = HandlerList::default();
        self.handlers(&mut list);
        EVERYWHERE.contains(&name) || list.find(name).is_some()
    }

    /// What can be done with a handler of this script; `None` if it has none of the name.
    fn flags(&self, name: &str) -> Option<HandlerFlags> {
        let mut list = HandlerList::default();
        self.handlers(&mut list);
        let everywhere = || EVERYWHERE.contains(&name).then_some(READ);
        let listed = list.find(name).or_else(everywhere);
        listed.or_else(|| list.find("*"))
    }

    fn read(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "run" => return self.request(cx, Request::Run, name, parameter, false),
            "get" | "shift" => return Ok(self.read_variable(name, parameter)?),
            _ if calculate::NAMES.contains(&name) => {
                let own = |name: &str| self.flags(name);
                return Ok(calculate::calculate(cx, name, parameter, own)?);
            }
            #[cfg(feature = "host")]
            _ if output::host::NAMES.contains(&name) => {
                return Ok(output::host::read(cx, name, parameter)?);
            }
            _ => {}
        }
        if let Some((_, value)) = self.program.exported().find(|(known, _)| known == name) {
            return Ok(value.clone());
        }
        if self.kind == Kind::Proxy && !EVERYWHERE.contains(&name) {
            return self.request(cx, Request::Run, name, parameter, false);
        }
        Err(HandlerError::Unknown)
    }

    fn read_variable(&mut self, name: &str, parameter: &str) -> Result<String, String> {
        let mut words = calculate::Words(parameter);
        let variable = match (name, words.next()) {
            ("shift", "") => "args",
            (_, variable) => variable,
        };
        if !words.0.is_empty() {
            return Err("too many arguments".to_string());
        }
        let slot = self.variable_mut(variable, false)?;
        if name == "get" {
            return Ok(slot.clone());
        }
        let mut words = calculate::Words(slot);
        let first = words.next().to_string();
        *slot = words.0.to_string();
        Ok(first)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let request = match name {
            "step" => Request::Step,
            "goto" => Request::Goto,
            "run" => Request::Run,
            "set" => {
                let (variable, value) = click::config::shift_space(value);
                *self.variable_mut(variable, true)? = value.to_string();
                return Ok(());
            }
            _ if self.kind == Kind::Proxy && !self.has(name) => Request::Run,
            _ => return Err(HandlerError::Unknown),
        };
        self.request(cx, request, name, value, true).map(|_| ())
    }
}

macro_rules! script {
    ($(#[$doc:meta])* $name:ident, $ports:literal, $default:expr) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name {
            machine: Machine,
            #[cfg(feature = "host")]
            signals: signal::Signals,
        }

        impl Class for $name {
            const NAME: &'static str = stringify!($name);
            const PORTS: &'static str = $ports;
            const PROCESSING: &'static str = "ah/ah";
            const CAPABILITIES: &'static [Capability] = router::provides!($name: Descriptors, DriverHook);
        }

        impl Declared for $name {
            fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
                self.machine.configure(cx, args, $default)
            }

            fn handlers(&self, list: &mut HandlerList) {
                self.machine.handlers(list);
            }

            fn read(
                &mut self,
                cx: &mut Cx<'_>,
                name: &str,
                parameter: &str,
            ) -> Result<String, HandlerError> {
                self.machine.read(cx, name, parameter)
            }

            fn write(
                &mut self,
                cx: &mut Cx<'_>,
                name: &str,
                value: &str,
            ) -> Result<(), HandlerError> {
                self.machine.write(cx, name, value)
            }
        }

        impl Descriptors for $name {
            fn selected(&mut self, cx: &mut Cx<'_>, _fd: i32, _readable: bool, _writable: bool) {
                let _ = &cx;
                #[cfg(feature = "host")]
                cx.whole(|cx| self.signals.arrived(cx, &mut self.machine));
            }
        }

        impl DriverHook for $name {
            fn driver_stopped(&mut self, cx: &mut Cx<'_>) {
                self.machine.driver_stopped(cx);
            }
        }

        impl Element for $name {
            fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
                self.machine.initialize(cx);
                #[cfg(feature = "host")]
                if let Kind::Signal(numbers) = &self.machine.kind {
                    self.signals.install(cx, numbers)?;
                }
                Ok(())
            }

            /// Signals that arrived before the end have their effect, even if there was no time to
            /// look for them.
            #[cfg(feature = "host")]
            fn cleanup(&mut self, cx: &mut Cx<'_>) {
                self.signals.arrived(cx, &mut self.machine);
            }

            fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
                cx.whole(|cx| self.machine.push(cx, port, batch));
                0
            }

            fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
                cx.whole(|cx| self.machine.pull(cx, batch, most));
            }

            fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
                cx.whole(|cx| self.machine.timed_out(cx));
            }
        }
    };
}

script! {
    /// Runs a script: reads, writes and prints handlers, waits, and stops the router.
    ///
    /// Each argument is an instruction. In the text of an instruction, `$x` stands for variable x
    /// and `$(HANDLER TEXT)` for what a read handler says, inside double quotes too. Names of
    /// handlers without an element are the script's own or the router's. Instructions that end in
    /// `q` take a layer of quotes off their text.
    ///
    /// What a script may call on:
    /// - `$args`, `$1`, `$2`, `$#`: what `run` was called with, its words, and how many they are.
    /// - `$?`: whether the last write went well: 0 if so. `$$`: the process.
    /// - `$input`: the input that a packet came by. `$0`, `$write`: the handler that was called, and
    ///   whether it was written.
    ///
    /// # Arguments
    /// - `TYPE` (ACTIVE, PASSIVE, PACKET, PROXY, DRIVER or SIGNAL; PACKET with ports, else ACTIVE):
    ///   when it runs. ACTIVE: as soon as the router does. PASSIVE: when `run` is called. PACKET:
    ///   for each packet; what it returns is the output. PROXY: when any handler of the script is
    ///   called. DRIVER: as DriverManager. SIGNAL followed by names or numbers: when the process
    ///   gets such a signal; on a host only.
    /// - `set VAR TEXT`, `setq VAR TEXT`: sets a variable.
    /// - `init VAR TEXT`, `initq VAR TEXT`: sets it once, when the router starts.
    /// - `export VAR [TEXT]`, `exportq VAR [TEXT]`: the same; it can be read as a handler, too.
    /// - `print [>FILE | >>FILE] [TEXT | HANDLER]`, `printq`: prints text, or what a read handler
    ///   says if the text starts with a letter, `_` or `@`, and a line end. `printn`, `printnq`:
    ///   without. `save HANDLER FILE`, `append HANDLER FILE`: the same into a file.
    /// - `read HANDLER [TEXT]`, `readq`: prints a handler's name and value to the log.
    /// - `write HANDLER [TEXT]`, `writeq`: writes a handler.
    /// - `pause [COUNT]`: waits until `step` was called so often, once if not given.
    /// - `wait TIME`: waits for a time or a step.
    /// - `label NAME`, `goto NAME [CONDITION]`, `loop`: jumps, if the condition is true. `begin`
    ///   names the first instruction, `end`, `exit`, `stop` and `error` those instructions. A script
    ///   that jumps 1000 times without waiting is given up.
    /// - `return [TEXT]`, `returnq [TEXT]`: ends the script with a value.
    /// - `end`: ends it; a packet goes on by output 0. `exit`: ends it; a packet is dropped, and a
    ///   signal no longer runs the script. `stop`: ends it and asks the driver to stop.
    ///   `error [TEXT]`, `errorq [TEXT]`: ends it with an error.
    ///
    /// # Ports
    /// None, or, of a PACKET script, any number: inputs and output 0 agnostic, other outputs push.
    ///
    /// # Handlers
    /// - `run` (read, write; with words): runs the script; read, what it returns.
    /// - `step` (write): goes on behind the instruction that waits, or so many of them.
    /// - `goto` (write): goes on at a label.
    /// - `get` (read with a name), `set` (write): a variable. `shift` (read with a name): takes the
    ///   first word off a variable.
    /// - `add`, `sub`, `mul`, `div`, `idiv`, `min`, `max` (read with numbers), `mod`, `rem` (with
    ///   two), `neg`, `abs` (with one): arithmetic. `random` (with none, N, or N1 and N2): a random
    ///   number up to 2³¹ − 1, below N, from N1 to N2.
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
    Script, "-/-", None
}

script! {
    /// Runs a script that decides what happens when the router is asked to stop.
    ///
    /// It is a Script of TYPE DRIVER: each time an element or a handler asks the driver to stop, the
    /// script goes on behind the `pause` or `wait` where it is, and the router stops only when the
    /// script ends or says `stop`. There may be one in a router.
    ///
    /// # Arguments
    /// Instructions, as Script's. Without any, the router stops when it is asked to.
    ///
    /// # Ports
    /// None.
    ///
    /// # Handlers
    /// As Script's.
    ///
    /// # Example
    /// ```click
    /// InfiniteSource(LIMIT 1000, STOP true) -> Queue -> c :: Counter -> Discard;
    /// DriverManager(pause, wait 0.1s, print c.count, stop);
    /// ```
    ///
    /// # See also
    /// Script
    DriverManager, "-/-", Some(Kind::Driver)
}

#[cfg(test)]
mod tests;
