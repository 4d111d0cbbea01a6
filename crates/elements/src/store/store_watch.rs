use crate::prelude::*;

/// Follows a node of the control store.
///
/// The node is read when the router starts and whenever it changes; then HANDLER is written with its value. So a
/// node of the store steers a configuration that runs. A node that is missing or removed leaves the last value. A
/// path without a slash in front is below the guest's own, `/local/domain/ID`. A guest asks by itself; `weir click`
/// uses the store whose socket `XENSTORED_PATH` names.
///
/// Changes that come faster than they are read are one. After a hotswap, in a guest that was restored, cloned or
/// migrated, and with another store, the node is watched again.
///
/// # Example
/// ```click
/// StoreWatch(data/rate, HANDLER s.rate);
/// s :: RatedSource(RATE 10) -> Discard;
/// ```
///
/// # See also
/// StoreRead, StoreWrite
#[derive(Element)]
#[element(ports = "0/0", provides(StoreUser))]
pub struct StoreWatch {
    /// The node.
    #[arg(mandatory)]
    path: String,
    /// The handler that is written with the value when the node changes.
    #[arg(positional)]
    handler: String,
    /// The node's last value.
    #[handler(read)]
    value: String,
    /// Whether there is such a node.
    #[handler(read)]
    exists: bool,
    /// Times that the value changed.
    #[handler(read)]
    changes: u64,
    /// Why the store did not let it be read, or the handler refused the last value.
    #[handler(read)]
    error: String,
    call: Option<Call>,
    store: Option<StoreHandle>,
    /// Whether it is being read.
    reads: bool,
    /// Whether it changed while it was being read.
    changed: bool,
}

impl StoreWatch {
    fn read(&mut self) {
        let request = StoreRequest::Read(self.path.clone());
        let asked = self.store.as_ref().map(|store| store.ask(request));
        self.reads = matches!(asked, Some(Ok(())));
        if let Some(Err(why)) = asked {
            self.error = why.into();
        }
    }

    fn take(&mut self, cx: &mut Cx<'_>, value: String) {
        self.error = String::new();
        if self.exists && self.value == value {
            return;
        }
        (self.exists, self.value) = (true, value);
        self.changes += 1;
        let Some(mut call) = self.call.clone() else {
            return;
        };
        call.value.clone_from(&self.value);
        if let Err(error) = call.write_from(cx, self) {
            self.error = match error {
                HandlerError::Failed(failure) => failure.text,
                HandlerError::Unknown => alloc::format!("no ‘{}’ write handler", self.handler),
            };
            let line = alloc::format!("{}: {}", self.path, self.error);
            cx.report(&line);
        }
    }
}

impl Element for StoreWatch {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        super::link::check_path(&self.path).map_err(|why| args.fail(why))
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if !self.handler.is_empty() {
            let call = Call::to_write(cx, &self.handler);
            self.call = Some(call.map_err(|why| cx.error(why))?);
        }
        let store = super::link::open(cx)?;
        let asked = store.ask(StoreRequest::Watch(self.path.clone()));
        self.store = Some(store);
        asked.map_err(|why| cx.error(why))
    }
}

impl StoreUser for StoreWatch {
    fn answered(&mut self, cx: &mut Cx<'_>, handle: u64, answer: &StoreAnswer) {
        if self.store.as_ref().is_none_or(|own| own.number() != handle) {
            return;
        }
        if *answer == StoreAnswer::Reconnected {
            // The watch is registered again, which is an event.
            return;
        }
        if *answer == StoreAnswer::Changed {
            match self.reads {
                true => self.changed = true,
                false => self.read(),
            }
            return;
        }
        self.reads = false;
        match answer {
            StoreAnswer::Value(value) => {
                let value = click::text::decode(value).into_owned();
                self.take(cx, value);
            }
            StoreAnswer::Refused(why) => {
                self.exists = false;
                self.error = match why.as_str() {
                    "ENOENT" => String::new(),
                    why => why.into(),
                };
            }
            _ => {}
        }
        if core::mem::take(&mut self.changed) {
            self.read();
        }
    }
}
