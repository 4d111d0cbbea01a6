//! The worker: one thread that moves the frames of all its ports.
//!
//! It goes round the ports that are busy: takes a batch from one, has the domain's lookup function
//! say where each frame goes, hands each destination its share, and gives the batch back. A port
//! that has been quiet for a while is put to sleep and leaves the round; its descriptor (the
//! guest's doorbell, the TAP, the socket) brings it back. So the cost follows the ports that are
//! busy, however many there are. When none is, the worker sleeps in epoll.

mod membership;

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::counters::{PortCounters, Reason};
use crate::lookup::{Destination, Known, Lookup, PortIndex, Seconds};
use crate::memory::CounterFile;
use crate::pace::Pace;
use crate::port::{BATCH, Batch, Link, Outcome};

pub use membership::{Attach, AttachError, Full};

/// Most ports of a worker.
pub const PORTS_MAX: usize = 16_384;
/// Violations after which a guest's port is closed.
pub const VIOLATIONS_MAX: u32 = 64;
/// Rounds between two looks at the descriptors while ports are busy.
const ROUNDS_PER_LOOK: u32 = 32;
/// Descriptors told of in one look.
const EVENTS: usize = 64;
/// How often interfaces that are down are asked whether they are still there.
const DOWN_CHECK: Duration = Duration::from_millis(200);

/// What a descriptor in the worker's epoll set stands for, as the event's 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// A host link's own descriptor.
    Port(PortIndex),
    /// A guest's doorbell.
    Guest(u32),
    /// Something of the caller's: see [`Worker::watch`].
    External(u32),
}

impl Token {
    fn to_event(self) -> epoll::EventData {
        let (kind, number) = match self {
            Token::Port(port) => (0, port.into()),
            Token::Guest(guest) => (1, guest),
            Token::External(number) => (2, number),
        };
        epoll::EventData::new_u64(kind << 32 | u64::from(number))
    }

    fn of_event(data: epoll::EventData) -> Token {
        let number = data.u64() as u32;
        match data.u64() >> 32 {
            0 => Token::Port(number as PortIndex),
            1 => Token::Guest(number),
            _ => Token::External(number),
        }
    }
}

/// A port as the worker holds it.
struct Port {
    link: Link,
    name: String,
    /// The domain's place among the worker's domains.
    domain: usize,
    /// The guest whose doorbell wakes the port.
    guest: Option<u32>,
    pace: Pace,
    state: State,
    violations: u32,
    /// Frames of the current batch that go here.
    queue: Vec<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the round; `true` until the first look after a wake-up.
    Polled {
        woken: bool,
    },
    Asleep,
    Closed,
}

/// A segment: the ports that reach each other.
struct Domain {
    number: u32,
    members: Vec<PortIndex>,
    lookup: Box<dyn Lookup>,
}

/// What a worker tells of a port.
#[derive(Clone, Debug)]
pub struct PortInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its domain's number.
    pub domain: u32,
    /// Whether it was closed, for its violations or because its interface is gone.
    pub closed: bool,
}

/// One thread's share of a switch: ports, domains, and what it needs to move frames.
pub struct Worker {
    epoll: OwnedFd,
    counters: CounterFile,
    ports: Vec<Option<Port>>,
    free: Vec<PortIndex>,
    domains: Vec<Option<Domain>>,
    /// Where the domain with a number is.
    numbers: HashMap<u32, usize>,
    free_domains: Vec<usize>,
    guests: HashMap<u32, (OwnedFd, Vec<PortIndex>)>,
    next_guest: u32,
    /// The ports in the round.
    active: Vec<PortIndex>,
    batch: Batch,
    destinations: [Destination; BATCH],
    /// Ports whose interfaces were down when they went to sleep.
    down: Vec<PortIndex>,
    checked: Instant,
    /// Ports whose queues are not empty.
    touched: Vec<PortIndex>,
    started: Instant,
    now: Instant,
    round: u32,
}

impl Worker {
    /// A worker without ports that counts in `counters`.
    pub fn new(counters: CounterFile) -> Result<Worker, Errno> {
        let now = Instant::now();
        Ok(Worker {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            counters,
            ports: Vec::new(),
            free: Vec::new(),
            domains: Vec::new(),
            numbers: HashMap::new(),
            free_domains: Vec::new(),
            guests: HashMap::new(),
            next_guest: 0,
            active: Vec::new(),
            down: Vec::new(),
            checked: now,
            batch: Batch::new(),
            destinations: [Destination::Flood; BATCH],
            touched: Vec::new(),
            started: now,
            now,
            round: 0,
        })
    }

    /// Has [`run`](Self::run) return with `number` when `fd` can be read or has hung up.
    pub fn watch(&self, fd: BorrowedFd<'_>, number: u32) -> Result<(), Errno> {
        let token = Token::External(number).to_event();
        epoll::add(&self.epoll, fd, token, epoll::EventFlags::IN)
    }

    /// Takes a descriptor out again.
    pub fn unwatch(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Copies of the descriptors of a host link, if another switch can go on with them.
    pub fn files(&self, place: PortIndex) -> Vec<OwnedFd> {
        let port = self.ports.get(usize::from(place)).and_then(Option::as_ref);
        let files = port.map_or(Vec::new(), |port| port.link.files());
        let copies = files.iter().map(|fd| fd.try_clone_to_owned());
        copies.collect::<Result<_, _>>().unwrap_or_default()
    }

    /// What there is to tell of a port.
    pub fn port(&self, place: PortIndex) -> Option<PortInfo<'_>> {
        let port = self.ports.get(usize::from(place))?.as_ref()?;
        Some(PortInfo {
            name: &port.name,
            domain: self.domains[port.domain].as_ref()?.number,
            closed: port.state == State::Closed,
        })
    }

    /// Number of places that ports stand or stood in: indices are below it.
    pub fn places(&self) -> usize {
        self.ports.len()
    }

    /// Number of addresses that a domain's lookup function knows.
    pub fn addresses(&self, number: u32) -> Option<usize> {
        let domain = self.domains[*self.numbers.get(&number)?].as_ref()?;
        Some(domain.lookup.entries())
    }

    /// The addresses that a domain's lookup function knows.
    pub fn table(&self, number: u32) -> Option<Vec<Known>> {
        let domain = self.domains[*self.numbers.get(&number)?].as_ref()?;
        let now = self.started.elapsed().as_secs() as Seconds;
        Some(domain.lookup.table(now))
    }

    /// Brings the counters up to date that the kernel keeps for a port.
    pub fn catch_up(&mut self, place: PortIndex) {
        if let Some(port) = self
            .ports
            .get_mut(usize::from(place))
            .and_then(Option::as_mut)
        {
            port.link.catch_up(counters_of(&self.counters, place));
        }
    }

    /// Moves frames until a watched descriptor has something: returns its number. Level-triggered:
    /// what is not dealt with is returned again.
    pub fn run(&mut self) -> Result<u32, Errno> {
        loop {
            self.round = self.round.wrapping_add(1);
            if (self.active.is_empty() || self.round.is_multiple_of(ROUNDS_PER_LOOK))
                && let Some(number) = self.look()?
            {
                return Ok(number);
            }
            self.now = Instant::now();
            let mut i = 0;
            while let Some(&place) = self.active.get(i) {
                if self.serve(place) {
                    i += 1;
                } else {
                    self.active.swap_remove(i);
                }
            }
        }
    }

    /// Sees which descriptors have something, sleeping until one does if no port is busy.
    fn look(&mut self) -> Result<Option<u32>, Errno> {
        let wait = match (self.active.is_empty(), self.down.is_empty()) {
            (false, _) => Some(Duration::ZERO),
            (true, false) => Some(DOWN_CHECK),
            (true, true) => None,
        };
        let timeout = wait.map(|wait| Timespec {
            tv_sec: 0,
            tv_nsec: wait.subsec_nanos().into(),
        });
        let mut room = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        let events = match epoll::wait(&self.epoll, &mut room, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(None),
            Err(error) => return Err(error),
        };
        self.now = Instant::now();
        self.check_down();
        let mut external = None;
        for event in events {
            match Token::of_event(event.data) {
                Token::Port(place) => self.wake(place),
                Token::Guest(guest) => {
                    let count = self.guests.get(&guest).map_or(0, |(_, ports)| ports.len());
                    for j in 0..count {
                        self.wake(self.guests[&guest].1[j]);
                    }
                }
                Token::External(number) => external = Some(number),
            }
        }
        Ok(external)
    }

    /// Closes the ports of interfaces that were down and are gone by now.
    fn check_down(&mut self) {
        if self.down.is_empty() || self.now.saturating_duration_since(self.checked) < DOWN_CHECK {
            return;
        }
        self.checked = self.now;
        for i in (0..self.down.len()).rev() {
            let place = self.down[i];
            let link = self.ports[usize::from(place)]
                .as_ref()
                .map(|port| &port.link);
            if link.is_some_and(Link::is_gone) {
                self.settle(place, Outcome::GONE);
                self.down.swap_remove(i);
            } else if !link.is_some_and(Link::is_down) {
                self.down.swap_remove(i);
            }
        }
    }

    /// Brings a sleeping port back into the round.
    fn wake(&mut self, place: PortIndex) {
        let Some(port) = self
            .ports
            .get_mut(usize::from(place))
            .and_then(Option::as_mut)
        else {
            return;
        };
        if port.state == State::Asleep {
            port.link.wake();
            port.pace.wakes(self.now);
            port.state = State::Polled { woken: true };
            counters_of(&self.counters, place).woke();
            self.active.push(place);
        } else {
            port.link.notice();
        }
    }

    /// Moves one batch of a port's frames. Returns whether the port stays in the round.
    fn serve(&mut self, place: PortIndex) -> bool {
        let Some(port) = self
            .ports
            .get_mut(usize::from(place))
            .and_then(Option::as_mut)
        else {
            return false;
        };
        let State::Polled { woken } = port.state else {
            return false;
        };
        let counters = counters_of(&self.counters, place);
        let batch = &mut self.batch;
        batch.clear();
        let outcome = port.link.receive(batch, counters);
        if batch.frames().is_empty() {
            port.link.release();
            return self.settle(place, outcome) && (outcome.busy || self.rest(place));
        }
        port.pace.busy(self.now);
        port.state = State::Polled { woken: false };
        batch.count(counters, woken);
        let domain = port.domain;
        self.steer(place, domain);
        self.deliver();
        if let Some(port) = &mut self.ports[usize::from(place)] {
            port.link.release();
        }
        self.settle(place, outcome)
    }

    /// Has the domain say where the batch's frames go, and queues them there.
    fn steer(&mut self, from: PortIndex, domain: usize) {
        let Some(domain) = &mut self.domains[domain] else {
            return;
        };
        let frames = self.batch.frames();
        let to = &mut self.destinations[..frames.len()];
        let seconds = self.now.saturating_duration_since(self.started).as_secs() as Seconds;
        domain.lookup.steer(from, frames, to, seconds);
        let counters = counters_of(&self.counters, from);
        let mut queue = |to: PortIndex, i: u16| {
            if let Some(port) = &mut self.ports[usize::from(to)] {
                if port.queue.is_empty() {
                    self.touched.push(to);
                }
                port.queue.push(i);
            }
        };
        for (i, to) in (0..).zip(to) {
            match *to {
                Destination::Port(to) => queue(to, i),
                Destination::Drop(reason) => counters.dropped(reason, 1),
                Destination::Flood if domain.members.len() < 2 => {
                    counters.dropped(Reason::NoDestination, 1);
                }
                Destination::Flood => {
                    for &to in domain.members.iter().filter(|&&to| to != from) {
                        queue(to, i);
                    }
                }
            }
        }
    }

    /// Gives each destination its share of the batch.
    fn deliver(&mut self) {
        while let Some(place) = self.touched.pop() {
            let Some(port) = &mut self.ports[usize::from(place)] else {
                continue;
            };
            let counters = counters_of(&self.counters, place);
            let outcome = if port.state == State::Closed {
                counters.dropped(Reason::Closed, port.queue.len() as u64);
                Outcome::default()
            } else {
                port.link.send(&mut self.batch, &port.queue, counters)
            };
            port.queue.clear();
            self.settle(place, outcome);
        }
    }

    /// Closes a port whose link is gone or whose guest has broken the rules too often. Returns
    /// whether it is open.
    #[inline]
    fn settle(&mut self, place: PortIndex, outcome: Outcome) -> bool {
        if outcome.violations == 0 && !outcome.gone {
            return true;
        }
        let Some(port) = &mut self.ports[usize::from(place)] else {
            return false;
        };
        port.violations = port.violations.saturating_add(outcome.violations);
        if !outcome.gone && port.violations < VIOLATIONS_MAX {
            return true;
        }
        port.state = State::Closed;
        // Nothing of it is of interest any more, and what is gone would report that for ever.
        for descriptor in port.link.descriptors() {
            let _ = epoll::delete(&self.epoll, descriptor);
        }
        port.link.close();
        if let Some(domain) = &mut self.domains[port.domain] {
            domain.lookup.detach(place);
            domain.lookup.attach(place, None);
        }
        false
    }

    /// Lets a port sleep that has been quiet for long enough. Returns whether it stays in the
    /// round.
    fn rest(&mut self, place: PortIndex) -> bool {
        let Some(port) = &mut self.ports[usize::from(place)] else {
            return false;
        };
        if !port.pace.may_sleep(self.now) {
            std::hint::spin_loop();
            return true;
        }
        if !port.link.sleep() {
            port.link.wake();
            return true;
        }
        port.link.catch_up(counters_of(&self.counters, place));
        if port.link.is_down() && !self.down.contains(&place) {
            self.down.push(place);
        }
        port.pace.sleeps(self.now);
        port.state = State::Asleep;
        false
    }
}

/// The counters of the port at `place`.
fn counters_of(counters: &CounterFile, place: PortIndex) -> &PortCounters {
    counters
        .port(place.into())
        .expect("the counters have room for as many ports as a worker")
}
