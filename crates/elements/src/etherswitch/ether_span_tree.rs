use core::fmt::Write;

use super::bpdu::{Bpdu, BridgeId, Ticks, Times};
use super::bridge::{Bridge, Port, Settings, State};
use super::learning::Aging;
use crate::prelude::*;

/// The priority that makes a bridge unlikely to become root, as Click has it.
const PRIORITY: u16 = 0xdead;
/// Most ports: their numbers have 12 bits on the wire.
const PORTS_MAX: usize = 4095;
/// Before the arguments are read.
const NO_ELEMENT: ElementRef = ElementRef {
    index: 0,
    name: String::new(),
};

/// Keeps a network of Ethernet switches free of loops by the spanning tree protocol (IEEE 802.1D).
///
/// It exchanges the protocol's messages with other switches, and restricts its EtherSwitch to the
/// ports of the tree. It does so by opening and closing the ports of two Suppressors, one before
/// and one after the switch. Before a port forwards, it listens and then learns, for the forward
/// delay each. During a topology change, the switch removes stations that are silent for the
/// forward delay. Information about the root is valid for the maximum age: a failed link is
/// replaced after at most the maximum age and twice the forward delay.
///
/// Send frames with `4242` at byte 14 (the protocol's) to this element, and all others to the
/// switch.
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
#[derive(Element)]
#[element(ports = "-/=", processing = "h", segments, handlers)]
#[inputs("messages from other switches, one input for each port of the switch")]
#[outputs("messages to other switches, one output for each port of the switch")]
pub struct EtherSpanTree {
    /// The switch's address.
    #[arg(mandatory, name = "ADDR")]
    address: EtherAddress,
    /// The Suppressor before the switch.
    #[arg(mandatory, name = "INPUT_SUPPRESSOR", with = ElementOf("Suppressor"), kind = "Suppressor")]
    #[init(NO_ELEMENT)]
    input: ElementRef,
    /// The Suppressor after the switch.
    #[arg(mandatory, name = "OUTPUT_SUPPRESSOR", with = ElementOf("Suppressor"), kind = "Suppressor")]
    #[init(NO_ELEMENT)]
    output: ElementRef,
    /// The switch.
    #[arg(mandatory)]
    switch: Option<Link<dyn Aging>>,
    /// The switch with the lowest priority becomes root; of several, the one with the lowest
    /// address.
    #[arg(default = PRIORITY, default_text = "57005")]
    priority: u16,
    /// The cost of the path through each port.
    #[arg(default = 1)]
    path_cost: u32,
    /// The interval of its messages, if it is the root: 1 to 10 seconds.
    #[arg(default = Milliseconds(2000), default_text = "2s")]
    hello_time: Milliseconds,
    /// How long its messages are valid, if it is the root: 6 to 40 seconds, at least twice the hello
    /// time and a second.
    #[arg(default = Milliseconds(20_000), default_text = "20s")]
    max_age: Milliseconds,
    /// How long ports listen, and how long they learn, if it is the root: 4 to 30 seconds, at least
    /// half the maximum age and a second.
    #[arg(default = Milliseconds(15_000), default_text = "15s")]
    forward_delay: Milliseconds,
    settings: Option<Settings>,
    bridge: Option<Bridge>,
    /// For each port the state last written to the suppressors: whether frames may enter, and leave.
    open: Vec<[bool; 2]>,
    /// Whether the switch ages its stations faster for a change of the topology.
    changing: bool,
    timer: Option<TimerId>,
}

/// A time in milliseconds, between two bounds in seconds.
fn time(
    args: &Args<'_>,
    keyword: &str,
    Milliseconds(milliseconds): Milliseconds,
    least: u32,
    most: u32,
) -> Result<Ticks, Failed> {
    if !(least * 1000..=most * 1000).contains(&milliseconds) {
        return Err(args.fail(format!(
            "{keyword} must be between {least} and {most} seconds"
        )));
    }
    Ok(Ticks::of(u64::from(milliseconds) * 1_000_000))
}

#[handlers]
impl EtherSpanTree {
    /// For each port, then for the switch itself, the best information known: bridge and port,
    /// whether the topology changes (`TC`), cost and root; maximum age, hello time and forward delay
    /// in seconds. Numbers are hexadecimal.
    #[read]
    fn msgs(&self) -> Result<String, HandlerError> {
        Ok(messages(self.running()?))
    }

    /// The state of each port, a line for each: its number, `blocking`, `listening`, `learning` or
    /// `forwarding`, and `root`, `designated` or `alternate`.
    #[read]
    fn ports(&self) -> Result<String, HandlerError> {
        Ok(ports(self.running()?))
    }

    /// Whether the topology changes.
    #[read]
    fn topology_change(&self) -> Result<bool, HandlerError> {
        Ok(self.running()?.topology_change)
    }
}

impl Element for EtherSpanTree {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.path_cost == 0 {
            return Err(args.fail("PATH_COST must be positive"));
        }
        let times = Times {
            hello: time(args, "HELLO_TIME", self.hello_time, 1, 10)?,
            max_age: time(args, "MAX_AGE", self.max_age, 6, 40)?,
            forward_delay: time(args, "FORWARD_DELAY", self.forward_delay, 4, 30)?,
        };
        // IEEE Std 802.1D-1998, clause 8.10.2.
        if self.max_age.0 < 2 * (self.hello_time.0 + 1000) {
            return Err(args.fail("MAX_AGE must be at least twice HELLO_TIME and a second"));
        }
        if 2 * (self.forward_delay.0 - 1000) < self.max_age.0 {
            return Err(args.fail("FORWARD_DELAY must be at least half of MAX_AGE and a second"));
        }
        if cx.outputs() > PORTS_MAX {
            return Err(args.fail(format_args!("too many ports; max {PORTS_MAX}")));
        }
        self.settings = Some(Settings {
            id: BridgeId::new(self.priority, self.address),
            path_cost: self.path_cost,
            times,
        });
        // Every port of a suppressor starts open.
        self.open = alloc::vec![[true; 2]; cx.outputs()];
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let settings = self.settings.ok_or(Failed)?;
        let ports = cx.outputs();
        for suppressor in [&self.input, &self.output] {
            let id = ElementId::new(suppressor.index);
            if ports > 0 && cx.handler(Some(id), &active(ports - 1)).is_none() {
                let name = &suppressor.name;
                return Err(cx.error(format_args!("‘{name}’ has fewer than {ports} ports")));
            }
        }
        let now = cx.steady().0;
        self.bridge = Some(Bridge::new(settings, ports, now));
        self.control(cx);
        // The first messages wait for the timer: other elements may not be ready.
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
    fn running(&self) -> Result<&Bridge, HandlerError> {
        self.bridge.as_ref().ok_or(HandlerError::Unknown)
    }

    /// Carries out the bridge's decisions.
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

    /// Opens and closes ports, and sets how long stations are kept.
    fn control(&mut self, cx: &mut Cx<'_>) {
        let (Some(bridge), Some(switch)) = (&self.bridge, self.switch) else {
            return;
        };
        for (number, (port, written)) in bridge.ports().iter().zip(&mut self.open).enumerate() {
            let open = match port.state {
                State::Blocking | State::Listening => [false, false],
                State::Learning => [true, false],
                State::Forwarding => [true, true],
            };
            let suppressors = [&self.input, &self.output].into_iter();
            for (suppressor, (open, written)) in suppressors.zip(open.iter().zip(written)) {
                if open == written {
                    continue;
                }
                let id = ElementId::new(suppressor.index);
                let value = if *open { "true" } else { "false" };
                // `initialize` found the handler.
                let _ = cx.write_handler(Some(id), &active(number), value);
                *written = *open;
            }
        }
        if self.changing != bridge.topology_change {
            self.changing = bridge.topology_change;
            let delay = bridge.times.forward_delay.nanoseconds();
            let aging = self.changing.then_some(delay);
            cx.reach(switch, |switch, _| switch.set_aging(aging));
        }
    }

    /// Waits for the next event.
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
    let [max_age, hello, delay] =
        [times.max_age, times.hello, times.forward_delay].map(|t| t.0 / 256);
    let change = if bridge.topology_change { "TC" } else { "tc" };
    let mut text = String::new();
    let mut line = |id: u64, port: u16, cost: u32, root: u64| {
        let _ = writeln!(
            text,
            " {id:16x}:{port:04x}: {change}  {cost:x} -> {root:16x}  m/h/d: {max_age:x}/{hello:x}/{delay:x}"
        );
    };
    for port in bridge.ports() {
        let Port {
            designated_bridge,
            designated_port,
            designated_cost,
            designated_root,
            ..
        } = port;
        line(
            designated_bridge.0,
            *designated_port,
            *designated_cost,
            designated_root.0,
        );
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
