//! The handlers that all rewriters have.

use alloc::format;
use alloc::string::{String, ToString};

use router::args::Int;
use router::{Cx, HandlerError, HandlerFlags, HandlerList};

use super::base::Base;
use super::flow::{Direction, Flow};
use super::input::{Action, Input};
use super::sequence::Sequences;
use super::set::{FlowSet, Tally};
use super::table::SECOND;

impl Base {
    /// Lists the handlers that every rewriter has.
    pub fn handlers(&self, list: &mut HandlerList) {
        list.read("table_size")
            .add(
                "nmappings",
                HandlerFlags::READ.with(HandlerFlags::DEPRECATED),
            )
            .read("mapping_failures")
            .read("patterns")
            .read("size")
            .read_write("capacity")
            .button("clear");
        for number in 0..self.inputs.len() {
            list.read_write(format!("pattern{number}"));
        }
    }

    /// Lists a handler that shows a table, and its former name.
    pub fn table_handler(list: &mut HandlerList, name: &'static str, old: &'static str) {
        list.read(name)
            .add(old, HandlerFlags::READ.with(HandlerFlags::DEPRECATED));
    }

    fn tallies<'s>(&self, set: &'s FlowSet) -> &'s [Tally] {
        let first = usize::from(self.first_input);
        set.tallies
            .get(first..first + self.inputs.len())
            .unwrap_or_default()
    }

    /// Reads a handler that every rewriter has.
    pub fn read(&mut self, cx: &mut Cx<'_>, name: &str) -> Result<String, HandlerError> {
        let only = match name.strip_prefix("pattern") {
            Some("s") => None,
            Some(number) => match number.parse::<usize>() {
                Ok(number) if number < self.inputs.len() => Some(number),
                _ => return Err(HandlerError::Unknown),
            },
            None => None,
        };
        let text = self.with_set(cx, |set, base| {
            let sum = |part: fn(&Tally) -> u32| {
                let tallies = base.tallies(set).iter();
                tallies.map(|t| u64::from(part(t))).sum::<u64>().to_string()
            };
            Some(match name {
                "table_size" | "nmappings" => sum(|tally| tally.flows),
                "mapping_failures" => sum(|tally| tally.failures),
                "size" => set.len().to_string(),
                "capacity" => set.capacity().to_string(),
                _ if name.starts_with("pattern") => base.show_inputs(set, only),
                _ => return None,
            })
        });
        text.flatten().ok_or(HandlerError::Unknown)
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

    /// Writes a handler that every rewriter has.
    pub fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let now = cx.steady().0;
        match name {
            "capacity" => {
                let capacity = cx.names().parse_with(Int::ANY, value.trim());
                let capacity: i32 = capacity.map_err(|_| "CAPACITY: expected integer")?;
                self.with_set(cx, |set, _| {
                    set.set_capacity(capacity.max(0));
                    set.reap(now);
                });
                Ok(())
            }
            "clear" => {
                self.with_set(cx, |set, _| set.clear());
                Ok(())
            }
            _ => self.write_pattern(cx, name, value),
        }
    }

    /// Gives an input something else to do. Flows that it made end.
    fn write_pattern(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let number = name.strip_prefix("pattern").and_then(|n| n.parse().ok());
        let number: usize = number
            .filter(|number| *number < self.inputs.len())
            .ok_or(HandlerError::Unknown)?;
        let text = click::config::uncomment(value);
        let input = Input::parse(&text, cx.outputs(), &cx.names())
            .and_then(|resolve| resolve(cx))
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
            let table = base.first_table + table;
            for (_, flow) in set.iter().filter(|(_, flow)| flow.table == table) {
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
