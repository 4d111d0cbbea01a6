//! A worker without a thread of its own, for tests: it goes round when it is told to.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{PORTS_MAX, Parts, Placed, Served, Ways, Worker};
use crate::counters::PortStats;
use crate::crossing::Bell;
use crate::lane::{Board, Meter};
use crate::lookup::{Learning, Limits, PortIndex};
use crate::memory::{CounterFile, LaneCounters};
use crate::port::Link;

/// The only lane of a switch with one domain.
pub(crate) struct Alone {
    pub worker: Worker,
    bell: Arc<Bell>,
    counters: Arc<CounterFile>,
    board: Arc<Board>,
    ports: PortIndex,
}

impl Alone {
    pub fn new() -> Alone {
        let (counters, _) = CounterFile::create(PORTS_MAX).unwrap();
        let counters = Arc::new(counters);
        let bell = Arc::new(Bell::new().unwrap());
        let board = Arc::new(Board::new());
        let mut worker = Worker::new(Parts {
            lane: 0,
            counters: LaneCounters::new(Arc::clone(&counters), 0),
            bell: Arc::clone(&bell),
            meter: Arc::new(Meter::default()),
            board: Arc::clone(&board),
            entries: vec![None],
            exits: Vec::new(),
        })
        .unwrap();
        worker.open_domain(0, 0, Box::new(Learning::new(Limits::default())));
        Alone {
            worker,
            bell,
            counters,
            board,
            ports: 0,
        }
    }

    /// Attaches a port; its doorbell is a guest's of its own.
    pub fn attach(&mut self, link: Link, doorbell: Option<Arc<OwnedFd>>) -> PortIndex {
        let place = self.ports;
        self.ports += 1;
        self.worker.place(&Placed {
            place,
            turn: place.into(),
            domain: 0,
            mac: None,
            name: "port".into(),
            uplink: false,
            ways: Ways {
                lanes: 1,
                home: 0,
                patch: None,
            },
        });
        let served = Served {
            link,
            guest: doorbell.map(|doorbell| (place.into(), doorbell)),
            polled: true,
            spreads: 0,
            kept: None,
        };
        self.worker.serve_queue(place, served).unwrap();
        place
    }

    /// Goes round until the bell is seen, which is rung first.
    pub fn turn(&mut self) {
        self.bell.ring();
        self.worker.run().unwrap();
    }

    /// Goes round once, after `before`, with an order that waits.
    pub fn round_with_an_order(&mut self, before: Duration) {
        self.worker.now = Instant::now().checked_sub(before).unwrap();
        self.bell.order();
        self.worker.go_round();
        assert!(self.bell.take_orders());
    }

    pub fn stats(&self, place: PortIndex) -> PortStats {
        self.counters.sum(place)
    }

    pub fn is_closed(&self, place: PortIndex) -> bool {
        self.board.is_closed(place)
    }
}
