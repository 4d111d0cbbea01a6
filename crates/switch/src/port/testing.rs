//! Two links joined without a worker, one step at a time: for tests of links from outside the
//! crate, such as fuzz targets.

use super::{Batch, Body, Frame, HEAD, Link, VIOLATIONS_MAX};
use crate::memory::{CounterFile, MemoryError};

/// A frame as lookup functions see it, which leads nowhere.
pub fn frame(bytes: &[u8]) -> Frame {
    let mut head = [0; HEAD];
    let known = bytes.len().min(HEAD);
    head[..known].copy_from_slice(&bytes[..known]);
    Frame::new(head, bytes.len(), Body::Staged(0))
}

/// Two links; frames from one go to the other.
pub struct Joined {
    links: [Option<Link>; 2],
    violations: [u32; 2],
    batch: Batch,
    counters: CounterFile,
}

impl Joined {
    /// Joins two links.
    pub fn new(a: Link, b: Link) -> Result<Joined, MemoryError> {
        let (counters, _) = CounterFile::create(2)?;
        Ok(Joined {
            links: [Some(a), Some(b)],
            violations: [0; 2],
            batch: Batch::new(),
            counters,
        })
    }

    /// Moves a batch each way, as a worker does. A link without frames is put to sleep and woken; a
    /// link that is gone, or breaks the rules too often, is closed.
    pub fn round(&mut self) {
        for from in 0..2 {
            let to = 1 - from;
            let (Some(counters), Some(other)) = (self.counters.port(from), self.counters.port(to))
            else {
                return;
            };
            let batch = &mut self.batch;
            batch.clear();
            let Some(link) = &mut self.links[from] else {
                continue;
            };
            link.notice();
            let outcome = link.receive(batch, counters);
            let which: Vec<u16> = (0..batch.frames().len() as u16).collect();
            let mut violations = [0; 2];
            violations[from] = outcome.violations;
            if which.is_empty() {
                link.sleep();
                link.wake();
            } else {
                let there = self.links[to].as_mut();
                let sent = there.map(|link| link.send(batch, &which, other));
                violations[to] = sent.map_or(0, |sent| sent.violations);
            }
            if let Some(link) = &mut self.links[from] {
                link.release();
            }
            for (i, new) in violations.into_iter().enumerate() {
                self.violations[i] += new;
                if self.violations[i] >= VIOLATIONS_MAX || (i == from && outcome.gone) {
                    self.links[i] = None;
                }
            }
        }
    }

    /// Whether a link is still there.
    pub fn is_open(&self, i: usize) -> bool {
        self.links.get(i).is_some_and(Option::is_some)
    }
}
