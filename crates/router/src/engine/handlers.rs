//! The handlers that every element and every router has.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt::Write;

use super::{Cx, Engine};
use crate::args::{Args, Elements, Message, Severity};
use crate::graph::Graph;
use crate::handler::{HandlerError, HandlerFlags, HandlerList, HandlerSpec};
use crate::scheduler::task::NO_THREAD;
use crate::topology::ElementId;

/// What the `version` handler says: the version of the language and library that this follows.
pub const VERSION: &str = "2.1";

const CALM: HandlerFlags = HandlerFlags::READ.with(HandlerFlags::CALM);

fn global_handlers() -> HandlerList {
    let mut list = HandlerList::default();
    for name in [
        "version",
        "driver",
        "config",
        "flatconfig",
        "requirements",
        "handlers",
        "list",
    ] {
        list.read(name);
    }
    list.write("stop");
    list.read("active_ports").read("active_port_stats");
    list.read("element_counts").button("reset_counts");
    list.read("classes").read("packages");
    list.read("threads").read("thread_drops");
    list
}

impl Engine {
    /// The handlers of an element, or with `None` of the router.
    pub fn handlers(&self, element: Option<ElementId>) -> Vec<HandlerSpec> {
        let Some(id) = element else {
            let mut list = global_handlers();
            self.runtime.embedding.handlers(&mut list);
            return list.specs;
        };
        let mut list = HandlerList::default();
        list.add("name", CALM)
            .add("class", CALM)
            .add("config", CALM)
            .add("ports", CALM)
            .add("handlers", CALM);
        if let Some(element) = self.elements.get(id) {
            if element.can_live_reconfigure() {
                list.write("config");
            }
            element.handlers(&mut list);
        } else if let Some(hearing) = self.hearing.as_ref().filter(|h| h.element == id) {
            list.specs.extend(hearing.handlers.iter().cloned());
        }
        list.specs
    }

    pub fn handler(&self, element: Option<ElementId>, name: &str) -> Option<HandlerFlags> {
        let specs = self.handlers(element);
        let named = |wanted: &str| specs.iter().find(|s| s.name == wanted).map(|s| s.flags);
        // An element that answers to any name lists `*`.
        named(name).or_else(|| named("*"))
    }

    /// A handler's name with its element's.
    fn handler_name(&self, element: Option<ElementId>, name: &str) -> String {
        match element {
            Some(id) => alloc::format!("{}.{name}", self.name(id)),
            None => name.to_string(),
        }
    }

    /// Reads a handler.
    pub fn read_handler(
        &mut self,
        element: Option<ElementId>,
        name: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        if !parameter.is_empty()
            && let Some(flags) = self.handler(element, name)
            && !flags.has(HandlerFlags::PARAMETER)
        {
            let name = self.handler_name(element, name);
            let text = alloc::format!("read handler ‘{name}’ does not take parameters");
            return Err(HandlerError::Failed(text));
        }
        let alone =
            element.is_some_and(|id| !self.threads.is_elsewhere(id)) && parameter.is_empty();
        if self.threads.is_partial() && !alone {
            return self.whole(|engine| engine.read_handler(element, name, parameter));
        }
        let Some(id) = element else {
            return self.read_global(name, parameter);
        };
        let base = self.walk.height();
        let read = self.with(id, |element, cx| element.read(cx, name, parameter));
        // Else an element is at work, and its caller runs the stack when it is back.
        let outermost = self.elements.is_idle();
        if outermost {
            self.run_stack(base);
        }
        let busy = read.is_none();
        match read {
            None | Some(Err(HandlerError::Unknown)) => {}
            Some(answer) => return answer,
        }
        match name {
            "name" => Ok(self.name(id).to_string()),
            "class" => Ok(self.graph.info(id).class.name.to_string()),
            "config" => Ok(self.config(id).to_string()),
            "ports" => Ok(self.ports_text(id)),
            // Click lists an element's handlers from the last to the first.
            "handlers" => Ok(handlers_text(self.handlers(element).iter().rev())),
            "scheduled" | "tickets" | "home_thread" => self.read_task(id, name),
            _ if busy => Err("the element is at work: its handlers cannot be read".into()),
            _ => Err(HandlerError::Unknown),
        }
    }

    /// Writes a handler.
    pub fn write_handler(
        &mut self,
        element: Option<ElementId>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        if self.threads.is_partial() {
            return self.whole(|engine| engine.write_handler(element, name, value));
        }
        let Some(id) = element else {
            return self.write_global(name, value);
        };
        let base = self.walk.height();
        // Else an element is at work, and its caller runs the stack when it is back.
        let outermost = self.elements.is_idle();
        let written = self.with_change(id, |engine| {
            engine.with(id, |element, cx| element.write(cx, name, value))
        });
        if outermost {
            self.run_stack(base);
        }
        match written {
            Some(Err(HandlerError::Unknown)) => {}
            Some(answer) => return answer,
            None => match &mut self.hearing {
                Some(hearing) if hearing.element == id => {
                    hearing.heard.push((name.to_string(), value.to_string()));
                    return Ok(());
                }
                _ => return Err("the element is at work: its handlers cannot be written".into()),
            },
        }
        match name {
            "config" => self.reconfigure(id, value),
            "scheduled" | "tickets" | "home_thread" => self.write_task(id, name, value),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn read_global(&mut self, name: &str, parameter: &str) -> Result<String, HandlerError> {
        let mut text = String::new();
        let lines = |text: &mut String, items: &mut dyn Iterator<Item = &str>| {
            for item in items {
                text.push_str(item);
                text.push('\n');
            }
        };
        match name {
            "version" => text.push_str(VERSION),
            "driver" => text.push_str(self.runtime.embedding.driver()),
            "config" => text.push_str(&self.graph.source),
            "flatconfig" => text = self.flat_config(),
            "requirements" => {
                let requirements = &self.graph.flat.requirements;
                lines(
                    &mut text,
                    &mut requirements.iter().map(|r| r.value.as_str()),
                );
            }
            "handlers" => text = handlers_text(self.handlers(None).iter()),
            "element_counts" => {
                let counts = self.packet_counts();
                let elements = self.graph.elements.iter().zip(counts);
                for (info, packets) in elements {
                    let _ = writeln!(text, "{}\t{}\t{packets}", info.name, info.class.name);
                }
            }
            "list" => {
                let _ = writeln!(text, "{}", self.graph.elements.len());
                let elements = &self.graph.elements;
                lines(&mut text, &mut elements.iter().map(|e| e.name.as_str()));
            }
            "classes" => lines(&mut text, &mut self.library.iter().map(|class| class.name)),
            "threads" => text = self.threads.count.to_string(),
            "thread_drops" => text = self.threads.drops().to_string(),
            // Elements are linked in: there is nothing to load.
            "packages" => {}
            "active_ports" | "active_port_stats" => {
                self.walk.flush_counts();
                text = self.active_ports(name == "active_ports")
            }
            _ => return self.runtime.embedding.read(name, parameter),
        }
        Ok(text)
    }

    fn write_global(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "stop" => {
                let count = value.trim().parse::<i32>().unwrap_or(1);
                let left = self.driver.run_count.saturating_sub(count);
                self.driver.run_count = left;
                Ok(())
            }
            "reset_counts" => {
                self.walk.flush_counts();
                for edge in self.walk.edges.iter_mut() {
                    edge.packets = 0;
                }
                for id in self.elements.ids() {
                    let _ = self.with(id, |element, cx| element.write(cx, "reset_counts", ""));
                }
                Ok(())
            }
            _ => self.runtime.embedding.write(name, value),
        }
    }

    /// Packets that each element let pass or took in, in the graph's order.
    pub fn packet_counts(&mut self) -> Vec<u64> {
        self.walk.flush_counts();
        // A push is counted where it arrives, a pull where it comes from.
        let mut counts = alloc::vec![0; self.graph.elements.len()];
        for edge in self.walk.edges.iter() {
            if let Some((id, _)) = edge.target.as_port() {
                counts[id.index()] += edge.packets;
            }
        }
        counts
    }

    fn flat_config(&self) -> String {
        let mut flat = self.graph.flat.clone();
        for (element, id) in flat.elements.iter_mut().zip(self.elements.ids()) {
            if let Some(config) = self.elements.config(id) {
                element.config = config.to_string();
            }
        }
        flat.unparse()
    }

    /// The ports that start a transfer, or what passed through them, one a line.
    fn active_ports(&self, names: bool) -> String {
        let mut text = String::new();
        for (i, info) in self.graph.elements.iter().enumerate() {
            let id = ElementId(i as u32);
            let inputs = info.inputs.iter().enumerate().filter(|(_, push)| !**push);
            for (port, _) in inputs {
                let edge = self.walk.edges.input(id, port);
                let packets = edge.map_or(0, |edge| edge.packets);
                let _ = if names {
                    writeln!(text, "{}\ti{port}", info.name)
                } else {
                    writeln!(text, "{packets}")
                };
            }
            let outputs = info.outputs.iter().enumerate().filter(|(_, push)| **push);
            for (port, _) in outputs {
                let edge = self.walk.edges.output(id, port);
                let packets = edge.map_or(0, |edge| self.walk.edges[edge].packets);
                let _ = if names {
                    writeln!(text, "{}\to{port}", info.name)
                } else {
                    writeln!(text, "{packets}")
                };
            }
        }
        text
    }

    /// An element's ports as Click's `ports` handler shows them.
    fn ports_text(&self, id: ElementId) -> String {
        let info = self.graph.info(id);
        let mut text = String::new();
        let side = |text: &mut String, ports: &[bool], word: &str, input: bool| {
            let plural = if ports.len() == 1 { "" } else { "s" };
            let _ = writeln!(text, "{} {word}{plural}", ports.len());
            for (port, push) in ports.iter().enumerate() {
                let kind = if *push { "push" } else { "pull" };
                let _ = write!(text, "{kind}\t-\t");
                let mut others: Vec<(ElementId, usize)> = if input {
                    self.graph.upstream(id, port).collect()
                } else {
                    self.graph.downstream(id, port).collect()
                };
                others.sort_unstable();
                for (i, (other, at)) in others.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    let name = self.name(*other);
                    let _ = if input {
                        write!(text, "{comma}{name} [{at}]")
                    } else {
                        write!(text, "{comma}[{at}] {name}")
                    };
                }
                text.push('\n');
            }
        };
        side(&mut text, &info.inputs, "input", true);
        side(&mut text, &info.outputs, "output", false);
        text
    }

    fn read_task(&self, id: ElementId, name: &str) -> Result<String, HandlerError> {
        let task = self.scheduler.tasks.of(id).ok_or(HandlerError::Unknown)?;
        Ok(match name {
            "scheduled" => self.scheduler.tasks.scheduled(task).to_string(),
            "tickets" => self.scheduler.tasks.tickets(task).to_string(),
            _ => match self.scheduler.tasks.thread(task) {
                thread @ ..0 => thread.to_string(),
                thread if self.threads.partition.is_none() => thread.to_string(),
                _ => self.threads.thread_of(id).to_string(),
            },
        })
    }

    fn write_task(&mut self, id: ElementId, name: &str, value: &str) -> Result<(), HandlerError> {
        let task = self.scheduler.tasks.of(id).ok_or(HandlerError::Unknown)?;
        if !self
            .handlers(Some(id))
            .iter()
            .any(|spec| spec.name == name && spec.flags.has(HandlerFlags::WRITE))
        {
            return Err(HandlerError::Unknown);
        }
        let value = value.trim();
        match name {
            "scheduled" => match value {
                "true" | "1" | "yes" => self.scheduler.tasks.schedule(task),
                "false" | "0" | "no" => self.scheduler.tasks.unschedule(task),
                _ => return Err("'scheduled' takes a boolean".into()),
            },
            "tickets" => {
                let tickets = value.parse::<u32>().ok().filter(|t| *t >= 1);
                let tickets = tickets.ok_or("'tickets' takes an integer of 1 or more")?;
                self.scheduler.tasks.set_tickets(task, tickets);
            }
            _ => {
                let within = NO_THREAD..=i32::from(self.threads.count) - 1;
                let thread = value.parse::<i32>().ok();
                let thread = thread.filter(|thread| within.contains(thread));
                self.move_task(task, thread.ok_or("bad thread")?);
            }
        }
        Ok(())
    }

    /// Configures an element again while packets flow.
    fn reconfigure(&mut self, id: ElementId, config: &str) -> Result<(), HandlerError> {
        let live = self.elements.get(id);
        if !live.is_some_and(|element| element.can_live_reconfigure()) {
            return Err(HandlerError::Unknown);
        }
        let messages = self.with_change(id, |engine| engine.configure(id, config));
        let errors: Vec<_> = messages
            .iter()
            .filter(|m| m.severity == Severity::Error)
            .map(|m| m.text.as_str())
            .collect();
        if !errors.is_empty() {
            return Err(HandlerError::Failed(errors.join("\n")));
        }
        self.elements.set_config(id, config.to_string());
        self.warn(id, &messages);
        Ok(())
    }

    /// Prints the warnings among what an element said of its arguments: whoever wrote the handler
    /// learns of errors alone.
    fn warn(&mut self, id: ElementId, messages: &[Message]) {
        let mut warnings = messages
            .iter()
            .filter(|m| m.severity == Severity::Warning)
            .peekable();
        if warnings.peek().is_none() {
            return;
        }
        let (name, class) = (self.name(id), self.graph.info(id).class.name);
        let mut text = format!("While configuring '{name} :: {class}':");
        for warning in warnings {
            let _ = write!(text, "\n  warning: {}", warning.text);
        }
        self.chatter(&text);
    }

    /// Lets an element take the arguments in `config`; returns what it said. A failure always
    /// comes with an error.
    pub fn configure(&mut self, id: ElementId, config: &str) -> Vec<Message> {
        let graph = self.graph.clone();
        let mut names = core::mem::take(&mut self.names);
        let asked = Asked {
            graph: &graph,
            found: RefCell::default(),
        };
        let mut args = Args::from_config(config, &mut names, &asked, &graph.info(id).name);
        let configured = self.with(id, |element, cx: &mut Cx<'_>| {
            element.configure(cx, &mut args)
        });
        if configured != Some(Ok(())) && args.error_count() == 0 {
            args.error("unspecified error");
        }
        let messages = args.take_errors();
        self.names = names;
        let found = asked.found.into_inner().into_iter();
        self.threads
            .bound
            .extend(found.map(|other| (id, ElementId::new(other))));
        messages
    }
}

/// A graph that takes note of the elements that arguments refer to.
struct Asked<'g> {
    graph: &'g Graph,
    found: RefCell<Vec<usize>>,
}

impl Elements for Asked<'_> {
    fn index_of(&self, name: &str) -> Option<usize> {
        let index = self.graph.index_of(name);
        self.found.borrow_mut().extend(index);
        index
    }

    fn is_a(&self, index: usize, class: &str) -> bool {
        self.graph.is_a(index, class)
    }

    fn has_handler(&self, element: Option<usize>, handler: &str) -> bool {
        self.graph.has_handler(element, handler)
    }
}

fn handlers_text<'s>(specs: impl Iterator<Item = &'s HandlerSpec>) -> String {
    let mut text = String::new();
    for spec in specs {
        let _ = writeln!(text, "{}\t{}", spec.name, spec.flags.letters());
    }
    text
}
