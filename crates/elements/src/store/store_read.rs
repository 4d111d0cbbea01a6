use crate::prelude::*;

/// Reads a node of the control store.
///
/// The node is read when the router starts, and when `refresh` is written. A path without a slash in front is below
/// the guest's own, `/local/domain/ID`. A guest reads by itself; `weir click` uses the store whose socket
/// `XENSTORED_PATH` names.
///
/// After a hotswap, and in a guest that was restored, cloned or migrated, the node is read again.
///
/// # Example
/// ```click
/// limit :: StoreRead(data/limit);
/// Script(TYPE PASSIVE, print "limit $(limit.value)");
/// ```
///
/// # See also
/// StoreWatch, StoreWrite
#[derive(Element)]
#[element(ports = "0/0", handlers, provides(StoreUser))]
pub struct StoreRead {
    /// The node.
    #[arg(mandatory)]
    path: String,
    /// What `value` is as long as nothing is read, and where there is no such node.
    #[arg]
    default: String,
    /// The node's value.
    #[handler(read)]
    value: String,
    /// Whether there is such a node.
    #[handler(read)]
    exists: bool,
    /// Why the store did not let it be read, if it did not.
    #[handler(read)]
    error: String,
    store: Option<StoreHandle>,
}

impl StoreRead {
    fn read(&self) -> Result<(), &'static str> {
        let store = self.store.as_ref().ok_or("there is no control store")?;
        store.ask(StoreRequest::Read(self.path.clone()))
    }
}

#[handlers]
impl StoreRead {
    /// Reads the node again.
    #[write(button)]
    fn refresh(&mut self) -> Result<(), &'static str> {
        self.read()
    }
}

impl Element for StoreRead {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        super::link::check_path(&self.path).map_err(|why| args.fail(why))
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.value.clone_from(&self.default);
        self.store = Some(super::link::open(cx)?);
        self.read().map_err(|why| cx.error(why))
    }
}

impl StoreUser for StoreRead {
    fn answered(&mut self, _cx: &mut Cx<'_>, handle: u64, answer: &StoreAnswer) {
        if self.store.as_ref().is_none_or(|own| own.number() != handle) {
            return;
        }
        if *answer == StoreAnswer::Reconnected {
            // What waits to be asked is asked again by itself.
            let _ = self.read();
            return;
        }
        self.error = String::new();
        self.exists = false;
        self.value.clone_from(&self.default);
        match answer {
            StoreAnswer::Value(value) => {
                self.exists = true;
                self.value = click::text::decode(value).into_owned();
            }
            StoreAnswer::Refused(why) if why != "ENOENT" => self.error.clone_from(why),
            _ => {}
        }
    }
}
