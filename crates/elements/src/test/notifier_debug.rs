use crate::prelude::*;

/// Passes packets on, and shows the notifiers that an element at its position would listen to.
///
/// In a path that packets are pushed along it looks for notifiers of full queues downstream, else
/// for those of empty queues upstream.
///
/// # Example
/// ```click
/// TimedSource(0.1s) -> Queue -> n :: NotifierDebug -> Discard;
/// Script(wait 0.5s, print n.signal, stop);
/// ```
///
/// # See also
/// NotifierQueue, Queue
#[derive(Element)]
#[element(ports = "1/1", handlers)]
pub struct NotifierDebug {
    notifiers: Signal,
}

#[handlers]
impl NotifierDebug {
    /// The notifiers' signals, by words of up to 32: the notice and the word's number; behind a
    /// slash, in hexadecimal, the signals, and those of them that are active; a star if any is.
    /// `busy*` where there is a path without notifier, `idle` where nothing ever comes.
    #[read]
    fn signal(&self, cx: &mut Cx<'_>) -> String {
        cx.describe_signal(&self.notifiers)
    }
}

impl Element for NotifierDebug {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.notifiers = if cx.input_is_push(0) {
            cx.downstream_signal(0, None)
        } else {
            cx.upstream_signal(0, None)
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn signals_are_shown_as_they_change() {
        let config = "i :: Inject -> NotifierQueue -> n :: NotifierDebug -> p :: Puller;";
        let mut rig = Rig::new(config);
        assert_eq!(rig.read("n.signal"), "empty.0/1:1*");
        for _ in 0..10 {
            assert!(rig.pull("p", 1).is_empty());
        }
        assert_eq!(rig.read("n.signal"), "empty.0/1:0");
        rig.push("i", &[1]);
        assert_eq!(rig.read("n.signal"), "empty.0/1:1*");
        assert_eq!(rig.pull("p", 1).len(), 1);
    }

    #[test]
    fn signals_are_in_words_and_in_both_directions() {
        let queues = (0..40).map(|n| std::format!("Idle -> NotifierQueue -> [{n}] s;"));
        let queues = queues.collect::<std::string::String>();
        let config = "s :: RoundRobinSched -> n :: NotifierDebug -> p :: Puller;";
        let mut rig = Rig::new(&[config, &queues].concat());
        assert_eq!(
            rig.read("n.signal"),
            "empty.0/ffffffff:ffffffff*+empty.1/ff:ff*"
        );
        let mut rig = Rig::new(
            "i :: Inject -> n :: NotifierDebug -> Queue(1) -> m :: NotifierDebug -> Idle;
            Idle -> k :: NotifierDebug -> p :: Puller; InfiniteSource -> b :: NotifierDebug -> Discard;",
        );
        assert_eq!(rig.read("n.signal"), "full.0/1:1*");
        rig.push("i", &[1]);
        assert_eq!(rig.read("n.signal"), "full.0/1:0");
        assert_eq!(rig.read("m.signal"), "empty.0/1:1*");
        rig.assert_handlers(&[("k.signal", "idle"), ("b.signal", "busy*")]);
    }
}
