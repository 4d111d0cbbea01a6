mod calls;

use calls::Calls;

use crate::prelude::*;
use crate::rates::traffic::Traffic;

/// Counts packets and bytes, and measures their rates.
///
/// Rates are exponentially weighted moving averages. FastClick's counters for several threads are
/// other names of this one: an element runs on one thread.
///
/// # Example
/// ```click
/// InfiniteSource -> Counter(COUNT_CALL 1000 stop) -> Discard;
/// ```
///
/// # See also
/// AverageCounter
#[derive(Element)]
#[element(
    ports = "1/1",
    segments,
    handlers,
    provides(Llrpcs),
    alias(
        "CounterMP",
        "CounterAtomic",
        "CounterLock",
        "CounterLockMP",
        "CounterPLockMP",
        "CounterPRW",
        "CounterPRWMP",
        "CounterRCU",
        "CounterRCUMP",
        "CounterRW",
        "CounterRWMP",
        "CounterRxWMP",
        "CounterRxWMPPR",
        "CounterRxWMPPW"
    )
)]
pub struct Counter {
    #[flatten(then = resolve)]
    calls: Calls,
    /// Accepted and ignored: calls are made at the packet that they are for.
    #[arg]
    batch_precise: bool,
    /// Accepted and ignored: rates are always measured.
    #[arg]
    no_rate: bool,
    /// Accepted and ignored.
    #[arg]
    atomic: u32,
    /// Packets since the last reset.
    #[handler(read)]
    count: u64,
    /// Bytes since the last reset.
    #[handler(read, name = "byte_count")]
    bytes: u64,
    #[flatten]
    traffic: Traffic,
}

impl Counter {
    #[inline]
    fn see(&mut self, cx: &mut Cx<'_>, batch: &Batch) {
        let (packets, bytes) = batch.tally();
        self.traffic.update(cx.recent(), packets, bytes);
        if self.calls.are_due(self.count + packets, self.bytes + bytes) {
            return self.see_each(cx, batch);
        }
        self.count += packets;
        self.bytes += bytes;
    }

    /// As the batch's packets count one by one, for the calls' sake.
    #[cold]
    fn see_each(&mut self, cx: &mut Cx<'_>, batch: &Batch) {
        for packet in batch.iter() {
            self.count += packet.stands_for() as u64;
            self.bytes += packet.wire_len() as u64;
            if let Some(call) = self.calls.at_count(self.count) {
                let _ = call.write_from(cx, self);
            }
            if let Some(call) = self.calls.at_bytes(self.bytes) {
                let _ = call.write_from(cx, self);
            }
        }
    }

    fn resolve(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let resolved = self.calls.resolve(cx);
        resolved.map_err(|error| HandlerError::failed(FailureKind::Failed, error))
    }
}

#[handlers]
impl Counter {
    /// Sets the counts to 0.
    #[write(button)]
    fn reset(&mut self) {
        (self.count, self.bytes) = (0, 0);
        self.calls.reset();
    }

    /// As `reset`.
    #[write(button, uncommon)]
    fn reset_counts(&mut self) {
        self.reset();
    }
}

impl Element for Counter {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.calls.check(args)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.calls.resolve(cx).map_err(|error| cx.error(error))
    }

    #[inline]
    fn batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        self.see(cx, batch);
    }
}

impl Llrpcs for Counter {
    fn llrpc(&mut self, cx: &mut Cx<'_>, call: Llrpc, data: &mut [u8]) -> Result<(), HandlerError> {
        let value = match (call, llrpc::word(data)?) {
            (Llrpc::GET_RATE, 0) => self.traffic.packets_a_second(cx),
            (Llrpc::GET_COUNT, 0) => self.count,
            (Llrpc::GET_COUNT, 1) => self.bytes,
            _ => return Err(HandlerError::Unknown),
        };
        llrpc::set_word(data, value as u32)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn reset_counts_is_uncommon() {
        let mut rig = Rig::new("i :: Inject -> c :: Counter -> Discard;");
        assert_contains(&rig.read("c.handlers"), "reset_counts\twUb\nreset\twb\n");
        rig.push("i", &[1, 2]);
        rig.assert_handlers(&[("c.count", "1"), ("c.byte_count", "2")]);
        rig.write("c.reset_counts", "");
        rig.assert_handlers(&[("c.count", "0"), ("c.byte_count", "0")]);
    }

    #[test]
    fn a_call_names_a_handler() {
        for (call, error) in [
            ("COUNT_CALL 3", "syntax error"),
            ("BYTE_COUNT_CALL 3", "syntax error"),
            ("COUNT_CALL 3 3", "no '3' write handler"),
            ("COUNT_CALL 3 c.nope", "no 'c.nope' write handler"),
        ] {
            Rig::refuses(&format!("Idle -> c :: Counter({call}) -> Discard;"), error);
        }
        Rig::refuses(
            "i :: InfiniteSource(LIMIT 6, END_CALL i.nope) -> Discard;",
            "no 'i.nope' write handler",
        );
        let config = "Idle -> c :: Counter(COUNT_CALL 3 reset) -> Discard;
            s :: Script(TYPE PASSIVE, write c.count_call 3, print $?, write c.count_call x, print $?);";
        let mut rig = Rig::new(config);
        assert!(rig.try_write("s.run", "").is_err());
        assert_eq!(rig.printed(), ["-1\n", "-22\n"]);
    }

    #[test]
    fn what_is_upstream_of_a_pull_reaches_it() {
        for batch in [1, 64] {
            let config = "i :: InfiniteSource(LIMIT 4) -> Queue(8)
                -> a :: Counter(COUNT_CALL 3 s.run) -> Null -> b :: Counter -> Unqueue -> Discard;
                s :: Script(TYPE PASSIVE, print $(b.count), write b.reset, print $?);";
            let mut rig = Rig::with_batch(config, batch);
            rig.run();
            assert_eq!(rig.printed(), ["2\n", "0\n"]);
            assert_eq!(rig.read("b.count"), "2");
        }
    }

    #[test]
    fn packets_and_bytes_are_counted() {
        let config = "i :: Inject -> k :: Counter -> Queue -> l :: Counter -> p :: Puller;";
        let mut rig = Rig::new(config);
        rig.push_all("i", &[vec![0; 10], vec![0; 20], vec![]]);
        rig.assert_handlers(&[("k.count", "3"), ("k.byte_count", "30")]);
        rig.pull("p", 2);
        rig.assert_handlers(&[("l.count", "2"), ("l.byte_count", "30")]);
        rig.write("k.reset", "");
        rig.write("l.reset_counts", "");
        rig.assert_handlers(&[("k.count", "0"), ("l.byte_count", "0")]);
    }

    #[test]
    fn counters_for_several_threads_are_this_one() {
        for class in [
            "CounterMP(NO_RATE true)",
            "CounterRCU",
            "CounterLockMP(ATOMIC 1)",
        ] {
            let config = ["i :: Inject -> k :: ", class, " -> Discard;"].concat();
            let mut rig = Rig::new(&config);
            rig.push_all("i", &[vec![0; 10], vec![0; 20]]);
            assert_eq!(rig.read("k.count"), "2", "{class}");
        }
    }

    #[test]
    fn a_call_is_made_at_its_packet_of_a_batch() {
        let config =
            "i :: Inject -> k :: Counter(BATCH_PRECISE true, COUNT_CALL 2 s.run) -> Discard;
            s :: Script(TYPE PASSIVE, print $(k.count));";
        let mut rig = Rig::new(config);
        rig.push_all("i", &[vec![0], vec![1], vec![2]]);
        assert_eq!(rig.printed(), ["2\n"]);
    }

    #[test]
    fn a_packet_counts_as_its_segments() {
        for arguments in ["", "COUNT_CALL 9 stop"] {
            let config = ["i :: Inject -> k :: Counter(", arguments, ") -> Discard;"].concat();
            let mut rig = Rig::new(&config);
            rig.push_segments("i", 3, |_| {});
            rig.assert_handlers(&[("k.count", "3"), ("k.byte_count", "420")]);
        }
    }

    #[test]
    fn rates_follow_the_packets() {
        let config = "RatedSource(RATE 1000, LENGTH 100) -> k :: Counter -> Discard;";
        let mut rig = Rig::new(config);
        rig.advance(1_000_000_000);
        for (handler, expected) in [("rate", 1e3), ("byte_rate", 1e5), ("bit_rate", 8e5)] {
            let rate: f64 = rig.read(&["k.", handler].concat()).parse().unwrap();
            assert!(
                (rate - expected).abs() < expected / 10.0,
                "{handler} {rate}"
            );
        }
    }

    #[test]
    fn calls_are_made_once_between_packets() {
        for batch in [1, 64] {
            let config = "i :: Inject -> k :: Counter(COUNT_CALL 2 s.switch 1,
                    BYTE_COUNT_CALL 5 t.color 7) -> t :: Paint(1) -> s :: Switch(0);
                s[0] -> a :: Collect; s[1] -> b :: Collect;";
            let mut rig = Rig::with_batch(config, batch);
            assert_eq!(rig.read("k.count_call"), "2");
            for n in 1..=4 {
                rig.push("i", &[n, n]);
            }
            assert_eq!(rig.data("a"), [[1, 1]]);
            let paints = rig.collected("b");
            assert!(paints.iter().map(|packet| packet.paint()).eq([1, 7, 7]));
            rig.write("s.switch", "0");
            rig.write("k.reset", "");
            rig.push("i", &[1]);
            rig.push("i", &[2]);
            assert_eq!((rig.data("a").len(), rig.data("b").len()), (1, 1));
        }
    }

    #[test]
    fn a_call_reads_and_writes_the_counter_itself() {
        for batch in [1, 64] {
            let config = "i :: Inject -> k :: Counter(COUNT_CALL 3 s.run) -> Discard;
                s :: Script(TYPE PASSIVE, print $(k.count), write k.reset, print $?);
                j :: Inject -> l :: Counter(COUNT_CALL 3 reset) -> Discard;";
            let mut rig = Rig::with_batch(config, batch);
            for port in ["i", "j"] {
                rig.push_all(port, &vec![vec![0; 9]; 8]);
            }
            assert_eq!(rig.printed(), ["3\n", "0\n"].repeat(2));
            rig.assert_handlers(&[("k.count", "2"), ("l.count", "2")]);
            assert_eq!(rig.read("k.byte_count"), "18");
        }
    }

    #[test]
    fn wrong_calls_are_refused() {
        for (argument, message) in [
            ("COUNT_CALL often k.reset", "COUNT_CALL type mismatch"),
            (
                "COUNT_CALL 18446744073709551616 k.reset",
                "COUNT_CALL overflow, max 18446744073709551615",
            ),
            (
                "BYTE_COUNT_CALL -1 k.reset",
                "BYTE_COUNT_CALL type mismatch",
            ),
            ("COUNT_CALL 3 count", "no 'k.count' write handler"),
            ("COUNT_CALL 3 k.nosuch", "no 'k.nosuch' write handler"),
        ] {
            Rig::refuses(
                &["Idle -> k :: Counter(", argument, ") -> Discard;"].concat(),
                message,
            );
        }
        let mut rig = Rig::new("Idle -> k :: Counter -> Discard;");
        let refused = rig.try_write("k.count_call", "soon stop");
        let text = "'count_call' first word should be unsigned (count)";
        assert_eq!(refused, Err(text.into()));
        rig.write("k.count_call", "7 reset");
        assert!(rig.try_write("k.count_call", "9 nosuch").is_err());
        assert_eq!(rig.read("k.count_call"), "7");
    }
}
