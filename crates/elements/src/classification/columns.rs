//! The header bytes that rules read, of a whole batch, as columns.
//!
//! A *column* has the four bytes of each packet at a fixed offset, its
//! *window*, so that one instruction compares 16 packets. The windows are laid so that few of them cover all fields;
//! for a firewall over addresses, protocol and ports these are four: the
//! fragment offset up to the protocol, the two addresses, the two ports.

use super::fields::Fields;
use super::headers::{Area, View};
use super::insertion_sort::insertion_sort;
use crate::prelude::*;
use simd::Aligned;

pub(super) use simd::WIDTH;

/// Most columns. Rules that read more windows are matched in another form.
const MAX_COLUMNS: usize = 16;

/// The bytes of an IP header without options.
const IP_HEADER: usize = 20;

/// A field's position in the columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) column: u8,
    /// The field's last bit's distance from the window's last.
    pub(super) shift: u8,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    area: Area,
    start: u16,
    /// Its offset in the bytes that [`Reach`] names.
    offset: u16,
}

/// The first bytes of a packet, which contain all windows of nearly all
/// packets.
#[derive(Clone, Copy, Debug)]
enum Reach {
    /// That many bytes of the data, or from the MAC header on.
    Front16,
    Front40,
    Front60,
    /// That many bytes from an IP header without options on.
    Ip28,
    Ip40,
    /// The windows are further apart.
    Any,
}

/// The windows, and the positions of fields in them.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    /// Area by area: network, transport, front.
    windows: Vec<Window>,
    positions: Vec<Position>,
    /// The area lengths that contain every window.
    lengths: [usize; 3],
    reach: Reach,
}

/// The columns of one batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    pub(super) columns: Vec<Aligned<[u32; WIDTH]>>,
}

impl Columns {
    /// The windows over `fields`; `None` when they are too many.
    pub(super) fn new(fields: &Fields) -> Option<Columns> {
        let mut columns = Columns {
            windows: Vec::new(),
            positions: vec![
                Position {
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
        insertion_sort(&mut rest, |&i| all[i].offset);
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
                self.positions[i] = Position {
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
                offset: (before + start) as u16,
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

    /// Each field's position.
    pub(super) fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// Columns for a batch.
    pub(super) fn batch(&self) -> Batch {
        Batch {
            columns: vec![Aligned([0; WIDTH]); self.windows.len()],
        }
    }

    /// Fills the columns. Returns the number of packets, and a bit for each
    /// that ends before the end of some window: its columns are undefined.
    #[inline]
    pub(super) fn fill<'p, V: View<'p>>(
        &self,
        batch: &mut Batch,
        packets: impl Iterator<Item = V> + Clone,
    ) -> (usize, u64) {
        let (count, far) = self.fill_near(batch, packets.clone());
        match far {
            0 => (count, 0),
            _ => (count, self.read_far(batch, packets.take(WIDTH), far)),
        }
    }

    /// Fills the columns of the packets that have all windows in their first
    /// bytes. Returns the number of packets, and a bit for each of the
    /// others.
    #[inline(never)]
    pub(super) fn fill_near<'p, V: View<'p>>(
        &self,
        batch: &mut Batch,
        packets: impl Iterator<Item = V> + Clone,
    ) -> (usize, u64) {
        let views = packets.take(WIDTH);
        match self.reach {
            Reach::Front16 => self.read(batch, views.map(|view| view.front().first_chunk::<16>())),
            Reach::Front40 => self.read(batch, views.map(|view| view.front().first_chunk::<40>())),
            Reach::Front60 => self.read(batch, views.map(|view| view.front().first_chunk::<60>())),
            Reach::Ip28 => self.read(batch, views.map(|view| view.plain_ip::<28>())),
            Reach::Ip40 => self.read(batch, views.map(|view| view.plain_ip::<40>())),
            Reach::Any => (views.count(), u64::MAX),
        }
    }

    /// Whether the first bytes of packets can contain all windows.
    pub(super) fn near(&self) -> bool {
        !matches!(self.reach, Reach::Any)
    }

    /// Number of columns.
    pub(super) fn len(&self) -> usize {
        self.windows.len()
    }

    /// Fills the columns from the first bytes of packets. Returns the number
    /// of packets, and a bit for each that is shorter or otherwise laid out.
    #[inline(always)]
    fn read<'p, const P: usize>(
        &self,
        batch: &mut Batch,
        heads: impl Iterator<Item = Option<&'p [u8; P]>> + Clone,
    ) -> (usize, u64) {
        let mut seen = (0, 0);
        let windows = self.windows.chunks(4);
        for (columns, windows) in batch.columns.chunks_mut(4).zip(windows) {
            let heads = heads.clone();
            seen = match windows.len() {
                1 => read_some::<P, 1>(columns, windows, heads),
                2 => read_some::<P, 2>(columns, windows, heads),
                3 => read_some::<P, 3>(columns, windows, heads),
                _ => read_some::<P, 4>(columns, windows, heads),
            };
        }
        match self.windows.is_empty() {
            true => (heads.count(), 0),
            false => seen,
        }
    }

    /// Fills the columns of the packets with a bit in `far`, wherever their
    /// headers are; returns the packets that are too short.
    #[cold]
    fn read_far<'p>(
        &self,
        batch: &mut Batch,
        packets: impl Iterator<Item = impl View<'p>>,
        far: u64,
    ) -> u64 {
        let mut short = 0;
        for (i, view) in packets.enumerate().filter(|(i, _)| far >> i & 1 == 1) {
            let headers = view.headers();
            let areas = Area::ALL.map(|area| headers.area(area));
            if (0..3).any(|area| areas[area].len() < self.lengths[area]) {
                short |= 1 << i;
                continue;
            }
            for (column, window) in batch.columns.iter_mut().zip(&self.windows) {
                let bytes = areas[window.area as usize];
                column[i % WIDTH] = word(bytes, usize::from(window.start));
            }
        }
        short
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.windows.len() * (size_of::<Window>() + size_of::<[u32; WIDTH]>())
            + self.positions.len() * size_of::<Position>()
    }
}

/// Fills `N` columns, with the offsets of their windows in registers.
#[inline(always)]
fn read_some<'p, const P: usize, const N: usize>(
    columns: &mut [Aligned<[u32; WIDTH]>],
    windows: &[Window],
    heads: impl Iterator<Item = Option<&'p [u8; P]>>,
) -> (usize, u64) {
    let (Some(columns), Some(windows)) = (columns.first_chunk_mut::<N>(), windows.first_chunk())
    else {
        return (0, 0);
    };
    let offsets: [usize; N] = windows.map(|window: Window| usize::from(window.offset).min(P - 4));
    let (mut count, mut far) = (0, 0u64);
    for head in heads {
        match head {
            Some(head) => {
                for (column, offset) in columns.iter_mut().zip(offsets) {
                    column[count % WIDTH] = word(head, offset);
                }
            }
            None => far |= 1 << count,
        }
        count += 1;
    }
    (count, far)
}

/// Four bytes in network order; zero if the bytes end before, which callers
/// rule out.
#[inline(always)]
fn word(bytes: &[u8], start: usize) -> u32 {
    match bytes.get(start..start + 4).and_then(<[u8]>::first_chunk) {
        Some(word) => u32::from_be_bytes(*word),
        None => 0,
    }
}
