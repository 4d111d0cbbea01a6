//! The header bytes that rules look at, of a whole batch, as columns.
//!
//! A *column* is a window of four bytes at a fixed place, with a number for
//! each packet: this is the form in which 16 packets are compared by one
//! instruction. The windows are laid so that few of them cover all fields;
//! for a firewall over addresses, protocol and ports these are four: the
//! fragment offset up to the protocol, the two addresses, the two ports.

use super::fields::Fields;
use super::headers::{Area, Headers, View};
use alloc::vec;
use alloc::vec::Vec;

pub(super) use simd::LANES;

/// Columns at most. Rules that look at more places are matched in another
/// form.
const MAX_COLUMNS: usize = 16;

/// The bytes of an IP header without options.
const IP_HEADER: usize = 20;

/// Where one field is found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) column: u8,
    /// The field's last bit's distance from the window's last.
    pub(super) shift: u8,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    area: Area,
    start: u16,
}

/// Which windows there are, and which fields are in which.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    /// Area by area: network, transport, front.
    windows: Vec<Window>,
    places: Vec<Place>,
    /// The area lengths from which every window is whole.
    lengths: [usize; 3],
    /// Windows of the network and of the transport header.
    counts: [usize; 2],
}

/// The columns of one batch.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) columns: Vec<[u32; LANES]>,
}

impl Columns {
    /// The windows over `fields`; `None` when they are too many.
    pub(super) fn new(fields: &Fields) -> Option<Columns> {
        let mut columns = Columns {
            windows: Vec::new(),
            places: vec![
                Place {
                    column: 0,
                    shift: 0
                };
                fields.as_slice().len()
            ],
            lengths: [0; 3],
            counts: [0; 2],
        };
        for area in [Area::Network, Area::Transport, Area::Front] {
            let before = columns.windows.len();
            columns.cover(area, fields);
            if let Some(count) = columns.counts.get_mut((area as usize).wrapping_sub(1)) {
                *count = columns.windows.len() - before;
            }
        }
        (columns.windows.len() <= MAX_COLUMNS).then_some(columns)
    }

    /// Lays windows over the fields of one area, from its start on.
    fn cover(&mut self, area: Area, fields: &Fields) {
        let all = fields.as_slice();
        let mut rest: Vec<usize> = (0..all.len()).filter(|&i| all[i].area == area).collect();
        rest.sort_by_key(|&i| all[i].offset);
        let mut rest = &rest[..];
        while let Some(&first) = rest.first() {
            let limit = usize::from(all[first].offset) + 4;
            let covered = rest.iter().take_while(|&&i| all[i].end() <= limit).count();
            let (inside, behind) = rest.split_at(covered.max(1));
            rest = behind;
            let end = inside.iter().map(|&i| all[i].end()).max().unwrap_or(0);
            // No further than the last field, so that packets need be no longer.
            let start = end.saturating_sub(4);
            for &i in inside {
                self.places[i] = Place {
                    column: self.windows.len() as u8,
                    shift: (8 * (start + 4 - all[i].end())) as u8,
                };
            }
            let length = &mut self.lengths[area as usize];
            *length = (*length).max(start + 4);
            self.windows.push(Window {
                area,
                start: start as u16,
            });
        }
    }

    /// Where each field is found.
    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Room for a batch's columns.
    pub(super) fn room(&self) -> Batch {
        Batch {
            columns: vec![[0; LANES]; self.windows.len()],
        }
    }

    /// Fills the columns, and returns the number of packets. `short` is told
    /// of packets that end before the end of some window: nothing is said of
    /// these in the columns.
    #[inline(always)]
    pub(super) fn fill<'p>(
        &self,
        batch: &mut Batch,
        packets: impl Iterator<Item = impl View<'p>>,
        short: impl FnMut(usize, &Headers<'p>),
    ) -> usize {
        let ip = self.windows.len() == self.counts[0] + self.counts[1]
            && self.lengths[Area::Network as usize] <= IP_HEADER;
        if self.counts == [0, 0] {
            match self.windows.len() {
                1 => return self.fill_front::<1>(batch, packets, short),
                2 => return self.fill_front::<2>(batch, packets, short),
                3 => return self.fill_front::<3>(batch, packets, short),
                4 => return self.fill_front::<4>(batch, packets, short),
                _ => {}
            }
        }
        match (ip, self.counts) {
            (true, [1, 0]) => self.fill_ip::<1, 0>(batch, packets, short),
            (true, [2, 0]) => self.fill_ip::<2, 0>(batch, packets, short),
            (true, [3, 0]) => self.fill_ip::<3, 0>(batch, packets, short),
            (true, [2, 1]) => self.fill_ip::<2, 1>(batch, packets, short),
            (true, [3, 1]) => self.fill_ip::<3, 1>(batch, packets, short),
            (true, [3, 2]) => self.fill_ip::<3, 2>(batch, packets, short),
            _ => self.fill_any(batch, packets, short),
        }
    }

    /// For `N` windows over the IP header without its options and `T` over
    /// the transport header: the places are in registers throughout.
    #[inline(always)]
    fn fill_ip<'p, const N: usize, const T: usize>(
        &self,
        batch: &mut Batch,
        packets: impl Iterator<Item = impl View<'p>>,
        mut short: impl FnMut(usize, &Headers<'p>),
    ) -> usize {
        let (network, transport) = batch.columns.split_at_mut(N);
        let (Some(network), Some(transport)) = (
            network.first_chunk_mut::<N>(),
            transport.first_chunk_mut::<T>(),
        ) else {
            return 0;
        };
        let start = |i: usize| usize::from(self.windows[i].start);
        let starts: [usize; N] = core::array::from_fn(|i| start(i).min(IP_HEADER - 4));
        let behind: [usize; T] = core::array::from_fn(|i| start(N + i));
        let length = self.lengths[Area::Transport as usize];
        let mut count = 0;
        for (i, view) in packets.take(LANES).enumerate() {
            count = i + 1;
            let (header, at) = view.network();
            let Some(ip) = header.first_chunk::<IP_HEADER>() else {
                short(i, &view.headers());
                continue;
            };
            let next = match T {
                0 => Some(&[][..]),
                _ => header.get(at..).filter(|next| next.len() >= length),
            };
            let Some(next) = next else {
                short(i, &view.headers());
                continue;
            };
            for (column, start) in network.iter_mut().zip(starts) {
                column[i % LANES] = word(ip, start);
            }
            for (column, start) in transport.iter_mut().zip(behind) {
                column[i % LANES] = word(next, start);
            }
        }
        count
    }

    /// For `N` windows over the packet's data or its MAC header alone.
    #[inline(always)]
    fn fill_front<'p, const N: usize>(
        &self,
        batch: &mut Batch,
        packets: impl Iterator<Item = impl View<'p>>,
        mut short: impl FnMut(usize, &Headers<'p>),
    ) -> usize {
        let Some(columns) = batch.columns.first_chunk_mut::<N>() else {
            return 0;
        };
        let starts: [usize; N] = core::array::from_fn(|i| usize::from(self.windows[i].start));
        let length = self.lengths[Area::Front as usize];
        let mut count = 0;
        for (i, view) in packets.take(LANES).enumerate() {
            count = i + 1;
            let headers = view.headers();
            if headers.front.len() < length {
                short(i, &headers);
                continue;
            }
            for (column, start) in columns.iter_mut().zip(starts) {
                column[i % LANES] = word(headers.front, start);
            }
        }
        count
    }

    #[inline(always)]
    fn fill_any<'p>(
        &self,
        batch: &mut Batch,
        packets: impl Iterator<Item = impl View<'p>>,
        mut short: impl FnMut(usize, &Headers<'p>),
    ) -> usize {
        let mut count = 0;
        for (i, view) in packets.take(LANES).enumerate() {
            count = i + 1;
            let headers = view.headers();
            let areas = Area::ALL.map(|area| headers.area(area));
            if (0..3).any(|area| areas[area].len() < self.lengths[area]) {
                short(i, &headers);
                continue;
            }
            for (column, window) in batch.columns.iter_mut().zip(&self.windows) {
                let bytes = areas[window.area as usize];
                column[i % LANES] = word(bytes, usize::from(window.start));
            }
        }
        count
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.windows.len() * (size_of::<Window>() + size_of::<[u32; LANES]>())
            + self.places.len() * size_of::<Place>()
    }
}

/// Four bytes in network order; zero where they are not there, which callers
/// have ruled out.
#[inline(always)]
fn word(bytes: &[u8], start: usize) -> u32 {
    match bytes.get(start..start + 4).and_then(<[u8]>::first_chunk) {
        Some(word) => u32::from_be_bytes(*word),
        None => 0,
    }
}
