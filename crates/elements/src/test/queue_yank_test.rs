use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use packet::{Batch, Packet};
use router::args::{Args, ElementOf, ElementRef, Failed};
use router::{Class, Cx, Declared, Element, ElementId, Ran, TaskId};

use crate::standard::queue::Queue;

/// Tries a queue, packets taken out of its midst included, when the router starts.
///
/// Says `All tests pass!`, or which did not. The queue must be empty and hold five packets.
///
/// # Arguments
/// - `QUEUE` (element): a Queue.
///
/// # Ports
/// None.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// Idle -> q :: Queue(6) -> Idle;
/// QueueYankTest(q);
/// ```
///
/// # See also
/// Queue
#[derive(Default)]
pub struct QueueYankTest {
    queue: Option<ElementId>,
}

impl Class for QueueYankTest {
    const NAME: &'static str = "QueueYankTest";
    const PORTS: &'static str = "0/0";
}

/// What is put into the queue: packets of one letter.
const LETTERS: &[u8] = b"abcde";

/// Letters of the packets wanted, the most to be yanked, what is to come, and what is to stay.
const TESTS: [(&str, usize, &str, &str); 7] = [
    ("", 5, "", "abcde"),
    ("c", 1, "c", "abde"),
    ("f", 1, "", "abcde"),
    ("hgkje", 1, "e", "abcd"),
    ("ade", 5, "eda", "bc"),
    ("fhq", 5, "", "abcde"),
    ("abcde", 5, "edcba", ""),
];

/// Gives the packets back, and tells their letters.
fn letters(cx: &mut Cx<'_>, packets: impl Iterator<Item = Packet>) -> String {
    packets
        .map(|packet| {
            let letter = packet.data().first().map_or('-', |byte| char::from(*byte));
            cx.kill(packet);
            letter
        })
        .collect()
}

impl QueueYankTest {
    /// Tries it once; says what was wrong.
    fn test(
        cx: &mut Cx<'_>,
        queue: &mut Queue,
        (wanted, most, out, stay): (&str, usize, &str, &str),
    ) -> Result<(), String> {
        let mut batch = Box::new(Batch::new());
        for letter in LETTERS {
            let packet = cx.pool().copy(&[*letter]);
            if let Some(Err(packet)) = packet.map(|packet| batch.push(packet)) {
                cx.kill(packet);
            }
        }
        queue.push(cx, 0, &mut batch);
        let store = &mut queue.store;
        let is_wanted = |packet: &Packet| packet.data().iter().any(|b| wanted.as_bytes().contains(b));
        let yanked = store.yank(cx, most, is_wanted);
        let yanked = letters(cx, yanked.into_iter());
        store.pull(cx, &mut batch, LETTERS.len());
        let rest: Vec<Packet> = batch.drain().collect();
        let rest = letters(cx, rest.into_iter());
        if (yanked.as_str(), rest.as_str(), store.len()) == (out, stay, 0) {
            return Ok(());
        }
        Err(format!(
            "yanking '{wanted}' gave '{yanked}' and left '{rest}' (expected '{out}' and '{stay}')"
        ))
    }
}

impl Declared for QueueYankTest {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut queue = ElementRef {
            name: String::new(),
            index: 0,
        };
        args.mandatory_positional_with("QUEUE", ElementOf("Queue"), &mut queue)
            .complete()?;
        self.queue = Some(ElementId::new(queue.index));
        Ok(())
    }
}

impl Element for QueueYankTest {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let task = cx.task();
        cx.schedule(task);
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        let tested = self.queue.and_then(|queue| {
            cx.with(queue, |queue: &mut Queue, cx| {
                if queue.store.len() > 0 || queue.store.room() < LETTERS.len() {
                    return Err("the queue is to be empty, and to hold five packets".into());
                }
                TESTS.into_iter().try_for_each(|test| Self::test(cx, queue, test))
            })
        });
        let declaration = cx.declaration();
        match tested {
            Some(Ok(())) => cx.chatter(format_args!("{declaration}: All tests pass!")),
            Some(Err(error)) => cx.chatter(format_args!("{declaration}: {error}")),
            None => cx.chatter(format_args!("{declaration}: QUEUE is not a Queue")),
        }
        Ran::Nothing
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use crate::testing::Rig;

    fn said(config: &str) -> String {
        let mut rig = Rig::new(config);
        rig.run();
        let said = rig.printed().concat();
        assert_eq!(rig.end(), 0);
        said
    }

    #[test]
    fn a_queue_passes() {
        let said = said("Idle -> q :: Queue(6) -> Idle; t :: QueueYankTest(q);");
        assert_eq!(said, "t :: QueueYankTest: All tests pass!");
    }

    #[test]
    fn what_is_no_empty_queue_is_refused() {
        let short = said("Idle -> q :: Queue(4) -> Idle; t :: QueueYankTest(q);");
        assert!(short.contains("is to be empty"), "{short}");
        let errors = Rig::errors("c :: Counter; Idle -> c -> Discard; QueueYankTest(c);");
        assert!(errors.contains("expected Queue"), "{errors}");
        assert!(Rig::errors("QueueYankTest;").contains("QUEUE"));
    }
}
