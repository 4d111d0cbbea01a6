//! A handler that is written when a count is reached.

use crate::prelude::*;

/// The argument `N HANDLER [VALUE]`.
#[derive(Clone, Default)]
pub struct CountCall {
    /// The count.
    pub at: u64,
    text: String,
    call: Option<Call>,
    /// Whether the call was made.
    pub done: bool,
}

impl Argument for CountCall {
    const KIND: &'static str = "N HANDLER [VALUE]";

    fn parse(text: &str, context: &Context<'_>) -> Result<CountCall, Invalid> {
        let (number, call) = click::config::shift_space(text);
        let at = context.parse(number);
        Ok(CountCall {
            at: at.map_err(|_| Invalid::because("type mismatch"))?,
            text: call.to_string(),
            ..CountCall::default()
        })
    }
}

impl CountCall {
    /// Finds the handler.
    pub fn resolve(&mut self, cx: &Cx<'_>) -> Result<(), String> {
        if !self.text.is_empty() {
            self.call = Some(Call::to_write(cx, &self.text)?);
        }
        Ok(())
    }

    /// Whether `count` is reached, and the call not yet made.
    #[inline]
    pub fn is_due(&self, count: u64) -> bool {
        self.call.is_some() && !self.done && count >= self.at
    }

    /// The call, if it is to be made at `count`.
    pub fn take(&mut self, count: u64) -> Option<Call> {
        let due = self.is_due(count);
        self.done |= due;
        self.call.clone().filter(|_| due)
    }

    /// The count, as a handler shows it.
    pub fn show(&self) -> Option<u64> {
        self.call.is_some().then_some(self.at)
    }
}
