//! The worker: what one lane does.
//!
//! It goes round the queues that are busy: takes a batch from one, has the domain's lookup function
//! say where each frame goes, hands each destination its share, and gives the batch back. A queue
//! that has been quiet for a while is put to sleep and leaves the round; its descriptor (the
//! guest's doorbell, the TAP, the socket) brings it back. So the cost follows the ports that are
//! busy, however many there are. When none is, the worker sleeps ([`watch`]).
//!
//! A worker knows all ports and domains of the switch, and has lookup functions of its own; but it
//! serves only the queues that were given to it. Frames for ports that it has no way to enter a
//! [crossing](crate::crossing) to the lane that has. Nothing else is shared between workers.

#[cfg(test)]
pub(crate) mod alone;
mod deliver;
mod membership;
mod port;
mod properties;
mod rest;
mod round;
mod shape;
mod watch;

use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;
use rustix::io::Errno;

use crate::crossing::{Bell, Entry, Exit};
use crate::lane::{Board, LaneIndex, Meter};
use crate::lookup::{Destination, PortIndex, Seconds};
use crate::memory::LaneCounters;
use crate::pace::Pace;
use crate::port::{BATCH, Batch, Portion};
use crate::qos::crowd::Source;

pub use deliver::PATCHES_MAX;
pub(crate) use membership::Served;
use port::{Domain, Doorbell, Port, Queue, State};
use watch::{Watch, Whose};

pub use port::{Placed, QueueIndex, Ways};

/// Most ports of a switch.
pub const PORTS_MAX: usize = 16_384;
/// Violations after which a guest's port is closed.
pub const VIOLATIONS_MAX: u32 = 64;
/// Rounds after which sleeping guests are woken for what was delivered, at the latest.
const ROUNDS_PER_CALL: u32 = 4;
/// Rounds without frames after which the lane lets others have its processor for a moment: a guest
/// that it waits for may have no other.
const ROUNDS_ALONE: u32 = 16;
/// Fewest frames of a batch whose sender may be held back from a guest without room.
const FRAMES_HELD_BACK: usize = 8;
/// Most parcels of one crossing that are dealt with in a round.
const PARCELS_PER_ROUND: usize = 4;

/// What a worker is made of.
pub(crate) struct Parts {
    pub lane: LaneIndex,
    pub counters: LaneCounters,
    pub bell: Arc<Bell>,
    pub meter: Arc<Meter>,
    pub board: Arc<Board>,
    /// The crossings to the other lanes, by their indices; none to itself.
    pub entries: Vec<Option<Entry>>,
    /// The crossings from the other lanes, and which those are.
    pub exits: Vec<(Exit, LaneIndex)>,
}

/// One lane's share of a switch.
pub struct Worker {
    watch: Watch,
    lane: LaneIndex,
    counters: LaneCounters,
    bell: Arc<Bell>,
    meter: Arc<Meter>,
    board: Arc<Board>,
    /// All ports of the switch.
    ports: Vec<Option<Port>>,
    /// All its domains.
    domains: Vec<Option<Domain>>,
    /// The queues that this lane serves.
    queues: Vec<Option<Queue>>,
    free: Vec<QueueIndex>,
    /// The doorbells of their guests.
    doorbells: HashMap<u32, Doorbell>,
    /// The queues in the round.
    active: Vec<QueueIndex>,
    batch: Box<Batch>,
    destinations: [Destination; BATCH],
    /// Ports with frames of the batch to be sent.
    touched: Vec<PortIndex>,
    /// Frames that are to go on by patches.
    passages: Vec<deliver::Passage>,
    /// Lists of frames that passages no longer need.
    spare: Vec<Vec<u16>>,
    /// Passages of the current batch so far.
    passed: u32,
    entries: Vec<Option<Entry>>,
    exits: Vec<(Exit, LaneIndex)>,
    /// The other lanes to which frames of the current batch have crossed, a bit each.
    crossed: u64,
    /// How long to wait for frames by crossings.
    pace: Pace,
    /// Queues whose interfaces were down when they went to sleep.
    down: Vec<QueueIndex>,
    checked: Instant,
    started: Instant,
    now: Instant,
    round: u32,
    /// Whether the last round moved frames.
    moved: bool,
    /// Rounds in a row that moved none.
    still: u32,
    /// Queues whose other side may not have noticed what was delivered.
    owing: Vec<QueueIndex>,
    /// The round in which the first of these became one.
    owing_since: u32,
    /// Whether it left a queue alone because a crossing was full.
    held: bool,
    /// Bytes of the batch that was picked up last.
    picked: u64,
    /// Whose frames the batch has.
    source: Source,
    /// How much is taken from a queue at a time.
    portion: Portion,
    /// Whether those who may go first are looked for while a batch is delivered.
    watched: bool,
    /// A batch for those who go first.
    aside: Box<Batch>,
    /// Whether several queues had frames in the last round.
    contended: bool,
    order: round::Round,
    /// Queues that are not of the usual level.
    leveled: u32,
    /// What limits and the like need.
    shaping: shape::Shaping,
}

impl Worker {
    /// A worker without ports.
    pub(crate) fn new(parts: Parts) -> Result<Worker, Errno> {
        let now = Instant::now();
        Ok(Worker {
            watch: Watch::new(&*parts.bell)?,
            lane: parts.lane,
            counters: parts.counters,
            bell: parts.bell,
            meter: parts.meter,
            board: parts.board,
            ports: Vec::new(),
            domains: Vec::new(),
            queues: Vec::new(),
            free: Vec::new(),
            doorbells: HashMap::new(),
            active: Vec::new(),
            batch: Box::new(Batch::new()),
            destinations: [Destination::Flood; BATCH],
            touched: Vec::new(),
            passages: Vec::new(),
            spare: Vec::new(),
            passed: 0,
            entries: parts.entries,
            exits: parts.exits,
            crossed: 0,
            pace: Pace::new(now),
            down: Vec::new(),
            checked: now,
            started: now,
            now,
            round: 0,
            moved: false,
            still: 0,
            owing: Vec::new(),
            owing_since: 0,
            held: false,
            picked: 0,
            source: Source::Lines,
            portion: Portion::WHOLE,
            watched: false,
            aside: Box::new(Batch::new()),
            contended: false,
            order: round::Round::default(),
            leveled: 0,
            shaping: shape::Shaping::new(),
        })
    }

    /// Moves frames until the lane's bell is rung, or there are orders.
    pub(crate) fn run(&mut self) -> Result<(), Errno> {
        loop {
            self.round = self.round.wrapping_add(1);
            let mut rests = self.active.is_empty() && self.may_rest() && !self.is_due_soon();
            if rests && !self.owing.is_empty() {
                self.call();
                rests = self.active.is_empty();
            }
            let whose = if rests {
                Some(Whose::All)
            } else {
                self.watch.due()
            };
            let rung = match whose {
                Some(whose) => self.look(whose, rests)?,
                None => false,
            };
            if self.bell.take_orders() || rung {
                self.call();
                return Ok(());
            }
            self.tick();
            self.arrivals();
            if self.is_due() {
                self.do_due();
            }
            self.go_round();
            self.depart();
            let waited = self.round.wrapping_sub(self.owing_since);
            if !self.owing.is_empty() && (!self.moved || waited >= ROUNDS_PER_CALL) {
                self.call();
            }
        }
    }

    /// Seconds since the worker began.
    fn seconds(&self) -> Seconds {
        self.now.saturating_duration_since(self.started).as_secs() as Seconds
    }

    /// Begins a round: says what the last one was.
    fn tick(&mut self) {
        let now = Instant::now();
        let round = now.saturating_duration_since(self.now);
        self.now = now;
        self.still = if self.moved {
            0
        } else {
            self.still.saturating_add(1)
        };
        if !self.moved && (std::mem::take(&mut self.held) || self.still > ROUNDS_ALONE) {
            // Whoever does not keep up, or is to send the next frames, may be waiting for this CPU.
            std::thread::yield_now();
        }
        self.held = false;
        self.watch.tick(round);
        self.meter.round(round, std::mem::take(&mut self.moved));
    }

    /// Moves one batch of a queue's frames. Returns whether the queue stays in the round.
    fn serve(&mut self, place: QueueIndex) -> bool {
        let Some(queue) = slot_mut(&mut self.queues, place) else {
            return false;
        };
        let State::Polled { woken } = queue.state else {
            return false;
        };
        if queue.crosses != 0 && !has_room(&mut self.entries, queue.crosses) {
            // Where its last frames went, others wait: so the next ones do where they are.
            self.meter.held_back();
            self.held = true;
            return true;
        }
        let (from, keeps) = (queue.port, queue.kept.is_some());
        // What was held back may outlast the limit.
        if self.is_shaped(from) || keeps {
            return self.serve_shaped(place, woken);
        }
        if self.is_held_back(place) {
            self.meter.held_back();
            self.held = true;
            return true;
        }
        let Some(queue) = slot_mut(&mut self.queues, place) else {
            return false;
        };
        let counters = self.counters.port(from);
        let batch = &mut *self.batch;
        batch.clear();
        batch.set_portion(self.portion);
        let outcome = queue.link.receive(batch, counters);
        let frames = batch.frames().len();
        if frames == 0 {
            queue.link.release();
            return self.settle(place, outcome) && (outcome.busy || self.rest(place));
        }
        queue.pace.busy(self.now);
        queue.state = State::Polled { woken: false };
        self.picked = batch.count(counters, woken);
        self.meter.chain(frames, woken);
        self.moved = true;
        match queue.spreads {
            0 => self.steer(from, 0..frames),
            over => self.spread(from, 0..frames, over),
        }
        let only = self.only_destination(frames);
        self.source = Source::Port(from);
        self.deliver();
        let crossed = std::mem::take(&mut self.crossed);
        if let Some(queue) = slot_mut(&mut self.queues, place) {
            queue.link.release();
            queue.crosses = crossed;
            queue.follows = only;
        }
        self.settle(place, outcome)
    }

    /// The queue to which all of the batch's frames are to go, if there is one, and they are more
    /// than a few: who sends little has others' room in a full ring, and is not to wait.
    #[inline]
    fn only_destination(&self, frames: usize) -> Option<QueueIndex> {
        match self.touched[..] {
            [place] if frames >= FRAMES_HELD_BACK => {
                let port = slot(&self.ports, place.into());
                let port = port.filter(|port| port.queue.len() == frames);
                port.and_then(|port| port.sends)
            }
            _ => None,
        }
    }

    /// Whether a queue's next frames had better stay where they are for a moment: the last ones all
    /// went to a guest that has no room for more.
    #[inline]
    fn is_held_back(&mut self, place: QueueIndex) -> bool {
        let follows = slot(&self.queues, place).and_then(|queue| queue.follows);
        let to = follows.and_then(|to| slot_mut(&mut self.queues, to));
        to.is_some_and(|to| to.link.holds_back(self.now))
    }
}

/// What is at a place, if there is something.
#[inline(always)]
fn slot_mut<T>(slots: &mut [Option<T>], place: u32) -> Option<&mut T> {
    slots.get_mut(place as usize)?.as_mut()
}

/// What is at a place, if there is something.
#[inline(always)]
fn slot<T>(slots: &[Option<T>], place: u32) -> Option<&T> {
    slots.get(place as usize)?.as_ref()
}

/// The numbers of a mask's bits.
#[inline]
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

/// Whether a batch has room in the crossings to all of `lanes`.
fn has_room(entries: &mut [Option<Entry>], lanes: u64) -> bool {
    bits(lanes).all(|lane| match entries.get_mut(lane) {
        Some(Some(entry)) => entry.has_room(),
        _ => true,
    })
}
