//! Searches payloads for rules' contents.
//!
//! One content of each rule, the longest unless `fast_pattern` says another, is searched for together with those of
//! other rules. Where it is found, the rule's contents are compared in their order.

use super::grams::{Grams, Lengths};
use super::rules::{Content, Rule};
use crate::prelude::*;

/// Most comparisons of one rule with one payload.
const STEPS_MAX: u32 = 3000;
/// The lengths of contents that are searched for together.
const LENGTHS: [Lengths; 5] = [
    Lengths { least: 8, gram: 5 },
    Lengths { least: 4, gram: 4 },
    Lengths { least: 3, gram: 3 },
    Lengths { least: 2, gram: 2 },
    Lengths { least: 1, gram: 1 },
];

/// Rules, ready to be searched for.
#[derive(Default)]
pub struct Signatures {
    /// The rules.
    pub rules: Arc<[Rule]>,
    /// The contents by which the others are searched for, with the rules' numbers.
    grams: Vec<Grams>,
    /// Rules without a content to search for, which are looked at for each payload.
    bare: Vec<u16>,
}

/// Bytes of a payload or of a stream.
#[derive(Clone, Copy)]
pub struct Window<'p> {
    /// The bytes.
    pub bytes: &'p [u8],
    /// How many bytes of the stream were before.
    pub position: u64,
    /// How many of the bytes were searched before, and hold none of the contents that are searched for together.
    pub known: usize,
}

/// What came of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// Rules given up because comparing them took too long.
    pub given_up: u32,
    /// The bytes from here on hold none of the contents that are searched for together.
    pub end: usize,
}

/// What is remembered from payload to payload.
#[derive(Default)]
pub struct Scratch {
    /// Of each rule, the last search that compared it.
    compared: Vec<u32>,
    search: u32,
}

/// The content by which a rule is searched for.
fn fast(rule: &Rule) -> Option<&Content> {
    let positive = || rule.contents.iter().filter(|content| !content.negated);
    let chosen = positive().find(|content| content.fast);
    chosen.or_else(|| positive().max_by_key(|content| content.bytes.len()))
}

impl Signatures {
    /// Prepares rules; `None` if there is no memory.
    pub fn new(rules: Vec<Rule>) -> Option<Signatures> {
        let (mut contents, mut bare) = ([const { Vec::new() }; LENGTHS.len()], Vec::new());
        for (number, rule) in (0..).zip(&rules) {
            let bytes = fast(rule).map(|content| &content.bytes[..]);
            let fits = |lengths: &Lengths| bytes.is_some_and(|it| it.len() >= lengths.least);
            match (bytes, LENGTHS.iter().position(fits)) {
                (Some(bytes), Some(group)) => contents[group].push((number, bytes)),
                _ => bare.push(number),
            }
        }
        let groups = LENGTHS.into_iter().zip(&contents);
        let grams = groups
            .filter(|(_, contents)| !contents.is_empty())
            .map(|(lengths, contents)| Grams::new(lengths, contents))
            .collect::<Option<_>>()?;
        Some(Signatures {
            grams,
            bare,
            rules: rules.into(),
        })
    }

    /// Calls `found` with each rule that concerns the packet and whose contents are in the window.
    pub fn search(
        &self,
        window: Window<'_>,
        scratch: &mut Scratch,
        concerns: impl Fn(&Rule) -> bool,
        mut found: impl FnMut(u16),
    ) -> Searched {
        let (mut given_up, mut end) = (0, 0);
        let mut compare = |number: u16| {
            let Some(rule) = self
                .rules
                .get(usize::from(number))
                .filter(|rule| concerns(rule))
            else {
                return;
            };
            let mut steps = STEPS_MAX;
            if holds(&rule.contents, window, 0, &mut steps) {
                found(number);
            } else if steps == 0 {
                given_up += 1;
            }
        };
        for number in &self.bare {
            compare(*number);
        }
        scratch.begin(self.rules.len());
        for grams in &self.grams {
            grams.find(window.bytes, window.known, |number, start| {
                if scratch.was_compared(number) {
                    end = window.bytes.len();
                } else if let Some(content_end) = self.end_of(number, window.bytes, start) {
                    end = end.max(content_end);
                    scratch.set_compared(number);
                    compare(number);
                }
            });
        }
        Searched { given_up, end }
    }

    /// Where the content ends by which a rule is searched for, if it begins at a place of a text, letters of either
    /// case being the same.
    fn end_of(&self, number: u16, text: &[u8], start: usize) -> Option<usize> {
        let rule = self.rules.get(usize::from(number))?;
        let content = &fast(rule)?.bytes;
        let end = start + content.len();
        let is_it = text.get(start..end)?.eq_ignore_ascii_case(content);
        is_it.then_some(end)
    }
}

impl Scratch {
    /// Allocates memory for so many rules; false if there is none.
    pub fn reserve(&mut self, rules: usize) -> bool {
        let more = rules.saturating_sub(self.compared.len());
        let reserved = self.compared.try_reserve_exact(more).is_ok();
        if reserved {
            self.compared.resize(rules.max(self.compared.len()), 0);
        }
        reserved
    }

    fn begin(&mut self, rules: usize) {
        debug_assert!(self.compared.len() >= rules);
        self.search = self.search.wrapping_add(1);
        if self.search == 0 {
            self.compared.fill(0);
            self.search = 1;
        }
    }

    fn was_compared(&self, rule: u16) -> bool {
        self.compared.get(usize::from(rule)) == Some(&self.search)
    }

    fn set_compared(&mut self, rule: u16) {
        if let Some(last) = self.compared.get_mut(usize::from(rule)) {
            *last = self.search;
        }
    }
}

/// Whether contents are in a window, in order; the match before them ended at `last`.
fn holds(contents: &[Content], window: Window<'_>, last: usize, steps: &mut u32) -> bool {
    let Some((content, rest)) = contents.split_first() else {
        return true;
    };
    let Some(left) = steps.checked_sub(1) else {
        return false;
    };
    *steps = left;
    let length = window.bytes.len() as i64;
    let (low, high) = match content.is_relative() {
        true => {
            let low = last as i64 + i64::from(content.distance.unwrap_or(0));
            let within = content.within.map(|within| low + i64::from(within));
            (low, within.unwrap_or(length))
        }
        false => {
            let low = i64::from(content.offset.unwrap_or(0)) - window.position as i64;
            let depth = content.depth.map(|depth| low + i64::from(depth));
            (low, depth.unwrap_or(length))
        }
    };
    let (low, high) = (
        low.clamp(0, length) as usize,
        high.clamp(0, length) as usize,
    );
    let place = window.bytes.get(low..high).unwrap_or_default();
    let mut matches = place
        .windows(content.bytes.len().max(1))
        .enumerate()
        .filter(|(_, bytes)| match content.nocase {
            true => bytes.eq_ignore_ascii_case(&content.bytes),
            false => *bytes == content.bytes,
        })
        .map(|(at, bytes)| low + at + bytes.len());
    if content.negated {
        return matches.next().is_none() && holds(rest, window, last, steps);
    }
    // Where the next content stands does not depend on this match, unless it is relative.
    let depends = rest.first().is_some_and(Content::is_relative);
    for end in matches {
        if holds(rest, window, end, steps) {
            return true;
        }
        if !depends || *steps == 0 {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::rules::{Set, parse};
    use crate::testing::*;

    /// The sids that are found in a payload.
    fn found(options: &[&str], payload: &[u8], position: u64) -> Vec<u32> {
        let lines = options
            .iter()
            .zip(1..)
            .map(|(options, sid)| format!("alert ip any any -> any any ({options} sid:{sid};)\n"));
        let text: String = lines.collect();
        let signatures = Signatures::new(parse(&text, &Set::default()).unwrap()).unwrap();
        let mut scratch = Scratch::default();
        assert!(scratch.reserve(options.len()));
        let mut found = Vec::new();
        let window = Window {
            bytes: payload,
            position,
            known: 0,
        };
        signatures.search(
            window,
            &mut scratch,
            |_| true,
            |rule| {
                found.push(u32::from(rule) + 1);
            },
        );
        found.sort_unstable();
        found
    }

    #[test]
    fn contents_have_places() {
        let payload = b"GET /index.html HTTP/1.1\r\nHost: Example.org\r\n\r\n";
        let options = [
            r#"content:"GET"; depth:3;"#,
            r#"content:"get"; depth:3;"#,
            r#"content:"get"; nocase; depth:3;"#,
            r#"content:"HTTP"; offset:5; depth:15;"#,
            r#"content:"HTTP"; offset:5; depth:14;"#,
            r#"content:"Host|3a 20|"; content:"example"; nocase; distance:0; within:7;"#,
            r#"content:"Host|3a 20|"; content:"org"; distance:0; within:7;"#,
            r#"content:"GET"; content:!"POST";"#,
            r#"content:"GET"; content:!"Host"; distance:0; within:20;"#,
            r#"content:"GET"; content:!"Host"; distance:0; within:40;"#,
            r#"content:"t"; content:"m"; distance:0; within:1;"#,
            r#"content:!"POST";"#,
            r#"content:"1.1|0d 0a|"; startswith;"#,
            r#"content:"index"; distance:-3; content:"GET"; fast_pattern;"#,
        ];
        assert_eq!(found(&options, payload, 0), [1, 3, 4, 6, 8, 9, 11, 12, 14]);
    }

    #[test]
    fn places_count_from_the_beginning_of_the_stream() {
        let options = [
            r#"content:"abc"; offset:100; depth:5;"#,
            r#"content:"abc"; depth:50;"#,
        ];
        assert_eq!(found(&options, b"..abc", 100), [1]);
        assert_eq!(found(&options, b"..abc", 99), [1]);
        assert_eq!(found(&options, b"..abc", 0), [2]);
        assert_eq!(found(&options, b"..abc", 200), []);
    }

    #[test]
    fn comparisons_have_an_end() {
        let options = [
            r#"content:"a"; content:"a"; distance:0; content:"a"; distance:0; content:"a"; distance:0; content:"b"; distance:0;"#,
        ];
        assert_eq!(found(&options, &[b'a'; 2000], 0), []);
    }

    /// A content of few letters, and whether it has `nocase`.
    fn content() -> impl Strategy<Value = (String, bool)> {
        let lengths = prop_oneof![1usize..4, 4usize..9, 8usize..41];
        let letters = lengths.prop_flat_map(|it| prop::collection::vec("[aAbB]", it));
        (letters.prop_map(|letters| letters.concat()), any::<bool>())
    }

    proptest! {
        /// As a plain search finds them.
        #[test]
        fn contents_are_found_wherever_they_are(
            contents in prop::collection::vec(content(), 1..30),
            // Contents that the payload has: cut, in either case, and other letters in between.
            parts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..4, any::<bool>(), "[aAbBc]{0,3}"), 0..8),
        ) {
            let mut payload = String::new();
            for (which, cut, is_upper, between) in parts {
                let (content, _) = &contents[which.index(contents.len())];
                let part = &content[cut.min(content.len())..];
                payload += &if is_upper { part.to_uppercase() } else { part.into() };
                payload += &between;
            }
            let option = |(content, nocase): &(String, bool)| {
                format!("content:\"{content}\";{}", if *nocase { " nocase;" } else { "" })
            };
            let options: Vec<String> = contents.iter().map(option).collect();
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let is_there = |(content, nocase): &(String, bool)| match nocase {
                true => payload.to_lowercase().contains(&content.to_lowercase()),
                false => payload.contains(content),
            };
            let expected: Vec<u32> = (1..).zip(&contents)
                .filter(|(_, content)| is_there(content))
                .map(|(sid, _)| sid)
                .collect();
            prop_assert_eq!(found(&options, payload.as_bytes(), 0), expected);
        }
    }
}
