use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use packet::Batch;
use packet::wire::EtherAddress;
use router::args::{Args, ElementOf, ElementRef, Failed, SecondsArg};
use router::{Class, Cx, Declared, Element, ElementId, HandlerError, HandlerList, TimerId};

use super::bpdu::{Bpdu, BridgeId, Ticks, Times};
use super::bridge::{Bridge, Port, Settings, State};
use super::ether_switch;

/// The priority that makes a bridge unlikely to become root, as Click has it.
const PRIORITY: u16 = 0xdead;
/// Most ports: their numbers have 12 bits on the wire.
const PORTS_MAX: usize = 4095;

/// Keeps a network of Ethernet switches free of loops by the spanning tree protocol (IEEE 802.1D).
///
/// It speaks the protocol with the other switches, and lets its EtherSwitch use those ports alone
/// that are on the tree: by two Suppressors, one before and one behind the switch, of which it
/// closes and opens the ports. A port that is to forward first listens and then learns, for the
/// forward delay each. When the topology changes, the switch forgets silent stations after the
/// forward delay, until the change is over. What is heard of the root holds for the maximum age;
/// so a link that goes is replaced after at most that and twice the forward delay.
///
/// Frames of the protocol are those with `4242` at byte 14; they go to this element, and all others
/// to the switch.
///
/// # Arguments
/// - `ADDR` (Ethernet address): the switch's address.
/// - `INPUT_SUPPRESSOR`, `OUTPUT_SUPPRESSOR` (Suppressor): those before and behind the switch.
/// - `SWITCH` (EtherSwitch): the switch.
/// - `PRIORITY` (0 to 65535, 57005): who has the lowest becomes root; of several, the lowest
///   address.
/// - `PATH_COST` (integer, 1): what the way through each port costs.
/// - `HELLO_TIME` (time, 2s): how often it tells of itself, if it is the root: 1 to 10 seconds.
/// - `MAX_AGE` (time, 20s): how long what it says holds, if it is the root: 6 to 40 seconds, at
///   least twice the hello time and a second.
/// - `FORWARD_DELAY` (time, 15s): how long ports listen, and learn, if it is the root: 4 to 30
///   seconds, at least half the maximum age and a second.
///
/// # Ports
/// As many push inputs and outputs as the switch has ports: messages from other switches, and to
/// them.
///
/// # Handlers
/// - `msgs` (read): for each port, then for the switch itself, the best that is known: bridge and
///   port, whether the topology changes (`TC`), cost and root; maximum age, hello time and forward
///   delay in seconds. Numbers are hexadecimal.
/// - `ports` (read): what each port does, a line for each: its number, `blocking`, `listening`,
///   `learning` or `forwarding`, and `root`, `designated` or `alternate`.
/// - `topology_change` (read): whether the topology changes.
///
/// # Example
/// ```click
/// span_tree :: EtherSpanTree(0:1f:29:4d:f8:31, in_supp, out_supp, switch);
/// switch :: EtherSwitch;
/// in_supp, out_supp :: Suppressor;
/// q0 :: Queue -> ToDevice(eth0);
/// q1 :: Queue -> ToDevice(eth1);
/// FromDevice(eth0) -> c0 :: Classifier(14/4242, -);
/// FromDevice(eth1) -> c1 :: Classifier(14/4242, -);
/// c0 [0] -> [0] span_tree [0] -> q0;
/// c1 [0] -> [1] span_tree [1] -> q1;
/// c0 [1] -> [0] in_supp [0] -> [0] switch [0] -> [0] out_supp [0] -> q0;
/// c1 [1] -> [1] in_supp [1] -> [1] switch [1] -> [1] out_supp [1] -> q1;
/// ```
///
/// # See also
/// EtherSwitch, Suppressor, DebugBridge
#[derive(Default)]
pub struct EtherSpanTree {
    address: EtherAddress,
    control: Option<Control>,
    settings: Option<Settings>,
    bridge: Option<Bridge>,
    timer: Option<TimerId>,
}

/// The elements that do what the protocol says.
struct Control {
    suppressors: [ElementRef; 2],
    switch: ElementId,
    /// What the suppressors were told last of each port: whether its frames may come in, and go
    /// out.
    open: Vec<[bool; 2]>,
    /// Whether the switch was told that the topology changes.
    changing: bool,
}

impl Class for EtherSpanTree {
    const NAME: &'static str = "EtherSpanTree";
    const PORTS: &'static str = "-/=";
    const PROCESSING: &'static str = "h";
    const SEGMENTS: bool = true;
}

/// A time in milliseconds, between two bounds in seconds.
fn time(
    args: &Args<'_>,
    keyword: &str,
    milliseconds: u32,
    least: u32,
    most: u32,
) -> Result<Ticks, Failed> {
    if !(least * 1000..=most * 1000).contains(&milliseconds) {
        return Err(args.fail(format!("{keyword} must be between {least} and {most} seconds")));
    }
    Ok(Ticks::of(u64::from(milliseconds) * 1_000_000))
}

impl Declared for EtherSpanTree {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let none = || ElementRef {
            index: 0,
            name: String::new(),
        };
        let (mut input, mut output, mut switch) = (none(), none(), none());
        let (mut priority, mut path_cost) = (PRIORITY, 1u32);
        let (mut hello, mut max_age, mut delay) = (2000, 20_000, 15_000);
        let suppressor = ElementOf("Suppressor");
        args.mandatory_positional("ADDR", &mut self.address)
            .mandatory_positional_with("INPUT_SUPPRESSOR", suppressor, &mut input)
            .mandatory_positional_with("OUTPUT_SUPPRESSOR", suppressor, &mut output)
            .mandatory_positional_with("SWITCH", ElementOf("EtherSwitch"), &mut switch)
            .keyword("PRIORITY", &mut priority)
            .keyword("PATH_COST", &mut path_cost)
            .keyword_with("HELLO_TIME", SecondsArg(3), &mut hello)
            .keyword_with("MAX_AGE", SecondsArg(3), &mut max_age)
            .keyword_with("FORWARD_DELAY", SecondsArg(3), &mut delay)
            .complete()?;
        if path_cost == 0 {
            return Err(args.fail("PATH_COST must be positive"));
        }
        let times = Times {
            hello: time(args, "HELLO_TIME", hello, 1, 10)?,
            max_age: time(args, "MAX_AGE", max_age, 6, 40)?,
            forward_delay: time(args, "FORWARD_DELAY", delay, 4, 30)?,
        };
        // IEEE Std 802.1D-1998, clause 8.10.2.
        if max_age < 2 * (hello + 1000) {
            return Err(args.fail("MAX_AGE must be at least twice HELLO_TIME and a second"));
        }
        if 2 * (delay - 1000) < max_age {
            return Err(args.fail("FORWARD_DELAY must be at least half of MAX_AGE and a second"));
        }
        if cx.outputs() > PORTS_MAX {
            return Err(args.fail(format_args!("too many ports; max {PORTS_MAX}")));
        }
        self.settings = Some(Settings {
            id: BridgeId::new(priority, self.address),
            path_cost,
            times,
        });
        self.control = Some(Control {
            suppressors: [input, output],
            switch: ElementId::new(switch.index),
            // Every port of a suppressor starts open.
            open: alloc::vec![[true; 2]; cx.outputs()],
            changing: false,
        });
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("msgs").read("ports").read("topology_change");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        let bridge = self.bridge.as_ref().ok_or(HandlerError::Unknown)?;
        match name {
            "msgs" => Ok(messages(bridge)),
            "ports" => Ok(ports(bridge)),
            "topology_change" => Ok(format!("{}", bridge.topology_change)),
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Element for EtherSpanTree {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let (Some(control), Some(settings)) = (&self.control, self.settings) else {
            return Err(Failed);
        };
        let ports = cx.outputs();
        for suppressor in &control.suppressors {
            let id = ElementId::new(suppressor.index);
            if ports > 0 && cx.handler(Some(id), &active(ports - 1)).is_none() {
                let name = &suppressor.name;
                return Err(cx.error(format_args!("‘{name}’ has fewer than {ports} ports")));
            }
        }
        let now = cx.steady().0;
        self.bridge = Some(Bridge::new(settings, ports, now));
        self.control(cx);
        // What it has to say at first waits for the timer: other elements may not be ready.
        let timer = cx.timer();
        cx.schedule_after(timer, 0);
        self.timer = Some(timer);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        let now = cx.steady().0;
        if let Some(bridge) = &mut self.bridge {
            bridge.run(now);
        }
        self.act(cx);
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        let now = cx.steady().0;
        for packet in batch.drain() {
            if let (Some(bridge), Some(message)) = (&mut self.bridge, Bpdu::parse(packet.data())) {
                bridge.receive(port, message, now);
            }
            cx.kill(packet);
        }
        self.act(cx);
        port
    }
}

/// The handler by which a Suppressor's port is opened and closed.
fn active(port: usize) -> String {
    format!("active{port}")
}

impl EtherSpanTree {
    /// Does all that follows from what the bridge decided.
    fn act(&mut self, cx: &mut Cx<'_>) {
        self.control(cx);
        let Some(bridge) = &mut self.bridge else {
            return;
        };
        for (port, message) in bridge.take_outbox() {
            if let Some(mut packet) = cx.pool().copy(&message.to_frame(self.address)) {
                packet.set_mac_header(0);
                cx.emit(port, packet);
            }
        }
        self.sleep(cx);
    }

    /// Opens and closes ports, and says how long stations are remembered.
    fn control(&mut self, cx: &mut Cx<'_>) {
        let (Some(control), Some(bridge)) = (&mut self.control, &self.bridge) else {
            return;
        };
        for (number, (port, told)) in bridge.ports().iter().zip(&mut control.open).enumerate() {
            let open = match port.state {
                State::Blocking | State::Listening => [false, false],
                State::Learning => [true, false],
                State::Forwarding => [true, true],
            };
            for (suppressor, (open, told)) in control.suppressors.iter().zip(open.iter().zip(told)) {
                if open == told {
                    continue;
                }
                let id = ElementId::new(suppressor.index);
                let value = if *open { "true" } else { "false" };
                // The handler is there: that was checked.
                let _ = cx.write_handler(Some(id), &active(number), value);
                *told = *open;
            }
        }
        if control.changing != bridge.topology_change {
            control.changing = bridge.topology_change;
            let delay = bridge.times.forward_delay.nanoseconds();
            ether_switch::set_ageing(cx, control.switch, control.changing.then_some(delay));
        }
    }

    /// Waits for what is due next.
    fn sleep(&mut self, cx: &mut Cx<'_>) {
        if let (Some(bridge), Some(timer)) = (&self.bridge, self.timer) {
            match bridge.next() {
                Some(at) => cx.schedule_at(timer, router::Steady(at)),
                None => cx.unschedule_timer(timer),
            }
        }
    }
}

/// The `msgs` handler.
fn messages(bridge: &Bridge) -> String {
    let times = bridge.times;
    let [max_age, hello, delay] = [times.max_age, times.hello, times.forward_delay].map(|t| t.0 / 256);
    let change = if bridge.topology_change { "TC" } else { "tc" };
    let mut text = String::new();
    let mut line = |id: u64, port: u16, cost: u32, root: u64| {
        let _ = writeln!(
            text,
            " {id:16x}:{port:04x}: {change}  {cost:x} -> {root:16x}  m/h/d: {max_age:x}/{hello:x}/{delay:x}"
        );
    };
    for port in bridge.ports() {
        let Port { designated_bridge, designated_port, designated_cost, designated_root, .. } = port;
        line(designated_bridge.0, *designated_port, *designated_cost, designated_root.0);
    }
    line(bridge.id().0, 0, bridge.root_cost, bridge.root.0);
    text
}

/// The `ports` handler.
fn ports(bridge: &Bridge) -> String {
    let mut text = String::new();
    for (number, port) in bridge.ports().iter().enumerate() {
        let state = match port.state {
            State::Blocking => "blocking",
            State::Listening => "listening",
            State::Learning => "learning",
            State::Forwarding => "forwarding",
        };
        let role = if bridge.root_port == Some(number) {
            "root"
        } else if bridge.is_designated(number) {
            "designated"
        } else {
            "alternate"
        };
        let _ = writeln!(text, "{number} {state} {role}");
    }
    text
}

#[cfg(test)]
mod tests;
