//! The header bytes that rules look at, of a whole batch, as columns.
//!
//! A *column* is a window of four bytes at a fixed place, with a number for
//! each packet: this is the form in which 16 packets are compared by one
//! instruction. The windows are laid so that few of them cover all fields;
//! for a firewall over addresses, protocol and ports these are four: the
//! fragment offset up to the protocol, the two addresses, the two ports.

use super::few::sort_few;
use super::fields::Fields;
use super::headers::{Area, View};
use crate::prelude::*;

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
    /// Where it starts in the beginning that [`Reach`] says.
    place: u16,
}

/// The beginning of packets that has all windows, in nearly all packets.
#[derive(Clone, Copy, Debug)]
enum Reach {
    /// So many bytes of the data, or from the MAC header on.
    Front16,
    Front40,
    Front60,
    /// So many bytes from an IP header without options on.
    Ip28,
    Ip40,
    /// There is none.
    Any,
}

/// Which windows there are, and which fields are in which.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    /// Area by area: network, transport, front.
    windows: Vec<Window>,
    places: Vec<Place>,
    /// The area lengths from which every window is whole.
    lengths: [usize; 3],
    reach: Reach,
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
            reach: Reach::Any,
        };
        for area in [Area::Network, Area::Transport, Area::Front] {
            columns.cover(area, fields);
        }
        columns.reach = columns.reach();
        (columns.windows.len() <= MAX_COLUMNS).then_some(columns)
    }

    /// Lays windows over the fields of one area, from its start on.
    fn cover(&mut self, area: Area, fields: &Fields) {
        let all = fields.as_slice();
        let mut rest: Vec<usize> = (0..all.len()).filter(|&i| all[i].area == area).collect();
        sort_few(&mut rest, |&i| all[i].offset);
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
            let before = if area == Area::Transport {
                IP_HEADER
            } else {
                0
            };
            self.windows.push(Window {
                area,
                start: start as u16,
                place: (before + start) as u16,
            });
        }
    }

    fn reach(&self) -> Reach {
        let [front, network, transport] = self.lengths;
        match (front, network, transport) {
            (..=16, 0, 0) => Reach::Front16,
            (..=40, 0, 0) => Reach::Front40,
            (..=60, 0, 0) => Reach::Front60,
            (0, ..=IP_HEADER, ..=8) => Reach::Ip28,
            (0, ..=IP_HEADER, ..=20) => Reach::Ip40,
            _ => Reach::Any,
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

    /// Fills the columns. Returns the number of packets, and a bit for each
    /// that ends before the end of some window: nothing is said of these in
    /// the columns.
    #[inline]
    pub(super) fn fill<'p, V: View<'p>>(
        &self,
        batch: &mut Batch,
        packets: impl Iterator<Item = V> + Clone,
    ) -> (usize, u64) {
        let (count, odd) = self.fill_usual(batch, packets.clone());
        match odd {
            0 => (count, 0),
            _ => (count, self.read_odd(batch, packets.take(LANES), odd)),
        }
    }

    /// Fills the columns of the packets that have all windows in their
    /// beginning. Returns the number of packets, and a bit for each of the
    /// others.
    #[inline(never)]
    pub(super) fn fill_usual<'p, V: View<'p>>(
        &self,
        batch: &mut Batch,
        packets: impl Iterator<Item = V> + Clone,
    ) -> (usize, u64) {
        let views = packets.take(LANES);
        match self.reach {
            Reach::Front16 => self.read(batch, views.map(|view| view.front().first_chunk::<16>())),
            Reach::Front40 => self.read(batch, views.map(|view| view.front().first_chunk::<40>())),
            Reach::Front60 => self.read(batch, views.map(|view| view.front().first_chunk::<60>())),
            Reach::Ip28 => self.read(batch, views.map(|view| view.plain_ip::<28>())),
            Reach::Ip40 => self.read(batch, views.map(|view| view.plain_ip::<40>())),
            Reach::Any => (views.count(), u64::MAX),
        }
    }

    /// Whether there is a beginning that has all windows.
    pub(super) fn near(&self) -> bool {
        !matches!(self.reach, Reach::Any)
    }

    /// How many columns there are.
    pub(super) fn len(&self) -> usize {
        self.windows.len()
    }

    /// Fills the columns from the beginnings of packets, and returns how many
    /// packets there are, and which do not have that beginning.
    #[inline(always)]
    fn read<'p, const P: usize>(
        &self,
        batch: &mut Batch,
        beginnings: impl Iterator<Item = Option<&'p [u8; P]>> + Clone,
    ) -> (usize, u64) {
        let mut seen = (0, 0);
        let windows = self.windows.chunks(4);
        for (columns, windows) in batch.columns.chunks_mut(4).zip(windows) {
            let beginnings = beginnings.clone();
            seen = match windows.len() {
                1 => read_some::<P, 1>(columns, windows, beginnings),
                2 => read_some::<P, 2>(columns, windows, beginnings),
                3 => read_some::<P, 3>(columns, windows, beginnings),
                _ => read_some::<P, 4>(columns, windows, beginnings),
            };
        }
        match self.windows.is_empty() {
            true => (beginnings.count(), 0),
            false => seen,
        }
    }

    /// Fills the columns of the packets with a bit in `odd`, wherever their
    /// headers are; returns those that are too short.
    #[cold]
    fn read_odd<'p>(
        &self,
        batch: &mut Batch,
        packets: impl Iterator<Item = impl View<'p>>,
        odd: u64,
    ) -> u64 {
        let mut short = 0;
        for (i, view) in packets.enumerate().filter(|(i, _)| odd >> i & 1 == 1) {
            let headers = view.headers();
            let areas = Area::ALL.map(|area| headers.area(area));
            if (0..3).any(|area| areas[area].len() < self.lengths[area]) {
                short |= 1 << i;
                continue;
            }
            for (column, window) in batch.columns.iter_mut().zip(&self.windows) {
                let bytes = areas[window.area as usize];
                column[i % LANES] = word(bytes, usize::from(window.start));
            }
        }
        short
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.windows.len() * (size_of::<Window>() + size_of::<[u32; LANES]>())
            + self.places.len() * size_of::<Place>()
    }
}

/// Fills `N` columns: the places of their windows are in registers throughout.
#[inline(always)]
fn read_some<'p, const P: usize, const N: usize>(
    columns: &mut [[u32; LANES]],
    windows: &[Window],
    beginnings: impl Iterator<Item = Option<&'p [u8; P]>>,
) -> (usize, u64) {
    let (Some(columns), Some(windows)) = (columns.first_chunk_mut::<N>(), windows.first_chunk())
    else {
        return (0, 0);
    };
    let places: [usize; N] = windows.map(|window: Window| usize::from(window.place).min(P - 4));
    let (mut count, mut odd) = (0, 0u64);
    for beginning in beginnings {
        match beginning {
            Some(beginning) => {
                for (column, place) in columns.iter_mut().zip(places) {
                    column[count % LANES] = word(beginning, place);
                }
            }
            None => odd |= 1 << count,
        }
        count += 1;
    }
    (count, odd)
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
