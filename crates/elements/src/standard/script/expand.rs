//! Variables, and texts in which they are put.

use click::config::{self, Fuel, Lookup, Reference, ReferenceKind, Style};

use super::calculate;
use super::errors::Errors;
use super::machine::ScriptMachine;
use crate::prelude::*;

/// Looks variables up while a text is expanded.
struct Expander<'e, 'c> {
    machine: &'e mut ScriptMachine,
    cx: &'e mut Cx<'c>,
    errors: &'e mut Errors,
    /// Whether a handler call went wrong.
    failed: bool,
}

impl Lookup for Expander<'_, '_> {
    fn lookup(&mut self, reference: &Reference<'_>, _fuel: &mut Fuel) -> Option<String> {
        if reference.kind != ReferenceKind::Parentheses {
            return self.machine.variable(reference.name);
        }
        let call = self
            .machine
            .find(self.cx, reference.name, HandlerFlags::READ);
        let value = call.and_then(|call| match self.machine.read_call(self.cx, &call) {
            Ok(value) => Ok(Some(value)),
            Err(HandlerError::Failed(failure)) => {
                self.errors.error(self.cx, &failure.text);
                self.failed = true;
                Ok(Some(String::new()))
            }
            Err(HandlerError::Unknown) => Err(no_handler(self.cx, &call)),
        });
        value.unwrap_or_else(|error| {
            self.errors.error(self.cx, &error);
            self.failed = true;
            None
        })
    }
}

fn no_handler(cx: &Cx<'_>, call: &Call) -> String {
    format!("no ‘{}’ read handler", call.full_name(cx))
}

impl ScriptMachine {
    pub fn assign(
        &mut self,
        cx: &mut Cx<'_>,
        variable: usize,
        text: &str,
        unquote: bool,
        errors: &mut Errors,
    ) {
        let value = self.expand(cx, text, unquote, errors);
        if let Some((_, slot)) = self.program.variables.get_mut(variable) {
            *slot = value;
        }
    }

    pub fn expand(
        &mut self,
        cx: &mut Cx<'_>,
        text: &str,
        unquote: bool,
        errors: &mut Errors,
    ) -> String {
        let (text, _) = self.expand_as(cx, text, Style::Bare, errors);
        if unquote {
            config::unquote_text(&text)
        } else {
            text
        }
    }

    /// Puts in what variables and handlers say; false if a handler did not answer.
    pub fn expand_as(
        &mut self,
        cx: &mut Cx<'_>,
        text: &str,
        style: Style,
        errors: &mut Errors,
    ) -> (String, bool) {
        let mut expander = Expander {
            machine: self,
            cx,
            errors,
            failed: false,
        };
        match config::expand(text, style, &mut expander) {
            Ok(text) => (text, !expander.failed),
            Err(error) => {
                expander.errors.error(expander.cx, &error.to_string());
                (String::new(), false)
            }
        }
    }

    /// What `$name` stands for.
    fn variable(&self, name: &str) -> Option<String> {
        if let Some(i) = self.program.find_variable(name) {
            return Some(self.program.variables[i].1.clone());
        }
        Some(match name {
            "?" => self.status.to_string(),
            "args" => self.args.clone(),
            "$" => process().to_string(),
            "0" => self.handler.clone(),
            "#" => calculate::count(&self.args),
            "write" => self.writing.to_string(),
            _ => {
                let number = name.parse().ok().filter(|number| *number > 0)?;
                calculate::word(&self.args, number).to_string()
            }
        })
    }

    /// The variable that a handler names, to be changed.
    pub fn variable_mut(&mut self, name: &str, add: bool) -> Result<&mut String, String> {
        if name.is_empty() {
            return Err("no variable".to_string());
        }
        if name == "args" {
            return Ok(&mut self.args);
        }
        let variable = if add {
            Some(self.program.variable(name))
        } else {
            self.program.find_variable(name)
        };
        match variable {
            Some(i) => Ok(&mut self.program.variables[i].1),
            None => Err(format!("undefined variable ‘{name}’")),
        }
    }
}

/// The number of the process, 0 where there are none.
fn process() -> u32 {
    #[cfg(feature = "host")]
    return std::process::id();
    #[cfg(not(feature = "host"))]
    0
}
