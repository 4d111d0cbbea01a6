//! What all rewriters have in common: inputs, a set of flows, limits, handlers.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use packet::wire::IpProtocol;
use router::args::read::Flags;
use router::args::{AnnoArg, Annotation, Any, Args, Context, Failed, Int, SecondsArg};
use router::{Cx, ElementId, HandlerError, HandlerList, TimerId};

use super::flow::{Annotations, Direction, Flow};
use super::input::{Action, Input};
use super::key::FlowKey;
use super::mapper;
use super::path::Scratch;
use super::set::{FlowSet, Tally};
use super::table::{Kind, SECOND, Table, Timeouts};
use super::with_base;

/// Most flows that memory is set aside for at the start; beyond that it grows.
const SET_ASIDE: usize = 1 << 20;

/// The common part of a rewriter.
pub struct Base {
    /// Its flows; lent out while another element works with them, and unused if `home` says that
    /// another element's are used.
    set: Option<Box<FlowSet>>,
    /// The element whose flows are used: `MAPPING_CAPACITY` names it.
    home: Option<ElementId>,
    /// Whether a limit was given.
    limited: bool,
    pub(super) inputs: Vec<Input>,
    /// Its tables, and the number of the first among the set's.
    tables: Vec<Table>,
    pub(super) first_table: u16,
    /// The number of its first input among the set's.
    pub(super) first_input: u16,
    reap_interval: u32,
    timer: Option<TimerId>,
    /// What it annotates.
    pub(super) annotations: Annotations,
    pub(super) scratch: Box<Scratch>,
}

impl Default for Base {
    fn default() -> Base {
        Base {
            set: Some(Box::default()),
            home: None,
            limited: false,
            inputs: Vec::new(),
            tables: Vec::new(),
            first_table: 0,
            first_input: 0,
            reap_interval: 15 * 60,
            timer: None,
            annotations: Annotations::default(),
            scratch: Box::default(),
        }
    }
}

/// The arguments of all rewriters that say how long flows live, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// `TIMEOUT`.
    pub timeout: Option<u32>,
    /// `GUARANTEE`.
    pub guarantee: Option<u32>,
}

/// The guarantee unless one is given, in seconds.
pub const GUARANTEE: u32 = 5;

/// Seconds as nanoseconds.
pub fn seconds(seconds: u32) -> u64 {
    u64::from(seconds) * SECOND
}

/// A keyword argument of seconds, if it is given.
pub fn optional_seconds(
    text: &str,
    context: &Context<'_>,
) -> Result<Option<u32>, router::args::Invalid> {
    context.parse_with(SecondsArg(0), text).map(Some)
}

/// The table of a rewriter that tells no states apart, its timeout `timeout` seconds unless
/// another is given.
pub fn addresses_table(times: Times, timeout: u32) -> Vec<Table> {
    let timeout = seconds(times.timeout.unwrap_or(timeout));
    alloc::vec![Table {
        kind: Kind::Plain,
        timeouts: Timeouts {
            guarantee: seconds(times.guarantee.unwrap_or(GUARANTEE)),
            plain: timeout,
            active: timeout,
            done: timeout,
        },
    }]
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

/// Handlers that a rewriter has besides those all have; most have none.
pub trait ExtraHandlers {
    /// Lists them.
    fn extra_handlers(&self, list: &mut HandlerList) {
        let _ = list;
    }

    /// Reads one; `None` if `name` is none of them.
    fn read_extra(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        parameter: &str,
    ) -> Option<Result<String, HandlerError>> {
        let _ = (cx, name, parameter);
        None
    }
}

/// A rewriter that others ask what it does.
pub trait Translate {
    /// What the packets of `key` become, if there is a mapping for them.
    fn translate(
        &mut self,
        cx: &mut Cx<'_>,
        protocol: IpProtocol,
        key: FlowKey,
    ) -> Option<Translation>;

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

/// Configuring.
impl Base {
    /// Takes `DST_ANNO`, where the class has it, and `REPLY_ANNO`.
    pub fn configure_annotations(
        &mut self,
        args: &mut Args<'_>,
        destination: bool,
    ) -> Result<(), Failed> {
        let mut reply: Option<Annotation> = None;
        let anno =
            |text: &str, context: &Context<'_>| context.parse_with(AnnoArg(1), text).map(Some);
        let read = args.read().keyword_with("REPLY_ANNO", anno, &mut reply);
        if destination {
            read.keyword("DST_ANNO", &mut self.annotations.destination)
                .consume()?;
        } else {
            read.consume()?;
        }
        self.annotations.reply = reply.map(|annotation| annotation.offset);
        Ok(())
    }

    /// Takes what all rewriters have: limits and the inputs. Whoever has other keywords consumes
    /// them before.
    pub fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<Times, Failed> {
        let (mut capacity, mut mapping_capacity) = (String::new(), String::new());
        let mut times = Times::default();
        let mut reap_time = None;
        args.read()
            .keyword_with("CAPACITY", Any, &mut capacity)
            .keyword_with("MAPPING_CAPACITY", Any, &mut mapping_capacity)
            .keyword_with("TIMEOUT", optional_seconds, &mut times.timeout)
            .keyword_with("GUARANTEE", optional_seconds, &mut times.guarantee)
            .keyword_with("REAP_INTERVAL", SecondsArg(0), &mut self.reap_interval)
            .arg(
                "REAP_TIME",
                Flags::KEYWORD | Flags::DEPRECATED,
                optional_seconds,
                &mut reap_time,
            )
            .consume()?;
        self.reap_interval = reap_time.unwrap_or(self.reap_interval);
        if !mapping_capacity.is_empty() {
            capacity = mapping_capacity;
        }
        if !capacity.is_empty() {
            self.set_limit(cx, args, &capacity)?;
        }
        self.configure_inputs(cx, args)?;
        Ok(times)
    }

    fn set_limit(&mut self, cx: &mut Cx<'_>, args: &Args<'_>, text: &str) -> Result<(), Failed> {
        let context = args.context();
        if let Ok(number) = context.parse_with(Int::ANY, text) {
            let number: i32 = number;
            if let Some(set) = &mut self.set {
                set.set_capacity(number.max(0));
                self.limited = true;
            }
            return Ok(());
        }
        let element = context.find_element(text);
        let element = element.map(|(index, _)| ElementId::new(index));
        match element.filter(|id| with_base(cx, *id, |_, _| ()).is_some()) {
            Some(id) => self.home = Some(id),
            None => return Err(args.fail("bad MAPPING_CAPACITY")),
        }
        Ok(())
    }

    fn configure_inputs(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let specs = args.take_raw();
        let inputs = cx.inputs();
        if specs.len() != inputs {
            let error = format!("need {inputs} arguments, one per input port");
            return Err(args.fail(error));
        }
        for (number, text) in specs.iter().enumerate() {
            let input = Input::parse(text, cx.outputs(), &args.context());
            match input.and_then(|resolve| resolve(cx)) {
                Ok(input) => self.inputs.push(input),
                Err(error) => args.error_in(format_args!("input spec {number}"), error),
            }
        }
        args.finish()
    }

    /// Takes the element's tables.
    pub fn set_tables(&mut self, tables: Vec<Table>) {
        self.tables = tables;
    }

    /// Takes its place in the set of flows.
    pub fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        // Follow the chain of elements that share to the one whose flows they are.
        let mut steps = 0;
        while let Some(home) = self.home
            && let Some(Some(next)) = with_base(cx, home, |base, _| base.home)
        {
            self.home = Some(next);
            steps += 1;
            if steps > cx.graph().elements.len() {
                return Err(cx.error("MAPPING_CAPACITY leads round in a circle"));
            }
        }
        if self.home == Some(cx.id()) {
            return Err(cx.error("MAPPING_CAPACITY leads round in a circle"));
        }
        for (number, input) in self.inputs.iter().enumerate() {
            if let Action::Mapper(id) = input.action
                && let Err(error) = mapper::check(cx, id, cx.outputs())
            {
                return Err(cx.error(format_args!("input spec {number}: {error}")));
            }
        }
        let Some(mut set) = self.take_set(cx) else {
            return Err(cx.error("MAPPING_CAPACITY leads nowhere"));
        };
        set.seed([cx.random().next_u64(), cx.random().next_u64()]);
        self.first_table = set.tables.len() as u16;
        set.tables.extend(&self.tables);
        self.first_input = set.tallies.len() as u16;
        let tally = |number| Tally {
            number,
            ..Tally::default()
        };
        set.tallies.extend((0..self.inputs.len() as u16).map(tally));
        if self.limited {
            let flows = (set.capacity() as usize).saturating_add(1).min(SET_ASIDE);
            if set.reserve(flows).is_err() {
                cx.warning(format_args!(
                    "no memory for {flows} mappings: lower MAPPING_CAPACITY, or give a guest more \
                     memory, as in --memory 32M"
                ));
            }
        }
        self.put_set(cx, set);
        let timer = cx.timer();
        if self.reap_interval > 0 {
            cx.schedule_after(timer, seconds(self.reap_interval));
        }
        self.timer = Some(timer);
        Ok(())
    }

    /// Ends flows whose time is up: the element's timer expired.
    pub fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let now = cx.steady().0;
        self.with_set(cx, |set, _| set.reap(now));
        if self.reap_interval > 0 {
            cx.schedule_after(timer, seconds(self.reap_interval));
        }
    }
}

/// The set of flows.
impl Base {
    /// Takes the set, wherever it is. It is to be put back before anything else happens.
    pub(super) fn take_set(&mut self, cx: &mut Cx<'_>) -> Option<Box<FlowSet>> {
        match self.home {
            None => self.set.take(),
            Some(home) => with_base(cx, home, |base, _| base.set.take()).flatten(),
        }
    }

    /// Puts the set back.
    pub(super) fn put_set(&mut self, cx: &mut Cx<'_>, set: Box<FlowSet>) {
        match self.home {
            None => self.set = Some(set),
            Some(home) => {
                with_base(cx, home, |base, _| base.set = Some(set));
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
        let changed = self.with_set(cx, |set, base| {
            let entry = set.find(base.first_table + table, key)?;
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
        self.with_set(cx, |set, base| {
            let entry = set.find(base.first_table + table, key)?;
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
        self.with_set(cx, |set, base| {
            let entry = set.find(base.first_table + table, key)?;
            Some((set.flow(entry.flow())?.clone(), entry.direction()))
        })
        .flatten()
    }
}
