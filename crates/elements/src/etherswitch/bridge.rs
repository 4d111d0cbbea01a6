//! The spanning tree protocol of a bridge (IEEE Std 802.1D-1998, clause 8): which ports forward,
//! and which messages other bridges get. Without packets, clocks or elements: time comes with each
//! call, in nanoseconds, and messages to send are put into an outbox.
//!
//! Names are the standard's; numbers in comments are its clauses.

use super::bpdu::{Bpdu, BridgeId, Configuration, Ticks, Times};
use crate::prelude::*;

const SECOND: u64 = 1_000_000_000;
/// At least this long between two configurations sent by a port (table 8-3, hold time).
const HOLD: u64 = SECOND;
/// Each bridge adds this to a configuration's age (table 8-2).
const AGE_STEP: u64 = SECOND;

/// The state of a port (8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing but the protocol: another port leads the same way.
    Blocking,
    /// The same, on the way to forwarding.
    Listening,
    /// It learns its stations, and does not forward yet.
    Learning,
    /// It forwards.
    Forwarding,
}

/// A bridge's own parameters.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The bridge.
    pub id: BridgeId,
    /// The cost of the path through each port, at least 1.
    pub path_cost: u32,
    /// The times, if it is the root.
    pub times: Times,
}

/// A port, and the configuration last received or sent there (8.5.5).
#[derive(Clone, Debug)]
pub struct Port {
    id: u16,
    /// What it does.
    pub state: State,
    /// The root that the port's LAN knows of.
    pub designated_root: BridgeId,
    /// The cost of the path from the LAN's designated bridge to the root.
    pub designated_cost: u32,
    /// The LAN's designated bridge.
    pub designated_bridge: BridgeId,
    /// That bridge's port.
    pub designated_port: u16,
    acknowledge: bool,
    config_pending: bool,
    /// When the root sent the information; `None` where this bridge is designated.
    heard: Option<i128>,
    forward_at: Option<u64>,
    hold_until: Option<u64>,
}

/// A bridge (8.5.3).
pub struct Bridge {
    settings: Settings,
    ports: Vec<Port>,
    /// The root of the tree.
    pub root: BridgeId,
    /// The cost of the path there.
    pub root_cost: u32,
    /// The port that leads there; `None`: this is the root.
    pub root_port: Option<usize>,
    /// The root's times.
    pub times: Times,
    change_detected: bool,
    /// Whether stations age faster, as they may have moved.
    pub topology_change: bool,
    hello_at: Option<u64>,
    notify_at: Option<u64>,
    change_until: Option<u64>,
    outbox: Vec<(usize, Bpdu)>,
}

impl Bridge {
    /// A bridge that has just been switched on, with `ports` ports (8.8.1).
    pub fn new(settings: Settings, ports: usize, now: u64) -> Bridge {
        let port = |number: usize| Port {
            // The usual port priority, and the port's number, which is not 0.
            id: 0x8000 | (number as u16 + 1),
            state: State::Blocking,
            designated_root: settings.id,
            designated_cost: 0,
            designated_bridge: settings.id,
            designated_port: 0x8000 | (number as u16 + 1),
            acknowledge: false,
            config_pending: false,
            heard: None,
            forward_at: None,
            hold_until: None,
        };
        let mut bridge = Bridge {
            settings,
            ports: (0..ports).map(port).collect(),
            root: settings.id,
            root_cost: 0,
            root_port: None,
            times: settings.times,
            change_detected: false,
            topology_change: false,
            hello_at: None,
            notify_at: None,
            change_until: None,
            outbox: Vec::new(),
        };
        bridge.select_port_states(now);
        bridge.say_hello(now);
        bridge
    }

    /// The bridge itself.
    pub fn id(&self) -> BridgeId {
        self.settings.id
    }

    /// The ports.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Takes the messages to send, and their ports.
    pub fn take_outbox(&mut self) -> Vec<(usize, Bpdu)> {
        core::mem::take(&mut self.outbox)
    }

    /// Whether a port is the one by which its LAN reaches the root (8.5.5).
    pub fn is_designated(&self, port: usize) -> bool {
        self.ports.get(port).is_some_and(|port| {
            port.designated_bridge == self.settings.id && port.designated_port == port.id
        })
    }

    fn is_root(&self) -> bool {
        self.root == self.settings.id
    }

    /// When something is to be done next.
    pub fn next(&self) -> Option<u64> {
        let own = [self.hello_at, self.notify_at, self.change_until];
        let of_ports = (self.ports.iter())
            .flat_map(|port| [self.expires(port), port.forward_at, port.hold_until]);
        own.into_iter().chain(of_ports).flatten().min()
    }

    /// When what was heard at a port holds no longer.
    fn expires(&self, port: &Port) -> Option<u64> {
        let expires = port.heard? + i128::from(self.times.max_age.nanoseconds());
        Some(u64::try_from(expires.max(0)).unwrap_or(u64::MAX))
    }

    /// Does what is due (8.7.3 to 8.7.8).
    pub fn run(&mut self, now: u64) {
        let due = |at: Option<u64>| at.is_some_and(|at| at <= now);
        if due(self.hello_at) {
            self.say_hello(now);
        }
        if due(self.notify_at) {
            self.notify(now);
        }
        if due(self.change_until) {
            self.change_until = None;
            self.change_detected = false;
            self.topology_change = false;
        }
        for number in 0..self.ports.len() {
            if due(self.expires(&self.ports[number])) {
                self.forget(number, now);
            }
            if due(self.ports[number].forward_at) {
                self.advance(number, now);
            }
            let port = &mut self.ports[number];
            if due(port.hold_until) {
                port.hold_until = None;
                if port.config_pending {
                    self.send_config(number, now);
                }
            }
        }
    }

    /// Takes a message that came by a port.
    pub fn receive(&mut self, port: usize, message: Bpdu, now: u64) {
        if port >= self.ports.len() {
            return;
        }
        match message {
            Bpdu::Configuration(message) => self.receive_config(port, &message, now),
            Bpdu::Notification => {
                // Only the designated bridge of a LAN passes it on (8.7.2).
                if self.is_designated(port) {
                    self.detect_change(now);
                    self.ports[port].acknowledge = true;
                    self.send_config(port, now);
                }
            }
        }
    }

    /// 8.7.1.
    fn receive_config(&mut self, number: usize, message: &Configuration, now: u64) {
        let port = &self.ports[number];
        let own = message.bridge == self.settings.id && message.port == port.id;
        // Messages that are too old or come back are ignored (9.3.4).
        if own || message.age >= message.times.max_age {
            return;
        }
        if !self.supersedes(number, message) {
            if self.is_designated(number) {
                // The sender does not know the better one yet.
                self.send_config(number, now);
            }
            return;
        }
        let was_root = self.is_root();
        self.record(number, message, now);
        self.update();
        self.select_port_states(now);
        if was_root && !self.is_root() {
            self.hello_at = None;
            if self.change_detected {
                self.change_until = None;
                self.notify(now);
            }
        }
        if self.root_port == Some(number) {
            self.times = acceptable(message.times);
            self.topology_change = message.topology_change;
            self.send_configs(now);
            if message.acknowledgment {
                self.change_detected = false;
                self.notify_at = None;
            }
        }
    }

    /// Whether a message is better than, or from the same as, what is known at a port (8.6.2).
    fn supersedes(&self, number: usize, message: &Configuration) -> bool {
        let port = &self.ports[number];
        let known = (
            port.designated_root,
            port.designated_cost,
            port.designated_bridge,
        );
        let heard = (message.root, message.cost, message.bridge);
        match heard.cmp(&known) {
            core::cmp::Ordering::Less => true,
            core::cmp::Ordering::Greater => false,
            core::cmp::Ordering::Equal => {
                message.bridge != self.settings.id || message.port <= port.designated_port
            }
        }
    }

    /// 8.6.2.
    fn record(&mut self, number: usize, message: &Configuration, now: u64) {
        let port = &mut self.ports[number];
        port.designated_root = message.root;
        port.designated_cost = message.cost;
        port.designated_bridge = message.bridge;
        port.designated_port = message.port;
        port.heard = Some(i128::from(now) - i128::from(message.age.nanoseconds()));
    }

    /// Chooses the root, the way there, and the LANs this bridge is designated for (8.6.7 to
    /// 8.6.9).
    fn update(&mut self) {
        let cost = self.settings.path_cost;
        let ways = self.ports.iter().enumerate().filter(|(number, port)| {
            !self.is_designated(*number) && port.designated_root < self.settings.id
        });
        let best = ways.min_by_key(|(_, port)| {
            (
                port.designated_root,
                port.designated_cost.saturating_add(cost),
                port.designated_bridge,
                port.designated_port,
                port.id,
            )
        });
        (self.root, self.root_cost, self.root_port) = match best {
            Some((number, port)) => {
                let cost = port.designated_cost.saturating_add(cost);
                (port.designated_root, cost, Some(number))
            }
            None => (self.settings.id, 0, None),
        };
        for number in 0..self.ports.len() {
            let port = &self.ports[number];
            let known = (
                port.designated_cost,
                port.designated_bridge,
                port.designated_port,
            );
            let own = (self.root_cost, self.settings.id, port.id);
            if port.designated_root != self.root || own <= known || self.is_designated(number) {
                self.become_designated(number);
            }
        }
    }

    /// 8.6.10.
    fn become_designated(&mut self, number: usize) {
        let (root, cost, id) = (self.root, self.root_cost, self.settings.id);
        let port = &mut self.ports[number];
        port.designated_root = root;
        port.designated_cost = cost;
        port.designated_bridge = id;
        port.designated_port = port.id;
    }

    /// 8.6.11.
    fn select_port_states(&mut self, now: u64) {
        for number in 0..self.ports.len() {
            let designated = self.is_designated(number);
            let port = &mut self.ports[number];
            if self.root_port == Some(number) {
                port.config_pending = false;
                port.acknowledge = false;
                self.make_forwarding(number, now);
            } else if designated {
                port.heard = None;
                self.make_forwarding(number, now);
            } else {
                port.config_pending = false;
                port.acknowledge = false;
                self.make_blocking(number, now);
            }
        }
    }

    /// 8.6.12.
    fn make_forwarding(&mut self, number: usize, now: u64) {
        let delay = self.times.forward_delay.nanoseconds();
        let port = &mut self.ports[number];
        if port.state == State::Blocking {
            port.state = State::Listening;
            port.forward_at = Some(now.saturating_add(delay));
        }
    }

    /// 8.6.13.
    fn make_blocking(&mut self, number: usize, now: u64) {
        let port = &mut self.ports[number];
        let before = core::mem::replace(&mut port.state, State::Blocking);
        port.forward_at = None;
        if matches!(before, State::Forwarding | State::Learning) {
            self.detect_change(now);
        }
    }

    /// The forward delay of a port is over (8.7.5).
    fn advance(&mut self, number: usize, now: u64) {
        let delay = self.times.forward_delay.nanoseconds();
        let port = &mut self.ports[number];
        port.forward_at = None;
        match port.state {
            State::Listening => {
                port.state = State::Learning;
                port.forward_at = Some(now.saturating_add(delay));
            }
            State::Learning => {
                port.state = State::Forwarding;
                if (0..self.ports.len()).any(|port| self.is_designated(port)) {
                    self.detect_change(now);
                }
            }
            State::Blocking | State::Forwarding => {}
        }
    }

    /// The information of a port is too old: no bridge there knows a path to the root (8.7.4).
    fn forget(&mut self, number: usize, now: u64) {
        let was_root = self.is_root();
        self.ports[number].heard = None;
        self.become_designated(number);
        self.update();
        self.select_port_states(now);
        if self.is_root() && !was_root {
            self.times = self.settings.times;
            self.detect_change(now);
            self.notify_at = None;
            self.say_hello(now);
        }
    }

    /// 8.6.14.
    fn detect_change(&mut self, now: u64) {
        if self.is_root() {
            let times = self.settings.times;
            let period = times.max_age.nanoseconds() + times.forward_delay.nanoseconds();
            self.topology_change = true;
            self.change_until = Some(now.saturating_add(period));
        } else if !self.change_detected {
            self.notify(now);
        }
        self.change_detected = true;
    }

    /// Tells the way to the root that the topology changed, until that is acknowledged (8.7.6).
    fn notify(&mut self, now: u64) {
        let hello = self.settings.times.hello.nanoseconds();
        self.notify_at = self.root_port.map(|port| {
            self.outbox.push((port, Bpdu::Notification));
            now.saturating_add(hello)
        });
    }

    /// The root tells all LANs of the tree, now and at every hello time (8.7.3).
    fn say_hello(&mut self, now: u64) {
        self.send_configs(now);
        let hello = self.settings.times.hello.nanoseconds();
        self.hello_at = self.is_root().then(|| now.saturating_add(hello));
    }

    /// 8.6.4.
    fn send_configs(&mut self, now: u64) {
        for number in 0..self.ports.len() {
            if self.is_designated(number) {
                self.send_config(number, now);
            }
        }
    }

    /// 8.6.1.
    fn send_config(&mut self, number: usize, now: u64) {
        let age = match self.root_port.map(|port| &self.ports[port]) {
            None => 0,
            Some(port) => {
                let heard = port.heard.unwrap_or(i128::from(now));
                let age = u64::try_from(i128::from(now) - heard).unwrap_or(0);
                age.saturating_add(AGE_STEP)
            }
        };
        let (age, times) = (Ticks::of(age), self.times);
        let topology_change = self.topology_change;
        let (root, cost, bridge) = (self.root, self.root_cost, self.settings.id);
        let port = &mut self.ports[number];
        if port.hold_until.is_some() {
            port.config_pending = true;
            return;
        }
        port.config_pending = false;
        if age >= times.max_age {
            return;
        }
        let message = Configuration {
            root,
            cost,
            bridge,
            port: port.id,
            age,
            times,
            topology_change,
            acknowledgment: core::mem::take(&mut port.acknowledge),
        };
        port.hold_until = Some(now.saturating_add(HOLD));
        self.outbox.push((number, Bpdu::Configuration(message)));
    }
}

/// Times as the standard allows them (table 8-3), whatever a root says.
fn acceptable(times: Times) -> Times {
    let within =
        |ticks: Ticks, least: u16, most: u16| Ticks(ticks.0.clamp(least * 256, most * 256));
    Times {
        max_age: within(times.max_age, 6, 40),
        hello: within(times.hello, 1, 10),
        forward_delay: within(times.forward_delay, 4, 30),
    }
}

#[cfg(test)]
mod tests;
