use core::fmt;

use router::memory::RESERVE;

use super::rules::{self, Action, Wrong};
use super::{FlowStates, FlowUser, Tracker};
use crate::classification::{NO_MEMORY, Program, flow_filter};
use crate::filters::compile::RouterNames;
use crate::filters::dispatch::{DROP, send};
use crate::prelude::*;
use crate::rewriter::headers::is_ip6;

/// Passes connections that its rules allow.
///
/// The first packet of a connection is compared with the rules; the first rule that matches decides
/// on the connection, and a connection that no rule matches is denied. Later packets in both directions,
/// and ICMP errors about them, share the decision. A ConnectionTracker upstream says which
/// connection a packet belongs to; one that is denied ends there. Packets of no connection are
/// compared with the rules one by one.
///
/// RULES is text with a rule on each line: an action, `from` and a side unless the rule is about all
/// sides, and a pattern of IPFilter unless it is about all packets. Addresses may be IPv6's, too, and `icmp6`
/// with its types is a protocol; a pattern without addresses is about both versions of IP, of which `vers 4` and
/// `vers 6` are one. The actions are `allow`, `deny`,
/// and `reject`, whose packets leave by the output after those of the sides, for an ICMPError. `#`
/// begins a comment. There are 16384 rules at most; they are compiled, and the time per connection
/// hardly grows with their number.
///
/// New rules, written to `rules`, apply to new connections; connections that were allowed go on.
/// While the rules are compiled, packets wait in their rings. Rules with a mistake change nothing. In a
/// hotswap, the connections that the ConnectionTracker takes over go on, too.
///
/// # Example
/// ```click
/// t :: ConnectionTracker(4096);
/// f :: FlowFirewall("allow from inside tcp dst port 80 or 443
///     allow from inside icmp type echo", SIDES inside outside);
/// FromDump(inside.pcap) -> MarkIPHeader(14) -> [0] t [0] -> [0] f [0] -> Discard;
/// FromDump(outside.pcap) -> MarkIPHeader(14) -> [1] t [1] -> [1] f [1] -> Discard;
/// ```
///
/// # See also
/// ConnectionTracker, IPFilter, ICMPError
#[derive(Element)]
#[element(
    ports = "1-/1-",
    processing = "h/h",
    segments,
    handlers,
    take_over,
    provides(FlowUser)
)]
#[inputs("packets from the side of the same number")]
#[outputs("packets that pass, by the number of their side; after them, packets that are rejected")]
pub struct FlowFirewall {
    /// The rules.
    #[arg(positional, name = "RULES")]
    text: String,
    /// The sides' names, in the order of the inputs, of which several may be of one side; the inputs' numbers if
    /// they are not given.
    #[arg(with = words, kind = "words")]
    sides: Vec<String>,
    /// Packets of connections that were allowed by rules before the present ones.
    #[handler(read)]
    former: u64,
    /// Packets that no rule matched.
    #[handler(read)]
    unmatched: u64,
    /// Packets that were denied or rejected.
    #[handler(read)]
    denied: u64,
    rules: Rules,
    flows: FlowStates<Verdict>,
    tracker: Option<Link<dyn Tracker>>,
}

/// Words separated by spaces.
fn words(text: &str, _context: &Context<'_>) -> Result<Vec<String>, Invalid> {
    Ok(click::config::split_space(text))
}

/// What was decided on a connection.
#[derive(Clone, Copy, Default)]
struct Verdict {
    action: Option<Action>,
    /// Which rules decided, of the last 256.
    generation: u8,
    /// The rule's number.
    rule: u16,
}

const _: () = assert!(size_of::<Verdict>() == 4);

/// Bytes of memory that a rule takes while rules are compiled, and the first ones: measured, with rules of
/// two addresses, a port and some alternatives.
const RULE: usize = 4 << 10;
/// Bytes of memory of a guest without rules.
const GUEST: usize = 4 << 20;

/// Why rules are refused.
enum Refusal {
    /// A line is wrong.
    Line(Wrong),
    /// There is not enough memory for so many rules.
    NoMemory(usize),
}

impl From<Wrong> for Refusal {
    fn from(wrong: Wrong) -> Refusal {
        Refusal::Line(wrong)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Line((line, why)) => write!(f, "line {line}: {why}"),
            Refusal::NoMemory(rules) => {
                let needed = (GUEST + RULE * rules).div_ceil(1 << 20);
                write!(
                    f,
                    "there is not enough memory to compile {rules} rules; give the guest \
                     some {needed} MB, as in --memory {needed}M"
                )
            }
        }
    }
}

/// Rules, compiled.
#[derive(Default)]
struct Rules {
    /// As they were written.
    text: String,
    generation: u8,
    actions: Vec<Action>,
    lines: Vec<String>,
    hits: Vec<Hits>,
    /// A program for each side, which leads to a rule's number.
    programs: Vec<Program>,
    /// The program of each input.
    program_of: Vec<usize>,
}

/// How often a rule matched.
#[derive(Clone, Copy, Default)]
struct Hits {
    connections: u64,
    packets: u64,
}

impl Rules {
    /// Compiles a text. A mistake is told with its line.
    fn compile(
        text: &str,
        sides: &[String],
        names: &RouterNames<'_>,
        generation: u8,
    ) -> Result<Rules, Refusal> {
        // The text, its rules' lines and patterns, and what is kept of each rule.
        let lines = text.lines().count();
        if !spare(3 * text.len() + 512 * lines + RESERVE) {
            return Err(Refusal::NoMemory(lines.min(rules::RULES_MAX)));
        }
        let rules = rules::parse(text)?;
        for rule in &rules {
            if let Some(side) = rule.side.filter(|it| !sides.iter().any(|side| side == it)) {
                let mut sides: Vec<&str> = sides.iter().map(String::as_str).collect();
                sides.sort_unstable();
                // One may have several inputs.
                sides.dedup();
                let sides = sides.join(" or ");
                let why = format!("‘{side}’ is no side: write {sides}");
                return Err((rule.line, why).into());
            }
        }
        let mut compiled = Rules {
            text: text.into(),
            generation,
            actions: rules.iter().map(|rule| rule.action).collect(),
            lines: rules.iter().map(|rule| rule.text.to_string()).collect(),
            hits: alloc::vec![Hits::default(); rules.len()],
            programs: Vec::with_capacity(sides.len()),
            program_of: Vec::with_capacity(sides.len()),
        };
        for (input, side) in sides.iter().enumerate() {
            if let Some(first) = sides[..input].iter().position(|it| it == side) {
                let program = compiled.program_of[first];
                compiled.program_of.push(program);
                continue;
            }
            compiled.program_of.push(compiled.programs.len());
            let concerns = |rule: &rules::Rule<'_>| rule.side.is_none_or(|it| it == side);
            let own = (0..).zip(&rules).filter(|(_, rule)| concerns(rule));
            let texts: Vec<String> = own
                .clone()
                .map(|(number, rule): (u32, _)| format!("{number} {}", rule.pattern))
                .collect();
            let done = flow_filter(&texts, rules.len(), names).map_err(|said| {
                let first = said.into_first();
                let (rule, text) = first.map_or((None, String::new()), |it| (it.pattern, it.text));
                if text == NO_MEMORY {
                    return Refusal::NoMemory(rules.len());
                }
                let line = rule.and_then(|rule| own.clone().nth(rule));
                Refusal::Line((line.map_or(1, |(_, rule)| rule.line), text))
            })?;
            if done.program.is_cramped() {
                return Err(Refusal::NoMemory(rules.len()));
            }
            compiled.programs.push(done.program);
        }
        Ok(compiled)
    }

    /// What the rules say of a packet from a side, and which does.
    fn decide(&self, side: usize, packet: &Packet) -> Option<(Action, u16)> {
        let program = self.programs.get(*self.program_of.get(side)?)?;
        let number = program.classify_dual_stack(packet, is_ip6(packet))?;
        Some((*self.actions.get(number)?, number as u16))
    }
}

#[handlers]
impl FlowFirewall {
    /// The rules, as they were written.
    #[read]
    fn read_rules(&self) -> Result<String, HandlerError> {
        listing(|out| out.write_str(&self.rules.text))
    }

    /// Replaces the rules.
    #[write]
    fn write_rules(&mut self, cx: &mut Cx<'_>, text: &str) -> Result<(), HandlerError> {
        let generation = self.rules.generation.wrapping_add(1);
        let names = RouterNames(cx.names());
        let rules = Rules::compile(text, &self.sides, &names, generation);
        self.rules = rules.map_err(|refusal| {
            let kind = match refusal {
                Refusal::Line(_) => FailureKind::Invalid,
                Refusal::NoMemory(_) => FailureKind::NoMemory,
            };
            HandlerError::failed(kind, refusal.to_string())
        })?;
        Ok(())
    }

    /// A line for each rule: its connections and packets, and the rule.
    #[read]
    fn hits(&self) -> Result<String, HandlerError> {
        listing(|out| {
            let mut rules = self.rules.hits.iter().zip(&self.rules.lines);
            rules.try_for_each(|(hits, text)| {
                let (connections, packets) = (hits.connections, hits.packets);
                writeln!(out, "{connections} {packets} {text}")
            })
        })
    }

    /// Sets all counters to 0.
    #[write(button)]
    fn reset(&mut self) {
        self.rules.hits.fill(Hits::default());
        (self.former, self.unmatched, self.denied) = (0, 0, 0);
    }
}

impl FlowFirewall {
    /// Decides on the first packet of a connection, or on a packet of none.
    #[cold]
    fn decide(&mut self, cx: &mut Cx<'_>, side: usize, packet: &Packet) -> Action {
        let decided = self.rules.decide(side, packet);
        let (action, rule) = decided.unwrap_or((Action::Deny, u16::MAX));
        match self.rules.hits.get_mut(usize::from(rule)) {
            Some(hits) => hits.connections += 1,
            None => self.unmatched += packet.stands_for() as u64,
        }
        if let Some(verdict) = self.flows.of(packet) {
            *verdict = Verdict {
                action: Some(action),
                generation: self.rules.generation,
                rule,
            };
            if action != Action::Allow
                && let Some((tracker, flow)) = self.tracker.zip(packet.flow())
            {
                cx.reach(tracker, |tracker, _| tracker.refuse(flow));
            }
        } else if let Some(hits) = self.rules.hits.get_mut(usize::from(rule)) {
            hits.packets += packet.stands_for() as u64;
        }
        action
    }

    /// Whether a packet passes.
    #[inline]
    fn judge(&mut self, cx: &mut Cx<'_>, side: usize, packet: &Packet) -> Action {
        let known = self.flows.of(packet).and_then(|verdict| verdict.action);
        let action = match known {
            Some(action) => action,
            // What this element never saw begin.
            None if packet.is_reply() || packet.is_related() => Action::Deny,
            None => self.decide(cx, side, packet),
        };
        let packets = packet.stands_for() as u64;
        if let Some(verdict) = self.flows.of(packet) {
            if verdict.generation != self.rules.generation {
                self.former += packets;
            } else if let Some(hits) = self.rules.hits.get_mut(usize::from(verdict.rule)) {
                hits.packets += packets;
            }
        }
        if action != Action::Allow {
            self.denied += packets;
        }
        action
    }
}

impl FlowFirewall {
    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut Self) {
        let Some(tracker) = self.tracker.filter(|_| self.sides == old.sides) else {
            return;
        };
        (self.former, self.unmatched, self.denied) = (old.former, old.unmatched, old.denied);
        if self.rules.text == old.rules.text {
            core::mem::swap(&mut self.rules.hits, &mut old.rules.hits);
            self.rules.generation = old.rules.generation;
        } else {
            self.rules.generation = old.rules.generation.wrapping_add(1);
        }
        self.flows
            .take_over(cx, tracker, &mut old.flows, |_| {}, |_| {});
    }
}

impl Element for FlowFirewall {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let inputs = cx.inputs();
        if self.sides.is_empty() {
            self.sides = (0..inputs).map(|side| side.to_string()).collect();
        }
        if self.sides.len() != inputs {
            return Err(args.fail(format_args!(
                "SIDES must name {inputs} sides, one for each input"
            )));
        }
        if !(inputs..=inputs + 1).contains(&cx.outputs()) {
            return Err(args.fail(format_args!(
                "{inputs} inputs need {inputs} outputs, and may have one more for packets that are rejected"
            )));
        }
        let names = RouterNames(args.context());
        let text = core::mem::take(&mut self.text);
        self.rules = Rules::compile(&text, &self.sides, &names, 0)
            .map_err(|refusal| args.fail(format_args!("RULES: {refusal}")))?;
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.tracker = Some(self.flows.reserve_tracked(cx)?);
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        let rejected = cx.inputs() as u32;
        self.flows.prefetch(batch);
        let mut outputs = [DROP; BATCH];
        for (packet, output) in batch.iter().zip(&mut outputs) {
            *output = match self.judge(cx, port, packet) {
                Action::Allow => port as u32,
                Action::Deny => DROP,
                Action::Reject => rejected,
            };
        }
        send(cx, batch, &outputs)
    }
}

impl FlowUser for FlowFirewall {
    fn flow_ended(&mut self, _cx: &mut Cx<'_>, flow: u32) {
        self.flows.take(flow);
    }
}
