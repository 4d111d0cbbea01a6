//! Stride scheduling over ports (Waldspurger and Weihl, 1995): what StrideSched and StrideSwitch
//! share.

use crate::prelude::*;

const STRIDE_ONE: u32 = 1 << 16;
const MOST_TICKETS: i32 = 1 << 15;

/// One port of a stride scheduler.
#[derive(Clone, Copy, Default)]
struct StridePort {
    tickets: u32,
    /// Where it stands; the lowest is next.
    pass: u32,
}

impl StridePort {
    fn stride(&self) -> u32 {
        STRIDE_ONE.checked_div(self.tickets).unwrap_or(0)
    }

    fn advance(&mut self) {
        self.pass = self.pass.wrapping_add(self.stride());
    }
}

/// A stride scheduler over ports.
#[derive(Component)]
#[component(handlers, dynamic)]
pub(super) struct Stride {
    /// Each port's share, 0 to 32768.
    #[arg(rest, name = "TICKETS", kind = "integer, one for each port")]
    tickets: Vec<String>,
    clients: Vec<StridePort>,
    /// Ports that have tickets, the next first.
    pub order: Vec<usize>,
    /// Both as they are now, while turns are [foreseen](Self::foresee).
    now: (Vec<StridePort>, Vec<usize>),
}

fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

#[handlers]
impl Stride {
    /// The ports' tickets.
    #[read]
    fn config(&self) -> String {
        let tickets = self.clients.iter().map(|client| client.tickets.to_string());
        tickets.collect::<Vec<_>>().join(", ")
    }
}

impl Stride {
    /// Takes the tickets of `ports` ports, which are inputs or outputs as `kind` says.
    pub fn configured(&mut self, ports: usize, kind: &str, args: &Args<'_>) -> Result<(), Failed> {
        if args.restores() {
            return Ok(());
        }
        if self.tickets.len() != ports {
            return Err(args.fail(format_args!("need {ports} arguments, one per {kind} port")));
        }
        let mut tickets = Vec::new();
        for (i, text) in self.tickets.iter().enumerate() {
            match args.context().parse::<i32>(text) {
                Ok(value) if value > MOST_TICKETS => {
                    // Click's words, of outputs too.
                    args.warning(format_args!(
                        "input {i}’s tickets reduced to {MOST_TICKETS}"
                    ));
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
        self.clients.resize(ports, StridePort::default());
        for (client, tickets) in self.clients.iter_mut().zip(tickets) {
            client.tickets = tickets;
            if first {
                client.advance();
            }
        }
        // Backwards, so that ports with the same pass go in order.
        self.order.clear();
        for port in (0..ports).rev() {
            self.insert(port);
        }
        Ok(())
    }

    /// Puts a port before the ports whose pass is the same or later.
    fn insert(&mut self, port: usize) {
        let client = self.clients[port];
        if client.tickets == 0 {
            return;
        }
        let behind = |other: &usize| !after(client.pass, self.clients[*other].pass);
        let at = self.order.iter().position(behind);
        self.order.insert(at.unwrap_or(self.order.len()), port);
    }

    /// Charges the first `n` ports in the order for their turn: the last of them is served, and those before it lose
    /// theirs. They are not further back than the one served afterwards: what a port does not use is lost, however
    /// long it has nothing.
    pub fn charge(&mut self, n: usize) {
        let n = n.min(self.order.len());
        let Some(&served) = n.checked_sub(1).and_then(|last| self.order.get(last)) else {
            return;
        };
        let time = self.clients[served].pass;
        for &port in &self.order[..n] {
            let client = &mut self.clients[port];
            client.advance();
            if after(time, client.pass) {
                client.pass = time;
            }
        }
        // Each goes back in turn; those not yet back stay in front, where no one is put.
        for left in (0..n).rev() {
            let port = self.order[0];
            let pass = self.clients[port].pass;
            let mut at = 0;
            while let Some(&next) = self.order.get(at + 1)
                && (at < left || after(pass, self.clients[next].pass))
            {
                self.order[at] = next;
                at += 1;
            }
            self.order[at] = port;
        }
    }

    /// Calls `turn` with the ports of the next `turns` turns, of those ports that are `open`.
    pub fn foresee(
        &mut self,
        turns: usize,
        open: impl Fn(usize) -> bool,
        mut turn: impl FnMut(usize),
    ) {
        self.now.0.clone_from(&self.clients);
        self.now.1.clone_from(&self.order);
        for _ in 0..turns {
            let Some(at) = self.order.iter().position(|port| open(*port)) else {
                break;
            };
            turn(self.order[at]);
            self.charge(at + 1);
        }
        core::mem::swap(&mut self.clients, &mut self.now.0);
        core::mem::swap(&mut self.order, &mut self.now.1);
    }

    fn port(&self, name: &str) -> Result<usize, HandlerError> {
        let port = name.strip_prefix("tickets").and_then(|n| n.parse().ok());
        let port = port.filter(|port| *port < self.clients.len());
        port.ok_or(HandlerError::Unknown)
    }

    fn set(&mut self, cx: &mut Cx<'_>, port: usize, tickets: i32) {
        if tickets > MOST_TICKETS {
            cx.warn_writer(format_args!(
                "port {port}’s tickets reduced to {MOST_TICKETS}"
            ));
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
    }
}

impl DynamicHandlers for Stride {
    fn list_dynamic(&self, list: &mut HandlerList) {
        for port in 0..self.clients.len() {
            list.read_write(format!("tickets{port}"));
        }
    }

    fn read_dynamic(
        &mut self,
        _: &mut Cx<'_>,
        name: &str,
        _: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.clients[self.port(name)?].tickets.to_string())
    }

    fn write_dynamic(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let port = self.port(name)?;
        let tickets = Context::blank().parse::<i32>(value);
        let tickets = tickets.map_err(|_| "tickets value must be integer")?;
        if tickets < 0 {
            return Err("number of tickets must be >= 0".into());
        }
        self.set(cx, port, tickets);
        Ok(())
    }
}
