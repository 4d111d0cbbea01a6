//! When queues and lanes sleep, what wakes them, and when a port is closed.

use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::io::Errno;

use super::watch::{self, Token, Whose};
use super::{QueueIndex, State, VIOLATIONS_MAX, Worker, slot, slot_mut};
use crate::port::{Link, Outcome};

/// How often interfaces that are down are asked whether they are still there.
const DOWN_CHECK: Duration = Duration::from_millis(200);

impl Worker {
    /// Whether nothing has come by a crossing for long enough to sleep.
    pub(super) fn may_rest(&self) -> bool {
        self.exits.is_empty() || (self.no_parcels() && self.pace.may_sleep(self.now))
    }

    fn no_parcels(&self) -> bool {
        self.exits.iter().all(|(exit, _)| exit.is_empty())
    }

    /// Sees which descriptors have something, sleeping until one does if the lane `rests`. Returns
    /// whether its bell was rung.
    pub(super) fn look(&mut self, whose: Whose, rests: bool) -> Result<bool, Errno> {
        let wait = match (rests, self.down.is_empty()) {
            (false, _) => Some(Duration::ZERO),
            (true, false) => Some(DOWN_CHECK),
            (true, true) => None,
        };
        let due = match rests {
            true => self.until_due(),
            false => None,
        };
        let wait = match (wait, due) {
            (Some(wait), Some(due)) => Some(wait.min(due)),
            (wait, due) => wait.or(due),
        };
        let mut timeout = wait.map(|wait| Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: wait.subsec_nanos().into(),
        });
        if rests {
            self.bell.set_sleeps(true);
            if !self.no_parcels() {
                timeout = Some(Timespec::default());
            }
            self.pace.sleeps(self.now);
        }
        let mut room = watch::room();
        let told = self.watch.wait(whose, timeout.as_ref(), &mut room);
        if rests {
            self.bell.set_sleeps(false);
            let now = Instant::now();
            self.meter
                .slept(now.saturating_duration_since(self.now), timeout.is_none());
            self.now = now;
        }
        let told = match told {
            Ok(told) => told,
            Err(Errno::INTR) => return Ok(false),
            Err(error) => return Err(error),
        };
        self.check_down();
        let mut rung = false;
        for token in told {
            match token {
                Token::Queue(queue) => self.wake(queue),
                Token::Guest(guest) => {
                    let count = self.doorbells.get(&guest);
                    for i in 0..count.map_or(0, |doorbell| doorbell.queues.len()) {
                        self.wake(self.doorbells[&guest].queues[i]);
                    }
                }
                Token::Bell => {
                    self.pace.wakes(self.now);
                    rung = true;
                }
                Token::Tenants => rung |= self.look(Whose::Tenants, false)?,
            }
        }
        Ok(rung)
    }

    /// Closes the queues of interfaces that were down and are gone by now.
    fn check_down(&mut self) {
        if self.down.is_empty() || self.now.saturating_duration_since(self.checked) < DOWN_CHECK {
            return;
        }
        self.checked = self.now;
        for i in (0..self.down.len()).rev() {
            let place = self.down[i];
            let link = slot(&self.queues, place).map(|queue| &queue.link);
            if link.is_some_and(Link::is_gone) {
                self.settle(place, Outcome::GONE);
                self.down.swap_remove(i);
            } else if !link.is_some_and(Link::is_down) {
                self.down.swap_remove(i);
            }
        }
    }

    /// Remembers that a queue's other side may not have noticed what was delivered.
    #[inline]
    pub(super) fn owe(&mut self, place: QueueIndex) {
        let queue = slot_mut(&mut self.queues, place);
        if queue.is_some_and(|queue| !std::mem::replace(&mut queue.owes, true)) {
            if self.owing.is_empty() {
                self.owing_since = self.round;
            }
            self.owing.push(place);
        }
    }

    /// Has everyone notice what was delivered. As long as frames come this is not done after each
    /// batch: those who sleep are woken for several, and those who do not are not asked as often.
    pub(super) fn call(&mut self) {
        while let Some(place) = self.owing.pop() {
            if let Some(queue) = slot_mut(&mut self.queues, place) {
                queue.owes = false;
                let outcome = queue.link.call(self.counters.port(queue.port));
                if self.settle(place, outcome) && outcome.busy {
                    self.wake(place);
                }
            }
        }
    }

    /// Brings a sleeping queue back into the round.
    pub(super) fn wake(&mut self, place: QueueIndex) {
        let Some(queue) = slot_mut(&mut self.queues, place) else {
            return;
        };
        if queue.state == State::Asleep {
            queue.link.wake();
            queue.pace.wakes(self.now);
            queue.state = State::Polled { woken: true };
            self.counters.port(queue.port).woke();
            self.active.push(place);
        } else {
            queue.link.notice();
        }
    }

    /// Lets a queue sleep that has been quiet for long enough. Returns whether it stays in the
    /// round.
    pub(super) fn rest(&mut self, place: QueueIndex) -> bool {
        let moves = self.moved || self.still == 0;
        let Some(queue) = slot_mut(&mut self.queues, place) else {
            return false;
        };
        // A look that is a system call costs too much to be taken often.
        let at_work = moves && queue.link.is_in_memory();
        if !queue.pace.finds_nothing(self.now, at_work) {
            std::hint::spin_loop();
            return true;
        }
        if !queue.link.sleep() {
            queue.link.wake();
            return true;
        }
        queue.link.catch_up(self.counters.port(queue.port));
        if queue.link.is_down() && !self.down.contains(&place) {
            self.down.push(place);
        }
        queue.pace.sleeps(self.now);
        queue.state = State::Asleep;
        false
    }

    /// Closes a port whose link is gone or whose guest has broken the rules too often. Returns
    /// whether it is open.
    #[inline]
    pub(super) fn settle(&mut self, place: QueueIndex, outcome: Outcome) -> bool {
        (outcome.violations == 0 && !outcome.gone) || !self.blame(place, outcome)
    }

    /// Returns whether the port is closed now.
    #[cold]
    fn blame(&mut self, place: QueueIndex, outcome: Outcome) -> bool {
        let Some(queue) = slot_mut(&mut self.queues, place) else {
            return true;
        };
        let Some(port) = slot_mut(&mut self.ports, queue.port.into()) else {
            return true;
        };
        port.violations = port.violations.saturating_add(outcome.violations);
        if !outcome.gone && port.violations < VIOLATIONS_MAX {
            return false;
        }
        queue.state = State::Closed;
        port.closed = true;
        self.board.close(queue.port);
        // Nothing of it is of interest any more, and what is gone would report that for ever.
        self.watch.remove_link(&queue.link);
        queue.link.close();
        let (index, domain) = (queue.port, port.domain);
        if let Some(domain) = slot_mut(&mut self.domains, domain) {
            domain.lookup.detach(index);
            port.present(index, None, &mut *domain.lookup);
        }
        true
    }
}
