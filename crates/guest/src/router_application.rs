//! The guest's main application: a router, configured from the boot area.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::AtomicU32;

use abi::control::CONFIGURATIONS_MAX;
use abi::message::{kind, status};
use abi::region::Region;
use click::text::{decode, encode, into_bytes};
use click::{Diagnostics, FlatGraph};
use packet::Pool;
use router::args::{EtherAddress, Interfaces, NameDatabase};
use router::memory::{MORE_MEMORY, RESERVE, spare};
use router::{
    Device, ElementId, Embedding, Endpoint, HandlerError, HandlerList, Kept, Library, NO_DEVICE,
    NO_SOCKETS, Router, Runtime, Settings, Side, Status, Steady, StoreBox,
};

use crate::configurations::Text;
use crate::cpus::{self, IdlePolling};
use crate::netfront::Netfront;
use crate::sockets::Sockets;
use crate::store::Connection;
use crate::{Answer, Application, Cpu, Platform, Request, Round};

/// Tasks that run between two polls of the control channel.
pub(crate) const TASKS: usize = 128;
/// Most packets of a guest without a data region.
const HEAP_PACKETS: usize = 256;

/// The guest as the program around a router, or around a CPU's part of it.
pub(crate) struct GuestEmbedding {
    cpu: Cpu,
    region: Option<Region>,
    store: StoreBox,
    sockets: Option<Sockets>,
}

impl GuestEmbedding {
    /// The embedding of another CPU.
    pub(crate) fn on(&self, cpu: Cpu) -> GuestEmbedding {
        GuestEmbedding {
            cpu,
            region: self.region,
            store: self.store.clone(),
            sockets: self.sockets.clone(),
        }
    }
}

impl Embedding for GuestEmbedding {
    fn steady(&self) -> Steady {
        Steady(self.cpu.platform().clock().now())
    }

    fn wall(&self) -> i64 {
        self.cpu.platform().clock().unix() as i64
    }

    fn chatter(&mut self, line: &str) {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let _ = writeln!(self.cpu.platform().console(), "{line}");
    }

    /// Another one each time: a configuration that replaces another does not draw its numbers again.
    fn seed(&mut self) -> u64 {
        let seed = self.cpu.platform().seed();
        let Steady(now) = self.steady();
        seed[0] ^ seed[1].wrapping_mul(self.cpu.number() as u64) ^ seed[2].wrapping_mul(now | 1)
    }

    fn driver(&self) -> &'static str {
        "guest"
    }

    fn device(&mut self, name: &str, _side: Side) -> Result<Box<dyn Device>, String> {
        let region = self.region.as_ref().ok_or(NO_DEVICE)?;
        let named = |i: &usize| {
            region
                .interface(*i)
                .is_some_and(|found| found.name() == name)
        };
        let index = (0..region.geometry().interfaces())
            .find(named)
            .ok_or(NO_DEVICE)?;
        let platform = self.cpu.platform();
        // SAFETY: the router opens each side of a device once, keeps it, and uses it as that side only; all its
        // pools are over this region.
        let device = unsafe { Netfront::open(region, index, || platform.ring_switch()) };
        Ok(Box::new(device.ok_or(NO_DEVICE)?))
    }

    fn socket(&mut self, endpoint: &Endpoint) -> Result<Box<dyn Device>, String> {
        let sockets = self.sockets.as_ref().ok_or(NO_SOCKETS)?;
        Ok(sockets.device(endpoint))
    }

    fn store(&self) -> Option<StoreBox> {
        Some(self.store.clone())
    }

    fn device_name(&self, index: usize) -> Option<String> {
        let interface = self.region.as_ref()?.interface(index)?;
        Some(interface.name().to_string())
    }

    fn handlers(&self, list: &mut HandlerList) {
        // [`RouterApplication`] writes it: a router cannot replace itself.
        list.write("hotconfig");
    }

    fn names(&mut self) -> NameDatabase {
        let mut names = NameDatabase::new();
        if let Some(region) = &self.region {
            let interfaces =
                (0..region.geometry().interfaces()).filter_map(|i| region.interface(i));
            let addresses = interfaces.map(|i| (i.name().to_string(), EtherAddress(i.mac)));
            names.set_host(Box::new(Interfaces(addresses.collect())));
        }
        names
    }

    fn current_element(&self) -> Option<&'static AtomicU32> {
        Some(self.cpu.element_word())
    }
}

/// How a router replaces another.
type Replace =
    fn(&mut Router, FlatGraph, &str, &Library, Settings, &mut Diagnostics) -> Result<(), Kept>;

/// A router as an application.
pub struct RouterApplication {
    platform: &'static Platform,
    router: Router,
    library: Library,
    settings: Settings,
    /// The text in front of the main configuration's: other configurations, values of its variables.
    head: String,
    /// The configurations that failed to start: a bit for each, the main one's first; names and texts.
    failed: (u64, Vec<(String, Vec<u8>)>),
    /// The configurations that have stopped while others go on: a bit for each.
    halted: u64,
    polling: IdlePolling,
    store: Connection,
}

impl RouterApplication {
    /// The router of the boot configuration. An invalid configuration ends the guest; the diagnostics
    /// are on the console.
    pub fn start(platform: &'static Platform) -> RouterApplication {
        platform.cpu(0).begin_long_work();
        // It is copied when it is split, and into the arguments of elements.
        let length = platform.config().len();
        if length > RESERVE && !spare(3 * length) {
            platform.refuse(format_args!(
                "the guest's memory is too small for a configuration of {length} bytes; {MORE_MEMORY}"
            ));
        }
        let region = platform.data().map(|(base, length)| {
            // SAFETY: the boot page says that the region stays mapped there.
            unsafe { Region::open(base, length) }
                .unwrap_or_else(|error| platform.refuse(format_args!("{error}")))
        });
        let settings = Settings {
            threads: platform.cpus() as u16,
            ..Settings::default()
        };
        let (pool, pools) = pools(region.as_ref(), platform.cpus() - 1);
        let cpu = platform.cpu(0);
        // An element on another CPU asks, and the first one carries it out.
        let store = match platform.cpus() {
            1 => StoreBox::default(),
            _ => StoreBox::new(move || platform.cpu(0).wake()),
        };
        let connection = Connection::new(platform, store.clone());
        let embedding = GuestEmbedding {
            cpu,
            region,
            store,
            // SAFETY: once in the guest, here.
            sockets: unsafe { Sockets::of(platform) },
        };
        let runtime = Runtime::new(Box::new(embedding.on(cpu)), pool);
        let library = elements::guest_library();
        let mut diagnostics = Diagnostics::new();
        let text = Text::of(platform.config());
        let source = text.source();
        let new = |without, runtime, diagnostics: &mut Diagnostics| {
            let Some(flat) = text.flat(&library, without, diagnostics) else {
                return Err(Box::new(runtime));
            };
            Router::new(flat, &source, &library, runtime, settings, diagnostics)
                .map_err(|refused| refused.0)
        };
        let mut failed = 0;
        let router = match new(0, runtime, &mut diagnostics) {
            Ok(router) => Some(router),
            Err(_) if text.installed() == 0 => None,
            Err(runtime) => {
                diagnostics = Diagnostics::new();
                failed = text.installed();
                new(failed, *runtime, &mut diagnostics).ok()
            }
        };
        let _ = write!(platform.console(), "{diagnostics}");
        match router {
            Some(mut router) => {
                for one in (1..64)
                    .map(|i| 1 << i)
                    .filter(|one| text.installed() & one != 0)
                {
                    // Some cannot run: each that can does, since it does not depend on the others.
                    if failed & one == 0 {
                        continue;
                    }
                    let mut diagnostics = Diagnostics::new();
                    let flat = text.flat(&library, failed & !one, &mut diagnostics);
                    let runs = flat.is_some_and(|flat| {
                        let old = &mut router;
                        Router::update(old, flat, &source, &library, settings, &mut diagnostics)
                            .is_ok()
                    });
                    if runs {
                        failed &= !one;
                    }
                    let _ = write!(platform.console(), "{diagnostics}");
                }
                if platform.cpus() > 1 {
                    cpus::divide(platform, &mut router, pools, &embedding);
                }
                let mut application = RouterApplication {
                    platform,
                    router,
                    library,
                    settings,
                    head: text.head(),
                    failed: (failed, text.texts(failed)),
                    halted: 0,
                    polling: IdlePolling::default(),
                    store: connection,
                };
                application.report_configurations();
                application
            }
            None => {
                let first = diagnostics
                    .entries()
                    .iter()
                    .find(|entry| !entry.is_heading());
                let reason = first.map_or("", |entry| entry.text());
                platform.refuse(format_args!("{reason}"))
            }
        }
    }

    /// The element and handler that `contents` names, and the text that follows.
    fn target<'c>(
        &self,
        contents: &'c str,
    ) -> Result<(Option<ElementId>, &'c str, &'c str), Answer> {
        let (name, rest) = contents.split_once(' ').unwrap_or((contents, ""));
        let (element, handler) = name.rsplit_once('.').unwrap_or(("", name));
        if element.is_empty() {
            return Ok((None, handler, rest));
        }
        match self.router.find(element) {
            Some(id) => Ok((Some(id), handler, rest)),
            None => Err(Answer::refused(
                status::NO_ELEMENT,
                format!("no element named ‘{element}’"),
            )),
        }
    }

    fn refusal(
        &mut self,
        element: Option<ElementId>,
        name: &str,
        error: HandlerError,
        verb: &str,
    ) -> Answer {
        match error {
            HandlerError::Failed(failure) => Answer::refused(status::FAILED, encode(&failure.text)),
            HandlerError::Unknown => match self.router.handler(element, name) {
                None => Answer::refused(status::NO_HANDLER, format!("no handler named ‘{name}’")),
                Some(_) => Answer::refused(
                    status::NOT_PERMITTED,
                    format!("handler ‘{name}’ cannot be {verb}"),
                ),
            },
        }
    }

    fn read(&mut self, contents: &str) -> Result<Answer, Answer> {
        let (element, name, parameter) = self.target(contents)?;
        match self.router.read(element, name, parameter) {
            Ok(value) => Ok(Answer::ok(into_bytes(value))),
            Err(error) => Err(self.refusal(element, name, error, "read")),
        }
    }

    fn write(&mut self, contents: &str) -> Result<Answer, Answer> {
        let (element, name, value) = self.target(contents)?;
        if element.is_none() && name == "hotconfig" {
            return self.hotswap(value, Router::update);
        }
        match self.router.write(element, name, value) {
            Ok(()) => Ok(Answer::ok("")),
            Err(error) => Err(self.refusal(element, name, error, "written")),
        }
    }

    /// Replaces the configurations: `Router::update` replaces the changed ones, `Router::replace` all of them.
    fn hotswap(&mut self, source: &str, replace: Replace) -> Result<Answer, Answer> {
        let mut diagnostics = Diagnostics::new();
        let source = encode(source);
        let text = Text::of(&source);
        // Configurations that failed to start and have not changed are left out again.
        let without = text.among(&self.failed.1);
        let flat = text.flat(&self.library, without, &mut diagnostics);
        // An empty file is more likely a mistake than a wish for a guest that drops all packets.
        if flat.as_ref().is_some_and(|flat| flat.elements.is_empty()) {
            let why = "the configuration has no elements: the present one keeps running";
            return Err(Answer::refused(status::FAILED, why));
        }
        let replaced = flat.is_some_and(|flat| {
            let (old, library) = (&mut self.router, &self.library);
            let source = text.source();
            replace(old, flat, &source, library, self.settings, &mut diagnostics).is_ok()
        });
        if !replaced {
            return Err(Answer::refused(
                status::FAILED,
                encode(&diagnostics.to_string()),
            ));
        }
        self.head = text.head();
        self.failed = (without, text.texts(without));
        self.report_configurations();
        Ok(Answer::ok(encode(&diagnostics.to_string())))
    }

    /// Tells the host which configurations do not run.
    fn report_configurations(&mut self) {
        self.halted = self.router.halted();
        // The router does not have the failed configurations: its bits are shifted past theirs.
        let mut halted = self.halted;
        for bit in (1..64).filter(|bit| self.failed.0 >> bit & 1 != 0) {
            let below = (1 << bit) - 1;
            halted = (halted & below) | (halted & !below) << 1;
        }
        let mut parts = self.router.graph().parts.iter();
        let mut start = |bit: usize| {
            let part = (self.failed.0 >> bit & 1 == 0)
                .then(|| parts.next())
                .flatten();
            let part = part.filter(|part| !part.elements.is_empty());
            part.map(|part| part.elements.start)
        };
        let starts: [_; CONFIGURATIONS_MAX] = core::array::from_fn(&mut start);
        let control = self.platform.control();
        control.set_configurations(halted, self.failed.0, &starts);
    }
}

/// The Ethernet addresses of the guest's interfaces.
fn addresses(platform: &Platform) -> Vec<[u8; 6]> {
    let region = platform.data().and_then(|(base, length)| {
        // SAFETY: the boot page says that the region stays mapped there.
        unsafe { Region::open(base, length) }.ok()
    });
    let interfaces = region
        .iter()
        .flat_map(|region| (0..region.geometry().interfaces()).filter_map(|i| region.interface(i)));
    interfaces.map(|interface| interface.mac).collect()
}

/// The first CPU's pool, and the pools of `others` more CPUs.
fn pools(region: Option<&Region>, others: usize) -> (Pool, Vec<Pool>) {
    let Some(region) = region else {
        let pools = (0..others).map(|_| Pool::heap(HEAP_PACKETS));
        return (Pool::heap(HEAP_PACKETS), pools.collect());
    };
    let geometry = region.geometry();
    let (count, first) = (geometry.buffers(), geometry.ring_buffers());
    // SAFETY: the region's buffers, of which the first stand in its rings.
    let mut pool = unsafe { Pool::region(region.pool(), count as usize, first as usize) };
    let shared = match others {
        0 => Vec::new(),
        _ => pool.share(others),
    };
    (pool, shared)
}

impl Application for RouterApplication {
    fn round(&mut self) -> Round {
        if self.store.has_work() {
            self.store.turn(&mut self.router);
        }
        let status = self.router.run(TASKS);
        if self.router.halted() != self.halted {
            self.report_configurations();
        }
        match status {
            Status::Busy => {
                self.polling.reset();
                Round::Busy
            }
            Status::Idle(_)
                if self.settings.threads > 1 && self.polling.continues(self.platform) =>
            {
                Round::Busy
            }
            Status::Idle(next) => Round::Idle(next.map(|at| at.0)),
            Status::Stopped => Round::Done,
        }
    }

    fn ask_for_wake(&mut self, wake: bool) -> bool {
        // The device withdraws the request when it receives the first frame.
        wake && (!self.router.arm() || self.store.has_work())
    }

    fn suspend(&mut self, stand: &mut dyn FnMut() -> bool) {
        let before = addresses(self.platform);
        let platform = self.platform;
        let known = self.router.hold(|router| {
            if !stand() {
                return true;
            }
            router.reseed();
            addresses(platform) == before || router.readdress()
        });
        if known {
            return;
        }
        // Some element does not take another address while it works.
        let config = self.router.read(None, "config", "");
        let replaced = config.map_err(|_| Answer::refused(status::FAILED, ""));
        let whole = |config| format!("{}{config}", self.head);
        let swapped = replaced.map(whole);
        let swapped = swapped.and_then(|config| self.hotswap(&config, Router::replace));
        if let Err(refusal) = swapped {
            let why = decode(&refusal.contents);
            let _ = writeln!(
                self.platform.console(),
                "the copy keeps its original's addresses: {why}"
            );
        }
    }

    fn request(&mut self, request: Request) -> Answer {
        // Rules are compiled, or thousands of routes added.
        self.platform.cpu(0).begin_long_work();
        // Handlers copy what they are written.
        let bytes = request.contents.len();
        if bytes > RESERVE && !spare(2 * bytes + RESERVE) {
            let why = format!("no memory for a request of {bytes} bytes; {MORE_MEMORY}");
            return Answer::refused(status::TOO_LONG, why);
        }
        let contents = decode(&request.contents);
        let answer = match request.kind {
            kind::READ => self.read(&contents),
            kind::WRITE => self.write(&contents),
            kind::LIST if contents.is_empty() => self.read("list"),
            kind::LIST => self.read(&format!("{contents}.handlers")),
            kind::HOTSWAP => self.hotswap(&contents, Router::update),
            other => Err(Answer::refused(
                status::UNKNOWN,
                format!("unknown kind of request: {other}"),
            )),
        };
        self.platform.cpu(0).beat();
        answer.unwrap_or_else(|refusal| refusal)
    }
}
