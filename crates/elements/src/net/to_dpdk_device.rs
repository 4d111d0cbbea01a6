use super::dpdk;
use super::sender::Sender;
use crate::prelude::*;

/// Arguments for a driver, its queues and its threads.
const HARDWARE: &[&str] = &[
    "N_QUEUES",
    "MAXTHREADS",
    "VERBOSE",
    "ACTIVE",
    "TIMEOUT",
    "NDESC",
    "MAXQUEUES",
    "ALLOC",
    "BURST",
    "TSO",
    "IPCO",
    "TCO",
    "UCO",
];

/// Largest internal queue, for which memory is allocated at once.
const QUEUE_MAX: u32 = 1 << 20;

/// Sends frames by the interface that stands for a DPDK port.
///
/// FromDPDKDevice says which interface that is. Frames are sent at once; while the interface's
/// ring is full, they wait in an internal queue. Frames that find the queue full are dropped.
///
/// With BLOCKING, a full queue stops the sources that heed notifiers (InfiniteSource, Unqueue and
/// others) until there is room. FromDPDKDevice is none of these: what it received is dropped.
///
/// # Arguments
/// - `BURST`, `TIMEOUT`, `N_QUEUES`, `NDESC`, `MAXTHREADS`, `VERBOSE` and others for a driver, its
///   queues and its threads: accepted and ignored.
/// - `IPCO`, `TCO`, `UCO`, `TSO`: accepted and ignored. Elements compute checksums themselves
///   (ResetIPChecksum, SetTCPChecksum).
///
/// # Example
/// ```click
/// FromDPDKDevice(0) -> EtherMirror -> ToDPDKDevice(0, BLOCKING true);
/// ```
///
/// # See also
/// FromDPDKDevice, DPDKInfo, ToNetfront
#[derive(Element)]
#[element(
    name = "ToDPDKDevice",
    ports = "1/0",
    processing = "h",
    segments,
    raw,
    handlers,
    take_over,
    provides(Addressed)
)]
pub struct ToDpdkDevice {
    /// The port: a number, a PCI address, or an interface's name.
    #[arg(mandatory)]
    port: String,
    /// Accepted and ignored: an interface has one queue.
    #[arg(positional)]
    queue: i32,
    /// Most frames that wait for room in the interface's ring.
    #[arg(name = "IQUEUE", default = 1024)]
    most: u32,
    /// Whether sources wait while the internal queue is full.
    #[arg]
    blocking: bool,
    /// Whether a port without an interface is no error: frames to it are dropped then.
    #[arg]
    allow_nonexistent: bool,
    #[flatten]
    sender: Sender,
    waiting: Fifo,
    task: Option<TaskId>,
    nonfull: Option<SignalId>,
}

#[handlers]
impl ToDpdkDevice {
    /// The interface that stands for the port.
    #[read]
    fn device(&self) -> &str {
        &self.sender.interface
    }

    /// Frames dropped.
    #[read]
    fn dropped(&self) -> u64 {
        self.sender.drops()
    }

    /// Frames sent.
    #[read]
    fn hw_count(&self) -> u64 {
        self.sender.count()
    }

    /// Bytes sent.
    #[read]
    fn hw_bytes(&self) -> u64 {
        self.sender.byte_count()
    }

    /// Frames that wait.
    #[read]
    fn length(&self) -> usize {
        self.waiting.len()
    }
}

impl ToDpdkDevice {
    fn room(&self) -> usize {
        (self.most as usize).saturating_sub(self.waiting.len())
    }

    /// Stores what the interface's ring had no room for.
    #[cold]
    fn store(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let mut fitting = cx.batch();
        fitting.append(batch, self.room());
        // Memory for them was allocated when IQUEUE was read.
        self.waiting.append(&mut fitting);
        cx.done(fitting);
        self.sender.discard(cx, batch);
        self.tell(cx);
        if let (Some(device), Some(task)) = (self.sender.device(), self.task) {
            cx.await_room(device, task);
        }
    }

    fn tell(&self, cx: &mut Cx<'_>) {
        if let Some(signal) = self.nonfull {
            cx.set_signal(signal, self.room() > 0);
        }
    }

    /// Takes over the frames that wait, as far as there is room.
    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut Self) {
        if self.sender.interface != old.sender.interface {
            return;
        }
        let mut batch = cx.batch();
        while old.waiting.take(&mut batch, BATCH) > 0 {
            cx.admit_batch(&mut batch);
            self.store(cx, &mut batch);
        }
        cx.done(batch);
    }
}

impl Addressed for ToDpdkDevice {
    fn readdress(&mut self, cx: &mut Cx<'_>) {
        self.sender.readdress(cx);
    }
}

impl Element for ToDpdkDevice {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.ignore(HARDWARE)?;
        if !(1..=QUEUE_MAX).contains(&self.most) {
            return Err(args.fail(format_args!("IQUEUE must be from 1 to {QUEUE_MAX}")));
        }
        let reserved = self.waiting.try_reserve(self.most as usize);
        reserved.map_err(|_| args.fail("out of memory"))?;
        if self.blocking {
            self.nonfull = Some(cx.signal(Notice::Full, true));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        match dpdk::interface(cx, &self.port) {
            Ok(interface) => self.sender.interface = interface,
            Err(_) if self.allow_nonexistent => return Ok(()),
            Err(error) => return Err(cx.error(error)),
        }
        self.task = Some(cx.task());
        self.sender.initialize(cx)
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let Some(device) = self.sender.device() else {
            return 0;
        };
        if self.waiting.is_empty() {
            self.sender.transmit(cx, device, batch);
        }
        if !batch.is_empty() {
            self.store(cx, batch);
        }
        0
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let Some(device) = self.sender.device() else {
            return Ran::Nothing;
        };
        let room = cx.device_info(device).room().min(cx.limit());
        let mut batch = cx.batch();
        let taken = self.waiting.take(&mut batch, room);
        self.sender.transmit(cx, device, &mut batch);
        // What did not fit stays the first.
        while let Some(packet) = batch.pop() {
            if let Err(packet) = self.waiting.push_front(packet) {
                cx.kill(packet);
            }
        }
        cx.done(batch);
        self.tell(cx);
        if !self.waiting.is_empty() {
            cx.await_room(device, task);
        }
        Ran::worked(taken > 0)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn frames(count: u8) -> std::vec::Vec<std::vec::Vec<u8>> {
        (0..count).map(|n| std::vec![n; 60]).collect()
    }

    #[test]
    fn frames_wait_for_room_and_the_rest_is_dropped() {
        let cable = Cable::new(MAC);
        cable.make_room(2);
        let config = "i :: Inject -> t :: ToDPDKDevice(0, IQUEUE 3, BURST 8, NDESC 1024);";
        let mut rig = Rig::in_guest(config, &[("a", &cable)]).unwrap();
        rig.push_all("i", &frames(6));
        assert_eq!(cable.sent(), frames(2));
        assert_eq!(
            (rig.read("t.length"), rig.read("t.dropped")),
            ("3".into(), "1".into())
        );
        rig.run();
        assert!(rig.router.arm(), "a full ring lets the router sleep");
        cable.make_room(2);
        rig.run();
        rig.push_all("i", &frames(1));
        cable.make_room(9);
        rig.run();
        assert_eq!(
            cable.sent(),
            [&frames(5)[2..], &frames(1)].concat(),
            "in order"
        );
        assert_eq!(
            (rig.read("t.count"), rig.read("t.hw_bytes")),
            ("6".into(), "360".into())
        );
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn with_blocking_sources_wait_and_lose_nothing() {
        let cable = Cable::new(MAC);
        cable.make_room(4);
        let config =
            "s :: InfiniteSource(LIMIT 20) -> t :: ToDPDKDevice(0, IQUEUE 8, BLOCKING true);";
        let mut rig = Rig::in_guest(config, &[("a", &cable)]).unwrap();
        rig.run();
        assert_eq!(
            (rig.read("s.count"), rig.read("t.length")),
            ("12".into(), "8".into())
        );
        cable.make_room(99);
        rig.run();
        assert_eq!(
            (cable.sent().len(), rig.read("t.dropped")),
            (20, "0".into())
        );
    }

    #[test]
    fn frames_that_wait_outlive_a_hotswap() {
        let cable = Cable::new(MAC);
        let config = "i :: Inject -> t :: ToDPDKDevice(0);";
        let mut rig = Rig::in_guest(config, &[("a", &cable)]).unwrap();
        rig.push_all("i", &frames(3));
        cable.make_room(9);
        rig.swap("i :: Inject -> t :: ToDPDKDevice(a, IQUEUE 2);");
        rig.run();
        assert_eq!(cable.sent(), frames(2));
        assert_eq!((rig.read("t.dropped"), rig.outstanding()), ("1".into(), 0));
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let cable = Cable::new(MAC);
        for (arguments, said) in [
            ("0, IQUEUE 0", "IQUEUE must be from 1 to 1048576"),
            ("0, QUEUES 3", "QUEUES: unknown argument"),
            ("2", "port 2: it needs 3 --link, and there are 1"),
            (
                "eth7",
                "bad PORT 'eth7'; give a port's number, its PCI address",
            ),
        ] {
            let config = std::format!("Idle -> ToDPDKDevice({arguments});");
            let errors = Rig::in_guest(&config, &[("a", &cable)]).err().unwrap();
            assert!(errors.contains(said), "{errors}");
        }
        let errors = Rig::errors("Idle -> ToDPDKDevice(0);");
        assert!(
            errors.contains("run the configuration by `weir run FILE --link"),
            "{errors}"
        );
        let mut rig = Rig::new("i :: Inject -> ToDPDKDevice(0, ALLOW_NONEXISTENT true);");
        rig.push("i", &[0; 60]);
        assert_eq!(rig.outstanding(), 0);
    }
}
