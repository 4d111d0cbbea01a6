use alloc::format;
use alloc::string::{String, ToString};

use packet::Batch;
use router::args::{Any, Args, Failed};
use router::{Call, Class, Cx, Element, HandlerError, HandlerList, Llrpc, llrpc};

use crate::rate::Rate;

/// What is called when a count reaches a number.
#[derive(Default)]
struct Trigger {
    at: u64,
    text: String,
    call: Option<Call>,
    done: bool,
}

impl Trigger {
    /// Takes `N HANDLER [VALUE]`.
    fn parse(&mut self, cx: &Cx<'_>, text: &str) -> Result<(), ()> {
        let (number, call) = click::config::shift_space(text);
        self.at = cx.names().parse(number).map_err(|_| ())?;
        (self.text, self.done) = (call.to_string(), false);
        Ok(())
    }

    fn resolve(&mut self, cx: &Cx<'_>) -> Result<(), String> {
        self.call = match self.text.is_empty() {
            true => None,
            false => Some(Call::to_write(cx, &self.text)?),
        };
        Ok(())
    }

    /// Whether the call is still to come.
    #[inline]
    fn waits(&self) -> bool {
        self.call.is_some() && !self.done
    }

    /// Whether it may be reached on the way to `count`.
    fn is_within(&self, count: u64) -> bool {
        self.waits() && count >= self.at
    }

    fn check(&mut self, cx: &mut Cx<'_>, count: u64, exact: bool) {
        let reached = if exact {
            count == self.at
        } else {
            count >= self.at
        };
        if self.waits()
            && reached
            && let Some(call) = self.call.clone()
        {
            self.done = true;
            let _ = call.write(cx);
        }
    }
}

/// Counts packets and bytes, and measures their rates.
///
/// # Arguments
/// - `COUNT_CALL` (`N HANDLER [VALUE]`): when the packet count reaches N, HANDLER is written
///   before the packet goes on.
/// - `BYTE_COUNT_CALL` (`N HANDLER [VALUE]`): the same when the byte count reaches N or more.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `count`, `byte_count` (read): packets and bytes since the last reset.
/// - `rate`, `byte_rate`, `bit_rate` (read): packets, bytes and bits a second, as an exponentially
///   weighted moving average.
/// - `reset`, `reset_counts` (write): sets the counts to 0.
/// - `count_call` (read, write), `byte_count_call` (write): the arguments; read, the number.
///
/// # Example
/// ```click
/// InfiniteSource -> Counter(COUNT_CALL 1000 stop) -> Discard;
/// ```
///
/// # See also
/// AverageCounter
#[derive(Default)]
pub struct Counter {
    count: u64,
    bytes: u64,
    rate: Rate,
    byte_rate: Rate,
    count_trigger: Trigger,
    byte_trigger: Trigger,
}

impl Class for Counter {
    const NAME: &'static str = "Counter";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl Counter {
    #[inline]
    fn see(&mut self, cx: &mut Cx<'_>, batch: &Batch) {
        if batch.is_empty() {
            return;
        }
        let now = cx.recent();
        let (packets, bytes) = batch.tally();
        self.rate.update(now, packets);
        self.byte_rate.update(now, bytes);
        let (count, bytes) = (self.count + packets, self.bytes + bytes);
        if self.count_trigger.is_within(count) || self.byte_trigger.is_within(bytes) {
            self.see_each(cx, batch);
        } else {
            (self.count, self.bytes) = (count, bytes);
        }
    }

    /// As the batch's packets count one by one, for the calls' sake.
    #[cold]
    fn see_each(&mut self, cx: &mut Cx<'_>, batch: &Batch) {
        for packet in batch.iter() {
            self.count += packet.stands_for() as u64;
            self.bytes += packet.wire_len() as u64;
            self.count_trigger.check(cx, self.count, true);
            self.byte_trigger.check(cx, self.bytes, false);
        }
    }
}

impl Element for Counter {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut count_call, mut byte_call) = (String::new(), String::new());
        args.keyword_with("COUNT_CALL", Any, &mut count_call)
            .keyword_with("BYTE_COUNT_CALL", Any, &mut byte_call)
            .complete()?;
        for (name, text, trigger) in [
            ("COUNT_CALL", count_call, &mut self.count_trigger),
            ("BYTE_COUNT_CALL", byte_call, &mut self.byte_trigger),
        ] {
            if !text.is_empty() && trigger.parse(cx, &text).is_err() {
                return Err(args.fail(format_args!("{name} type mismatch")));
            }
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.count_trigger.resolve(cx).map_err(|e| cx.error(e))?;
        self.byte_trigger.resolve(cx).map_err(|e| cx.error(e))
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.see(cx, batch);
        0
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        cx.pull(0, batch, most);
        self.see(cx, batch);
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("count").read("byte_count");
        list.read("rate").read("bit_rate").read("byte_rate");
        list.button("reset").button("reset_counts");
        list.read_write("count_call").write("byte_count_call");
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        // Rates fall while nothing comes.
        let now = cx.steady();
        self.rate.update(now, 0);
        self.byte_rate.update(now, 0);
        match name {
            "count" => Ok(self.count.to_string()),
            "byte_count" => Ok(self.bytes.to_string()),
            "rate" => Ok(self.rate.unparse(1)),
            "byte_rate" => Ok(self.byte_rate.unparse(1)),
            "bit_rate" => Ok(self.byte_rate.unparse(8)),
            "count_call" if self.count_trigger.call.is_some() => {
                Ok(self.count_trigger.at.to_string())
            }
            "count_call" => Ok(String::new()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let trigger = match name {
            "reset" | "reset_counts" => {
                (self.count, self.bytes) = (0, 0);
                self.count_trigger.done = false;
                self.byte_trigger.done = false;
                return Ok(());
            }
            "count_call" => &mut self.count_trigger,
            "byte_count_call" => &mut self.byte_trigger,
            _ => return Err(HandlerError::Unknown),
        };
        trigger
            .parse(cx, value)
            .map_err(|()| format!("'{name}' first word should be unsigned (count)"))?;
        Ok(trigger.resolve(cx)?)
    }

    fn llrpc(&mut self, cx: &mut Cx<'_>, call: Llrpc, data: &mut [u8]) -> Result<(), HandlerError> {
        let value = match (call, llrpc::word(data)?) {
            (Llrpc::GET_RATE, 0) => {
                self.rate.update(cx.steady(), 0);
                self.rate.rate()
            }
            (Llrpc::GET_COUNT, 0) => self.count,
            (Llrpc::GET_COUNT, 1) => self.bytes,
            _ => return Err(HandlerError::Unknown),
        };
        llrpc::set_word(data, value as u32)
    }
}
