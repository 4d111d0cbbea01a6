use crate::prelude::*;

/// An element that states how other elements' packets are aligned.
pub trait Alignments {
    /// Moduli and offsets of an element's inputs, if they are stated.
    fn alignments(&self, element: ElementId) -> Option<&[i32]>;
}

impl Interface for dyn Alignments {
    const NAME: &'static str = "Alignments";
}

/// States how the packets that come to elements' inputs are aligned.
///
/// Elements read headers at any alignment: the statements are only checked. It exists for
/// configurations that contain it. Elements that do not exist are ignored.
///
/// # Arguments
/// - `ELEMENT [MODULUS OFFSET]...` (any number of times): the name of an element, and for each of
///   its inputs how packets' data is aligned.
///
/// # Example
/// ```click
/// AlignmentInfo(c 4 0);
/// FromDump(in.pcap) -> Align(4, 0) -> c :: CheckIPHeader -> Discard;
/// ```
///
/// # See also
/// Align
#[derive(Element)]
#[element(ports = "0/0", raw, provides(Alignments))]
pub struct AlignmentInfo {
    entries: Vec<(ElementId, Vec<i32>)>,
}

/// The alignments that other AlignmentInfos state.
fn stated_elsewhere<'c>(cx: &'c Cx<'_>, element: ElementId) -> Option<&'c [i32]> {
    let mut elements = (0..cx.graph().elements.len()).map(ElementId::new);
    elements.find_map(|id| {
        let link = cx.link::<dyn Alignments>(id)?;
        cx.view(link)?.alignments(element)
    })
}

/// The moduli and offsets in `words`; errors go to `args`.
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

impl Element for AlignmentInfo {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        for (i, text) in args.take_raw().iter().enumerate() {
            let words = click::config::split_space(text);
            let Some((name, words)) = words.split_first() else {
                args.warning(format_args!("empty configuration argument {i}"));
                continue;
            };
            let Some((index, _)) = args.context().find_element(name) else {
                continue;
            };
            if words.len() % 2 != 0 {
                args.error("expected ‘ELEMENTNAME CHUNK OFFSET [CHUNK OFFSET...]’");
                continue;
            }
            let (element, inputs) = (ElementId::new(index), numbers(args, words));
            let stated = self.alignments(element);
            match stated.or_else(|| stated_elsewhere(cx, element)) {
                Some(stated) if stated != inputs => {
                    args.error(format_args!("conflicting AlignmentInfo for ‘{name}’"));
                }
                Some(_) => {}
                None => self.entries.push((element, inputs)),
            }
        }
        args.finish()
    }
}

impl Alignments for AlignmentInfo {
    fn alignments(&self, element: ElementId) -> Option<&[i32]> {
        let entry = self.entries.iter().find(|(id, _)| *id == element);
        entry.map(|(_, inputs)| inputs.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const PATH: &str = "a :: Idle -> b :: Discard;";

    #[test]
    fn agreeing_statements_are_accepted() {
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
    fn conflicting_statements_are_refused() {
        for (info, message) in [
            (
                "AlignmentInfo(b 8);",
                "expected 'ELEMENTNAME CHUNK OFFSET [CHUNK OFFSET...]'",
            ),
            ("AlignmentInfo(b x 1);", "expected CHUNK"),
            ("AlignmentInfo(b 1 x);", "expected OFFSET"),
            (
                "AlignmentInfo(b 8 2, b 8 1);",
                "conflicting AlignmentInfo for 'b'",
            ),
            (
                "AlignmentInfo(b 8 2); AlignmentInfo(b 8 1);",
                "conflicting AlignmentInfo for 'b'",
            ),
        ] {
            Rig::refuses(&format!("{info} {PATH}"), message);
        }
    }
}
