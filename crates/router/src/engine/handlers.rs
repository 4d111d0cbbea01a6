//! The handlers that every element and every router has.

use core::fmt::Write;

use super::Engine;
use crate::args::{Context, Saturating};
use crate::handler::{HandlerError, HandlerFlags, HandlerList, HandlerSpec};
use crate::memory::listing;
use crate::prelude::*;
use crate::scheduler::task::{NO_THREAD, TICKETS_MAX};

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
        let info = self.graph.info(id);
        let mut list = HandlerList {
            pulls: info.inputs.first() == Some(&false),
            pushes: info.outputs.first() == Some(&true),
            ..HandlerList::default()
        };
        list.add("name", CALM)
            .add("class", CALM)
            .add("config", CALM)
            .add("ports", CALM)
            .add("handlers", CALM)
            .add("passing_threads", CALM.with(HandlerFlags::PRIVATE));
        // One that is at work is not there to be asked: another of its class has the same handlers, unless
        // they depend on arguments.
        let made = match self.elements.get(id) {
            None => info.class.make(),
            Some(_) => None,
        };
        if let Some(element) = self.elements.get(id).or(made.as_deref()) {
            if element.can_live_reconfigure() {
                list.write("config");
            }
            element.list_handlers(&mut list);
        }
        list.specs
    }

    pub fn handler(&self, element: Option<ElementId>, name: &str) -> Option<HandlerFlags> {
        let list = HandlerList {
            specs: self.handlers(element),
            ..HandlerList::default()
        };
        list.flags(name)
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
            return Err(text.into());
        }
        let alone = element.is_some_and(|id| !self.threads.is_elsewhere(id))
            && parameter.is_empty()
            && name != "passing_threads";
        if self.threads.is_partial() && !alone {
            return self.whole(|engine| engine.read_handler(element, name, parameter));
        }
        let Some(id) = element else {
            return self.read_global(name, parameter);
        };
        let base = self.walk.height();
        let read = self.with(id, |element, cx| element.read_handler(cx, name, parameter));
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
            "config" => listing(|out| out.write_str(self.config(id))),
            "ports" => Ok(self.ports_text(id)),
            "passing_threads" => Ok(self.passing_threads(id).to_string()),
            // Click lists an element's handlers from the last to the first.
            "handlers" => Ok(handlers_text(self.handlers(element).iter().rev())),
            "scheduled" | "tickets" | "home_thread" => self.read_task(id, name),
            _ if busy => Err("the element is at work: its handlers cannot be read".into()),
            _ => Err(HandlerError::Unknown),
        }
    }

    /// Writes a handler, and prints its warnings.
    pub fn write_handler(
        &mut self,
        element: Option<ElementId>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let mut warnings = Vec::new();
        let written = self.write_handler_warned(element, name, value, &mut warnings);
        if let (Some(id), false) = (element, warnings.is_empty()) {
            let quotes = self.runtime.embedding.quotes();
            let call = format!("{}.{name} {value}", self.name(id));
            let heading = format!("While calling ‘{}’:", call.trim_end());
            self.chatter(&quotes.apply(&heading));
            for warning in warnings {
                self.chatter(&quotes.apply(&format!("  {warning}")));
            }
        }
        written
    }

    /// Writes a handler, and appends its warnings to `warnings`.
    pub fn write_handler_warned(
        &mut self,
        element: Option<ElementId>,
        name: &str,
        value: &str,
        warnings: &mut Vec<String>,
    ) -> Result<(), HandlerError> {
        // A handler that is written may write others.
        let outer = core::mem::take(&mut self.warnings);
        let written = self.write_any_handler(element, name, value);
        warnings.append(&mut core::mem::replace(&mut self.warnings, outer));
        written
    }

    fn write_any_handler(
        &mut self,
        element: Option<ElementId>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        if self.threads.is_partial() {
            return self.whole(|engine| engine.write_any_handler(element, name, value));
        }
        let Some(id) = element else {
            return self.write_global(name, value);
        };
        let base = self.walk.height();
        // Else an element is at work, and its caller runs the stack when it is back.
        let outermost = self.elements.is_idle();
        let written = self.with_change(id, |engine| {
            engine.with(id, |element, cx| element.write_handler(cx, name, value))
        });
        if outermost {
            self.run_stack(base);
        }
        match written {
            Some(Err(HandlerError::Unknown)) => {}
            Some(answer) => return answer,
            None => return Err("the element is at work: its handlers cannot be written".into()),
        }
        match name {
            "config" => self.reconfigure(id, value),
            "tickets" | "home_thread" => self.write_task(id, name, value),
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
            "config" => text = listing(|out| out.write_str(&self.graph.source))?,
            "flatconfig" => text = self.flat_config(),
            "requirements" => {
                let all = self.graph.requirements.iter();
                lines(&mut text, &mut all.flat_map(|it| [&*it.kind, &*it.value]));
            }
            "handlers" => text = handlers_text(self.handlers(None).iter()),
            "element_counts" => {
                let counts = self.packet_counts();
                for (id, info) in self.graph.present() {
                    let packets = counts[id.index()];
                    let _ = writeln!(text, "{}\t{}\t{packets}", info.name, info.class.name);
                }
            }
            "list" => {
                let names = || self.graph.present().map(|(_, info)| info.name.as_str());
                let _ = writeln!(text, "{}", names().count());
                lines(&mut text, &mut names());
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
                self.driver.change_all(|left| left.saturating_sub(count));
                Ok(())
            }
            "reset_counts" => {
                self.walk.flush_counts();
                for edge in self.walk.edges.iter_mut() {
                    edge.packets = 0;
                }
                for id in self.elements.ids() {
                    let _ = self.with(id, |element, cx| {
                        element.write_handler(cx, "reset_counts", "")
                    });
                }
                Ok(())
            }
            _ => self.runtime.embedding.write(name, value),
        }
    }

    fn read_task(&self, id: ElementId, name: &str) -> Result<String, HandlerError> {
        let Some(task) = self.scheduler.tasks.of(id) else {
            // Its input is not pull, for example.
            let listed = self.handler(Some(id), name).ok_or(HandlerError::Unknown);
            let none = if name == "scheduled" { "false" } else { "-1" };
            return listed.map(|_| none.to_string());
        };
        Ok(match name {
            "scheduled" => self.scheduler.tasks.scheduled(task).to_string(),
            "tickets" => self.scheduler.tasks.tickets(task).to_string(),
            _ => match self.scheduler.tasks.thread(task) {
                thread @ ..0 => thread.to_string(),
                thread if self.threads.is_assignment_due() => thread.to_string(),
                _ => self.threads.thread_of(id).to_string(),
            },
        })
    }

    fn write_task(&mut self, id: ElementId, name: &str, value: &str) -> Result<(), HandlerError> {
        if !self
            .handlers(Some(id))
            .iter()
            .any(|spec| spec.name == name && spec.flags.has(HandlerFlags::WRITE))
        {
            return Err(HandlerError::Unknown);
        }
        let task = self.scheduler.tasks.of(id);
        let task = task.ok_or("there is no task: the element’s input is not pull")?;
        let value = value.trim();
        match name {
            "tickets" => {
                let tickets: i64 = Context::blank()
                    .parse_with(Saturating, value)
                    .map_err(|_| "syntax error")?;
                let pinned = tickets.clamp(1, TICKETS_MAX.into());
                self.scheduler.tasks.set_tickets(task, pinned as u32);
                if tickets != pinned {
                    let warning = format!("warning: tickets pinned at {pinned}");
                    self.warnings.push(warning);
                }
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
}

fn handlers_text<'s>(specs: impl Iterator<Item = &'s HandlerSpec>) -> String {
    let mut text = String::new();
    let visible = specs.filter(|spec| !spec.flags.has(HandlerFlags::PRIVATE));
    for spec in visible {
        let _ = writeln!(text, "{}\t{}", spec.name, spec.flags.letters());
    }
    text
}
