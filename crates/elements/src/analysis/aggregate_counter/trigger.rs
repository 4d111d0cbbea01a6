//! What an AggregateCounter does when a number is reached.

use crate::prelude::*;

/// What happens when a number is reached.
#[derive(Clone, Default)]
pub struct Trigger {
    pub at: Option<u64>,
    /// As it is written behind the number.
    pub text: String,
    pub action: Action,
}

/// What a number does when it is reached.
#[derive(Clone, Default)]
pub enum Action {
    #[default]
    Nothing,
    Freeze,
    Stop,
    Call(Call),
}

impl Trigger {
    /// Takes the three arguments of which one may be given.
    pub fn parse(
        args: &Args<'_>,
        what: &str,
        freeze: Option<u64>,
        stop: Option<u64>,
        call: &str,
    ) -> Result<Trigger, Failed> {
        let given = [freeze.is_some(), stop.is_some(), !call.is_empty()];
        if given.iter().filter(|given| **given).count() > 1 {
            return Err(args.fail(format_args!(
                "'{what}_FREEZE', '{what}_STOP', and '{what}_CALL' are mutually exclusive"
            )));
        }
        let own = |at, handler: &str, action| Trigger {
            at: Some(at),
            text: format!("{}.{handler}", args.element()),
            action,
        };
        if let Some(at) = freeze {
            return Ok(own(at, "freeze true", Action::Freeze));
        }
        if let Some(at) = stop {
            return Ok(own(at, "stop", Action::Stop));
        }
        if call.is_empty() {
            return Ok(Trigger::default());
        }
        let (number, text) = click::config::shift_space(call);
        let what = match what {
            "AGGREGATE" => "AGGREGATE_CALL first word should be unsigned (number of aggregates)",
            _ => "COUNT_CALL first word should be unsigned (count)",
        };
        Ok(Trigger {
            at: Some(args.context().parse(number).map_err(|_| args.fail(what))?),
            text: text.to_string(),
            action: Action::Nothing,
        })
    }

    /// Finds the handler to call.
    pub fn resolve(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.at.is_some() {
            cx.may_interrupt();
        }
        if self.at.is_some() && matches!(self.action, Action::Nothing) {
            self.action = Action::Call(Call::to_write(cx, &self.text)?);
        }
        Ok(())
    }

    /// Takes what was written to a handler.
    pub fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let value = click::config::uncomment(value);
        if value.is_empty() {
            *self = Trigger::default();
            return Ok(());
        }
        let (number, text) = click::config::shift_space(&value);
        let at = cx.names().parse(number);
        let at = at.map_err(|_| format!("argument to '{name}' should be 'N HANDLER [VALUE]'"))?;
        let action = Action::Call(Call::to_write(cx, text)?);
        cx.may_interrupt();
        *self = Trigger {
            at: Some(at),
            text: text.to_string(),
            action,
        };
        Ok(())
    }

    pub fn show(&self) -> String {
        match self.at {
            Some(at) => format!("{at} {}", self.text),
            None => String::new(),
        }
    }
}
