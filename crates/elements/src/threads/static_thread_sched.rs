use crate::prelude::*;

/// Assigns elements to threads.
///
/// A router that runs on several threads (`weir click -j 2`, or a guest with several CPUs) runs
/// every task on thread 0 unless it is told otherwise. The elements that a task pushes to or pulls
/// from run with it, and so do elements that name each other in their arguments. Where paths of
/// several threads meet, the element belongs to the lowest of them, and packets of the others cross
/// to it. A queue belongs at such a place: it runs on the thread that pulls from it, and sources
/// that stop at a full queue wait when it is full. Packets of others, and packets where there is no
/// queue, are dropped in front of the crossing if a thread is too slow; the router's `thread_drops`
/// handler counts them, and the queue does not.
///
/// If several StaticThreadScheds name an element, the last counts. The `home_thread` handler of an
/// element with a task shows its thread, and moves it when written.
///
/// # Arguments
/// - `ELEMENT THREAD` (any number of times): an element, or a compound with all in it, and the
///   number of the thread that runs it, from 0; with -1 its task is not run at all.
///
/// # Example
/// ```click
/// a :: InfiniteSource(LIMIT 1000) -> Queue -> b :: Unqueue -> Discard;
/// StaticThreadSched(a 0, b 1);
/// ```
///
/// # See also
/// BalancedThreadSched, ThreadSafeQueue, CPUSwitch
#[derive(Element)]
#[element(ports = "0/0", raw)]
pub struct StaticThreadSched;

/// The elements called `name`, as seen from the element at work: one, or all in a compound, whose
/// full name is the error.
fn named(cx: &Cx<'_>, name: &str) -> Result<Vec<ElementId>, String> {
    if let Some(id) = cx.find(name) {
        return Ok(Vec::from([id]));
    }
    if name.is_empty() {
        return Err(String::new());
    }
    let scope = cx.name().rfind('/').map_or("", |end| &cx.name()[..=end]);
    let compound = format!("{scope}{name}/");
    let elements = cx.graph().elements.iter().enumerate();
    let found: Vec<_> = elements
        .filter(|(_, info)| info.name.starts_with(&compound))
        .map(|(i, _)| ElementId::new(i))
        .collect();
    if found.is_empty() {
        Err(compound)
    } else {
        Ok(found)
    }
}

/// The name and the thread of an entry.
fn parse_entry(words: &[String], args: &Args<'_>) -> Result<(String, i32), Failed> {
    let Some(name) = words.first() else {
        args.error("ELEMENT: required argument missing");
        args.error("THREAD: required argument missing");
        return Err(Failed);
    };
    let thread = match words
        .get(1)
        .map(|thread| args.context().parse::<i32>(thread))
    {
        Some(Ok(thread)) => Some(thread),
        Some(Err(invalid)) => {
            args.invalid("THREAD", &invalid);
            None
        }
        None => {
            args.error("THREAD: required argument missing");
            None
        }
    };
    if words.len() > 2 {
        args.error("too many arguments");
        return Err(Failed);
    }
    let name = args.context().parse(name).unwrap_or_default();
    thread.map(|thread| (name, thread)).ok_or(Failed)
}

impl Element for StaticThreadSched {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        for entry in args.take_raw() {
            let words = click::config::split_space(&entry);
            let (name, mut thread) = parse_entry(&words, args)?;
            if thread < NO_THREAD || thread >= i32::from(cx.threads()) {
                args.warning(format_args!("thread preference {thread} out of range"));
                thread = if thread < 0 { NO_THREAD } else { 0 };
            }
            match named(cx, &name) {
                Ok(elements) => {
                    for id in elements {
                        cx.prefer_thread(id, thread);
                    }
                }
                // Told as an error is, and none.
                Err(compound) => args.message(
                    Severity::Info,
                    format_args!("‘{compound}’ does not name an element"),
                ),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn wrong_entries_are_refused() {
        for (config, message) in [
            ("StaticThreadSched(i);", "THREAD: required argument missing"),
            ("StaticThreadSched(i 0 1);", "too many arguments"),
            ("StaticThreadSched(i one);", "THREAD: invalid number"),
            (
                "StaticThreadSched(i 5000000000);",
                "THREAD: out of range, bound 2147483647",
            ),
            (
                "StaticThreadSched(i 0, , i one);",
                ":\n  ELEMENT: required argument missing\n  THREAD: required argument missing\nRouter",
            ),
        ] {
            Rig::refuses(&(["i :: Idle -> Discard;", config].concat()), message);
        }
    }

    #[test]
    fn names_of_no_element_are_told() {
        let config = "s :: InfiniteSource(LIMIT 3) -> Discard; StaticThreadSched(x 0, s -1);";
        let mut rig = Rig::new(config);
        let said = rig.printed().join("\n").replace(['‘', '’'], "'");
        assert_contains(&said, "\n  'x/' does not name an element");
        assert_eq!(rig.read("s.home_thread"), "-1");
    }

    #[test]
    fn threads_that_are_not_there_are_the_first() {
        let config = "s :: InfiniteSource(LIMIT 3) -> Discard; StaticThreadSched(s 7);";
        let mut rig = Rig::new(config);
        let said = rig.printed().join("\n");
        assert!(said.contains("thread preference 7 out of range"), "{said}");
        assert_eq!(rig.read("s.home_thread"), "0");
        rig.run();
        assert_eq!(rig.read("s.count"), "3");
    }

    #[test]
    fn a_task_of_no_thread_rests_until_it_gets_one() {
        let config = "elementclass C { s :: InfiniteSource(LIMIT 3) -> output }
            c :: C -> Discard; StaticThreadSched(c -1);";
        let mut rig = Rig::new(config);
        rig.run();
        rig.assert_handlers(&[("c/s.home_thread", "-1"), ("c/s.count", "0")]);
        rig.write("c/s.home_thread", "0");
        rig.run();
        assert_eq!(rig.read("c/s.count"), "3");
        assert!(rig.try_write("c/s.home_thread", "1").is_err());
    }
}
