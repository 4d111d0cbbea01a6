//! Longest-prefix match by ranges.
//!
//! Prefixes cut the address space into ranges, each of which leads to one hop (after Zec, Rizzo
//! and Mikuc, "DXR: towards a billion routing lookups per second in software", 2012). An address's
//! upper bits choose a bucket; a bucket that one hop covers says so at once, any other names a run
//! of ranges, in order, in which the address is searched for. The number of upper bits follows
//! the number of prefixes, so that a run nearly always has few ranges, in which many addresses are
//! searched for at once, and memory follows the routes: two ranges a prefix, of eight bytes each,
//! and about three buckets, of four.

use alloc::collections::BTreeMap;

use simd::{BLOCK, Simd};

use super::hops::HopId;
use crate::prelude::*;

/// A prefix: the address, no bit set beyond its length, and the length in bits.
pub type Prefix = (u32, u8);

/// The prefixes that ranges are made of, and their hops. Length 0 is no entry: addresses that
/// no prefix covers have hop 0.
pub type Prefixes = BTreeMap<Prefix, HopId>;

const BITS_MIN: u32 = 6;
const BITS_MAX: u32 = 21;
/// Most ranges of a run in which many addresses are searched for at once.
const SHORT: usize = 14;
/// Bits of a bucket that say where its ranges are.
const AT_BITS: u32 = 28;
/// In place of the number of ranges: there are more than [`SHORT`], and the number stands before
/// them.
const LONG: u32 = 15;

/// A range of addresses up to the next one's: the hop, and the first address.
type Range = [u32; 2];

/// Where a bucket's ranges are, and in the upper bits how many; with none, the hop of all its
/// addresses.
#[derive(Clone, Copy)]
struct Bucket(u32);

impl Bucket {
    fn new(at: u32, len: u32) -> Bucket {
        Bucket(at | len << AT_BITS)
    }

    #[inline(always)]
    fn at(self) -> u32 {
        self.0 & ((1 << AT_BITS) - 1)
    }

    #[inline(always)]
    fn len(self) -> u32 {
        self.0 >> AT_BITS
    }
}

/// A hop for every address.
pub struct Ranges {
    /// By how much to shift an address for its bucket's number.
    shift: u32,
    /// See [`Bucket`].
    buckets: Vec<u32>,
    /// Runs of ranges. In front of a long one stands its length.
    ranges: Vec<Range>,
    /// Runs that are free, by size class.
    free: Vec<Vec<u32>>,
    /// Prefixes there were when the number of buckets was chosen.
    built_for: usize,
}

impl Default for Ranges {
    fn default() -> Self {
        Ranges {
            shift: 32 - BITS_MIN,
            buckets: alloc::vec![0; 1 << BITS_MIN],
            ranges: Vec::new(),
            free: Vec::new(),
            built_for: 0,
        }
    }
}

/// Sizes of runs: 2, 3, 4, 6, 8, 12, 16, …
fn class_of(len: usize) -> usize {
    let mut class = 0;
    while class_size(class) < len {
        class += 1;
    }
    class
}

fn class_size(class: usize) -> usize {
    (2 + class % 2) << (class / 2)
}

fn bits_for(prefixes: usize) -> u32 {
    (prefixes.max(1).ilog2() + 2).clamp(BITS_MIN, BITS_MAX)
}

/// The last address of a prefix.
fn last((address, length): Prefix) -> u32 {
    address | u32::MAX.checked_shr(length.into()).unwrap_or(0)
}

/// The ranges of one bucket, as they are found.
struct Run<'r> {
    ranges: &'r mut Vec<Range>,
}

impl Run<'_> {
    /// False if memory is short.
    fn add(&mut self, first: u32, hop: HopId) -> bool {
        // One range if both lead to the same hop.
        if self.ranges.last().is_some_and(|[before, _]| *before == hop) {
            return true;
        }
        let has_room = self.ranges.try_reserve(1).is_ok();
        if has_room {
            self.ranges.push([hop, first]);
        }
        has_room
    }
}

impl Ranges {
    /// The hop of `address`.
    #[inline]
    pub fn find(&self, address: u32) -> HopId {
        let number = (address >> self.shift) as usize;
        let bucket = Bucket(self.buckets.get(number).copied().unwrap_or(0));
        let run = match bucket.len() {
            0 => return bucket.at(),
            LONG => self.long_run(bucket.at()),
            len => self.run(bucket.at(), len),
        };
        // The last range that starts at the address or before it. The first always does.
        let after = run.partition_point(|[_, first]| *first <= address);
        run.get(after.wrapping_sub(1)).map_or(0, |[hop, _]| *hop)
    }

    /// Finds the hops of the first `count` addresses. What the other hops are is not said.
    ///
    /// All buckets are read before the first range is looked at, and no branch depends on them:
    /// which buckets and ranges addresses fall in cannot be predicted, and misses of the cache
    /// overlap.
    #[inline(always)]
    pub fn find_all<S: Simd>(
        &self,
        simd: S,
        addresses: &[u32; BATCH],
        count: usize,
        hops: &mut [HopId; BATCH],
    ) {
        let blocks = count.div_ceil(BLOCK);
        let shift = self.shift;
        let numbers = addresses.map(|address| address >> shift);
        let mut buckets = [0; BATCH];
        simd.gather(&self.buckets, &numbers, blocks, &mut buckets);
        let (at, len) = (
            buckets.map(|bucket| Bucket(bucket).at()),
            buckets.map(|bucket| Bucket(bucket).len()),
        );
        simd.last_reached(&self.ranges, [&at, &len], addresses, blocks, hops);
        let mut long = simd.within(&len, blocks, u32::MAX, LONG, 0);
        long &= packet::first(count);
        while long != 0 {
            let i = long.trailing_zeros() as usize % BATCH;
            hops[i] = self.find(addresses[i]);
            long &= long - 1;
        }
    }

    /// A run of so many ranges.
    #[inline]
    fn run(&self, at: u32, len: u32) -> &[Range] {
        let rest = self.ranges.get(at as usize..).unwrap_or(&[]);
        rest.get(..len as usize).unwrap_or(&[])
    }

    /// A run in front of which its length stands.
    fn long_run(&self, at: u32) -> &[Range] {
        let len = self.ranges.get(at as usize).map_or(0, |[len, _]| *len);
        self.run(at + 1, len)
    }

    /// The places that a bucket's ranges take.
    fn places(&self, bucket: Bucket) -> usize {
        match bucket.len() {
            LONG => 1 + self.long_run(bucket.at()).len(),
            len => len as usize,
        }
    }

    /// Takes in that `changed` was added to `prefixes`, removed from them, or given another hop.
    /// False, and nothing usable changed, if memory is short.
    #[must_use]
    pub fn update(&mut self, prefixes: &Prefixes, changed: Prefix) -> bool {
        let count = prefixes.len();
        if (count > 2 * self.built_for || 4 * count < self.built_for)
            && bits_for(count) != 32 - self.shift
            && self.rebuild(prefixes)
        {
            return true;
        }
        self.fill(
            prefixes,
            changed.0 >> self.shift,
            last(changed) >> self.shift,
        )
    }

    /// Recomputes the number of buckets, and all ranges. False, and nothing changed, if memory is
    /// short.
    pub fn rebuild(&mut self, prefixes: &Prefixes) -> bool {
        let bits = bits_for(prefixes.len());
        let mut new = Ranges {
            shift: 32 - bits,
            buckets: Vec::new(),
            ranges: Vec::new(),
            free: Vec::new(),
            built_for: prefixes.len(),
        };
        if new.buckets.try_reserve_exact(1 << bits).is_err() {
            return false;
        }
        new.buckets.resize(1 << bits, 0);
        let done = new.fill(prefixes, 0, (1 << bits) - 1);
        if done {
            *self = new;
        }
        done
    }

    /// Recomputes the ranges of the buckets from `first` to `end`.
    fn fill(&mut self, prefixes: &Prefixes, first: u32, end: u32) -> bool {
        let low = first << self.shift;
        let high = (end << self.shift) | ((1u64 << self.shift) - 1) as u32;
        // The prefixes that the present address is in, widest first: last address and hop.
        let mut around: Vec<(u32, HopId)> = Vec::with_capacity(33);
        around.push((u32::MAX, 0));
        for length in 1..=32 - self.shift as u8 {
            let address = low & !last((0, length));
            if let Some(&hop) = prefixes.get(&(address, length)).filter(|_| address < low) {
                around.push((last((address, length)), hop));
            }
        }
        let mut cut = Cutter {
            ranges: self,
            scratch: Vec::new(),
            next: low,
            done: false,
            ok: true,
        };
        for (&prefix, &hop) in prefixes.range((low, 0)..=(high, 32)) {
            while let Some(&(end, outer)) = around.last()
                && end < prefix.0
            {
                cut.up_to(end, outer);
                around.pop();
            }
            if let (Some(before), Some(&(_, outer))) = (prefix.0.checked_sub(1), around.last()) {
                cut.up_to(before, outer);
            }
            around.push((last(prefix), hop));
        }
        while let Some((end, hop)) = around.pop() {
            cut.up_to(end.min(high), hop);
        }
        cut.ok
    }

    /// Gives a bucket its ranges.
    fn set(&mut self, number: u32, run: &[Range]) -> bool {
        let old = Bucket(self.buckets[number as usize]);
        if let [[only, _]] = run {
            self.give_back(old);
            self.buckets[number as usize] = Bucket::new(*only, 0).0;
            return true;
        }
        let long = run.len() > SHORT;
        let places = usize::from(long) + run.len();
        let class = class_of(places);
        let at = if old.len() > 0 && class == class_of(self.places(old)) {
            old.at()
        } else {
            self.give_back(old);
            match self.take(class) {
                Some(at) => at,
                None => {
                    self.buckets[number as usize] = 0;
                    return false;
                }
            }
        };
        let room = &mut self.ranges[at as usize..at as usize + places];
        let len = match room.split_first_mut() {
            Some((len, room)) if long => {
                *len = [run.len() as u32, 0];
                room.copy_from_slice(run);
                LONG
            }
            _ => {
                room.copy_from_slice(run);
                run.len() as u32
            }
        };
        self.buckets[number as usize] = Bucket::new(at, len).0;
        true
    }

    fn give_back(&mut self, bucket: Bucket) {
        if bucket.len() == 0 {
            return;
        }
        let class = class_of(self.places(bucket));
        if self.free.len() <= class {
            self.free.resize(class + 1, Vec::new());
        }
        // A run that there is no memory to note is free again when all are recomputed.
        if self.free[class].try_reserve(1).is_ok() {
            self.free[class].push(bucket.at());
        }
    }

    fn take(&mut self, class: usize) -> Option<u32> {
        if let Some(at) = self.free.get_mut(class).and_then(Vec::pop) {
            return Some(at);
        }
        let (at, size) = (self.ranges.len(), class_size(class));
        if at >> AT_BITS != 0 {
            return None;
        }
        self.ranges.try_reserve(size).ok()?;
        self.ranges.resize(at + size, [0; 2]);
        u32::try_from(at).ok()
    }

    /// Bytes that the ranges take.
    pub fn memory(&self) -> usize {
        let free: usize = self.free.iter().map(|runs| runs.capacity() * 4 + 24).sum();
        self.buckets.capacity() * 4 + self.ranges.capacity() * 8 + free
    }
}

/// Cuts the address space into ranges, from a bucket's first address upwards.
struct Cutter<'r> {
    ranges: &'r mut Ranges,
    scratch: Vec<Range>,
    /// The first address not yet in a range.
    next: u32,
    /// The last address is in a range.
    done: bool,
    ok: bool,
}

impl Cutter<'_> {
    /// The addresses to `end` that are in no range yet lead to `hop`.
    fn up_to(&mut self, end: u32, hop: HopId) {
        let shift = self.ranges.shift;
        while !self.done && self.next <= end {
            let mut run = Run {
                ranges: &mut self.scratch,
            };
            self.ok &= run.add(self.next, hop);
            let number = self.next >> shift;
            let bucket_end = (number << shift) | ((1u64 << shift) - 1) as u32;
            let reached = end.min(bucket_end);
            if reached == bucket_end {
                self.ok &= self.ranges.set(number, &self.scratch);
                self.scratch.clear();
            }
            match reached.checked_add(1) {
                Some(next) => self.next = next,
                None => self.done = true,
            }
        }
    }
}
