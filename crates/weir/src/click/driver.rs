//! The embedding of the routers of `weir click`: the machine's clocks and names, messages on standard
//! error, and the handlers that the driver adds.

use std::sync::{Arc, Mutex, PoisonError};

use click::text::{decode, encode};
use click::{Diagnostics, FlatElement, Location};
use elements::userlevel::HostInterface;
use node::files;
use router::args::{Context, NameDatabase, path};
use router::{
    Device, Embedding, HandlerError, HandlerFlags, HandlerList, Refused, Router, Runtime, Settings,
    Side, Steady, StoreBox,
};

use super::source::{ClickEnvironment, Source, reason};
use super::store::Requests;
use crate::host::{self, Clock, Machine, Warp};

/// Most bytes of a file that an argument names.
const FILE_MAX: usize = 256 << 20;
/// Most packet buffers of a router: 8 GiB of memory if all are ever used at once.
const BUFFERS: usize = 1 << 22;

/// What all routers of the process have in common.
pub struct Driver {
    /// Their time.
    pub clock: Clock,
    /// What configurations may use.
    pub environment: ClickEnvironment,
    /// `NAME=VALUE` settings.
    pub variables: Vec<(String, String)>,
    /// Interfaces that the configuration calls otherwise: its name, and the machine's.
    pub links: Vec<(String, String)>,
    /// Control sockets to add to each configuration: a configuration string of ControlSocket each.
    pub control_sockets: Vec<String>,
    /// How routers run.
    pub settings: Settings,
    /// `hotconfig` can be written.
    pub allow_reconfigure: bool,
    /// The control store, if there is one.
    pub store: Option<Requests>,
    /// The router that is to take the running one's place.
    pub next: Mutex<Option<Router>>,
}

impl Driver {
    /// Makes a router of a configuration, initialized but not running. With `hotswap`, it is to
    /// take another's place, and waits for its control sockets until it does.
    pub fn router(
        self: &Arc<Self>,
        source: &Source,
        hotswap: bool,
        diagnostics: &mut Diagnostics,
    ) -> Option<Router> {
        let options = click::Options {
            environment: &self.environment,
            variables: &self.variables,
            ..click::Options::default()
        };
        let mut flat = click::parse(&source.text, &source.name, &options, diagnostics)?;
        let text = match flat.is_compact() {
            true => flat.unparse(),
            false => decode(&source.text).into_owned(),
        };
        for (i, config) in self.control_sockets.iter().enumerate() {
            let mut name = "click_driver@@ControlSocket".to_string();
            if i > 0 {
                name += &format!("@{i}");
            }
            let retries = match hotswap {
                true => ", RETRIES 1, RETRY_WARNINGS false",
                false => "",
            };
            flat.elements.push(FlatElement {
                name,
                class: "ControlSocket".into(),
                config: format!("{config}{retries}"),
                location: Location::new("click", 0),
            });
        }
        let runtime = self.runtime();
        let library = &self.environment.library;
        Router::new(flat, &text, library, runtime, self.settings, diagnostics)
            .map_err(|Refused(_)| ())
            .ok()
    }

    /// The runtime of a router, or of a thread of one.
    pub fn runtime(self: &Arc<Self>) -> Runtime {
        let embedding = Box::new(ClickEmbedding {
            driver: Arc::clone(self),
        });
        Runtime::new(embedding, packet::Pool::heap(BUFFERS))
    }

    /// Takes the router that is to take the running one's place.
    pub fn take_next(&self) -> Option<Router> {
        let next = self.next.lock();
        next.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Makes a router that is to take the running one's place.
    fn hotconfig(self: &Arc<Self>, text: &str) -> Result<(), HandlerError> {
        let mut diagnostics = Diagnostics::new();
        let source = Source::expression(encode(text).into_owned())?;
        let Some(router) = self.router(&source, true, &mut diagnostics) else {
            return Err(diagnostics.to_string().into());
        };
        let next = self.next.lock();
        let former = next.unwrap_or_else(PoisonError::into_inner).replace(router);
        if let Some(former) = former {
            former.end();
        }
        host::chatter_all(&diagnostics);
        Ok(())
    }

    fn timewarp(&self) -> String {
        match self.clock.warp() {
            Warp::Simulation => "simulation".into(),
            Warp::NoWait => "nowait".into(),
            Warp::Linear(speed) => speed.to_string(),
        }
    }

    fn set_timewarp(&self, value: &str) -> Result<(), HandlerError> {
        let warp = match value {
            "nowait" => Warp::NoWait,
            _ => match Context::blank().parse::<f64>(value) {
                Err(_) => return Err("expected double".into()),
                Ok(speed) if speed > 0.0 => Warp::Linear(speed),
                Ok(_) => return Err("timefactor must be > 0".into()),
            },
        };
        self.clock.set_warp(warp);
        Ok(())
    }
}

struct ClickEmbedding {
    driver: Arc<Driver>,
}

impl ClickEmbedding {
    fn machine(&self) -> Machine {
        Machine::with_links(&self.driver.links)
    }
}

impl Embedding for ClickEmbedding {
    fn steady(&self) -> Steady {
        self.driver.clock.steady()
    }

    fn wall(&self) -> i64 {
        self.driver.clock.wall()
    }

    fn chatter(&mut self, line: &str) {
        host::chatter(line);
    }

    fn quotes(&self) -> click::Quotes {
        host::quotes()
    }

    fn seed(&mut self) -> u64 {
        host::seed()
    }

    fn driver(&self) -> &'static str {
        "userlevel"
    }

    fn store(&self) -> Option<StoreBox> {
        let requests = self.driver.store.as_ref()?;
        Some(requests.store.clone())
    }

    fn file(&mut self, name: &str) -> Result<String, String> {
        let text = files::read(&path(name), FILE_MAX);
        let text = text.map_err(|error| reason(&error))?;
        Ok(decode(&text).into_owned())
    }

    fn names(&mut self) -> NameDatabase {
        let mut names = NameDatabase::new();
        names.set_host(Box::new(self.machine()));
        names
    }

    fn device(&mut self, name: &str, side: Side) -> Result<Box<dyn Device>, String> {
        let interface = HostInterface::open(self.machine().interface(name), side)?;
        Ok(Box::new(interface))
    }

    fn handlers(&self, list: &mut HandlerList) {
        if self.driver.allow_reconfigure {
            list.add("hotconfig", HandlerFlags::WRITE.with(HandlerFlags::RAW));
        }
        list.read("timewarp");
        if self.driver.clock.warp() != Warp::Simulation {
            list.write("timewarp");
        }
    }

    fn read(&mut self, name: &str, _parameter: &str) -> Result<String, HandlerError> {
        match name {
            "timewarp" => Ok(self.driver.timewarp()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "hotconfig" if self.driver.allow_reconfigure => self.driver.hotconfig(value),
            "timewarp" if self.driver.clock.warp() != Warp::Simulation => {
                self.driver.set_timewarp(value)
            }
            _ => Err(HandlerError::Unknown),
        }
    }
}
