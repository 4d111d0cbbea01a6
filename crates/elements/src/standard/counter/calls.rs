//! Handlers that are written when a count is reached.

use router::args::Saturating;

use crate::prelude::*;

/// A Counter's calls.
#[derive(Clone, Component)]
pub struct Calls {
    /// When the packet count reaches N, HANDLER is written before the packet goes on.
    #[arg(
        read = CountCall::show,
        write,
        then = count_written
    )]
    count_call: CountCall,
    /// The same when the byte count reaches N or more.
    #[arg(
        write,
        then = byte_count_written
    )]
    byte_count_call: CountCall,
}

impl Calls {
    /// Checks the counts, in Click's words.
    pub fn check(&self, args: &Args<'_>) -> Result<(), Failed> {
        let calls = [
            (&self.count_call, "COUNT_CALL"),
            (&self.byte_count_call, "BYTE_COUNT_CALL"),
        ];
        let wrong = calls
            .iter()
            .find_map(|(call, keyword)| Some((call.wrong?, keyword)));
        match wrong {
            Some((wrong, keyword)) => Err(args.fail(format_args!("{keyword} {wrong}"))),
            None => Ok(()),
        }
    }

    fn count_written(&mut self, _cx: &mut Cx<'_>) -> Result<(), &'static str> {
        let error = "'count_call' first word should be unsigned (count)";
        self.count_call.wrong.map_or(Ok(()), |_| Err(error))
    }

    fn byte_count_written(&mut self, _cx: &mut Cx<'_>) -> Result<(), &'static str> {
        let error = "'byte_count_call' first word should be unsigned (count)";
        self.byte_count_call.wrong.map_or(Ok(()), |_| Err(error))
    }

    /// Finds the handlers to be written.
    pub fn resolve(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.count_call.resolve(cx)?;
        self.byte_count_call.resolve(cx)
    }

    /// Whether a call is to be made at or before these counts.
    #[inline]
    pub fn are_due(&self, count: u64, bytes: u64) -> bool {
        self.count_call.is_due(count) || self.byte_count_call.is_due(bytes)
    }

    /// The call that is to be made at this packet count.
    pub fn at_count(&mut self, count: u64) -> Option<Call> {
        let exact = count == self.count_call.at;
        exact.then(|| self.count_call.take(count)).flatten()
    }

    /// The call that is to be made at this byte count.
    pub fn at_bytes(&mut self, bytes: u64) -> Option<Call> {
        self.byte_count_call.take(bytes)
    }

    /// Lets each call be made again.
    pub fn reset(&mut self) {
        self.count_call.done = false;
        self.byte_count_call.done = false;
    }
}

/// The argument `N HANDLER [VALUE]`.
#[derive(Clone, Default)]
struct CountCall {
    at: u64,
    /// What is wrong with the first word, if it is no number.
    wrong: Option<&'static str>,
    /// Whether there is one.
    is_given: bool,
    text: String,
    call: Option<Call>,
    /// Whether the call was made.
    done: bool,
}

impl Argument for CountCall {
    const KIND: &'static str = "N HANDLER [VALUE]";

    fn parse(text: &str, context: &Context<'_>) -> Result<CountCall, Invalid> {
        let (number, call) = click::config::shift_space(text);
        let at = context.parse(number);
        let is_greater = || context.parse_with(Saturating, number) == Ok(u64::MAX);
        Ok(CountCall {
            at: at.as_ref().copied().unwrap_or_default(),
            wrong: match at {
                Ok(_) => None,
                Err(_) if is_greater() => Some("overflow, max 18446744073709551615"),
                Err(_) => Some("type mismatch"),
            },
            is_given: true,
            text: call.to_string(),
            ..CountCall::default()
        })
    }
}

impl CountCall {
    fn resolve(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.is_given {
            cx.may_interrupt();
            self.call = Some(Call::to_write(cx, &self.text)?);
        }
        Ok(())
    }

    #[inline]
    fn is_due(&self, count: u64) -> bool {
        self.call.is_some() && !self.done && count >= self.at
    }

    fn take(&mut self, count: u64) -> Option<Call> {
        let due = self.is_due(count);
        self.done |= due;
        self.call.clone().filter(|_| due)
    }

    /// The count, as a handler shows it.
    fn show(&self) -> Option<u64> {
        self.call.is_some().then_some(self.at)
    }
}
