//! The handlers that every element and every router has.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::any::Any;
use core::cell::RefCell;
use core::fmt::Write;

use crate::args::{Args, Elements, Message, Severity};
use crate::context::{Cx, ElementId};
use crate::engine::Core;
use crate::graph::Graph;
use crate::handler::{HandlerError, HandlerFlags, HandlerList, HandlerSpec};
use crate::task::{NO_THREAD, TaskId};

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

impl Core {
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
        if let Some(Some(element)) = self.elements.get(id.index()) {
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
        let alone = element.is_some_and(|id| !self.is_elsewhere(id)) && parameter.is_empty();
        if self.is_part() && !alone {
            return self.whole(|core| core.read_handler(element, name, parameter));
        }
        let Some(id) = element else {
            return self.read_global(name, parameter);
        };
        let base = self.stack_height();
        let read = self.with(id, |element, cx| element.read(cx, name, parameter));
        // Else an element is at work, and whoever runs it runs the stack when it is back.
        let outermost = self.current == 0;
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
        if self.is_part() {
            return self.whole(|core| core.write_handler(element, name, value));
        }
        let Some(id) = element else {
            return self.write_global(name, value);
        };
        let base = self.stack_height();
        // Else an element is at work, and whoever runs it runs the stack when it is back.
        let outermost = self.current == 0;
        let written = self.write_element(id, name, value);
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
            "threads" => text = self.threads.to_string(),
            "thread_drops" => text = self.drops_between_threads().to_string(),
            // Elements are linked in: there is nothing to load.
            "packages" => {}
            "active_ports" | "active_port_stats" => {
                self.count_shortcuts();
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
                self.run_count = self.run_count.saturating_sub(count);
                Ok(())
            }
            "reset_counts" => {
                self.count_shortcuts();
                for edge in self.outputs.iter_mut().chain(&mut self.inputs) {
                    edge.packets = 0;
                }
                for i in 0..self.graph.elements.len() {
                    let id = ElementId(i as u32);
                    let _ = self.with(id, |element, cx| element.write(cx, "reset_counts", ""));
                }
                Ok(())
            }
            _ => self.runtime.embedding.write(name, value),
        }
    }

    /// Packets that each element let pass or took in, in the graph's order.
    pub fn packet_counts(&mut self) -> Vec<u64> {
        self.count_shortcuts();
        // A push is counted where it arrives, a pull where it comes from.
        let mut counts = alloc::vec![0; self.graph.elements.len()];
        for edge in self.outputs.iter().chain(&self.inputs) {
            if let Some(count) = counts.get_mut(edge.element as usize) {
                *count += edge.packets;
            }
        }
        counts
    }

    fn flat_config(&self) -> String {
        let mut flat = self.graph.flat.clone();
        for (element, config) in flat.elements.iter_mut().zip(&self.configs) {
            if let Some(config) = config {
                element.config = config.clone();
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
                let packets = self
                    .input_edge(id, port)
                    .map_or(0, |e| self.inputs[e as usize].packets);
                let _ = if names {
                    writeln!(text, "{}\ti{port}", info.name)
                } else {
                    writeln!(text, "{packets}")
                };
            }
            let outputs = info.outputs.iter().enumerate().filter(|(_, push)| **push);
            for (port, _) in outputs {
                let packets = self
                    .output_edge(id, port)
                    .map_or(0, |e| self.outputs[e as usize].packets);
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
        let task = self.tasks.of(id).ok_or(HandlerError::Unknown)?;
        Ok(match name {
            "scheduled" => self.tasks.scheduled(task).to_string(),
            "tickets" => self.tasks.tickets(task).to_string(),
            _ => match self.tasks.thread(task) {
                thread @ ..0 => thread.to_string(),
                thread if self.share.is_none() => thread.to_string(),
                _ => self.home(id).to_string(),
            },
        })
    }

    fn write_task(&mut self, id: ElementId, name: &str, value: &str) -> Result<(), HandlerError> {
        let task = self.tasks.of(id).ok_or(HandlerError::Unknown)?;
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
                "true" | "1" | "yes" => self.tasks.schedule(task),
                "false" | "0" | "no" => self.tasks.unschedule(task),
                _ => return Err("'scheduled' takes a boolean".into()),
            },
            "tickets" => {
                let tickets = value.parse::<u32>().ok().filter(|t| *t >= 1);
                let tickets = tickets.ok_or("'tickets' takes an integer of 1 or more")?;
                self.tasks.set_tickets(task, tickets);
            }
            _ => {
                let within = NO_THREAD..=i32::from(self.threads) - 1;
                let thread = value.parse::<i32>().ok();
                let thread = thread.filter(|thread| within.contains(thread));
                self.move_task(task, thread.ok_or("bad thread")?);
            }
        }
        Ok(())
    }

    /// Means a task for another thread. The router is whole.
    pub fn move_task(&mut self, task: TaskId, thread: i32) {
        self.tasks.set_thread(task, thread);
        self.preferences[self.tasks.element(task).index()] = Some(thread);
        if let Some(share) = &mut self.share {
            share.moved = true;
        }
    }

    /// Packets that were dropped between threads.
    pub fn drops_between_threads(&self) -> u64 {
        let entries = self.share.iter().flat_map(|share| &share.entries);
        let drops: u64 = entries.flatten().map(|entry| entry.drops).sum();
        drops + self.former_drops
    }

    /// Configures an element anew while packets flow.
    fn reconfigure(&mut self, id: ElementId, config: &str) -> Result<(), HandlerError> {
        let live = self.elements[id.index()].as_ref();
        if !live.is_some_and(|element| element.can_live_reconfigure()) {
            return Err(HandlerError::Unknown);
        }
        let (messages, stored) = self.with_change(id, |core| core.configure(id, config));
        let errors: Vec<_> = messages
            .iter()
            .filter(|m| m.severity == Severity::Error)
            .map(|m| m.text.as_str())
            .collect();
        if !errors.is_empty() {
            if stored {
                let former = self.config(id).to_string();
                self.with_change(id, |core| core.configure(id, &former));
            }
            return Err(HandlerError::Failed(errors.join("\n")));
        }
        self.configs[id.index()] = Some(config.to_string());
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
        self.runtime.embedding.chatter(&text);
    }

    /// Configures an element from `config`; returns its messages, and whether it stored any
    /// argument. A failure always comes with an error.
    pub fn configure(&mut self, id: ElementId, config: &str) -> (Vec<Message>, bool) {
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
        let (messages, stored) = (args.take_errors(), args.stored());
        self.names = names;
        let found = asked.found.into_inner().into_iter();
        self.bound
            .extend(found.map(|other| (id, ElementId::new(other))));
        (messages, stored)
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

    fn capability(&self, index: usize, name: &str) -> Option<&'static (dyn Any + Sync)> {
        self.graph.capability(index, name)
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
