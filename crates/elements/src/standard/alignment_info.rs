use alloc::string::String;
use alloc::vec::Vec;

use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, ElementId};

/// Says how the packets that come to elements' inputs are aligned.
///
/// No element uses it, as all read headers at any alignment. It is there for configurations that
/// have it; what it says is only checked. Elements that do not exist are passed over.
///
/// # Arguments
/// - `ELEMENT [MODULUS OFFSET]...` (any number of times): the name of an element, and for each of
///   its inputs how packets' data is aligned.
///
/// # Ports
/// None.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// AlignmentInfo(c 4 0);
/// FromDump(in.pcap) -> Align(4, 0) -> c :: CheckIPHeader -> Discard;
/// ```
///
/// # See also
/// Align
#[derive(Default)]
pub struct AlignmentInfo {
    entries: Vec<Entry>,
}

/// An element's index, and its inputs' moduli and offsets.
#[derive(Clone, PartialEq, Eq)]
struct Entry {
    element: usize,
    inputs: Vec<i32>,
}

impl Class for AlignmentInfo {
    const NAME: &'static str = "AlignmentInfo";
    const PORTS: &'static str = "0/0";
}

impl AlignmentInfo {
    fn known(&self, element: usize) -> Option<Entry> {
        let entry = self.entries.iter().find(|entry| entry.element == element);
        entry.cloned()
    }
}

/// What is known of an element's inputs from AlignmentInfos besides the one at work.
fn known_elsewhere(cx: &mut Cx<'_>, element: usize) -> Option<Entry> {
    let elements = 0..cx.graph().elements.len();
    elements.into_iter().find_map(|i| {
        let known = cx.with(ElementId::new(i), |info: &mut AlignmentInfo, _| {
            info.known(element)
        });
        known.flatten()
    })
}

/// The moduli and offsets that `words` are; errors go to `args`.
fn numbers(args: &Args<'_>, words: &[String]) -> Vec<i32> {
    let number = |(i, word): (usize, &String)| {
        let what = if i % 2 == 0 { "CHUNK" } else { "OFFSET" };
        let parsed = args.context().parse(word);
        parsed.unwrap_or_else(|_| {
            args.error(format_args!("expected {what}"));
            -1
        })
    };
    words.iter().enumerate().map(number).collect()
}

impl Declared for AlignmentInfo {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        for (i, text) in args.take_raw().iter().enumerate() {
            let words = click::config::split_space(text);
            let Some((name, words)) = words.split_first() else {
                args.warning(format_args!("empty configuration argument {i}"));
                continue;
            };
            let Some((element, _)) = args.context().find_element(name) else {
                continue;
            };
            if words.len() % 2 != 0 {
                args.error("expected ‘ELEMENTNAME CHUNK OFFSET [CHUNK OFFSET...]’");
                continue;
            }
            let inputs = numbers(args, words);
            let entry = Entry { element, inputs };
            let known = self.known(element).or_else(|| known_elsewhere(cx, element));
            match known {
                Some(known) if known != entry => {
                    args.error(format_args!("conflicting AlignmentInfo for ‘{name}’"));
                }
                Some(_) => {}
                None => self.entries.push(entry),
            }
        }
        args.finish()
    }
}

impl Element for AlignmentInfo {}

#[cfg(test)]
mod tests {
    use alloc::format;

    use crate::testing::Rig;

    const PATH: &str = "a :: Idle -> b :: Discard;";

    #[test]
    fn what_agrees_is_accepted() {
        for info in [
            "AlignmentInfo(a 8 2); AlignmentInfo(b 8 2);",
            "AlignmentInfo(b 8 2 4 1, b 8 2 4 1); AlignmentInfo(b 8 2 4 1);",
            "AlignmentInfo(nobody 8);",
            "AlignmentInfo(b);",
        ] {
            Rig::new(&format!("{info} {PATH}"));
        }
    }

    #[test]
    fn what_does_not_is_refused() {
        for (info, message) in [
            ("AlignmentInfo(b 8);", "expected 'ELEMENTNAME CHUNK OFFSET [CHUNK OFFSET...]'"),
            ("AlignmentInfo(b x 1);", "expected CHUNK"),
            ("AlignmentInfo(b 1 x);", "expected OFFSET"),
            ("AlignmentInfo(b 8 2, b 8 1);", "conflicting AlignmentInfo for 'b'"),
            ("AlignmentInfo(b 8 2); AlignmentInfo(b 8 1);", "conflicting AlignmentInfo for 'b'"),
        ] {
            let errors = Rig::errors(&format!("{info} {PATH}"));
            assert!(errors.contains(message), "{errors}");
        }
    }
}
