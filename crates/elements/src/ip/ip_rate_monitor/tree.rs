//! Rates of addresses by prefix: a tree of bytes of addresses that is deeper where there is more
//! traffic.
//!
//! A level holds a counter for each value of a byte, once seen; a counter whose rate exceeds a
//! threshold gets a level for the next byte. Levels and counters live in two arenas that grow up to
//! a limit and are used again and again.

use core::fmt::Write;

use crate::prelude::*;

/// Epochs a second, over which rates are averaged.
pub const FREQUENCY: u64 = 125;
/// A new epoch counts for one part in 2⁵.
const STABILITY: u32 = 5;
/// Averages carry ten binary digits after the point.
const SCALE: u32 = 10;
/// Epochs without traffic after which an average is nothing.
const FORGOTTEN: u64 = 100;

/// The number of the epoch at `now`.
pub fn epoch(now: Steady) -> u64 {
    now.0 / (1_000_000_000 / FREQUENCY)
}

/// No index.
const NONE: u32 = u32::MAX;

/// A moving average of traffic both ways.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    epoch: u64,
    /// What came in this epoch.
    current: [u64; 2],
    /// The averages of an epoch, scaled.
    averages: [u64; 2],
}

impl Rates {
    /// Brings the averages up to the epoch `now`.
    #[inline]
    fn advance(&mut self, now: u64) {
        if now != self.epoch {
            self.end_epoch(now);
        }
    }

    #[cold]
    fn end_epoch(&mut self, now: u64) {
        let silent = now.saturating_sub(self.epoch).saturating_sub(1);
        for (average, current) in self.averages.iter_mut().zip(&mut self.current) {
            *average = averaged(*average, core::mem::take(current) << SCALE);
            if silent >= FORGOTTEN {
                *average = 0;
            } else {
                for _ in 0..silent {
                    *average = averaged(*average, 0);
                }
            }
        }
        self.epoch = now;
    }

    /// Whole units a second.
    #[inline]
    fn per_second(&self, way: usize) -> u64 {
        self.averages[way].saturating_mul(FREQUENCY) >> SCALE
    }

    fn unparse(&self, way: usize) -> String {
        unparse::real2(self.averages[way].saturating_mul(FREQUENCY), SCALE)
    }
}

/// The average with one more sample; both scaled.
fn averaged(average: u64, sample: u64) -> u64 {
    let rounding = 1 << (STABILITY - 1);
    let difference = i128::from(sample) + rounding - i128::from(average);
    u64::try_from(i128::from(average) + (difference >> STABILITY)).unwrap_or(0)
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    rates: Rates,
    /// The level of the next byte; or [`NONE`].
    next: u32,
    /// Until this epoch it gets no next level.
    shallow_until: u64,
}

struct Level {
    counters: Box<[u32; 256]>,
}

/// What a counter and a level take, in bytes.
const COUNTER_SIZE: usize = size_of::<Counter>();
const LEVEL_SIZE: usize = size_of::<Level>() + size_of::<[u32; 256]>();

/// See the module.
pub struct Tree {
    counters: Vec<Counter>,
    levels: Vec<Level>,
    free_counters: Vec<u32>,
    free_levels: Vec<u32>,
    /// Units a second at which a prefix is looked at more closely.
    pub threshold: u64,
    /// Most bytes.
    limit: usize,
}

/// The first level is there always.
const BASE: u32 = 0;

impl Tree {
    /// A tree of nothing that takes at most `limit` bytes.
    pub fn new(threshold: u64, limit: usize) -> Tree {
        let mut tree = Tree {
            counters: Vec::new(),
            levels: Vec::new(),
            free_counters: Vec::new(),
            free_levels: Vec::new(),
            threshold,
            limit,
        };
        tree.new_level();
        tree
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        (self.counters.len() - self.free_counters.len()) * COUNTER_SIZE
            + (self.levels.len() - self.free_levels.len()) * LEVEL_SIZE
    }

    /// Most bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Sets how many bytes there may be. Where there are more, the deepest levels go, quietest
    /// first as far as a rising threshold tells them apart.
    pub fn set_limit(&mut self, limit: usize, now: u64) {
        self.limit = limit;
        let mut threshold = self.threshold.max(1);
        while self.memory() > limit && self.levels.len() - self.free_levels.len() > 1 {
            self.fold(now, threshold);
            threshold = threshold.saturating_mul(2);
        }
    }

    /// Forgets all rates.
    pub fn clear(&mut self) {
        *self = Tree::new(self.threshold, self.limit);
    }

    fn new_level(&mut self) -> u32 {
        if let Some(index) = self.free_levels.pop() {
            self.levels[index as usize].counters.fill(NONE);
            return index;
        }
        self.levels.push(Level {
            counters: Box::new([NONE; 256]),
        });
        self.levels.len() as u32 - 1
    }

    /// A counter for `byte` at `level`, with these rates; `None` if there is no room.
    fn new_counter(&mut self, level: u32, byte: u8, rates: Rates) -> Option<u32> {
        if self.memory() + COUNTER_SIZE > self.limit {
            return None;
        }
        let counter = Counter {
            rates,
            next: NONE,
            shallow_until: 0,
        };
        let index = match self.free_counters.pop() {
            Some(index) => {
                self.counters[index as usize] = counter;
                index
            }
            None => {
                self.counters.push(counter);
                self.counters.len() as u32 - 1
            }
        };
        self.levels[level as usize].counters[usize::from(byte)] = index;
        Some(index)
    }

    fn free_level(&mut self, level: u32) {
        for byte in 0..256 {
            let index = core::mem::replace(&mut self.levels[level as usize].counters[byte], NONE);
            if index == NONE {
                continue;
            }
            let next = self.counters[index as usize].next;
            if next != NONE {
                self.free_level(next);
            }
            self.free_counters.push(index);
        }
        self.free_levels.push(level);
    }

    /// Takes `amount` of traffic to (`way` 1) or from (0) `address` into account, or looks only if
    /// `count` is false. Returns the rates both ways of the longest prefix that is looked at, in
    /// units a second; `None` if there is no room to count it.
    pub fn update(
        &mut self,
        address: Ipv4Addr,
        way: usize,
        amount: u64,
        count: bool,
        now: u64,
    ) -> Option<[u64; 2]> {
        let bytes = address.octets();
        let mut level = BASE;
        let mut depth = 0;
        let index = loop {
            let byte = bytes[depth];
            let index = match self.levels[level as usize].counters[usize::from(byte)] {
                NONE => {
                    let rates = Rates {
                        epoch: now,
                        ..Rates::default()
                    };
                    self.new_counter(level, byte, rates)?
                }
                index => index,
            };
            let counter = &mut self.counters[index as usize];
            if count {
                counter.rates.advance(now);
                counter.rates.current[way & 1] += amount;
            }
            depth += 1;
            if counter.next == NONE || depth == bytes.len() {
                break index;
            }
            level = counter.next;
        };
        let Counter {
            rates,
            shallow_until,
            ..
        } = self.counters[index as usize];
        let per_second = [rates.per_second(0), rates.per_second(1)];
        let busy = per_second.iter().any(|rate| *rate >= self.threshold);
        if busy && depth < bytes.len() && shallow_until < now {
            self.split(index, bytes[depth], rates);
        }
        Some(per_second)
    }

    /// Gives a counter a level for the next byte, if there is room.
    fn split(&mut self, index: u32, byte: u8, rates: Rates) {
        if self.memory() + LEVEL_SIZE + COUNTER_SIZE > self.limit {
            return;
        }
        let level = self.new_level();
        self.counters[index as usize].next = level;
        // There is room: that was checked.
        let _ = self.new_counter(level, byte, rates);
    }

    /// Takes away the levels of prefixes whose averages of an epoch, scaled, are below `threshold`.
    pub fn fold(&mut self, now: u64, threshold: u64) {
        self.fold_level(BASE, now, threshold);
    }

    fn fold_level(&mut self, level: u32, now: u64, threshold: u64) {
        for byte in 0..256 {
            let index = self.levels[level as usize].counters[byte];
            if index == NONE || self.counters[index as usize].next == NONE {
                continue;
            }
            let counter = &mut self.counters[index as usize];
            counter.rates.advance(now);
            if counter
                .rates
                .averages
                .iter()
                .all(|average| *average < threshold)
            {
                let next = core::mem::replace(&mut counter.next, NONE);
                self.free_level(next);
            } else {
                let next = counter.next;
                self.fold_level(next, now, threshold);
            }
        }
    }

    /// Lets the prefix of `address` of `depth` more bytes than one have no next level until the
    /// epoch `until`.
    pub fn keep_shallow(&mut self, address: Ipv4Addr, depth: usize, until: u64) {
        let mut level = BASE;
        for (at, byte) in address.octets().into_iter().enumerate() {
            let index = self.levels[level as usize].counters[usize::from(byte)];
            let Some(counter) = self.counters.get_mut(index as usize) else {
                return;
            };
            if at == depth {
                counter.shallow_until = until;
                let next = core::mem::replace(&mut counter.next, NONE);
                if next != NONE {
                    self.free_level(next);
                }
                return;
            }
            if counter.next == NONE {
                return;
            }
            level = counter.next;
        }
    }

    /// The rates, a line for each prefix that has some: its bytes, and its rates both ways. Longer
    /// prefixes stand behind the shorter one, indented.
    pub fn look(&mut self, now: u64) -> String {
        let mut text = String::new();
        self.look_level(BASE, "", now, &mut text);
        text
    }

    fn look_level(&mut self, level: u32, before: &str, now: u64, text: &mut String) {
        for byte in 0..256 {
            let index = self.levels[level as usize].counters[byte];
            let Some(counter) = self.counters.get_mut(index as usize) else {
                continue;
            };
            let known = counter.rates.averages != [0, 0];
            counter.rates.advance(now);
            if !known {
                continue;
            }
            let prefix = match before {
                "" => alloc::format!("{byte}"),
                before => alloc::format!("{before}.{byte}"),
            };
            let (rates, next) = (counter.rates, counter.next);
            let _ = writeln!(text, "{prefix}\t{}\t{}", rates.unparse(0), rates.unparse(1));
            if next != NONE {
                self.look_level(next, &alloc::format!("\t{prefix}"), now, text);
            }
        }
    }
}
