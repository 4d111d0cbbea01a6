//! The instructions that print, read and write, and the handler calls they make.

use click::config::{self, Style};
use click::text::encode;

use super::errors::Errors;
use super::machine::ScriptMachine;
use super::output::PrintOutput;
use super::{DriverManager, Script};
use crate::prelude::*;

impl ScriptMachine {
    /// `print` and its like.
    pub fn print(
        &mut self,
        cx: &mut Cx<'_>,
        text: &str,
        newline: bool,
        unquote: bool,
        errors: &mut Errors,
    ) {
        let (mut output, text) = match PrintOutput::open(text) {
            Ok(opened) => opened,
            Err(error) => return errors.error(cx, &error),
        };
        let (mut data, ok) = if starts_handler(text) {
            match self.call_read(cx, text, unquote, errors) {
                Some((_, value)) => (encode(&value).into_owned(), true),
                None => (Vec::new(), false),
            }
        } else {
            let (text, ok) = self.expand_as(cx, text, Style::Quoted, errors);
            (config::unquote(&text), ok)
        };
        if newline && ok && data.last() != Some(&b'\n') {
            data.push(b'\n');
        }
        if let Err(error) = output.write(cx, &data) {
            errors.error(cx, &error);
        }
    }

    /// `read`: shows a handler's name and value to the log.
    pub fn show(&mut self, cx: &mut Cx<'_>, text: &str, unquote: bool, errors: &mut Errors) {
        if let Some((call, value)) = self.call_read(cx, text, unquote, errors) {
            let name = call.full_name(cx);
            // A blank line follows a value that ends its last line, and one that is empty.
            let end = match value.is_empty() || value.ends_with('\n') {
                true => "\n",
                false => "",
            };
            cx.chatter(format_args!("{name}:\n{value}{end}"));
        }
    }

    /// Reads the handler that an instruction names.
    pub fn call_read(
        &mut self,
        cx: &mut Cx<'_>,
        text: &str,
        unquote: bool,
        errors: &mut Errors,
    ) -> Option<(Call, String)> {
        let call = self.find_call(cx, text, HandlerFlags::READ, unquote, errors)?;
        match self.read_call(cx, &call) {
            Ok(value) => Some((call, value)),
            Err(error) => {
                report(cx, &call, text_of(error).as_slice(), errors);
                None
            }
        }
    }

    /// Writes the handler that an instruction names.
    pub fn call_write(&mut self, cx: &mut Cx<'_>, text: &str, unquote: bool, errors: &mut Errors) {
        let call = self.find_call(cx, text, HandlerFlags::WRITE, unquote, errors);
        let Some(call) = call else {
            return;
        };
        let mut lines = Vec::new();
        let written = if call.element == Some(cx.id()) {
            self.write_handler(cx, &call.handler, &call.value)
        } else {
            self.call_out(cx, |cx| call.write_warned(cx, &mut lines))
        };
        self.status = match &written {
            Ok(()) => 0,
            Err(HandlerError::Failed(failure)) => failure.kind as i32,
            Err(HandlerError::Unknown) => FailureKind::Invalid as i32,
        };
        lines.extend(written.err().and_then(text_of));
        report(cx, &call, &lines, errors);
    }

    pub fn find_call(
        &mut self,
        cx: &mut Cx<'_>,
        text: &str,
        flag: HandlerFlags,
        unquote: bool,
        errors: &mut Errors,
    ) -> Option<Call> {
        let text = self.expand(cx, text, false, errors);
        match self.find(cx, &text, flag) {
            Ok(mut call) => {
                if unquote {
                    call.value = config::unquote_text(&call.value);
                }
                Some(call)
            }
            Err(error) => {
                errors.error(cx, &error);
                None
            }
        }
    }

    /// The handler that `text` names, if it can be used as `flag` says.
    pub fn find(&self, cx: &Cx<'_>, text: &str, flag: HandlerFlags) -> Result<Call, String> {
        let call = Call::parse(cx, text, |name| {
            let global = || cx.handler(None, name).is_some();
            self.flags(name)
                .is_some_and(|_| self.has(name) || !global())
        })?;
        if call.element != Some(cx.id()) {
            call.check(cx, flag)?;
            return Ok(call);
        }
        call.check_flags(cx, self.flags(&call.handler), flag)?;
        Ok(call)
    }

    /// Calls another element's handler, while this one's can be called.
    fn call_out<R>(&mut self, cx: &mut Cx<'_>, work: impl FnOnce(&mut Cx<'_>) -> R) -> R {
        let machine = core::mem::take(self);
        if machine.manages {
            let mut own = DriverManager { machine };
            let result = cx.call_out(&mut own, work);
            *self = own.machine;
            return result;
        }
        let mut own = Script { machine };
        let result = cx.call_out(&mut own, work);
        *self = own.machine;
        result
    }

    pub fn read_call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<String, HandlerError> {
        if call.element != Some(cx.id()) {
            return self.call_out(cx, |cx| call.read(cx));
        }
        match self.read_handler(cx, &call.handler, &call.value) {
            // Handlers that every element has; the router answers them.
            Err(HandlerError::Unknown) => call.read(cx),
            answer => answer,
        }
    }
}

/// Whether what is to be printed is a handler's value.
fn starts_handler(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '@' || c == '_')
}

/// What an error says, if it says anything.
fn text_of(error: HandlerError) -> Option<String> {
    match error {
        HandlerError::Failed(failure) if failure.text.is_empty() => None,
        HandlerError::Failed(failure) => Some(failure.text),
        HandlerError::Unknown => Some("there is no such handler".to_string()),
    }
}

/// Reports what a call says, below a heading that names it.
fn report(cx: &mut Cx<'_>, call: &Call, texts: &[String], errors: &mut Errors) {
    if texts.is_empty() {
        return;
    }
    let name = call.full_name(cx);
    let value = if call.value.is_empty() {
        String::new()
    } else {
        format!(" {}", call.value)
    };
    let lines = texts.iter().flat_map(|text| text.lines());
    let lines: Vec<String> = lines.map(|line| format!("\n  {line}")).collect();
    errors.error(
        cx,
        &format!("While calling ‘{name}{value}’:{}", lines.concat()),
    );
}
