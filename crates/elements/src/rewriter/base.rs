//! What all rewriters have in common: inputs, a set of flows, limits, handlers.

use super::flow::{Annotations, Direction, Flow};
use super::input::{Action, Input};
use super::key::FlowKey;
use super::mapper;
use super::scratch::Scratch;
use super::set::{FlowSet, Tally};
use super::table::{Kind, SECOND, Table, Timeouts};
use crate::prelude::*;

/// Most flows that memory is set aside for at the start; beyond that it grows.
const SET_ASIDE: usize = 1 << 20;

/// The common part of a rewriter: the last field of its struct, since the arguments that no other
/// field takes are its inputs.
#[derive(Component)]
#[component(handlers, dynamic)]
pub struct Base {
    /// How often mappings whose time is up are removed; 0: never.
    #[arg(default = Seconds(15 * 60), default_text = "15 minutes")]
    reap_interval: Seconds,
    /// The same as REAP_INTERVAL.
    #[arg(deprecated)]
    reap_time: Option<Seconds>,
    /// Most mappings, or another rewriter to share the mappings' memory and limit with. Memory for
    /// that many mappings, up to 2^20, is set aside at the start.
    #[arg(with = Any, kind = "integer or element", default_text = "2147483647")]
    mapping_capacity: String,
    /// The same as MAPPING_CAPACITY.
    #[arg(name = "CAPACITY", with = Any, kind = "integer or element")]
    capacity_argument: String,
    /// An annotation that replies copy from the first packet of their flow.
    #[arg]
    reply_anno: Option<AnnoOf<1>>,
    /// Whether the aggregate annotation of a mapping's packets becomes the mapping's number: 0 for
    /// the first mapping that was made, then 1.
    #[arg]
    set_aggregate: bool,
    /// Accepted and ignored: all threads share the mappings.
    #[arg]
    handle_migration: bool,
    /// Treatment of packets without a mapping.
    #[arg(rest, name = "INPUTSPEC", kind = "specification, one for each input")]
    specifications: Vec<String>,
    /// Its flows; lent out while another element works with them, and unused if `shared` says that
    /// another element's are used.
    #[init(Some(Box::default()))]
    set: Option<Box<FlowSet>>,
    /// The element whose flows are used: `MAPPING_CAPACITY` names it.
    shared: Option<Link<dyn Rewriter>>,
    /// Whether a limit was given.
    limited: bool,
    pub(super) inputs: Vec<Input>,
    /// Its tables, and the number of the first among the set's.
    tables: Vec<Table>,
    first_table: u16,
    /// Threads with tables of their own, which follow each other; 0 if all share the same.
    own_tables: u16,
    /// The number of its first input among the set's.
    pub(super) first_input: u16,
    timer: Option<TimerId>,
    /// What it annotates.
    pub(super) annotations: Annotations,
    pub(super) scratch: Box<Scratch>,
}

/// The guarantee unless one is given.
pub const GUARANTEE: Seconds = Seconds(5);

/// Seconds as nanoseconds.
pub fn nanoseconds(seconds: Seconds) -> u64 {
    u64::from(seconds.0) * SECOND
}

/// What a rewriter does to the packets of a key.
#[derive(Clone, Copy, Debug)]
pub struct Translation {
    /// What the key becomes.
    pub key: FlowKey,
    /// Which way the packets go.
    pub direction: Direction,
    /// The rewriter's output.
    pub output: u16,
    /// The annotation of replies.
    pub annotation: u8,
}

impl Translation {
    /// The translation by `flow` to `key`.
    pub fn new(flow: &Flow, direction: Direction, key: FlowKey) -> Translation {
        Translation {
            key,
            direction,
            output: flow.outputs[direction as usize],
            annotation: flow.reply_annotation,
        }
    }
}

/// A rewriter, as other elements use it.
pub trait Rewriter {
    /// The common part.
    fn base(&mut self) -> &mut Base;

    /// What the packets of `key` become, if there is a mapping for them: in the first table, unless
    /// the element has several.
    fn translate(
        &mut self,
        cx: &mut Cx<'_>,
        protocol: IpProtocol,
        key: FlowKey,
    ) -> Option<Translation> {
        self.base().translate(cx, 0, protocol, key)
    }

    /// As [`translate`](Self::translate), of a flow with ports; if it has no mapping, one is made
    /// as if a packet had come by input `port`.
    fn obtain(
        &mut self,
        cx: &mut Cx<'_>,
        protocol: IpProtocol,
        key: FlowKey,
        port: usize,
    ) -> Option<Translation> {
        let _ = port;
        self.translate(cx, protocol, key)
    }
}

impl Interface for dyn Rewriter {
    const NAME: &'static str = "IPRewriterBase";
}

/// A rewriter whose first table holds TCP connections.
pub trait Connections: Rewriter {}

impl Interface for dyn Connections {
    const NAME: &'static str = "TCPRewriter";
}

/// Configuring.
impl Base {
    /// Completes the arguments. The element has these `tables`, and sets the destination address
    /// annotation if `annotate` says so.
    pub fn configured(
        &mut self,
        cx: &mut Cx<'_>,
        args: &Args<'_>,
        annotate: bool,
        tables: Vec<Table>,
    ) -> Result<(), Failed> {
        self.tables = tables;
        self.annotations = Annotations {
            destination: annotate,
            reply: self.reply_anno.map(|anno| anno.offset() as u8),
            aggregate: self.set_aggregate,
        };
        self.reap_interval = self.reap_time.unwrap_or(self.reap_interval);
        self.set_limit(cx, args)?;
        self.configure_inputs(cx, args)
    }

    /// As [`configured`](Self::configured), for a rewriter with one table that tells no states of
    /// flows apart.
    pub fn configured_plain(
        &mut self,
        cx: &mut Cx<'_>,
        args: &Args<'_>,
        annotate: bool,
        (timeout, guarantee): (Seconds, Seconds),
    ) -> Result<(), Failed> {
        let timeout = nanoseconds(timeout);
        let table = Table {
            kind: Kind::Plain,
            timeouts: Timeouts {
                guarantee: nanoseconds(guarantee),
                plain: timeout,
                active: timeout,
                done: timeout,
            },
        };
        self.configured(cx, args, annotate, alloc::vec![table])
    }

    fn set_limit(&mut self, cx: &Cx<'_>, args: &Args<'_>) -> Result<(), Failed> {
        let given = [&self.mapping_capacity, &self.capacity_argument];
        let Some(text) = given.into_iter().find(|text| !text.is_empty()) else {
            return Ok(());
        };
        let context = args.context();
        if let Ok(number) = context.parse::<i32>(text) {
            if let Some(set) = &mut self.set {
                set.set_capacity(number.max(0));
                self.limited = true;
            }
            return Ok(());
        }
        let link = context.parse::<Link<dyn Rewriter>>(text).ok();
        self.shared = link.filter(|link| link.id() != cx.id());
        match self.shared {
            Some(_) => Ok(()),
            None => Err(args.fail("bad MAPPING_CAPACITY")),
        }
    }

    fn configure_inputs(&mut self, cx: &Cx<'_>, args: &Args<'_>) -> Result<(), Failed> {
        let inputs = cx.inputs();
        if self.specifications.len() != inputs {
            let error = format!("need {inputs} arguments, one per input port");
            return Err(args.fail(error));
        }
        for (number, text) in self.specifications.iter().enumerate() {
            match Input::parse(text, cx, &args.context()) {
                Ok(input) => self.inputs.push(input),
                Err(error) => args.error_in(format_args!("input spec {number}"), error),
            }
        }
        args.finish()
    }

    /// Takes its place in the set of flows.
    pub fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        // Follow the chain of elements that share to the one whose flows they are.
        let mut steps = 0;
        while let Some(shared) = self.shared
            && let Some(Some(next)) = cx.reach(shared, |rewriter, _| rewriter.base().shared)
        {
            self.shared = Some(next);
            steps += 1;
            if steps > cx.graph().elements.len() {
                return Err(cx.error("MAPPING_CAPACITY leads round in a circle"));
            }
        }
        if self.shared.is_some_and(|link| link.id() == cx.id()) {
            return Err(cx.error("MAPPING_CAPACITY leads round in a circle"));
        }
        for (number, input) in self.inputs.iter().enumerate() {
            let Action::Mapper(mapper) = input.action else {
                continue;
            };
            if let Err(error) = mapper::check(cx, mapper, cx.outputs()) {
                return Err(cx.error(format_args!("input spec {number}: {error}")));
            }
            if cx.threads() > 1 && mapper::is_per_thread(cx, mapper) {
                self.own_tables = cx.threads();
            }
        }
        let Some(mut set) = self.take_set(cx) else {
            return Err(cx.error("MAPPING_CAPACITY leads nowhere"));
        };
        set.seed([cx.random().next_u64(), cx.random().next_u64()]);
        self.first_table = set.tables.len() as u16;
        for _ in 0..self.own_tables.max(1) {
            set.tables.extend(&self.tables);
        }
        self.first_input = set.tallies.len() as u16;
        let tally = |number| Tally {
            number,
            ..Tally::default()
        };
        set.tallies.extend((0..self.inputs.len() as u16).map(tally));
        if self.limited {
            let flows = (set.capacity() as usize).saturating_add(1).min(SET_ASIDE);
            if set.reserve(flows).is_err()
                || self.set_aggregate && set.reserve_counts(flows).is_err()
            {
                cx.warning(format_args!(
                    "no memory for {flows} mappings: lower MAPPING_CAPACITY, or give a guest more \
                     memory, as in --memory 32M"
                ));
            }
        }
        self.put_set(cx, set);
        let timer = cx.timer();
        if self.reap_interval.0 > 0 {
            cx.schedule_after(timer, nanoseconds(self.reap_interval));
        }
        self.timer = Some(timer);
        Ok(())
    }

    /// Ends flows whose time is up: the element's timer expired.
    pub fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let now = cx.steady().0;
        self.with_set(cx, |set, _| set.reap(now));
        if self.reap_interval.0 > 0 {
            cx.schedule_after(timer, nanoseconds(self.reap_interval));
        }
    }
}

/// The set of flows.
impl Base {
    /// Takes the set, wherever it is. It is to be put back before anything else happens.
    pub(super) fn take_set(&mut self, cx: &mut Cx<'_>) -> Option<Box<FlowSet>> {
        match self.shared {
            None => self.set.take(),
            Some(link) => cx.reach(link, |owner, _| owner.base().set.take()).flatten(),
        }
    }

    /// Puts the set back.
    pub(super) fn put_set(&mut self, cx: &mut Cx<'_>, set: Box<FlowSet>) {
        match self.shared {
            None => self.set = Some(set),
            Some(link) => {
                cx.reach(link, |owner, _| owner.base().set = Some(set));
            }
        }
    }

    /// Works with the set.
    pub fn with_set<R>(
        &mut self,
        cx: &mut Cx<'_>,
        work: impl FnOnce(&mut FlowSet, &mut Base) -> R,
    ) -> Option<R> {
        let mut set = self.take_set(cx)?;
        let result = work(&mut set, self);
        self.put_set(cx, set);
        Some(result)
    }

    /// The number of the element's `table`th table among the set's, for the packets at hand.
    #[inline]
    pub(super) fn table(&self, cx: &Cx<'_>, table: u16) -> u16 {
        let first = match self.own_tables {
            0 => self.first_table,
            threads => self.first_table + cx.origin() % threads * self.tables.len() as u16,
        };
        first + table
    }

    /// Whether `number` is that of the element's `table`th table among the set's, for any packets.
    pub(super) fn is_table(&self, number: u16, table: u16) -> bool {
        let (each, all) = (self.tables.len() as u16, self.own_tables.max(1));
        let own = number.checked_sub(self.first_table);
        own.is_some_and(|own| own < each * all && own % each == table)
    }

    /// What the packets of `key` and `protocol` become by the element's `table`th table.
    pub fn translate(
        &mut self,
        cx: &mut Cx<'_>,
        table: u16,
        protocol: IpProtocol,
        key: FlowKey,
    ) -> Option<Translation> {
        let (flow, direction) = self.lookup(cx, table, key)?;
        let rewritten = flow.rewritten(direction);
        (flow.protocol == protocol.0).then(|| Translation::new(&flow, direction, rewritten))
    }

    /// Lets sequence numbers of the packets of `key`, in the element's `table`th table, differ by
    /// `by` from number `from` on.
    pub fn change_sequence(
        &mut self,
        cx: &mut Cx<'_>,
        table: u16,
        key: FlowKey,
        from: u32,
        by: u32,
    ) -> bool {
        let table = self.table(cx, table);
        let changed = self.with_set(cx, |set, _| {
            let entry = set.find(table, key)?;
            let (flow, sequences) = set.flow_and_sequences(entry.flow())?;
            Some(sequences.change(&mut flow.extra, entry.direction(), from, by))
        });
        changed.flatten().unwrap_or(false)
    }

    /// Gives the replies of the flow of `key`, in the element's `table`th table, an annotation.
    pub fn set_reply_annotation(
        &mut self,
        cx: &mut Cx<'_>,
        table: u16,
        key: FlowKey,
        annotation: u8,
    ) {
        let table = self.table(cx, table);
        self.with_set(cx, |set, _| {
            let entry = set.find(table, key)?;
            set.flow_mut(entry.flow())?.reply_annotation = annotation;
            Some(())
        });
    }

    /// The flow of `key` in the element's `table`th table.
    pub fn lookup(
        &mut self,
        cx: &mut Cx<'_>,
        table: u16,
        key: FlowKey,
    ) -> Option<(Flow, Direction)> {
        let table = self.table(cx, table);
        self.with_set(cx, |set, _| {
            let entry = set.find(table, key)?;
            Some((set.flow(entry.flow())?.clone(), entry.direction()))
        })
        .flatten()
    }
}
