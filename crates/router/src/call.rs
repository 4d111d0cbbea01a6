//! Calls of handlers, as arguments name them: `ELEMENT.HANDLER [VALUE]`.

use crate::args::{Args, Failed, Invalid};
use crate::engine::Cx;
use crate::engine::element::DynElement;
use crate::handler::{HandlerError, HandlerFlags};
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
        let call = Call::parse(cx, text, |name| cx.handler(Some(cx.id()), name).is_some())?;
        call.check(cx, HandlerFlags::WRITE)?;
        Ok(call)
    }

    /// As [`to_write`](Self::to_write), to be read.
    pub fn to_read(cx: &Cx<'_>, text: &str) -> Result<Call, String> {
        let call = Call::parse(cx, text, |name| cx.handler(Some(cx.id()), name).is_some())?;
        call.check(cx, HandlerFlags::READ)?;
        Ok(call)
    }

    /// Checks what can be checked of the argument `keyword` before all elements are configured:
    /// that the element exists whose handler `text` names.
    pub fn check_element(
        cx: &Cx<'_>,
        args: &Args<'_>,
        keyword: &str,
        text: &str,
    ) -> Result<(), Failed> {
        if text.is_empty() {
            return Ok(());
        }
        let call = Call::parse(cx, text, |_| true);
        call.map(|_| ()).map_err(|reason| {
            args.invalid(keyword, &Invalid::unparsable(reason));
            Failed
        })
    }

    /// The handler that `text` names, whether it exists or not. `own` says whether a name without
    /// element is a handler of the element at work, rather than of the router.
    pub fn parse(cx: &Cx<'_>, text: &str, own: impl Fn(&str) -> bool) -> Result<Call, String> {
        let (word, value) = click::config::shift_space(text);
        let name = click::config::string(word).unwrap_or_default();
        let name = click::text::decode(&name);
        let plain = |name: &str| own(name).then(|| cx.id());
        let (element, handler) = match name.split_once('.') {
            _ if name.is_empty() => return Err("syntax error".to_string()),
            Some(("", handler)) => (None, handler),
            Some((_, "")) => return Err("syntax error".to_string()),
            Some((element, handler)) => match cx.find(element) {
                Some(id) => (Some(id), handler),
                None => return Err(format!("no element named ‘{element}’")),
            },
            None => (plain(&name), &*name),
        };
        Ok(Call {
            element,
            handler: handler.to_string(),
            value: value.to_string(),
        })
    }

    /// Whether the handler exists and can be read or written, as `flag` says. Another element that is at
    /// work cannot be asked: its handlers are taken on trust.
    pub fn check(&self, cx: &Cx<'_>, flag: HandlerFlags) -> Result<(), String> {
        let others = self.element.filter(|id| *id != cx.id());
        if others.is_some_and(|id| cx.is_at_work(id)) {
            return Ok(());
        }
        self.check_flags(cx, cx.handler(self.element, &self.handler), flag)
    }

    /// As [`check`](Self::check), of a handler with these flags.
    pub fn check_flags(
        &self,
        cx: &Cx<'_>,
        flags: Option<HandlerFlags>,
        flag: HandlerFlags,
    ) -> Result<(), String> {
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

    /// Writes the handler, and prints its warnings.
    pub fn write(&self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        cx.write_handler(self.element, &self.handler, &self.value)
    }

    /// Writes the handler, and appends its warnings to `warnings`.
    pub fn write_warned(
        &self,
        cx: &mut Cx<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), HandlerError> {
        cx.write_handler_warned(self.element, &self.handler, &self.value, warnings)
    }

    /// As [`write`](Self::write), of an element that can be read and written meanwhile: see
    /// [`Cx::call_out`].
    pub fn write_from<E: DynElement + Default>(
        &self,
        cx: &mut Cx<'_>,
        own: &mut E,
    ) -> Result<(), HandlerError> {
        cx.call_out(own, |cx| self.write(cx))
    }

    /// Reads the handler.
    pub fn read(&self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        cx.read_handler(self.element, &self.handler, &self.value)
    }
}
