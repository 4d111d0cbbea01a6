//! Meter's and BandwidthMeter's comparison of a rate with several limits.

use crate::prelude::*;
use crate::rates::average::{Level, Rate};

/// A rate of packets or bytes, and the limits between outputs.
#[derive(Component)]
#[component(handlers)]
pub struct Metered {
    rate: Rate,
    /// From low to high.
    steps: Vec<Level>,
}

#[handlers]
impl Metered {
    /// Packets or bytes a second.
    #[read]
    fn rate(&mut self, cx: &mut Cx<'_>) -> String {
        // The rate falls while nothing comes.
        self.rate.at(cx.steady()).unparse(1)
    }

    /// The arguments a second, as they are compared with the rate.
    #[read]
    fn meters(&self) -> String {
        let steps = self.steps.iter().map(|step| step.unparse(1));
        steps.collect::<Vec<_>>().join(" ")
    }
}

impl Metered {
    /// Takes the arguments `texts`.
    pub fn configured(
        &mut self,
        cx: &Cx<'_>,
        args: &Args<'_>,
        texts: &[String],
    ) -> Result<(), Failed> {
        if texts.is_empty() {
            return Err(args.fail("too few arguments to BandwidthMeter(bandwidth, ...)"));
        }
        let mut rates: Vec<u64> = Vec::new();
        for (n, text) in (1..).zip(texts) {
            let Ok((Bandwidth(rate), has_unit)) = args.context().parse_with(BandwidthArg, text)
            else {
                return Err(args.fail(format_args!("argument {n} syntax error")));
            };
            if rates.last().is_some_and(|last| rate <= *last) {
                return Err(args.fail(format_args!("rate {n} must be > rate {}", n - 1)));
            }
            if !has_unit {
                args.warning(format_args!(
                    "no units for bandwidth argument {n}, assuming Bps"
                ));
            }
            rates.push(rate);
        }
        if rates.len() + 1 != cx.outputs() {
            return Err(args.fail(format_args!(
                "need {} arguments, one less than the number of output ports",
                cx.outputs().saturating_sub(1)
            )));
        }
        self.steps = rates.into_iter().map(Level::per_second).collect();
        Ok(())
    }

    /// Counts `events`; returns the output of their packets. The average changes at most once for
    /// packets that come together, before they count, so that they all leave by one output.
    #[inline]
    pub fn output(&mut self, cx: &mut Cx<'_>, events: u64) -> usize {
        self.rate.update(cx.recent(), events);
        let level = self.rate.level();
        let above = self.steps.iter().position(|step| level < *step);
        above.unwrap_or(self.steps.len())
    }
}
