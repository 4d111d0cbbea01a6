use crate::prelude::*;
use crate::standard::queue_storage::{QueueStorage, TestedQueue};

/// Tests a queue, including the removal of packets from its middle, when the router starts.
///
/// Says `All tests pass!`, or which did not. The queue must be empty and hold five packets.
///
/// # Example
/// ```click
/// Idle -> q :: Queue(6) -> Idle;
/// QueueYankTest(q);
/// ```
///
/// # See also
/// Queue
#[derive(Element)]
#[element(ports = "0/0")]
pub struct QueueYankTest {
    /// The queue.
    #[arg(mandatory)]
    queue: Option<Link<dyn TestedQueue>>,
}

/// What is put into the queue: packets of one letter.
const LETTERS: &[u8] = b"abcde";

/// Letters of the packets wanted, the most to be yanked, the letters yanked, and the letters left.
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
        storage: &mut QueueStorage,
        (wanted, most, out, stay): (&str, usize, &str, &str),
    ) -> Result<(), String> {
        let mut batch = Box::new(Batch::new());
        for letter in LETTERS {
            let packet = cx.pool().copy(&[*letter]);
            if let Some(Err(packet)) = packet.map(|packet| batch.push(packet)) {
                cx.kill(packet);
            }
        }
        storage.push(cx, 0, &mut batch);
        let is_wanted =
            |packet: &Packet| packet.data().iter().any(|b| wanted.as_bytes().contains(b));
        let yanked = storage.yank(cx, most, is_wanted);
        let yanked = letters(cx, yanked.into_iter());
        storage.pull(cx, 0, &mut batch, LETTERS.len());
        let rest: Vec<Packet> = batch.drain().collect();
        let rest = letters(cx, rest.into_iter());
        if (yanked.as_str(), rest.as_str(), storage.len()) == (out, stay, 0) {
            return Ok(());
        }
        Err(format!(
            "yanking '{wanted}' gave '{yanked}' and left '{rest}' (expected '{out}' and '{stay}')"
        ))
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
            cx.reach(queue, |queue, cx| {
                let storage = queue.storage();
                if storage.len() > 0 || storage.free() < LETTERS.len() {
                    return Err("the queue is to be empty, and to hold five packets".into());
                }
                TESTS
                    .into_iter()
                    .try_for_each(|test| Self::test(cx, storage, test))
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
    use crate::testing::*;

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
