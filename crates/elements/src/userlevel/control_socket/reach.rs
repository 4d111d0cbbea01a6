//! What a client's commands reach: the handlers of the router.

use super::ControlSocket;
use super::protocol::{Missing, Target};
use crate::prelude::*;

/// The router, as the element reaches it.
pub struct Reach<'a, 'c> {
    pub element: &'a mut ControlSocket,
    pub cx: &'a mut Cx<'c>,
}

impl Reach<'_, '_> {
    fn is_own(&self, element: Option<ElementId>) -> bool {
        element == Some(self.cx.id())
    }
}

/// The protocol is ASCII.
fn ascii(text: &str) -> String {
    text.replace(['‘', '’'], "'")
}

fn words(error: HandlerError) -> String {
    match error {
        HandlerError::Failed(failure) => ascii(&failure.text),
        HandlerError::Unknown => "no such handler".to_string(),
    }
}

impl Target for Reach<'_, '_> {
    type Handler = (Option<ElementId>, String);

    fn find(&mut self, name: &str) -> Result<(Self::Handler, HandlerFlags), Missing> {
        let (element, handler) = match (&self.element.proxy, name.split_once('.')) {
            (Some(proxy), _) => (Some(ElementId::new(proxy.index)), name),
            (None, None) => (None, name),
            (None, Some((element, handler))) => match self.element(element) {
                Some(id) => (Some(id), handler),
                None => return Err(Missing::Element(element.to_string())),
            },
        };
        let mut flags = self.cx.handler(element, handler);
        if flags.is_none() && self.is_own(element) {
            let mut own = HandlerList::default();
            self.element.list_handlers(&mut own);
            flags = own.find(handler);
        }
        let visible = HandlerFlags::READ.with(HandlerFlags::WRITE);
        match flags {
            Some(flags) if flags.any(visible) && !flags.has(HandlerFlags::PRIVATE) => {
                Ok(((element, handler.to_string()), flags))
            }
            _ if self.element.proxy.is_some() => Err(Missing::Proxied),
            _ => Err(Missing::Handler),
        }
    }

    fn read(&mut self, handler: &Self::Handler, parameter: &str) -> Result<String, String> {
        let (element, name) = handler;
        if self.is_own(*element)
            && let Ok(text) = self.element.read_handler(self.cx, name, parameter)
        {
            return Ok(text);
        }
        self.cx
            .read_handler(*element, name, parameter)
            .map_err(words)
    }

    fn write(
        &mut self,
        handler: &Self::Handler,
        value: &str,
        warnings: &mut Vec<String>,
    ) -> Result<(), String> {
        let (element, name) = handler;
        let written = self
            .cx
            .write_handler_warned(*element, name, value, warnings);
        for warning in warnings {
            *warning = ascii(warning);
        }
        written.map_err(words)
    }

    fn llrpc(
        &mut self,
        handler: &Self::Handler,
        call: Llrpc,
        data: &mut [u8],
    ) -> Result<(), String> {
        let refused = || "Invalid argument".to_string();
        // What stands in for the router's elements has no LLRPCs of theirs.
        let element = handler.0.filter(|_| self.element.proxy.is_none());
        let made = self.cx.llrpc(element.ok_or_else(refused)?, call, data);
        made.map_err(|error| match error {
            HandlerError::Failed(failure) => failure.text,
            HandlerError::Unknown => refused(),
        })
    }
}

impl Reach<'_, '_> {
    /// The element of a name, or of a number from 1.
    fn element(&self, name: &str) -> Option<ElementId> {
        let graph = self.cx.graph();
        graph.find(name).or_else(|| {
            let number: usize = name.parse().ok()?;
            let index = number.checked_sub(1)?;
            (index < graph.elements.len()).then(|| ElementId::new(index))
        })
    }
}
