use router::args::Value;

use crate::prelude::*;

/// Gives names to packets' annotations.
///
/// Other elements' arguments may then use the names in place of offsets. A name's scope is the
/// compound element that defines it. A built-in name, such as `PAINT`, cannot be redefined.
///
/// # Arguments
/// - `NAME OFFSET [SIZE]` (any number of times): a name, the annotation's first byte or a name
///   defined before, and its number of bytes.
/// - `CHECK_OVERLAP NAME...` (any number of times): names of annotations that may not overlap.
///
/// # Example
/// ```click
/// AnnotationInfo(COLOR 30 1, CUSTOMER 40 4, CHECK_OVERLAP PAINT COLOR CUSTOMER);
/// InfiniteSource(LIMIT 10) -> Paint(3, COLOR) -> Discard;
/// ```
///
/// # See also
/// AddressInfo, PortInfo, Paint, SetAnnoByte
#[derive(Element)]
#[element(ports = "0/0", phase = phase::INFO, raw)]
pub struct AnnotationInfo {
    /// The lists of names that may not overlap.
    apart: Vec<Vec<String>>,
}

const CHECK: &str = "CHECK_OVERLAP";

/// Whether `name` can be defined: it is a word, and not known everywhere.
fn is_free(name: &str) -> bool {
    click::config::is_word(name) && Context::blank().parse::<Annotation>(name).is_err()
}

/// The annotation of an offset and an optional size.
fn annotation(words: &[String], context: &Context<'_>) -> Option<Annotation> {
    let (offset, size) = match words {
        [offset] => (offset, 0),
        [offset, size] => (offset, context.parse::<u8>(size).ok()?),
        _ => return None,
    };
    let known = context.parse::<Annotation>(offset).ok()?;
    let fits = usize::from(known.offset) + usize::from(size) <= ANNO_BYTES;
    let agrees = size == 0 || known.size == 0 || size == known.size;
    (fits && agrees).then_some(Annotation {
        offset: known.offset,
        size,
    })
}

fn overlap(a: Annotation, b: Annotation) -> bool {
    let end = |anno: Annotation| u32::from(anno.offset) + u32::from(anno.size.max(1));
    u32::from(a.offset) < end(b) && u32::from(b.offset) < end(a)
}

impl Element for AnnotationInfo {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        for entry in args.take_raw() {
            let mut words = click::config::split_space(&entry);
            if words.first().is_none_or(|name| name.starts_with('#')) {
                continue;
            }
            let name = words.remove(0);
            if name == CHECK {
                self.apart.push(words);
            } else if !is_free(&name) {
                args.error(format_args!("bad NAME ‘{name}’"));
            } else if let Some(annotation) = annotation(&words, &args.context()) {
                let value = u32::from(annotation.size) << 16 | u32::from(annotation.offset);
                args.define(Kind::Annotation, &name, Value::Int(value));
            } else {
                args.error(format_args!("bad entry for ‘{name}’"));
            }
        }
        args.finish()
    }

    /// Checks overlaps now that all elements have defined their names.
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let mut result = Ok(());
        for names in core::mem::take(&mut self.apart) {
            let mut known = Vec::new();
            for name in &names {
                match cx.names().parse::<Annotation>(name) {
                    Ok(annotation) => known.push((name, annotation)),
                    Err(_) => result = Err(cx.error(format_args!("bad ANNO ‘{name}’"))),
                }
            }
            for (i, (name, one)) in known.iter().enumerate() {
                for (other, _) in known[i + 1..].iter().filter(|(_, two)| overlap(*one, *two)) {
                    let text = format_args!("annotations ‘{name}’ and ‘{other}’ conflict");
                    result = Err(cx.error(text));
                }
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn names_stand_for_annotations() {
        let config = "AnnotationInfo(# nothing, , MINE 30 1, SAME.1 MINE, TWO 40 2);
            AnnotationInfo(CHECK_OVERLAP PAINT MINE TWO 31);
            elementclass Inner { AnnotationInfo(MINE 33); input -> Paint(2, MINE) -> output }
            i :: Inject -> Paint(1, MINE) -> Inner -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1]);
        assert_eq!(rig.collected("c")[0].annotations()[30..34], [1, 0, 0, 2]);
    }

    #[test]
    fn wrong_names_and_places_are_refused() {
        for (entry, message) in [
            ("PAINT 3", "bad NAME 'PAINT'"),
            ("'a' 3", "bad NAME ''a''"),
            ("1.2.3", "bad entry for '1.2.3'"),
            ("A", "bad entry for 'A'"),
            ("A 48", "bad entry for 'A'"),
            ("A 47 2", "bad entry for 'A'"),
            ("A PAINT 2", "bad entry for 'A'"),
            ("A 1 1 1", "bad entry for 'A'"),
            ("A 1 -1", "bad entry for 'A'"),
            (
                "A 16, CHECK_OVERLAP A PAINT",
                "annotations 'A' and 'PAINT' conflict",
            ),
            (
                "CHECK_OVERLAP DST_IP 3",
                "annotations 'DST_IP' and '3' conflict",
            ),
            ("CHECK_OVERLAP NOBODY", "bad ANNO 'NOBODY'"),
        ] {
            let errors = Rig::errors(&alloc::format!("AnnotationInfo({entry});"));
            assert!(errors.contains(message), "{entry}: {errors}");
        }
        Rig::new("AnnotationInfo(CHECK_OVERLAP 16 17 DST_IP6, CHECK_OVERLAP 3 4);");
    }
}
