//! Calls of handlers, as arguments name them: `ELEMENT.HANDLER [VALUE]`.

use crate::engine::element::Component;
use crate::engine::{Cx, SelfWrites};
use crate::handler::{HandlerError, HandlerFlags, HandlerList};
use crate::prelude::*;

/// A handler that exists, and what to call it with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The element; `None` for the router's own handlers.
    pub element: Option<ElementId>,
    /// The handler's name.
    pub handler: String,
    /// The value to write, or the parameter to read with.
    pub value: String,
}

impl Call {
    /// The handler that `text` names, seen from the element at work, to be written. The element's
    /// own handlers need no element name. To be called when all elements are configured.
    pub fn to_write(cx: &Cx<'_>, text: &str) -> Result<Call, String> {
        let call = Call::parse(cx, text, |name| cx.handler(None, name).is_none())?;
        call.check(cx, HandlerFlags::WRITE)?;
        Ok(call)
    }

    /// As [`to_write`](Self::to_write), to be read.
    pub fn to_read(cx: &Cx<'_>, text: &str) -> Result<Call, String> {
        let call = Call::parse(cx, text, |name| cx.handler(None, name).is_none())?;
        call.check(cx, HandlerFlags::READ)?;
        Ok(call)
    }

    /// The handler that `text` names, whether it exists or not. `own` says whether a name without
    /// element is a handler of the element at work, rather than of the router.
    pub fn parse(cx: &Cx<'_>, text: &str, own: impl Fn(&str) -> bool) -> Result<Call, String> {
        let (word, value) = click::config::shift_space(text);
        let name = click::config::string(word).unwrap_or_default();
        let name = String::from_utf8_lossy(&name).into_owned();
        let plain = |name: &str| own(name).then(|| cx.id());
        let (element, handler) = match name.split_once('.') {
            _ if name.is_empty() => return Err("syntax error".to_string()),
            Some(("", handler)) => (None, handler),
            Some((_, "")) => return Err("syntax error".to_string()),
            Some((element, handler)) => match cx.find(element) {
                Some(id) => (Some(id), handler),
                None => return Err(format!("no element named ‘{element}’")),
            },
            None => (plain(&name), name.as_str()),
        };
        Ok(Call {
            element,
            handler: handler.to_string(),
            value: value.to_string(),
        })
    }

    /// Whether the handler exists and can be read or written, as `flag` says. The element at work
    /// cannot be asked: its own handlers are taken on trust.
    pub fn check(&self, cx: &Cx<'_>, flag: HandlerFlags) -> Result<(), String> {
        if self.element == Some(cx.id()) {
            return Ok(());
        }
        let flags = cx.handler(self.element, &self.handler);
        let Some(flags) = flags.filter(|flags| flags.has(flag)) else {
            let kind = if flag.has(HandlerFlags::WRITE) {
                "write"
            } else {
                "read"
            };
            return Err(format!("no ‘{}’ {kind} handler", self.full_name(cx)));
        };
        if flag == HandlerFlags::READ
            && !self.value.is_empty()
            && !flags.has(HandlerFlags::PARAMETER)
        {
            let name = self.full_name(cx);
            return Err(format!("read handler ‘{name}’ does not take parameters"));
        }
        Ok(())
    }

    /// The handler's name with its element's.
    pub fn full_name(&self, cx: &Cx<'_>) -> String {
        match self.element {
            Some(id) => format!("{}.{}", cx.graph().info(id).name, self.handler),
            None => self.handler.clone(),
        }
    }

    /// Writes the handler.
    pub fn write(&self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        cx.write_handler(self.element, &self.handler, &self.value)
    }

    /// As [`write`](Self::write), for a handler that may write back. Writes to handlers of `own`, the
    /// calling element, cannot reach it while it is at work: they are returned as names and values,
    /// for the element to apply.
    pub fn write_recording(
        &self,
        cx: &mut Cx<'_>,
        own: &dyn Component,
    ) -> (Result<(), HandlerError>, Vec<(String, String)>) {
        if self.element == Some(cx.id()) {
            let own = (self.handler.clone(), self.value.clone());
            return (Ok(()), alloc::vec![own]);
        }
        let mut list = HandlerList::default();
        own.list_handlers(&mut list);
        let self_writes = SelfWrites {
            element: cx.id(),
            handlers: list.specs,
            writes: Vec::new(),
        };
        let outer = cx.engine.self_writes.replace(self_writes);
        let result = self.write(cx);
        let recorded = core::mem::replace(&mut cx.engine.self_writes, outer);
        (
            result,
            recorded.map(|recorded| recorded.writes).unwrap_or_default(),
        )
    }

    /// Reads the handler.
    pub fn read(&self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        cx.read_handler(self.element, &self.handler, &self.value)
    }
}
