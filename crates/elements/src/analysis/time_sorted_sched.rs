use crate::prelude::*;
use crate::pulls::gathered::Gathered;

/// Most packets that are held for each input.
const BUFFER_MAX: i32 = 1 << 16;

/// Merges streams of packets by their timestamps.
///
/// Each packet pulled is the earliest of those that the inputs have. Inputs whose notifier says
/// empty are skipped. The packets of each input should be in the order of their timestamps, or
/// nearly so: BUFFER packets are held for each input and sorted.
///
/// # Example
/// ```click
/// t :: TimeSortedSched(STOP true);
/// FromDump(a.pcap) -> [0]t;
/// FromDump(b.pcap) -> [1]t;
/// t -> ToDump(both.pcap);
/// ```
///
/// # See also
/// FromDump, RoundRobinSched
#[derive(Element)]
#[element(ports = "-/1", processing = "l")]
pub struct TimeSortedSched {
    /// Stop the driver when no input has a packet, nor will have one soon.
    #[arg]
    stop: bool,
    /// Packets held for each input, up to 65536.
    #[arg(default = 1)]
    buffer: i32,
    inputs: Vec<Input>,
    /// The inputs that have room, in the order in which they are asked from the last to the first.
    ready: Vec<usize>,
    held: Held,
    gathered: Gathered,
    /// Number of `ready` inputs that are still to be asked before the next packet leaves.
    asking: usize,
    /// Whether any input may have packets, as far as they were asked.
    any_active: bool,
    last: i64,
    /// Whether packets left in the order of their timestamps so far.
    #[handler(read, checkbox)]
    #[init(true)]
    well_ordered: bool,
    nonempty: Option<SignalId>,
}

struct Input {
    signal: Signal,
    /// Packets that can still be held.
    room: u32,
}

/// The packets that wait. Each has a place, which it keeps: what moves in the heap are the places' numbers. (Places that
/// moved as soon as they were written would be read before the processor has put their words together.)
#[derive(Default)]
struct Held {
    places: Vec<Place>,
    /// Places without a packet.
    free: Vec<u32>,
    /// Places with one. The children of the `i`-th, `2 i + 1` and `2 i + 2`, go after it.
    heap: Vec<u32>,
    arrived: u64,
}

struct Place {
    packet: Option<Packet>,
    input: usize,
    time: i64,
    number: u64,
}

impl Held {
    fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn push(&mut self, packet: Packet, input: usize) {
        self.arrived += 1;
        let held = Place {
            time: packet.timestamp(),
            number: self.arrived,
            packet: Some(packet),
            input,
        };
        let place = match self.free.pop() {
            Some(place) => place,
            None => self.places.len() as u32,
        };
        match self.places.get_mut(place as usize) {
            Some(old) => *old = held,
            None => self.places.push(held),
        }
        let mut at = self.heap.len();
        self.heap.push(place);
        while at > 0 && self.goes_before(at, (at - 1) / 2) {
            self.heap.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    /// The earliest packet, the one that came first of several, and its input.
    fn pop(&mut self) -> Option<(Packet, usize)> {
        let last = self.heap.len().checked_sub(1)?;
        self.heap.swap(0, last);
        let place = self.heap.pop()?;
        let mut at = 0;
        loop {
            let children = (2 * at + 1..2 * at + 3).filter(|child| *child < last);
            let first = children.reduce(|a, b| if self.goes_before(b, a) { b } else { a });
            let Some(child) = first.filter(|child| self.goes_before(*child, at)) else {
                break;
            };
            self.heap.swap(at, child);
            at = child;
        }
        self.free.push(place);
        let held = self.places.get_mut(place as usize)?;
        Some((held.packet.take()?, held.input))
    }

    /// Whether the packet at one position of the heap leaves before that at another.
    fn goes_before(&self, one: usize, other: usize) -> bool {
        let key = |at: usize| {
            let place = &self.places[self.heap[at] as usize];
            (place.time, place.number)
        };
        key(one) < key(other)
    }
}

impl TimeSortedSched {
    /// Begins to ask the inputs that have room.
    fn begin_round(&mut self) {
        (self.asking, self.any_active) = (self.ready.len(), false);
    }

    /// Fills up what is held, and gathers what is due. `asked` says whether the input at hand gave
    /// packets when it was asked last. Gives what came once there is nothing due, or no more is
    /// wanted.
    fn go_on(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, mut asked: Option<bool>) {
        loop {
            while let Some(place) = self.asking.checked_sub(1) {
                let port = self.ready[place];
                let input = &self.inputs[port];
                if input.room == 0 {
                    self.ready.swap_remove(place);
                } else if asked.unwrap_or_else(|| cx.is_active(&input.signal)) {
                    self.any_active = true;
                    return cx.pull_through(port, packet::BATCH.min(input.room as usize));
                }
                asked = None;
                self.asking = place;
            }
            // What is to happen at the end waits until what was pulled before is on its way.
            let is_over = self.held.is_empty() && !self.any_active && !self.gathered.is_empty();
            let next = if is_over { None } else { self.next(cx) };
            let Some(packet) = next else {
                return self.gathered.give(batch);
            };
            self.gathered.push(cx, packet);
            if self.gathered.left() == 0 {
                return self.gathered.give(batch);
            }
            self.begin_round();
        }
    }

    /// The earliest packet that is held.
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        if let Some(signal) = self.nonempty {
            cx.set_signal(signal, self.any_active || !self.held.is_empty());
        }
        let Some((packet, input)) = self.held.pop() else {
            if self.stop && !self.any_active {
                cx.stop();
            }
            return None;
        };
        let time = packet.timestamp();
        if time != 0 {
            self.well_ordered &= self.last == 0 || time >= self.last;
            self.last = time;
        }
        self.inputs[input].room += 1;
        if self.inputs[input].room == 1 {
            self.ready.push(input);
        }
        Some(packet)
    }
}

impl Element for TimeSortedSched {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.buffer < 1 {
            return Err(args.fail("BUFFER must be at least 1"));
        }
        if self.buffer > BUFFER_MAX {
            return Err(args.fail(format_args!("BUFFER must be at most {BUFFER_MAX}")));
        }
        self.nonempty = Some(cx.relay_signal(Notice::Empty, true));
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let inputs = cx.inputs();
        let room = self.buffer as u32;
        self.inputs = (0..inputs)
            .map(|port| Input {
                signal: match self.nonempty {
                    Some(own) => cx.lead_upstream(port, own),
                    None => Signal::busy(),
                },
                room,
            })
            .collect();
        self.ready = (0..inputs).collect();
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        while let Some((packet, _)) = self.held.pop() {
            cx.kill(packet);
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        self.gathered.begin(most);
        if self.gathered.left() > 0 {
            self.begin_round();
            self.go_on(cx, batch, None);
        }
    }

    fn pulled(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let came = !batch.is_empty();
        let place = self.asking.checked_sub(1);
        let port = place.and_then(|place| self.ready.get(place)).copied();
        if let Some(input) = port {
            self.inputs[input].room -= batch.len() as u32;
            for packet in batch.drain() {
                self.held.push(packet, input);
            }
        }
        self.go_on(cx, batch, Some(came));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::testing::*;

    /// The order in which packets of two inputs leave, and whether that is said to be sorted.
    fn merged(args: &str, a: &[i64], b: &[i64], batch: usize) -> (Vec<i64>, bool) {
        let config = format!(
            "a :: Inject -> Queue -> [0]t :: TimeSortedSched({args});
             b :: Inject -> Queue -> [1]t; t -> p :: Puller;"
        );
        let mut rig = Rig::with_batch(&config, batch);
        for (name, times) in [("a", a), ("b", b)] {
            for time in times {
                rig.push_with(name, &[0], |packet| packet.set_timestamp(*time));
            }
        }
        let mut times = Vec::new();
        loop {
            let pulled = rig.pull("p", batch);
            if pulled.is_empty() {
                break;
            }
            times.extend(pulled.iter().map(|packet| packet.timestamp()));
        }
        let sorted = rig.read("t.well_ordered") == "true";
        rig.end();
        (times, sorted)
    }

    #[test]
    fn packets_leave_by_time() {
        for batch in [1, 64] {
            let sorted = merged("", &[1, 2, 10, 12], &[3, 8, 9, 14], batch);
            assert_eq!(sorted, ([1, 2, 3, 8, 9, 10, 12, 14].into(), true));
            let not = merged("", &[1, 10, 2, 12], &[3], batch);
            assert_eq!(not, ([1, 3, 10, 2, 12].into(), false));
            let buffered = merged("BUFFER 2", &[1, 10, 2, 12], &[3], batch);
            assert_eq!(buffered, ([1, 2, 3, 10, 12].into(), true));
        }
    }

    proptest! {
        /// With room for all, packets leave by time, and those of one time in the order in which they came.
        #[test]
        fn packets_held_together_are_sorted(
            times in proptest::collection::vec(1..20i64, 0..200),
            batch in 1..=64usize,
        ) {
            let mut sorted = times.clone();
            sorted.sort_unstable();
            prop_assert_eq!(merged("BUFFER 200", &times, &[], batch), (sorted, true));
        }
    }

    #[test]
    fn it_stops_the_driver_when_all_are_empty() {
        let config =
            "a :: Inject -> Queue -> t :: TimeSortedSched(STOP true) -> Unqueue -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_with("a", &[0], |packet| packet.set_timestamp(1));
        assert_eq!(rig.run(), router::Status::Stopped);
        assert_eq!(rig.data("c").len(), 1);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (args, text) in [
            ("BUFFER 0", "BUFFER must be at least 1"),
            ("BUFFER 65537", "BUFFER must be at most 65536"),
        ] {
            Rig::refuses(&format!("Idle -> TimeSortedSched({args}) -> Idle;"), text);
        }
    }
}
