//! The handlers that all rewriters have.

use super::base::Base;
use super::flow::{Direction, Flow};
use super::input::{Action, Input};
use super::sequence::Sequences;
use super::set::{FlowSet, Tally};
use super::table::SECOND;
use crate::prelude::*;

#[handlers]
impl Base {
    /// Present mappings that this element made.
    #[read(alias = "nmappings")]
    fn table_size(&mut self, cx: &mut Cx<'_>) -> Result<u64, HandlerError> {
        self.sum(cx, |tally| tally.flows)
    }

    /// Mappings that could not be made.
    #[read]
    fn mapping_failures(&mut self, cx: &mut Cx<'_>) -> Result<u64, HandlerError> {
        self.sum(cx, |tally| tally.failures)
    }

    /// The inputs' specifications, with the numbers of mappings they made.
    #[read]
    fn patterns(&mut self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        self.examine(cx, |set, base| base.show_inputs(set, None))
    }

    /// Mappings of all elements that share the limit.
    #[read]
    fn size(&mut self, cx: &mut Cx<'_>) -> Result<usize, HandlerError> {
        self.examine(cx, |set, _| set.len())
    }

    /// The limit.
    #[read]
    fn read_capacity(&mut self, cx: &mut Cx<'_>) -> Result<i32, HandlerError> {
        self.examine(cx, |set, _| set.capacity())
    }

    /// The limit.
    #[write]
    fn set_capacity(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        let mut capacity = 0;
        router::parse_words(cx, value, |args| {
            let read = args.read();
            read.mandatory_positional("CAPACITY", &mut capacity)
                .complete()
        })?;
        let capacity: i32 = capacity;
        let now = cx.steady().0;
        self.with_set(cx, |set, _| {
            set.set_capacity(capacity.max(0));
            set.reap(now);
        });
        Ok(())
    }

    /// Ends all mappings.
    #[write]
    fn clear(&mut self, cx: &mut Cx<'_>) {
        self.with_set(cx, |set, _| set.clear());
    }
}

impl DynamicHandlers for Base {
    fn list_dynamic(&self, list: &mut HandlerList) {
        for number in 0..self.inputs.len() {
            list.read_write(format!("pattern{number}"));
        }
    }

    fn read_dynamic(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        _parameter: &str,
    ) -> Result<String, HandlerError> {
        let number = self.input_number(name)?;
        self.examine(cx, |set, base| base.show_inputs(set, Some(number)))
    }

    /// Gives an input something else to do. Flows that it made end.
    fn write_dynamic(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let number = self.input_number(name)?;
        let text = click::config::uncomment(value);
        let input = Input::parse(&text, cx, &cx.names())
            .map_err(|error| format!("input spec {number}: {error}"))?;
        let id = self.first_input + number as u16;
        self.with_set(cx, |set, _| {
            set.end_of(id);
            set.forget_exhausted();
            if let Some(tally) = set.tallies.get_mut(usize::from(id)) {
                *tally = Tally {
                    number: tally.number,
                    ..Tally::default()
                };
            }
        });
        self.inputs[number] = input;
        Ok(())
    }
}

impl Base {
    /// The input whose handler is called `name`.
    fn input_number(&self, name: &str) -> Result<usize, HandlerError> {
        let number = name.strip_prefix("pattern").and_then(|n| n.parse().ok());
        let number = number.filter(|number| *number < self.inputs.len());
        number.ok_or(HandlerError::Unknown)
    }

    /// Reads from the set of flows; without a set the handler is unknown.
    fn examine<R>(
        &mut self,
        cx: &mut Cx<'_>,
        look: impl FnOnce(&FlowSet, &Base) -> R,
    ) -> Result<R, HandlerError> {
        let seen = self.with_set(cx, |set, base| look(set, base));
        seen.ok_or(HandlerError::Unknown)
    }

    /// The sum over the element's inputs.
    fn sum(&mut self, cx: &mut Cx<'_>, part: fn(&Tally) -> u32) -> Result<u64, HandlerError> {
        self.examine(cx, |set, base| {
            let tallies = base.tallies(set).iter();
            tallies.map(|tally| u64::from(part(tally))).sum()
        })
    }

    fn tallies<'s>(&self, set: &'s FlowSet) -> &'s [Tally] {
        let first = usize::from(self.first_input);
        set.tallies
            .get(first..first + self.inputs.len())
            .unwrap_or_default()
    }

    fn show_inputs(&self, set: &FlowSet, only: Option<usize>) -> String {
        let mut text = String::new();
        for (number, (input, tally)) in self.inputs.iter().zip(self.tallies(set)).enumerate() {
            if only.is_some_and(|only| only != number) {
                continue;
            }
            text += &match &input.action {
                Action::Drop => "<drop>".to_string(),
                Action::Pass(_) => "<nochange>".to_string(),
                Action::Keep => "<keep>".to_string(),
                Action::Pattern(pattern) => pattern.to_string(),
                Action::Mapper(_) => "<mapper>".to_string(),
            };
            if tally.flows > 0 {
                text += &format!(" [{}]", tally.flows);
            }
            text += "\n";
        }
        text
    }

    /// Shows the flows of the element's `table`th table, a line for each direction, its packets as
    /// `show` has them.
    pub fn show_table(
        &mut self,
        cx: &mut Cx<'_>,
        table: u16,
        show: impl Fn(&Flow, Direction, &Sequences) -> String,
    ) -> String {
        let now = cx.steady().0;
        let mut text = String::new();
        self.with_set(cx, |set, base| {
            let own = |flow: &Flow| base.is_table(flow.table, table);
            for (_, flow) in set.iter().filter(|(_, flow)| own(flow)) {
                let itself = flow.key(Direction::Forward) == flow.key(Direction::Reply);
                for direction in [Direction::Forward, Direction::Reply] {
                    if itself && direction == Direction::Forward {
                        continue;
                    }
                    text += &show(flow, direction, &set.sequences);
                    text += &show_ports(set, flow, direction, now);
                }
            }
        });
        text
    }
}

fn show_ports(set: &FlowSet, flow: &Flow, direction: Direction, now: u64) -> String {
    let [forward, reply] = flow.outputs;
    let (a, b) = match direction {
        Direction::Forward => ("*", ""),
        Direction::Reply => ("", "*"),
    };
    let tally = set.tallies.get(usize::from(flow.input));
    let input = tally.map_or(0, |tally| tally.number);
    let left = set.expires(flow) as i64 - now as i64;
    let left = left.saturating_add(SECOND as i64 / 2) / SECOND as i64;
    format!(" [{a}{forward} {b}{reply}] i{input} exp{left}\n")
}
