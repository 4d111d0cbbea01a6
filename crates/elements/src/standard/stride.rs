use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use packet::{Batch, Packet};
use router::args::{Args, Context, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Signal, Verdict};

const STRIDE_ONE: u32 = 1 << 16;
const MOST_TICKETS: i32 = 1 << 15;

/// One port of a stride scheduler.
#[derive(Clone, Copy, Default)]
struct Client {
    tickets: u32,
    /// Where it stands; the lowest is next.
    pass: u32,
}

impl Client {
    fn stride(&self) -> u32 {
        STRIDE_ONE.checked_div(self.tickets).unwrap_or(0)
    }

    fn advance(&mut self) {
        self.pass = self.pass.wrapping_add(self.stride());
    }
}

/// A stride scheduler over ports.
#[derive(Default)]
struct Stride {
    clients: Vec<Client>,
    /// Ports that have tickets, the next first.
    order: Vec<usize>,
}

fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Stride {
    fn configure(&mut self, ports: usize, kind: &str, args: &mut Args<'_>) -> Result<(), Failed> {
        let texts = args.take_raw();
        if texts.len() != ports {
            return Err(args.fail(format_args!("need {ports} arguments, one per {kind} port")));
        }
        let mut tickets = Vec::new();
        for (i, text) in texts.iter().enumerate() {
            match args.context().parse::<i32>(text) {
                Ok(value) if value > MOST_TICKETS => {
                    args.warning(format_args!("{kind} {i}’s tickets reduced to {MOST_TICKETS}"));
                    tickets.push(MOST_TICKETS as u32);
                }
                Ok(value) if value >= 0 => tickets.push(value as u32),
                Ok(_) => args.error(format_args!(
                    "argument {i} (number of tickets) must be >= 0"
                )),
                Err(_) => args.error(format_args!(
                    "argument {i} should be number of tickets (integer)"
                )),
            }
        }
        args.finish()?;
        let first = self.clients.is_empty();
        self.clients.resize(ports, Client::default());
        for (client, tickets) in self.clients.iter_mut().zip(tickets) {
            client.tickets = tickets;
            if first {
                client.advance();
            }
        }
        // Backwards, so that those that stand together go in order.
        self.order.clear();
        for port in (0..ports).rev() {
            self.insert(port);
        }
        Ok(())
    }

    /// Puts a port before those that stand where it does, or further.
    fn insert(&mut self, port: usize) {
        let client = self.clients[port];
        if client.tickets == 0 {
            return;
        }
        let behind = |other: &usize| !after(client.pass, self.clients[*other].pass);
        let at = self.order.iter().position(behind);
        self.order.insert(at.unwrap_or(self.order.len()), port);
    }

    /// Charges the first `n` ports in the order for their turn.
    fn charge(&mut self, n: usize) {
        for i in 0..n {
            let port = self.order[i];
            self.clients[port].advance();
        }
        // Each goes back in turn; those not yet back stay in front, where no one is put.
        for left in (0..n).rev() {
            let port = self.order.remove(0);
            let client = self.clients[port];
            let behind = |other: &usize| !after(client.pass, self.clients[*other].pass);
            let at = self.order[left..].iter().position(behind);
            let at = at.map_or(self.order.len(), |at| left + at);
            self.order.insert(at, port);
        }
    }

    fn handlers(&self, list: &mut HandlerList) {
        for port in 0..self.clients.len() {
            list.read_write(format!("tickets{port}"));
        }
        list.add("config", HandlerFlags::CALM);
    }

    fn port(&self, name: &str) -> Result<usize, HandlerError> {
        let port = name.strip_prefix("tickets").and_then(|n| n.parse().ok());
        let port = port.filter(|port| *port < self.clients.len());
        port.ok_or(HandlerError::Unknown)
    }

    fn read(&self, name: &str) -> Result<String, HandlerError> {
        if name == "config" {
            let tickets = self.clients.iter().map(|client| client.tickets.to_string());
            return Ok(tickets.collect::<Vec<_>>().join(", "));
        }
        Ok(self.clients[self.port(name)?].tickets.to_string())
    }

    fn write(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let port = self.port(name)?;
        let tickets = Context::blank().parse::<i32>(value);
        let tickets = tickets.map_err(|_| "tickets value must be integer")?;
        if tickets < 0 {
            return Err("number of tickets must be >= 0".into());
        }
        let old = self.clients[port].tickets;
        self.clients[port].tickets = tickets.min(MOST_TICKETS) as u32;
        match (old, tickets) {
            (0, 1..) => {
                let front = self.order.first().map(|front| self.clients[*front].pass);
                let client = &mut self.clients[port];
                client.pass = front.map_or(0, |pass| pass.wrapping_add(client.stride()));
                self.insert(port);
            }
            (1.., 0) => self.order.retain(|other| *other != port),
            _ => {}
        }
        Ok(())
    }
}

/// Pulls from its inputs in proportion to their tickets.
///
/// Packets are dealt out by stride scheduling (Waldspurger and Weihl, 1995). An input that has none
/// when it is asked has had its turn all the same; inputs known to be empty are not asked.
///
/// # Arguments
/// - `TICKETS` (0 to 32768; one for each input): the input's share.
///
/// # Ports
/// One or more pull inputs, one pull output.
///
/// # Handlers
/// - `tickets0`, `tickets1`, ... (read, write): the arguments.
///
/// # Example
/// ```click
/// s :: StrideSched(2, 1);
/// InfiniteSource(LIMIT 10) -> Queue -> [0]s;
/// InfiniteSource(LIMIT 10) -> Queue -> [1]s;
/// s -> Discard;
/// ```
///
/// # See also
/// StrideSwitch, RoundRobinSched, PrioSched
#[derive(Default)]
pub struct StrideSched {
    stride: Stride,
    signals: Vec<Signal>,
    pulled: Box<Batch>,
}

impl Class for StrideSched {
    const NAME: &'static str = "StrideSched";
    const PORTS: &'static str = "1-/1";
    const PROCESSING: &'static str = "l";
    const SEGMENTS: bool = true;
}

impl StrideSched {
    /// Pulls the next packet into the empty batch of its own.
    fn pull_one(&mut self, cx: &mut Cx<'_>) {
        let mut asked = 0;
        for port in &self.stride.order {
            asked += 1;
            let active = self.signals.get(*port).is_none_or(|s| cx.is_active(s));
            if active {
                cx.pull(*port, &mut self.pulled, 1);
                if !self.pulled.is_empty() {
                    break;
                }
            }
        }
        self.stride.charge(asked);
    }
}

impl Declared for StrideSched {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.stride.configure(cx.inputs(), "input", args)
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        self.stride.handlers(list);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.stride.read(name)
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.stride.write(name, value)
    }
}

impl Element for StrideSched {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let inputs = 0..cx.inputs();
        self.signals = inputs.map(|i| cx.upstream_signal(i, None)).collect();
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        for _ in 0..most {
            self.pull_one(cx);
            if batch.append(&mut self.pulled, 1) == 0 {
                return;
            }
        }
    }
}

/// Sends packets to its outputs in proportion to their tickets.
///
/// Packets are dealt out by stride scheduling, as StrideSched does it.
///
/// # Arguments
/// - `TICKETS` (0 to 32768; one for each output): the output's share.
///
/// # Ports
/// One push input, one or more push outputs.
///
/// # Handlers
/// - `tickets0`, `tickets1`, ... (read, write): the arguments.
///
/// # Example
/// ```click
/// s :: StrideSwitch(2, 1);
/// InfiniteSource(LIMIT 30) -> s;
/// s[0] -> Discard;
/// s[1] -> Discard;
/// ```
///
/// # See also
/// StrideSched, RoundRobinSwitch, Switch
#[derive(Default)]
pub struct StrideSwitch {
    stride: Stride,
}

impl Class for StrideSwitch {
    const NAME: &'static str = "StrideSwitch";
    const PORTS: &'static str = "1/1-";
    const PROCESSING: &'static str = "h";
    const SEGMENTS: bool = true;
}

impl Declared for StrideSwitch {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.stride.configure(cx.outputs(), "output", args)
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        self.stride.handlers(list);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.stride.read(name)
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.stride.write(name, value)
    }
}

impl Element for StrideSwitch {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, _packet: &mut Packet) -> Verdict {
        match self.stride.order.first() {
            Some(&port) => {
                self.stride.charge(1);
                Verdict::To(port)
            }
            None => Verdict::Drop,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use crate::testing::Rig;

    #[test]
    fn turns_are_those_of_click() {
        for most in [1, 64] {
            let config = "i1 :: InfiniteSource(\\<01>, LIMIT 10) -> [0] s :: StrideSched(4, 2, 1)
                    -> p :: Puller;
                i2 :: InfiniteSource(\\<02>, LIMIT 10) -> [1] s;
                i3 :: InfiniteSource(\\<03>, LIMIT 10) -> [2] s;";
            let mut rig = Rig::new(config);
            let mut turns = Vec::new();
            loop {
                let pulled = rig.pull("p", most);
                if pulled.is_empty() {
                    break;
                }
                turns.extend(pulled.iter().map(|packet| packet.data()[0]));
            }
            let expected = [
                1, 1, 2, 1, 1, 2, 3, 1, 1, 2, 1, 1, 2, 3, 1, 1, 2, 2, 3, 2, 2, 3, 2, 2, 3, 3, 3, 3,
                3, 3,
            ];
            assert_eq!(turns, expected, "{most} at a time");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// Inputs that always have packets get what their tickets say, at any time to within three
        /// packets.
        #[test]
        fn inputs_get_their_shares(
            tickets in prop::collection::vec(0u32..200, 2..5),
            most in prop::sample::select(&[1usize, 64][..]),
        ) {
            let all: u32 = tickets.iter().sum();
            prop_assume!(all > 0);
            let shares: Vec<_> = tickets.iter().map(|n| alloc::format!("{n}")).collect();
            let mut config = alloc::format!("s :: StrideSched({}) -> p :: Puller;", shares.join(", "));
            for input in 0..tickets.len() {
                let source = alloc::format!("InfiniteSource(\\<{input:02}>)");
                config += &alloc::format!("{source} -> [{input}] s;");
            }
            let mut rig = Rig::new(&config);
            let (mut counts, mut total) = (alloc::vec![0; tickets.len()], 0);
            for _ in 0..1000 / most {
                for packet in rig.pull("p", most) {
                    counts[packet.data()[0] as usize] += 1;
                    total += 1;
                }
                for (count, tickets) in counts.iter().zip(&tickets) {
                    // Strides are whole numbers: shares are that exact.
                    let share = f64::from(total) * f64::from(*tickets) / f64::from(all);
                    let slack = 3.0 + share / 100.0;
                    prop_assert!((f64::from(*count) - share).abs() <= slack, "{counts:?}");
                }
            }
            prop_assert_eq!(total as usize, 1000 / most * most);
        }

        #[test]
        fn outputs_get_their_shares(a in 0u32..50, b in 1u32..50) {
            let config = alloc::format!(
                "InfiniteSource(LIMIT 1000) -> s :: StrideSwitch({a}, {b});
                 s[0] -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard;"
            );
            let mut rig = Rig::new(&config);
            rig.run();
            let count: u32 = rig.read("a.count").parse().unwrap();
            let expected = 1000 * a / (a + b);
            prop_assert!(count.abs_diff(expected) <= 3, "{count} for {expected}");
        }
    }

    #[test]
    fn tickets_can_be_changed() {
        let config = "i :: Inject -> s :: StrideSwitch(1, 0); s[0] -> a :: Collect;
            s[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        assert_eq!(rig.read("s.config"), "1, 0");
        rig.write("s.tickets0", "0");
        rig.push("i", &[1]);
        assert_eq!(rig.outstanding(), 0);
        rig.write("s.tickets1", "3");
        rig.push("i", &[2]);
        assert_eq!(rig.data("b"), [[2]]);
        assert_eq!((rig.read("s.tickets0"), rig.read("s.tickets1")), ("0".into(), "3".into()));
        assert!(rig.try_write("s.tickets1", "-1").is_err());
        assert!(rig.try_write("s.tickets2", "1").is_err());
    }

    #[test]
    fn wrong_tickets_are_refused() {
        for (tickets, message) in [
            ("1, 2", "need 1 arguments, one per output port"),
            ("-1", "argument 0 (number of tickets) must be >= 0"),
            ("x", "argument 0 should be number of tickets (integer)"),
        ] {
            let config = alloc::format!("Inject -> StrideSwitch({tickets}) -> Discard;");
            let errors = Rig::errors(&config);
            assert!(errors.contains(message), "{errors}");
        }
    }
}
