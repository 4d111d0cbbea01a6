//! Calls of handlers, as arguments name them: `ELEMENT.HANDLER [VALUE]`.

use alloc::format;
use alloc::string::{String, ToString};

use crate::context::{Cx, ElementId};
use crate::handler::{HandlerError, HandlerFlags};

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
        Call::find(cx, text, HandlerFlags::WRITE)
    }

    /// As [`to_write`](Self::to_write), to be read.
    pub fn to_read(cx: &Cx<'_>, text: &str) -> Result<Call, String> {
        let call = Call::find(cx, text, HandlerFlags::READ)?;
        let flags = cx.handler(call.element, &call.handler);
        let takes = flags.is_none_or(|flags| flags.has(HandlerFlags::PARAMETER));
        if !call.value.is_empty() && !takes {
            let name = call.full_name(cx);
            return Err(format!("read handler ‘{name}’ does not take parameters"));
        }
        Ok(call)
    }

    fn find(cx: &Cx<'_>, text: &str, flag: HandlerFlags) -> Result<Call, String> {
        let (name, value) = click::config::shift_space(text);
        let name = String::from_utf8_lossy(&click::config::unquote(&name)).into_owned();
        let (element, handler) = match name.split_once('.') {
            _ if name.is_empty() => return Err("bad handler name".to_string()),
            Some(("", handler)) => (None, handler.to_string()),
            Some((_, "")) => return Err("bad handler name".to_string()),
            Some((element, handler)) => match cx.find(element) {
                Some(id) => (Some(id), handler.to_string()),
                None => return Err(format!("no element named ‘{element}’")),
            },
            None if cx.handler(None, &name).is_some() => (None, name.clone()),
            None => (Some(cx.id()), name.clone()),
        };
        let call = Call {
            element,
            handler,
            value: value.to_string(),
        };
        // The element at work cannot be asked: its own handlers are taken on trust.
        let known = cx.handler(call.element, &call.handler);
        if call.element != Some(cx.id()) && !known.is_some_and(|flags| flags.has(flag)) {
            let name = call.full_name(cx);
            return Err(match (known, flag) {
                (None, _) => format!("no handler named ‘{name}’"),
                (_, HandlerFlags::WRITE) => format!("‘{name}’ not a write handler"),
                _ => format!("‘{name}’ not a read handler"),
            });
        }
        Ok(call)
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

    /// Reads the handler.
    pub fn read(&self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        cx.read_handler(self.element, &self.handler, &self.value)
    }
}
