//! The input that a switch pulls from, which can be changed while it runs.

use crate::prelude::*;

/// An input of a number of inputs, and a notifier that tells of it if that is wanted.
#[derive(Component)]
#[component(handlers)]
pub(crate) struct ChosenInput {
    /// The input; without an input of that number, pulls return nothing.
    #[arg(positional, default = 0)]
    input: i32,
    chosen: Option<usize>,
    signal: Option<SignalId>,
    /// Whether it has a notifier.
    #[init(true)]
    notifies: bool,
    inputs: Vec<Signal>,
}

#[handlers]
impl ChosenInput {
    /// The argument INPUT; -1 if there is no such input.
    #[read]
    fn switch(&self) -> i32 {
        self.chosen.map_or(-1, |input| input as i32)
    }

    /// The argument INPUT.
    #[read]
    fn config(&self) -> i32 {
        self.switch()
    }

    /// The argument INPUT.
    #[write(error = "syntax error")]
    fn set_switch(&mut self, cx: &mut Cx<'_>, input: i32) {
        self.input = input;
        self.choose(cx);
        self.tell(cx);
    }
}

impl ChosenInput {
    /// A choice without a notifier.
    pub fn silent() -> ChosenInput {
        ChosenInput {
            notifies: false,
            ..ChosenInput::default()
        }
    }

    /// Chooses the input that was configured.
    fn choose(&mut self, cx: &Cx<'_>) {
        let input = usize::try_from(self.input).ok();
        self.chosen = input.filter(|input| *input < cx.inputs());
    }

    /// Whether there may be something to be pulled.
    fn may_give(&self, cx: &Cx<'_>) -> bool {
        // Before all is initialized nothing is known of the inputs.
        let active = |input| self.inputs.get(input).is_none_or(|s| cx.is_active(s));
        self.chosen.is_some_and(active)
    }

    /// Says what the input chosen now may give.
    fn tell(&self, cx: &mut Cx<'_>) {
        if let Some(signal) = self.signal {
            let active = self.may_give(cx);
            // A sleeping puller is woken; one that is awake finds out by the next pull.
            if active || self.chosen.is_none() {
                cx.set_signal(signal, active);
            }
        }
    }
}

impl Llrpcs for ChosenInput {
    fn llrpc(&mut self, cx: &mut Cx<'_>, call: Llrpc, data: &mut [u8]) -> Result<(), HandlerError> {
        match call {
            Llrpc::GET_SWITCH => llrpc::set_word(data, self.switch() as u32),
            Llrpc::SET_SWITCH => {
                self.set_switch(cx, llrpc::word(data)? as i32);
                Ok(())
            }
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Element for ChosenInput {
    fn configured(&mut self, cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.choose(cx);
        if self.notifies {
            let active = self.may_give(cx);
            let signal = cx.signal(Notice::Empty, active);
            self.signal = Some(signal);
            cx.set_signal(signal, active);
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        // An input that has something wakes the puller; if it is not the chosen one, the next pull
        // puts it to sleep again.
        if let Some(signal) = self.signal {
            let inputs = 0..cx.inputs();
            self.inputs = inputs.map(|i| cx.lead_upstream(i, signal)).collect();
        }
        Ok(())
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch, most: usize) {
        match self.chosen {
            Some(input) => cx.pull_through(input, most),
            None => self.pulled(cx, port, batch),
        }
    }

    #[inline]
    fn pulled(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if let Some(signal) = self.signal {
            let active = !batch.is_empty() || self.may_give(cx);
            cx.set_signal(signal, active);
        }
    }
}
