//! Finds where contents may stand in a text, by a few of its bytes.
//!
//! A gram is a string of few bytes. Of each content, the part is chosen whose grams other contents have least. Wherever
//! that part stands in a text, one of its grams begins at a multiple of their number, so the text's other grams are not
//! looked at (Sutinen, Tarhio: Filtration with q-Samples in Approximate String Matching, 1996). A bitmap that fits in
//! the cache rules most grams out. Letters of either case are the same.

use crate::prelude::*;

/// Bits of the bitmap for each gram, and most of them: 256 KiB.
const BITS: usize = 32;
const BITS_MIN: usize = 1 << 12;
const BITS_MAX: usize = 1 << 21;
/// Grams of a text that are looked at together.
const BLOCK: usize = 64;
/// Fewest lists of grams.
const LISTS_MIN: usize = 1 << 6;
/// Bytes of a content of which the part is chosen.
const CHOICE_MAX: usize = 256;
/// Bits of a hash by which grams are counted for the choice.
const COUNTED: u32 = 16;

/// A range of lengths of contents.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// The least length, which is that of the chosen part.
    pub least: usize,
    /// Bytes of a gram: 8 at most.
    pub gram: usize,
}

impl Lengths {
    /// Grams of the chosen part.
    const fn grams(self) -> usize {
        self.least - self.gram + 1
    }
}

/// The grams of some contents.
pub struct Grams {
    lengths: Lengths,
    /// Bytes of the longest content.
    longest: usize,
    /// A bit for the last bits of hashes, set if a gram has them; their number is a power of two.
    bits: Vec<u64>,
    /// For each range of hashes, where its entries begin; and the number of all.
    lists: Vec<u32>,
    lists_shift: u32,
    /// In the order of their hashes.
    entries: Vec<Entry>,
}

/// A gram of a content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    hash: u32,
    /// The content's number.
    number: u16,
    /// Where in the content it stands.
    offset: u16,
}

impl Grams {
    /// The grams of contents, each of which has a number and at least `lengths.least` bytes; `None` if there is no
    /// memory.
    pub fn new(lengths: Lengths, contents: &[(u16, &[u8])]) -> Option<Grams> {
        let count = contents.len() * lengths.grams();
        let bits = (BITS * count).next_power_of_two().clamp(BITS_MIN, BITS_MAX);
        let lists = count.next_power_of_two().max(LISTS_MIN);
        let mut grams = Grams {
            lengths,
            longest: contents.iter().map(|(_, it)| it.len()).max().unwrap_or(0),
            bits: zeros(bits / 64)?,
            lists: zeros(lists + 1)?,
            lists_shift: u32::BITS - lists.ilog2(),
            entries: Vec::new(),
        };
        grams.entries.try_reserve_exact(count).ok()?;
        let mut counts = zeros::<u32>(1 << COUNTED)?;
        for (_, content) in contents {
            for hash in grams.hashes(content) {
                counts[(hash >> (u32::BITS - COUNTED)) as usize] += 1;
            }
        }
        for (number, content) in contents {
            let start = grams.choose(content, &counts);
            let hashes = grams.hashes(content).zip(0..).skip(start);
            for (hash, offset) in hashes.take(lengths.grams()) {
                grams.entries.push(Entry {
                    hash,
                    number: *number,
                    offset,
                });
            }
        }
        grams.entries.sort_unstable();
        for entry in &grams.entries {
            let bit = entry.hash as usize % bits;
            grams.bits[bit / 64] |= 1 << (bit % 64);
            grams.lists[(entry.hash >> grams.lists_shift) as usize + 1] += 1;
        }
        let mut before = 0;
        for start in &mut grams.lists {
            before += *start;
            *start = before;
        }
        Some(grams)
    }

    /// The hashes of the grams among which a content's part is chosen.
    fn hashes<'c>(&self, content: &'c [u8]) -> impl Iterator<Item = u32> + use<'c> {
        let (gram, length) = (self.lengths.gram, content.len().min(CHOICE_MAX));
        (0..(length + 1).saturating_sub(gram)).map(move |at| hash(&content[at..], gram))
    }

    /// Where the part of a content begins that has the rarest grams.
    fn choose(&self, content: &[u8], counts: &[u32]) -> usize {
        let Lengths { least, gram } = self.lengths;
        let cost = |at: usize| {
            // Traffic is full of runs of one byte.
            let is_run = content[at..at + gram]
                .windows(2)
                .all(|pair| pair[0] == pair[1]);
            let hash = hash(&content[at..], gram);
            counts[(hash >> (u32::BITS - COUNTED)) as usize] + (u32::from(is_run) << 16)
        };
        let starts = 0..=content.len().min(CHOICE_MAX) - least;
        let costs = |start: &usize| {
            (*start..*start + self.lengths.grams())
                .map(cost)
                .sum::<u32>()
        };
        starts.min_by_key(costs).unwrap_or(0)
    }

    /// Calls `candidate` with the number of each content that may stand in a text and end behind its first `known`
    /// bytes, and where it would begin.
    #[inline]
    pub fn find(&self, text: &[u8], known: usize, mut candidate: impl FnMut(u16, usize)) {
        let step = self.lengths.grams();
        let mut next = (known + 1).saturating_sub(self.longest);
        while next + self.lengths.gram <= text.len() {
            let mut marked = match step {
                1 => self.marked::<1>(text, next),
                4 => self.marked::<4>(text, next),
                // There is no loop for them: all may be.
                _ => u64::MAX,
            };
            while marked != 0 {
                let at = next + marked.trailing_zeros() as usize * step;
                marked &= marked - 1;
                let rest = text.get(at..).unwrap_or_default();
                for entry in self.entries_of(hash(rest, self.lengths.gram)) {
                    if let Some(start) = at.checked_sub(entry.offset.into()) {
                        candidate(entry.number, start);
                    }
                }
            }
            next += BLOCK * step;
        }
    }

    /// A bit for each gram that a block of a text has from a place on, each `STEP` bytes behind the one before:
    /// whether the bitmap has its bit. There is no branch that depends on the text.
    #[inline(never)]
    fn marked<const STEP: usize>(&self, text: &[u8], next: usize) -> u64 {
        let gram = self.lengths.gram;
        let text = text.get(next..).unwrap_or_default();
        let (mut marked, mask) = (0, mask(gram));
        if let Some(block) = text.get(..(BLOCK - 1) * STEP + 8) {
            for at in (0..BLOCK).map(|i| i * STEP) {
                let word = block[at..].first_chunk().copied().unwrap_or_default();
                let has = self.has(hash_of(u64::from_le_bytes(word), mask));
                marked = marked >> 1 | has << (BLOCK - 1);
            }
        } else {
            let grams = (text.len() + 1).saturating_sub(gram).div_ceil(STEP);
            for i in 0..grams.min(BLOCK) {
                marked |= self.has(hash(&text[i * STEP..], gram)) << i;
            }
        }
        marked
    }

    /// 1 if the bitmap has a hash's bit.
    #[inline(always)]
    fn has(&self, hash: u32) -> u64 {
        let bit = hash as usize;
        let word = self.bits.get((bit / 64) & self.bits.len().wrapping_sub(1));
        word.copied().unwrap_or(0) >> (bit % 64) & 1
    }

    #[inline]
    fn entries_of(&self, hash: u32) -> impl Iterator<Item = &Entry> {
        let list = (hash >> self.lists_shift) as usize;
        let entries = match self.lists.get(list..list + 2) {
            Some(&[start, end]) => self.entries.get(start as usize..end as usize),
            _ => None,
        };
        let entries = entries.unwrap_or_default().iter();
        entries.filter(move |entry| entry.hash == hash)
    }
}

/// The hash of the gram that a text begins with.
fn hash(text: &[u8], gram: usize) -> u32 {
    let word = text.first_chunk().copied().unwrap_or_else(|| {
        let mut word = [0; 8];
        word[..text.len()].copy_from_slice(text);
        word
    });
    hash_of(u64::from_le_bytes(word), mask(gram))
}

/// The bits of a word that are those of a gram.
fn mask(gram: usize) -> u64 {
    u64::MAX >> (64 - 8 * gram)
}

/// The same, of eight bytes that begin with it. The first bits are the best.
#[inline(always)]
fn hash_of(word: u64, mask: u64) -> u32 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    /// The bit in which ASCII letters of either case differ.
    const CASE: u64 = 0x2020_2020_2020_2020;
    (((word | CASE) & mask).wrapping_mul(MULTIPLIER) >> 32) as u32
}

/// So many zeros, if there is memory.
fn zeros<T: Clone + Default>(count: usize) -> Option<Vec<T>> {
    let mut all = Vec::new();
    all.try_reserve_exact(count).ok()?;
    all.resize(count, T::default());
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Lengths = Lengths { least: 8, gram: 5 };

    /// The candidates in a text.
    fn candidates(contents: &[String], text: &[u8]) -> Vec<(u16, usize)> {
        let contents: Vec<_> = (0..)
            .zip(contents)
            .map(|(number, it)| (number, it.as_bytes()))
            .collect();
        let mut candidates = Vec::new();
        let grams = Grams::new(LONG, &contents).unwrap();
        grams.find(text, 0, |number, start| candidates.push((number, start)));
        candidates
    }

    fn words(random: &mut fastrand::Rng, count: usize) -> Vec<String> {
        let mut word = |_| (0..12).map(|_| random.lowercase()).collect();
        (0..count).map(&mut word).collect()
    }

    #[test]
    fn few_places_of_other_texts_are_candidates() {
        let mut random = fastrand::Rng::with_seed(1);
        let contents = words(&mut random, 10_000);
        let text = words(&mut random, 1000).join(" ");
        let count = candidates(&contents, text.as_bytes()).len();
        assert!(count < text.len() / 100, "{count} of {}", text.len());
        assert_eq!(candidates(&contents[7..8], contents[7].as_bytes()).len(), 1);
    }

    #[test]
    fn contents_are_not_searched_for_by_what_they_have_in_common() {
        let mut random = fastrand::Rng::with_seed(2);
        let words = words(&mut random, 1000);
        let contents: Vec<_> = words
            .iter()
            .map(|word| format!("\0\0\0\0\0\0\0\0User-Agent: {word}"))
            .collect();
        let text = [&[0; 100][..], b"User-Agent: curl"].concat();
        assert_eq!(candidates(&contents, &text), []);
        assert_eq!(candidates(&contents, contents[9].as_bytes()), [(9, 0)]);
    }
}
