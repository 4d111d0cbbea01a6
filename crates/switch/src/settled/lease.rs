//! The switch's part: rules for settled flows.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use rustix::io::Errno;
use rustix::mm::ProtFlags;

use super::LEASE;
use super::debts::{Count, Debts, now};
use super::layout::{CELLS, EPOCHS, Hop, Key, RULES, Rule, cell_of_domain, cell_of_port};
use super::unsettled::{Asked, Refusals, Unsettled};
use crate::ids::{DomainIndex, PortIndex};
use crate::memory::{LanePorts, Mapping};
use crate::sys::{self, bpf};

/// How often counters are brought up to date and rules removed that hold no more.
const SWEEP: Duration = Duration::from_millis(200);

/// The ports between which a flow's packets go: the interface's of the host and the guest's by which they come, the
/// guest's and the interface's by which they leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub ports: [PortIndex; 4],
    /// The domains of the first two and of the last two.
    pub domains: [DomainIndex; 2],
}

impl Path {
    /// The cells that decide whether a rule holds. The guest's ports are in these domains, and the first one has a cell of
    /// its own: a guest that takes back its own flows takes back no others.
    fn cells(&self) -> [u32; CELLS] {
        let [a, b] = self.domains;
        [
            cell_of_domain(a),
            cell_of_domain(b),
            cell_of_port(self.ports[1]),
        ]
    }
}

/// The epochs of a path at some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epochs([u64; CELLS]);

/// A rule in use.
pub(super) struct Use {
    pub key: Key,
    pub hop: Hop,
    pub path: Path,
    /// What the ports' counters have of it.
    counted: Count,
    /// What the guest was told.
    pub told: Count,
}

#[derive(Default)]
pub(super) struct State {
    pub by_key: HashMap<Key, u32>,
    pub uses: Vec<Option<Use>>,
    free: Vec<u32>,
    /// Rules that nothing leads to any more; a program may still be reading them.
    resting: Vec<u32>,
    /// What rules that are gone counted last, for the ports' counters.
    last: Vec<(Path, Count)>,
    pub debts: Debts,
    pub refusals: Refusals,
    ends: bool,
}

/// The settled flows of a switch: shared by its lanes.
pub struct SettledFlows {
    flows: OwnedFd,
    filter: OwnedFd,
    rules: Mapping,
    epochs: Mapping,
    state: Mutex<State>,
    some: Condvar,
    /// Rules in use.
    count: AtomicU64,
    /// Flows without a rule of which guests do not know all.
    pub(super) owed: AtomicU64,
}

impl SettledFlows {
    /// Over the maps of [`Programs::files`](super::Programs::files).
    pub fn new([flows, rules, epochs, filter]: [OwnedFd; 4]) -> Result<SettledFlows, Errno> {
        let both = ProtFlags::READ | ProtFlags::WRITE;
        Ok(SettledFlows {
            rules: Mapping::part(rules.as_fd(), 0, RULES * size_of::<Rule>(), both)?,
            epochs: Mapping::part(epochs.as_fd(), 0, EPOCHS * size_of::<u64>(), both)?,
            flows,
            filter,
            state: Mutex::default(),
            some: Condvar::new(),
            count: AtomicU64::new(0),
            owed: AtomicU64::new(0),
        })
    }

    /// Takes all back, for ever.
    pub(crate) fn end(&self) {
        let mut state = self.locked();
        state.ends = true;
        for index in 0..state.uses.len() {
            self.rule(index as u32).live.store(0, Ordering::SeqCst);
        }
        drop(state);
        self.some.notify_all();
    }

    pub(super) fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn rule(&self, index: u32) -> &Rule {
        assert!((index as usize) < RULES);
        // SAFETY: inside the mapping and aligned; a rule consists of atomics.
        unsafe {
            self.rules
                .base()
                .cast::<Rule>()
                .add(index as usize)
                .as_ref()
        }
    }

    fn epoch(&self, cell: u32) -> &AtomicU64 {
        assert!((cell as usize) < EPOCHS);
        // SAFETY: inside the mapping and aligned.
        unsafe {
            self.epochs
                .base()
                .cast::<AtomicU64>()
                .add(cell as usize)
                .as_ref()
        }
    }

    /// Takes back what depends on a port.
    pub(crate) fn take_back_of_port(&self, port: PortIndex) {
        self.epoch(cell_of_port(port))
            .fetch_add(1, Ordering::SeqCst);
    }

    /// Takes back what depends on a domain.
    pub(crate) fn take_back_of_domain(&self, domain: DomainIndex) {
        self.epoch(cell_of_domain(domain))
            .fetch_add(1, Ordering::SeqCst);
    }

    /// The epochs of a path now: what is looked at afterwards is no older.
    pub(crate) fn epochs_of(&self, path: &Path) -> Epochs {
        Epochs(
            path.cells()
                .map(|cell| self.epoch(cell).load(Ordering::SeqCst)),
        )
    }

    /// Has a packet socket take no frames of settled flows.
    pub(crate) fn filter(&self, socket: std::os::fd::BorrowedFd<'_>) -> Result<(), Errno> {
        sys::attach_filter(socket, self.filter.as_fd())
    }

    /// How many flows are settled.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// What a rule counted.
    pub(super) fn counted(&self, index: u32) -> Count {
        let rule = self.rule(index);
        Count {
            frames: rule.frames.load(Ordering::Relaxed),
            bytes: rule.bytes.load(Ordering::Relaxed),
        }
    }

    /// Whether a rule is in force.
    pub(super) fn holds(&self, index: u32, now: u64) -> bool {
        let rule = self.rule(index);
        let current = rule.cells.iter().zip(&rule.epochs).all(|(cell, epoch)| {
            let is = self.epoch(cell.load(Ordering::Relaxed) % EPOCHS as u32);
            is.load(Ordering::SeqCst) == epoch.load(Ordering::Relaxed)
        });
        rule.live.load(Ordering::Acquire) != 0
            && current
            && now <= rule.until.load(Ordering::Relaxed)
    }

    /// Remembers why a flow is not settled, for the list.
    pub(crate) fn refuse(&self, asked: Asked, why: Unsettled) {
        let mut state = self.locked();
        let was_empty = state.refusals.is_empty();
        state.refusals.add(asked, why, now());
        drop(state);
        if was_empty {
            self.some.notify_all();
        }
    }

    /// Settles a flow, or renews that it is, as a guest `asked`.
    pub(crate) fn settle(
        &self,
        asked: &Asked,
        (key, hop, path): (Key, Hop, Path),
        epochs: Epochs,
    ) -> Result<(), Unsettled> {
        let until = now().saturating_add(LEASE.as_nanos() as u64);
        let mut state = self.locked();
        if !state.refusals.is_empty() {
            state.refusals.remove(asked);
        }
        if let Some(&index) = state.by_key.get(&key) {
            let rule = self.rule(index);
            if rule.live.load(Ordering::Acquire) == 0 {
                // Its end came meanwhile: what the guest said is of an earlier packet.
                return Ok(());
            }
            let same = state.uses[index as usize].as_ref();
            if same.is_some_and(|it| it.hop == hop && it.path == path) {
                for (cell, epoch) in rule.epochs.iter().zip(epochs.0) {
                    cell.store(epoch, Ordering::Relaxed);
                }
                rule.until.store(until, Ordering::Relaxed);
                return Ok(());
            }
            self.remove(&mut state, index);
        }
        let used = state.uses.len() as u32;
        let index = match state.free.pop() {
            Some(index) => index,
            None if (used as usize) < RULES => {
                state.uses.push(None);
                used
            }
            None => return Err(Unsettled::Full),
        };
        let rule = self.rule(index);
        rule.live.store(0, Ordering::SeqCst);
        rule.out.store(hop.out, Ordering::Relaxed);
        for (to, cell) in rule.cells.iter().zip(path.cells()) {
            to.store(cell, Ordering::Relaxed);
        }
        for (to, epoch) in rule.epochs.iter().zip(epochs.0) {
            to.store(epoch, Ordering::Relaxed);
        }
        let word = |bytes: &[u8]| {
            let mut word = [0; 4];
            word.copy_from_slice(bytes);
            u32::from_ne_bytes(word)
        };
        let macs = hop.macs.chunks(4).chain(hop.to_macs.chunks(4));
        for (cell, bytes) in rule.macs.iter().zip(macs) {
            cell.store(word(bytes), Ordering::Relaxed);
        }
        // Those of IPv4; over IPv6, none changes.
        for (cell, address) in rule.addresses.iter().zip(&hop.addresses) {
            cell.store(word(&address[12..]), Ordering::Relaxed);
        }
        rule.ports
            .store(word(hop.ports.as_flattened()), Ordering::Relaxed);
        rule.flags.store(hop.flags, Ordering::Relaxed);
        rule.until.store(until, Ordering::Relaxed);
        let start = now();
        rule.up.store(start, Ordering::Relaxed);
        rule.last.store(start, Ordering::Relaxed);
        rule.frames.store(0, Ordering::Relaxed);
        rule.bytes.store(0, Ordering::Relaxed);
        rule.live.store(1, Ordering::Release);
        // SAFETY: the map's keys are of this type, and its values are indices of rules.
        let put = unsafe { bpf::update(self.flows.as_fd(), &key, &index) };
        if put.is_err() {
            state.free.push(index);
            return Err(Unsettled::Full);
        }
        state.by_key.insert(key, index);
        state.uses[index as usize] = Some(Use {
            key,
            hop,
            path,
            counted: Count::default(),
            told: Count::default(),
        });
        let first = self.count.fetch_add(1, Ordering::Relaxed) == 0;
        drop(state);
        if first {
            self.some.notify_all();
        }
        Ok(())
    }

    /// Removes a rule.
    fn remove(&self, state: &mut State, index: u32) {
        let Some(gone) = state.uses[index as usize].take() else {
            return;
        };
        self.rule(index).live.store(0, Ordering::SeqCst);
        // SAFETY: the map's keys are of this type. That it is there no more is no error.
        let _ = unsafe { bpf::delete(self.flows.as_fd(), &gone.key) };
        state.by_key.remove(&gone.key);
        state.resting.push(index);
        let is = self.counted(index);
        state.last.push((gone.path, is.since(gone.counted)));
        let untold = is.since(gone.told);
        if untold.frames > 0 {
            let to = gone.path.ports[1];
            state.debts.add(gone.key, to, untold, now());
            self.owed.store(state.debts.len(), Ordering::Relaxed);
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    fn sweep_until_end(&self, counters: &LanePorts) {
        let mut state = self.locked();
        while !state.ends {
            let is_idle = state.by_key.is_empty() && state.resting.is_empty();
            if is_idle && state.debts.len() == 0 && state.refusals.is_empty() {
                state = self
                    .some
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let waited = self.some.wait_timeout(state, SWEEP);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            self.sweep(&mut state, counters);
        }
    }

    /// Adds each rule's frames to the ports' counters, and removes expired rules.
    fn sweep(&self, state: &mut State, counters: &LanePorts) {
        // They have rested for a sweep.
        let State { free, resting, .. } = state;
        free.append(resting);
        let now = now();
        state.refusals.forget_before(now);
        state.debts.forget_before(now);
        self.owed.store(state.debts.len(), Ordering::Relaxed);
        for index in 0..state.uses.len() as u32 {
            let Some(used) = &mut state.uses[index as usize] else {
                continue;
            };
            let is = self.counted(index);
            let new = is.since(used.counted);
            used.counted = is;
            add(counters, &used.path, new);
            if !self.holds(index, now) {
                self.remove(state, index);
            }
        }
        for (path, new) in state.last.drain(..) {
            add(counters, &path, new);
        }
    }
}

/// Adds frames to the counters of the ports of their path.
fn add(counters: &LanePorts, path: &Path, new: Count) {
    if new.frames > 0 {
        let [a, to, from, b] = path.ports.map(|port| counters.port(port));
        let new = (new.frames, new.bytes);
        a.passed(new, false);
        to.passed(new, true);
        from.passed(new, false);
        b.passed(new, true);
    }
}

/// The thread that sweeps the rules. It starts before the process loses the right to start threads.
pub(crate) struct Sweeper(Sender<Arc<SettledFlows>>);

impl Sweeper {
    /// Starts it. It counts by `counters`.
    pub(crate) fn start(counters: LanePorts) -> std::io::Result<Sweeper> {
        let (sender, receiver) = channel::<Arc<SettledFlows>>();
        let (ready, started) = channel();
        let thread = std::thread::Builder::new().name("settled".into());
        thread.spawn(move || {
            let _ = ready.send(());
            while let Ok(flows) = receiver.recv() {
                flows.sweep_until_end(&counters);
            }
        })?;
        // A thread that begins makes system calls that the process may make no more later.
        let _ = started.recv();
        Ok(Sweeper(sender))
    }

    /// Has it sweep these, when those before have ended.
    pub(crate) fn sweep(&self, flows: &Arc<SettledFlows>) {
        // The thread ends with the sender only.
        let _ = self.0.send(Arc::clone(flows));
    }
}
