//! The node: brings what runs on this host to its desired state.
//!
//! Every operation runs to its end on one thread: it is done and recorded, or it leaves nothing.
//! The service does the waiting.

mod applications;
mod arrivals;
mod asking;
mod changes;
mod configurations;
mod control_store;
mod copies;
mod core_engine;
mod crashes;
mod creation;
mod departures;
mod entries;
mod events;
mod flows;
mod guests;
mod health;
mod index;
mod links;
mod logs;
mod nsms;
mod on_demand;
mod programs;
mod reconcile;
pub mod resource;
mod restart;
mod settling;
mod starting;
mod stats;
mod stubs;
mod switches;
mod verbs;
mod vnics;
mod wires;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use switch::process::Options;

use crate::error::{Error, Result, Subject};
use crate::host::{Host, Ready, StoreRun, SwitchRun};
use crate::kept;
use crate::model::{
    ApplicationRecord, EntryRecord, Event, FlowRecord, GuestRecord, Happened, Leaving, LinkRecord,
    NodeStatus, NsmRecord, Run, Topic, UnknownGuest, VnicRecord,
};
use crate::paths::Paths;
use crate::store::{self, Store};
use crate::tls::Files;
use arrivals::Arrivals;
use crashes::Crashes;
use events::Events;
use guests::Guests;
use health::Checks;
use index::Index;
use on_demand::Idling;
use restart::Restarts;
use wires::Wires;

pub use asking::Asked;
pub use copies::{Creation, Origin, Purpose};
pub use events::EventFollower;
pub use guests::ANSWER;
pub use logs::Follower;
pub use starting::{OnEnded, OnStarted};

/// Calls a macro with all resources, in the order in which they are brought about. Those behind the
/// semicolon are served with something to wait for.
macro_rules! for_each_resource {
    ($call:ident) => {
        $call! { Link, Stub, Vnic, Flow; SwitchFunction, Nsm, Application, Guest, Wire }
    };
}
pub(crate) use for_each_resource;

/// One host.
pub struct Node {
    paths: Paths,
    store: Store,
    host: Host,
    index: Index,
    guests: Guests,
    idling: Idling,
    nsm_restarts: Restarts,
    application_restarts: Restarts,
    /// Applications that are being removed, whose programs were asked to end.
    ending_programs: BTreeSet<String>,
    arriving: Arrivals,
    wires: Wires,
    events: Events,
    crashes: Crashes,
    health: Checks,
    /// Calls of [`tick`](Node::tick) so far.
    ticks: u64,
    /// When consoles were looked at last.
    looked: Instant,
    /// By which certificates other nodes are asked; none: not at all.
    identity: Option<Files>,
    /// Where clients of the network are served.
    listens: Option<std::net::SocketAddr>,
    /// Guests that run and that no record names.
    unknown: Vec<UnknownGuest>,
    /// Whether everything was removed, so that the node is to end.
    over: bool,
}

/// How long a node waits for its folders: a child that a killed node had just forked may hold them.
pub(crate) const LOCK: Duration = Duration::from_secs(1);
/// Most guests that end at once.
const ENDED_AT_ONCE: usize = 64;
/// Every how many ticks ports are looked at whose interface or namespace may be gone.
const LOOK_TICKS: u64 = 5;

impl Node {
    /// Opens the node's state, takes over what runs of it, and brings about what does not. This
    /// process has one thread. Without `options`, the switch runs as the last one did; one that runs
    /// otherwise is replaced.
    pub fn open(paths: Paths, options: Option<Options>) -> Result<Node> {
        if let Some(options) = &options {
            options.check().map_err(Error::invalid)?;
            creation::check_cpus(&options.cpus)?;
        }
        let store = Store::open(&paths.state, LOCK)?;
        let last = store.get::<SwitchRun>(SwitchRun::NAME)?;
        let options = options.or(last.map(|run| run.options));
        let host = Host::new(
            paths.switch(),
            paths.store(),
            paths.sock(),
            options.unwrap_or_default(),
        )?;
        let index = Index::load(&store)?;
        let crashes = Crashes::load(&store)?;
        let mut node = Node {
            paths,
            store,
            host,
            index,
            guests: Guests::default(),
            idling: Idling::default(),
            nsm_restarts: Restarts::default(),
            application_restarts: Restarts::default(),
            ending_programs: BTreeSet::new(),
            arriving: Arrivals::default(),
            wires: Wires::default(),
            events: Events::default(),
            crashes,
            health: Checks::default(),
            ticks: 0,
            looked: Instant::now(),
            identity: None,
            listens: None,
            unknown: Vec::new(),
            over: false,
        };
        node.take_over()?;
        Ok(node)
    }

    fn take_over(&mut self) -> Result<()> {
        let switch = self.store.get::<SwitchRun>(SwitchRun::NAME)?;
        let adopted = match switch {
            Some(run) if self.host.adopt_switch(&run)? => {
                let stays = run.options == *self.host.options();
                if !stays {
                    self.host.end_switch();
                }
                stays
            }
            _ => false,
        };
        if !adopted {
            self.start_switch()?;
        }
        self.end_leaving()?;
        self.number_guests()?;
        self.adopt_guests()?;
        self.take_store_over()?;
        self.take_core_over()?;
        self.take_programs_over()?;
        self.find_unknown()?;
        self.detach_leftovers()?;
        if adopted {
            self.adopt_tables()?;
        }
        self.reconcile()
    }

    /// Names the guests that run and that no record names.
    fn find_unknown(&mut self) -> Result<()> {
        let guests = self.store.all::<GuestRecord>()?.into_iter();
        let leaving = self.store.all::<Leaving>()?.into_iter();
        let runs = guests.map(|it| it.run).chain(leaving.map(|it| it.run));
        let known = runs.filter_map(|run| match run {
            Run::Started { pid, .. } => Some(pid),
            _ => None,
        });
        self.unknown = self.host.unknown_guests(&known.collect());
        for UnknownGuest { name, pid, .. } in &self.unknown {
            tracing::error!(
                guest = name,
                pid,
                "guest ‘{name}’ runs as process {pid}, and no record names it: `weir node --end-unknown` ends it"
            );
        }
        Ok(())
    }

    /// Ends the guests that no record names.
    pub fn end_unknown(&mut self) -> Vec<UnknownGuest> {
        let unknown = std::mem::take(&mut self.unknown);
        unknown
            .iter()
            .for_each(|guest| self.host.end_unknown(guest));
        unknown
    }

    /// Forgets the records that are damaged.
    pub fn forget_damaged(&mut self) -> Result<()> {
        Ok(self.store.forget_damaged()?)
    }

    fn start_switch(&mut self) -> Result<()> {
        let mut kept = Ok(());
        let started = self.host.start_switch(|run| kept = self.store.put(run));
        self.tell_unkept(kept);
        started
    }

    /// Tells, once, that it cannot be kept what runs. It is tried again each second.
    fn tell_unkept(&mut self, kept: store::Result<()>) {
        let Err(error) = kept else { return };
        if self.host.fault(&Subject::State).is_none() {
            tracing::error!(
                "{error}: the switch, the control store and guests that start now are not stored, and the next node restarts them; the node tries to store the switch and the control store every second"
            );
        }
        self.host.note::<()>(Subject::State, Err(error.into()));
    }

    /// Records the identities of the switch and of the control store.
    fn keep_processes(&self) -> Result<()> {
        let switch = self.host.switch_run();
        switch.map_or(Ok(()), |run| self.store.put(run))?;
        let store = self.host.store_run();
        Ok(store.map_or(Ok(()), |run| self.store.put(run))?)
    }

    /// Why no guest can be a virtual machine, if that is so.
    pub fn lacks_kvm(&self) -> Option<String> {
        self.host.lacks_kvm()
    }

    /// Readable when a process ended.
    pub fn events(&self) -> std::os::fd::BorrowedFd<'_> {
        self.host.events()
    }

    /// Deals with processes that ended. Says whether there were any.
    pub fn take_events(&mut self) -> bool {
        let events = self.host.take_events();
        let guests = events.iter().filter_map(|event| match event {
            Ready::Guest(id) => Some(*id),
            Ready::Switch | Ready::ControlStore | Ready::ControlStoreTold => None,
            Ready::CoreEngine | Ready::Nsms | Ready::Applications | Ready::Calls => None,
        });
        let guests: Vec<u64> = guests.collect();
        self.host.note_ended(&guests);
        for event in &events {
            match event {
                Ready::Switch => self.replace_switch(),
                Ready::ControlStore => self.replace_store(),
                // The service takes its messages.
                Ready::ControlStoreTold => {}
                Ready::CoreEngine => self.replace_core(),
                Ready::Nsms => self.nsms_ended(),
                Ready::Applications => self.programs_ended(),
                Ready::Calls => self.start_called(),
                Ready::Guest(id) => self.guest_ended(*id),
            }
        }
        self.keep_ends();
        !events.is_empty()
    }

    /// Starts a switch that replaces an ended one, and attaches all former ports to it.
    fn replace_switch(&mut self) {
        let Some(how) = self.host.switch_ended() else {
            return;
        };
        let started = self.start_switch();
        let event = |event| Event::of(Topic::Switch, "", event).because(&how);
        match (&started, self.host.switch_pid()) {
            (Ok(()), Some(pid)) => {
                let note = format_args!("process {pid} replaces it");
                self.tell(event(Happened::Restarted).note(note));
            }
            (Err(error), _) => {
                let note = format_args!(
                    "a new one cannot be started, and the node tries again every second: {error}"
                );
                self.tell(event(Happened::Down).note(note));
            }
            (Ok(()), None) => {}
        }
        let replaced = started.and_then(|()| self.reconcile());
        self.host.note(Subject::Switch, replaced);
    }

    /// Starts a switch if there is none.
    fn need_switch(&mut self) -> Result<()> {
        match self.host.switch_pid() {
            Some(_) => Ok(()),
            None => self.start_switch().and_then(|()| self.reconcile()),
        }
    }

    /// When the next guest, NSM or program is due to be restarted.
    pub fn next_restart(&self) -> Option<Instant> {
        let next = [
            self.guests.restarts.next(),
            self.nsm_restarts.next(),
            self.application_restarts.next(),
        ];
        next.into_iter().flatten().min()
    }

    /// The node's own status.
    pub fn status(&self) -> Result<NodeStatus> {
        Ok(NodeStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            switch_pid: self.host.switch_pid(),
            store_pid: self.host.store_run().map(|run| run.pid),
            switch_restarts: self.host.switch_restarts(),
            settled_flows: self.host.settled(),
            links: self.store.count::<LinkRecord>()?,
            vnics: self.store.count::<VnicRecord>()?,
            flows: self.store.count::<FlowRecord>()?,
            guests: self.store.count::<GuestRecord>()?,
            core_pid: self.host.core_pid(),
            nsms: self.store.count::<NsmRecord>()?,
            applications: self.store.count::<ApplicationRecord>()?,
            damaged: self.store.damaged()?,
            unknown_guests: self
                .unknown
                .iter()
                .filter(|it| it.runs())
                .cloned()
                .collect(),
        })
    }

    /// Why a port that is wanted is not there.
    fn fault(&self, subject: &Subject) -> Option<String> {
        let own = self.host.fault(subject).map(str::to_string);
        let no_switch = || {
            let why = self.host.fault(&Subject::Switch)?;
            let there = self.host.switch_pid().is_some();
            (!there).then(|| format!("there is no switch: {why}"))
        };
        own.or_else(no_switch)
    }

    /// Whether everything was removed, so that the node is to end.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Removes everything: guests, NSMs, VNICs, links, the switch, the state. The node ends then.
    pub fn purge(&mut self) -> Result<()> {
        let guests = self.store.all::<GuestRecord>()?;
        let vnics = self.store.all::<VnicRecord>()?;
        self.purge_nsms();
        // With a full disk all ends as well: it is only that a node which is killed meanwhile has
        // another bring it back.
        let _ = self.forget_all(&guests, &vnics);
        vnics.iter().for_each(remove_socket);
        for some in guests.chunks(ENDED_AT_ONCE) {
            self.host.end_guests(some.iter().map(|guest| guest.id));
        }
        self.host.finish_all();
        let namespaces = self.remove_namespaces();
        self.guests = Guests::default();
        self.index = Index::default();
        self.host.stop_switch();
        self.host.stop_store();
        self.host.remove_cgroups();
        self.over = true;
        // The file is not in use any more but by us; a new node makes a new one.
        Store::remove_files(&self.paths.state);
        let _ = std::fs::remove_dir_all(self.kept());
        namespaces
    }

    /// The folder of saved guests that are kept here for other hosts.
    pub fn kept(&self) -> PathBuf {
        kept::folder(&self.paths)
    }

    /// Removes all resources from the desired state.
    fn forget_all(&self, guests: &[GuestRecord], vnics: &[VnicRecord]) -> Result<()> {
        let change = self.store.change()?;
        for guest in guests {
            change.remove::<GuestRecord>(&guest.name)?;
            change.put(&Leaving::of(guest))?;
        }
        for flow in self.store.all::<FlowRecord>()? {
            change.remove::<FlowRecord>(&flow.name)?;
        }
        for vnic in vnics {
            change.remove::<VnicRecord>(&vnic.name)?;
        }
        for entry in self.store.all::<EntryRecord>()? {
            change.remove::<EntryRecord>(&entry.name)?;
        }
        for link in self.store.all::<LinkRecord>()? {
            change.remove::<LinkRecord>(&link.name)?;
        }
        for nsm in self.store.all::<NsmRecord>()? {
            change.remove::<NsmRecord>(&nsm.name)?;
        }
        for application in self.store.all::<ApplicationRecord>()? {
            change.remove::<ApplicationRecord>(&application.name)?;
        }
        change.remove::<SwitchRun>(SwitchRun::NAME)?;
        change.remove::<StoreRun>(StoreRun::NAME)?;
        Ok(change.commit()?)
    }
}

/// Removes the socket of a VNIC that goes, if it has one.
fn remove_socket(vnic: &VnicRecord) {
    if let Some(socket) = vnic.socket() {
        let _ = std::fs::remove_file(socket);
    }
}
