use crate::prelude::*;

/// A second.
const SECOND: Timestamp = Timestamp(1_000_000_000);

/// Writes a node of the control store.
///
/// What is written to `write` is the node's value. With HANDLER, that is read every INTERVAL, and its value written if
/// it is another than before. A node that is missing is made. A path without a slash in front is below the guest's
/// own, `/local/domain/ID`, where a guest may write below `data`. A guest asks by itself; `weir click` uses the store
/// whose socket `XENSTORED_PATH` names.
///
/// After a hotswap, in a guest that was restored, cloned or migrated, and with another store, the value is written
/// again when HANDLER is read next.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 100) -> c :: Counter -> Discard;
/// StoreWrite(data/count, HANDLER c.count, INTERVAL 1s);
/// ```
///
/// # See also
/// StoreRead, StoreWatch
#[derive(Element)]
#[element(ports = "0/0", handlers, provides(StoreUser))]
pub struct StoreWrite {
    /// The node.
    #[arg(mandatory)]
    path: String,
    /// The handler whose value is written.
    #[arg(positional)]
    handler: String,
    /// How often HANDLER is read.
    #[arg(positional, default = SECOND, default_text = "1s", error = "bad interval")]
    interval: Timestamp,
    /// Values that the store has taken.
    #[handler(read)]
    count: u64,
    /// Why the store refused the last value, if it did.
    #[handler(read)]
    error: String,
    call: Option<Call>,
    store: Option<StoreHandle>,
    timer: Option<TimerId>,
    /// The last value that was asked to be written by HANDLER.
    last: Option<String>,
}

impl StoreWrite {
    fn put(&self, value: &str) -> Result<(), &'static str> {
        let store = self.store.as_ref().ok_or("there is no control store")?;
        store.ask(StoreRequest::Write(
            self.path.clone(),
            click::text::encode(value).into(),
        ))
    }

    fn schedule(&self, cx: &mut Cx<'_>) {
        if let Some(timer) = self.timer {
            let next = cx.steady().after(self.interval.0.unsigned_abs());
            cx.schedule_at(timer, next);
        }
    }
}

#[handlers]
impl StoreWrite {
    /// Sets the node's value.
    #[write(raw)]
    fn write(&mut self, value: &str) -> Result<(), &'static str> {
        super::link::check_value(&self.path, value)?;
        self.put(value)
    }
}

impl Element for StoreWrite {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.interval.0 <= 0 {
            return Err(args.fail("INTERVAL must be positive"));
        }
        super::link::check_path(&self.path).map_err(|why| args.fail(why))
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.store = Some(super::link::open(cx)?);
        if !self.handler.is_empty() {
            let call = Call::to_read(cx, &self.handler);
            self.call = Some(call.map_err(|why| cx.error(why))?);
            self.timer = Some(cx.timer());
            self.schedule(cx);
        }
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.schedule(cx);
        let Some(call) = self.call.clone() else {
            return;
        };
        let Ok(value) = cx.call_out(self, |cx| call.read(cx)) else {
            return;
        };
        let value = value.trim_end_matches('\n');
        if self.last.as_deref() == Some(value) {
            return;
        }
        let put = super::link::check_value(&self.path, value).and_then(|()| self.put(value));
        match put {
            Ok(()) => self.last = Some(value.into()),
            Err(why) => self.error = why.into(),
        }
    }
}

impl StoreUser for StoreWrite {
    fn answered(&mut self, _cx: &mut Cx<'_>, handle: u64, answer: &StoreAnswer) {
        if self.store.as_ref().is_none_or(|own| own.number() != handle) {
            return;
        }
        match answer {
            StoreAnswer::Written => {
                self.count += 1;
                self.error = String::new();
            }
            StoreAnswer::Refused(why) => self.error.clone_from(why),
            StoreAnswer::Reconnected => self.last = None,
            _ => {}
        }
    }
}
