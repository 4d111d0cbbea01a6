//! A worker without a thread of its own, for tests: a call runs one round.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use super::wake_sets::WakeSet;
use super::{Egress, Handoff, Parts, PortSetup, QueueSetup, Worker};
use crate::counters::{LaneCounters, LaneStatus, PortStats};
use crate::doorbell::Doorbell;
use crate::handoff::LaneWaker;
use crate::ids::{PORTS_MAX, PortIndex};
use crate::lookup::{Learning, Limits};
use crate::memory::{CounterFile, LanePorts};
use crate::port::Link;

/// The only lane of a switch with one domain.
pub(crate) struct Alone {
    pub worker: Worker,
    waker: Arc<LaneWaker>,
    counters: Arc<CounterFile>,
    status: Arc<LaneStatus>,
    ports: PortIndex,
}

impl Alone {
    pub fn new() -> Alone {
        let (counters, _) = CounterFile::create(PORTS_MAX).unwrap();
        let counters = Arc::new(counters);
        let waker = Arc::new(LaneWaker::new().unwrap());
        let status = Arc::new(LaneStatus::new());
        let mut worker = Worker::new(Parts {
            lane: 0,
            ports: LanePorts::new(Arc::clone(&counters), 0),
            counters: Arc::new(LaneCounters::default()),
            status: Arc::clone(&status),
            waker: Arc::clone(&waker),
            handoff: Handoff {
                senders: vec![None],
                receivers: Vec::new(),
            },
        })
        .unwrap();
        worker.open_domain(0, 0, Box::new(Learning::new(Limits::default())));
        Alone {
            worker,
            waker,
            counters,
            status,
            ports: 0,
        }
    }

    /// Attaches a port; its doorbell is its own.
    pub fn attach(&mut self, link: Link, doorbell: Option<OwnedFd>) -> PortIndex {
        let doorbell = doorbell.map(|file| Doorbell::new(self.ports.into(), file));
        self.attach_with(link, doorbell.map(Arc::new))
    }

    /// Attaches a port, whose doorbell others may have, too.
    pub fn attach_with(&mut self, link: Link, doorbell: Option<Arc<Doorbell>>) -> PortIndex {
        let port = self.ports;
        self.ports += 1;
        self.worker.add_port(&PortSetup {
            port,
            generation: port.into(),
            domain: 0,
            mac: None,
            name: "port".into(),
            uplink: false,
            egress: Egress {
                lanes: 1,
                lane: 0,
                patch: None,
            },
            behind: None,
            waits: false,
        });
        let setup = QueueSetup {
            link,
            doorbell,
            polled: true,
            spreads: 0,
            kept: None,
        };
        self.worker.add_queue(port, setup).unwrap();
        port
    }

    /// Goes round until the waker is seen, which has woken the lane before.
    pub fn go_round(&mut self) {
        self.waker.wake();
        self.worker.run().unwrap();
    }

    /// Goes round once, in a round that began at `now`, with a job that waits.
    pub fn round_with_a_job(&mut self, now: Instant) {
        // A queue may have been quiet for so long that it sleeps.
        self.worker.look(WakeSet::All, false).unwrap();
        self.worker.clock.now = now;
        self.waker.wake_for_job();
        self.worker.go_round();
        assert!(self.waker.take_jobs());
    }

    pub fn stats(&self, port: PortIndex) -> PortStats {
        self.counters.sum(port)
    }

    pub fn is_closed(&self, port: PortIndex) -> bool {
        self.status.is_closed(port)
    }
}
