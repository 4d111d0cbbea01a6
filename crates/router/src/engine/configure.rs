//! Configuring elements, before the router runs and while it does.

use core::any::Any;
use core::cell::RefCell;

use super::graph::Graph;
use super::{Cx, Engine};
use crate::args::{Args, Elements, Message, Severity};
use crate::handler::{FailureKind, HandlerError};
use crate::prelude::*;

impl Engine {
    /// Configures an element again while packets flow.
    pub fn reconfigure(&mut self, id: ElementId, config: &str) -> Result<(), HandlerError> {
        let live = self.elements.get(id);
        if !live.is_some_and(|element| element.can_live_reconfigure()) {
            return Err(HandlerError::Unknown);
        }
        // As it is now, not as it was when it was configured.
        let former = self.read_handler(Some(id), "config", "");
        let (messages, stored) = self.with_change(id, |engine| engine.configure(id, config));
        let warnings = messages.iter().filter(|m| m.severity == Severity::Warning);
        self.warnings.extend(warnings.map(Message::to_string));
        let errors: Vec<_> = messages
            .iter()
            .filter(|m| m.severity == Severity::Error)
            .map(Message::to_string)
            .collect();
        if !errors.is_empty() {
            if stored {
                let former = former.unwrap_or_else(|_| self.config(id).to_string());
                self.with_change(id, |engine| engine.configure_from(id, &former, true));
            }
            let kind = match messages.iter().any(|m| m.ends) {
                true => FailureKind::Invalid,
                false => FailureKind::Failed,
            };
            return Err(HandlerError::failed(kind, errors.join("\n")));
        }
        self.elements.set_config(id, config.to_string());
        Ok(())
    }

    /// Configures an element from `config`; returns its messages, and whether it stored any
    /// argument. A failure always comes with an error.
    pub fn configure(&mut self, id: ElementId, config: &str) -> (Vec<Message>, bool) {
        self.configure_from(id, config, false)
    }

    fn configure_from(
        &mut self,
        id: ElementId,
        config: &str,
        restores: bool,
    ) -> (Vec<Message>, bool) {
        let graph = self.graph.clone();
        let mut names = core::mem::take(&mut self.names);
        let asked = Asked {
            graph: &graph,
            found: RefCell::default(),
        };
        let args = Args::from_config(config, &mut names, &asked, &graph.info(id).name);
        let mut args = args.restoring(restores);
        let configured = self.with(id, |element, cx: &mut Cx<'_>| {
            element.configure(cx, &mut args)
        });
        if configured != Some(Ok(())) && args.error_count() == 0 {
            args.error("unspecified error");
        }
        let (messages, stored) = (args.take_errors(), args.stored());
        if names.take_asked() {
            self.addressed.insert(id);
        }
        self.names = names;
        let found = asked.found.into_inner().into_iter();
        self.threads
            .bound
            .extend(found.map(|other| (id, ElementId::new(other))));
        (messages, stored)
    }
}

/// A graph that records the elements that arguments refer to.
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
