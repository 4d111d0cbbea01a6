//! The control region of a guest: its status, console and control channel.
//!
//! ```text
//! 0        words and cursors ([`Words`]), the status message                     (one page)
//! 4096     console, guest to host           8 KiB
//! …        requests, host to guest          8 KiB
//! …        answers, guest to host           8 KiB
//! …        requests to the control store    4 KiB
//! …        replies of the control store     4 KiB
//! ```
//!
//! A guest may have several CPUs. Each has a wake word, and a cache line of status words. The first CPU serves
//! the control channel.
//!
//! The layout is the same for every guest, and all zero is a region ready to use. [`crate::message`] describes
//! the messages of the channel, [`crate::store`] the connection to the store.
//!
//! **Waking.** A side that is about to sleep sets its `sleeps` word, checks the rings once more, and sleeps. A
//! side that has published something reads the other's `sleeps` word and wakes it. A guest's CPU is woken by
//! bumping its wake word, which is a futex. The CPU passes the value that it read before its last check to the
//! VMM ([`Sleep`]), so a wake-up in between is not lost. The host is woken by the control doorbell.

use core::mem::{offset_of, size_of};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::bytes::{ByteRing, Cursors};
use crate::store::{self, Channel};
use crate::{CPUS_MAX, PAGE};

/// Bytes of the console ring.
pub const CONSOLE_BYTES: usize = 8192;
/// Bytes of each of the two channel rings.
pub const CHANNEL_BYTES: usize = 8192;
/// Longest message that a guest can leave with its state, in bytes.
pub const MESSAGE_MAX: usize = 1024;
/// Bytes of the whole region.
pub const REGION_BYTES: usize = STORE_OFFSET + 2 * store::RING_BYTES;
/// [`Region::element`] of a CPU that is in no element.
pub const NO_ELEMENT: u32 = 0;

/// The 16 high bits of a heartbeat while the CPU is at work that may take seconds. A guest that scribbles over its
/// region hits upon them once in 65 536 times.
pub const LONG_WORK: u64 = 0x4c57;
/// Where they begin. The bits below count rounds.
pub const LONG_WORK_SHIFT: u32 = 48;

/// Offset of the first CPU's heartbeat in the region, which the wall's watchdog reads.
pub const HEARTBEAT_OFFSET: usize = offset_of!(Words, cpus) + offset_of!(Cpu, heartbeat);
/// Bytes from one CPU's heartbeat to the next one's.
pub const HEARTBEAT_STRIDE: usize = size_of::<Cpu>();

const MESSAGE_OFFSET: usize = size_of::<Words>();
const CONSOLE_OFFSET: usize = PAGE;
const REQUESTS_OFFSET: usize = CONSOLE_OFFSET + CONSOLE_BYTES;
const ANSWERS_OFFSET: usize = REQUESTS_OFFSET + CHANNEL_BYTES;
/// Offset of the rings of the connection to the control store.
pub const STORE_OFFSET: usize = ANSWERS_OFFSET + CHANNEL_BYTES;
/// Offset of that connection's words ([`store::Words`]).
pub const STORE_WORDS_OFFSET: usize = offset_of!(Words, store);

/// A CPU's own words, written every round.
#[repr(C, align(64))]
struct Cpu {
    heartbeat: AtomicU64,
    /// Index of the element being run, plus one.
    element: AtomicU32,
    slept_control: AtomicU32,
    slept_data: AtomicU32,
    slept_sockets: AtomicU32,
    sleep_ns: AtomicU64,
}

/// The shared words, by the line of the side that writes them.
#[repr(C, align(64))]
struct Words {
    // The guest's.
    state: AtomicU32,
    message_length: AtomicU32,
    /// A bit for each configuration, the main one's first.
    halted: AtomicU64,
    failed: AtomicU64,
    _guest_line: [AtomicU32; 10],
    /// Written by the host to wake the guest's first CPU, and by its CPUs to wake each other.
    wake: [AtomicU32; CPUS_MAX],
    _wake_line: [AtomicU32; 8],
    // Each side's own, rarely written, read by the other after each publish.
    guest_sleeps: AtomicU32,
    host_sleeps: AtomicU32,
    _sleeps_line: [AtomicU32; 14],
    console: Cursors,
    requests: Cursors,
    answers: Cursors,
    cpus: [Cpu; CPUS_MAX],
    store: store::Words,
    /// The guest's: the number of each configuration's first element, plus one; 0 for none.
    starts: [AtomicU32; CONFIGURATIONS_MAX],
}

const _: () = {
    assert!(offset_of!(Words, wake) == 64);
    assert!(offset_of!(Words, guest_sleeps) == 128);
    assert!(offset_of!(Words, console) == 192);
    assert!(offset_of!(Words, cpus) == 576);
    assert!(size_of::<Cpu>() == 64);
    assert!(offset_of!(Words, store) == 1088);
    assert!(offset_of!(Words, starts) == 1472);
    assert!(size_of::<Words>() == 1728);
    assert!(MESSAGE_OFFSET + MESSAGE_MAX <= CONSOLE_OFFSET);
    assert!(REGION_BYTES == 36 * 1024);
};

/// Most configurations of a guest, with the main one.
pub const CONFIGURATIONS_MAX: usize = 64;

/// Where an element of a guest stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of its configuration: 0 for the main one.
    pub configuration: usize,
    /// Its index there.
    pub element: usize,
}

/// A guest's state, as the guest reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Not yet in its main loop.
    Starting = 0,
    /// In its main loop.
    Running = 1,
    /// Ended cleanly.
    Halted = 2,
    /// Failed; the message says why.
    Failed = 3,
    /// Stands still at a place where its memory alone holds its whole state, until a request comes.
    Suspended = 4,
    /// Cannot run its configuration; the message says why.
    Refused = 5,
}

/// A CPU's request to sleep, as the guest wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// Value of its wake word in the control region before the CPU's last check.
    pub control: u32,
    /// The same for its wake word in the data region.
    pub data: u32,
    /// The same for the wake word in the sockets' memory.
    pub sockets: u32,
    /// Longest sleep, in nanoseconds; `u64::MAX` for no limit.
    pub nanoseconds: u64,
}

/// A mapped control region, from either side.
#[derive(Clone, Copy)]
pub struct Region<'a> {
    words: &'a Words,
    base: NonNull<u8>,
}

// SAFETY: a region is a pointer to shared memory that is accessed through atomics and raw copies only.
unsafe impl Send for Region<'_> {}
// SAFETY: as above; methods with a single writer say so.
unsafe impl Sync for Region<'_> {}

impl<'a> Region<'a> {
    /// The region at `base`.
    ///
    /// # Safety
    /// `base` is page aligned and starts [`REGION_BYTES`] bytes that stay mapped, readable and writable, for
    /// `'a`; this program accesses them through regions only.
    pub unsafe fn new(base: NonNull<u8>) -> Self {
        // SAFETY: mapped for 'a by the caller's promise; nothing but atomics inside, of which every bit
        // pattern is valid.
        Self {
            words: unsafe { base.cast::<Words>().as_ref() },
            base,
        }
    }

    /// Address of the region's first byte on this side.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn ring(&self, cursors: &'a Cursors, offset: usize, bytes: usize) -> ByteRing<'a> {
        // SAFETY: inside the region, accessed through rings only.
        unsafe { ByteRing::new(cursors, self.base.add(offset), bytes) }
    }

    /// Text from the guest.
    pub fn console(&self) -> ByteRing<'a> {
        self.ring(&self.words.console, CONSOLE_OFFSET, CONSOLE_BYTES)
    }

    /// Messages to the guest.
    pub fn requests(&self) -> ByteRing<'a> {
        self.ring(&self.words.requests, REQUESTS_OFFSET, CHANNEL_BYTES)
    }

    /// Messages from the guest.
    pub fn answers(&self) -> ByteRing<'a> {
        self.ring(&self.words.answers, ANSWERS_OFFSET, CHANNEL_BYTES)
    }

    /// The connection to the control store.
    pub fn store(&self) -> Channel<'a> {
        // SAFETY: inside the region, accessed through rings only.
        unsafe {
            let requests = self.base.add(STORE_OFFSET);
            Channel::new(
                &self.words.store,
                [requests, requests.add(store::RING_BYTES)],
            )
        }
    }

    /// The words of CPU `cpu`, which is below [`CPUS_MAX`].
    fn cpu(&self, cpu: usize) -> &'a Cpu {
        &self.words.cpus[cpu % CPUS_MAX]
    }

    /// Rounds of CPU `cpu`'s main loop, as the guest reports them.
    pub fn heartbeat(&self, cpu: usize) -> u64 {
        self.cpu(cpu).heartbeat.load(Ordering::Relaxed)
    }

    /// Counts a round of CPU `cpu`: for that CPU.
    pub fn beat(&self, cpu: usize) {
        // The CPU is the only writer, so no locked instruction is needed.
        let heartbeat = &self.cpu(cpu).heartbeat;
        let beats = heartbeat.load(Ordering::Relaxed);
        let beats = beats.wrapping_add(1) & ((1 << LONG_WORK_SHIFT) - 1);
        heartbeat.store(beats, Ordering::Relaxed);
    }

    /// Reports that CPU `cpu` begins work that may take seconds, until its next round: for that CPU.
    pub fn begin_long_work(&self, cpu: usize) {
        let heartbeat = &self.cpu(cpu).heartbeat;
        let beats = heartbeat.load(Ordering::Relaxed) & ((1 << LONG_WORK_SHIFT) - 1);
        heartbeat.store(LONG_WORK << LONG_WORK_SHIFT | beats, Ordering::Relaxed);
    }

    /// Index of the element that CPU `cpu` reports to run, plus one; [`NO_ELEMENT`] for none.
    pub fn element(&self, cpu: usize) -> u32 {
        self.cpu(cpu).element.load(Ordering::Relaxed)
    }

    /// Where the element stands that CPU `cpu` reports to run, as the guest says; `None` for none.
    pub fn place(&self, cpu: usize) -> Option<Place> {
        let number = self.element(cpu);
        if number == NO_ELEMENT {
            return None;
        }
        let starts = self.words.starts.iter().enumerate();
        let starts = starts.map(|(at, start)| (start.load(Ordering::Relaxed), at));
        let before = starts.filter(|(start, _)| (1..=number).contains(start));
        let (start, configuration) = before.max_by_key(|(start, _)| *start).unwrap_or((1, 0));
        Some(Place {
            configuration,
            element: (number - start) as usize,
        })
    }

    /// The word of [`element`](Self::element).
    pub fn element_word(&self, cpu: usize) -> &'a AtomicU32 {
        &self.cpu(cpu).element
    }

    /// The guest's state; `None` if the word holds no state.
    pub fn state(&self) -> Option<State> {
        Some(match self.words.state.load(Ordering::Acquire) {
            0 => State::Starting,
            1 => State::Running,
            2 => State::Halted,
            3 => State::Failed,
            4 => State::Suspended,
            5 => State::Refused,
            _ => return None,
        })
    }

    /// Sets the guest's state: for the guest. A message longer than [`MESSAGE_MAX`] bytes is truncated.
    pub fn set_state(&self, state: State, message: &str) {
        let length = message.len().min(MESSAGE_MAX);
        // SAFETY: the message's bytes lie inside the region, and `length` keeps to them.
        unsafe {
            let to = self.base.add(MESSAGE_OFFSET).as_ptr();
            ptr::copy_nonoverlapping(message.as_ptr(), to, length);
        }
        self.words
            .message_length
            .store(length as u32, Ordering::Relaxed);
        self.words.state.store(state as u32, Ordering::Release);
    }

    /// Copies the status message into `into`; returns the filled part.
    pub fn message<'b>(&self, into: &'b mut [u8; MESSAGE_MAX]) -> &'b [u8] {
        let length = self.words.message_length.load(Ordering::Acquire) as usize;
        let length = length.min(MESSAGE_MAX);
        // SAFETY: as in `set_state`.
        unsafe {
            let from = self.base.add(MESSAGE_OFFSET).as_ptr();
            ptr::copy_nonoverlapping(from, into.as_mut_ptr(), length);
        }
        &into[..length]
    }

    /// The configurations that have stopped while others go on, and the configurations that failed to start, as the
    /// guest reports them. Each has a bit: the main one has the first, the others follow in the order of their names.
    pub fn configurations(&self) -> (u64, u64) {
        let (halted, failed) = (&self.words.halted, &self.words.failed);
        (
            halted.load(Ordering::Relaxed),
            failed.load(Ordering::Relaxed),
        )
    }

    /// Sets which configurations have stopped, which could not be started, and with which element each
    /// begins, if it has any: for the guest.
    pub fn set_configurations(&self, halted: u64, failed: u64, starts: &[Option<usize>]) {
        self.words.halted.store(halted, Ordering::Relaxed);
        self.words.failed.store(failed, Ordering::Relaxed);
        for (at, word) in self.words.starts.iter().enumerate() {
            let start = starts.get(at).copied().flatten();
            word.store(start.map_or(0, |start| start as u32 + 1), Ordering::Relaxed);
        }
    }

    /// The word that wakes CPU `cpu`.
    pub fn wake_word(&self, cpu: usize) -> &'a AtomicU32 {
        &self.words.wake[cpu % CPUS_MAX]
    }

    /// Bumps the wake word of CPU `cpu`. The caller then wakes the futex.
    pub fn bump(&self, cpu: usize) {
        self.wake_word(cpu).fetch_add(1, Ordering::Release);
    }

    /// Whether the guest sleeps until something is published for it. The fence orders the publish before this
    /// read, so that at least one side sees the other.
    pub fn guest_sleeps(&self) -> bool {
        fence(Ordering::SeqCst);
        self.words.guest_sleeps.load(Ordering::Relaxed) != 0
    }

    /// Sets whether the guest sleeps. Check the rings once more before sleeping.
    pub fn set_guest_sleeps(&self, sleeps: bool) {
        self.words
            .guest_sleeps
            .store(sleeps.into(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Whether the host sleeps until its doorbell is rung.
    pub fn host_sleeps(&self) -> bool {
        fence(Ordering::SeqCst);
        self.words.host_sleeps.load(Ordering::Relaxed) != 0
    }

    /// Sets whether the host sleeps. Check the rings once more before sleeping.
    pub fn set_host_sleeps(&self, sleeps: bool) {
        self.words
            .host_sleeps
            .store(sleeps.into(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// CPU `cpu`'s request to sleep, written before it rang the WAIT doorbell.
    pub fn sleep(&self, cpu: usize) -> Sleep {
        let cpu = self.cpu(cpu);
        Sleep {
            control: cpu.slept_control.load(Ordering::Relaxed),
            data: cpu.slept_data.load(Ordering::Relaxed),
            sockets: cpu.slept_sockets.load(Ordering::Relaxed),
            nanoseconds: cpu.sleep_ns.load(Ordering::Relaxed),
        }
    }

    /// Writes CPU `cpu`'s request to sleep: for that CPU.
    pub fn set_sleep(&self, cpu: usize, sleep: Sleep) {
        let cpu = self.cpu(cpu);
        cpu.slept_control.store(sleep.control, Ordering::Relaxed);
        cpu.slept_data.store(sleep.data, Ordering::Relaxed);
        cpu.slept_sockets.store(sleep.sockets, Ordering::Relaxed);
        cpu.sleep_ns.store(sleep.nanoseconds, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;

    #[repr(align(4096))]
    struct Memory([u8; REGION_BYTES]);

    fn region(memory: &mut Memory) -> Region<'_> {
        // SAFETY: aligned, long enough, borrowed for the region's life.
        unsafe { Region::new(NonNull::from(&mut memory.0).cast()) }
    }

    #[test]
    fn zeroed_memory_is_a_region_ready_to_use() {
        let mut memory = Box::new(Memory([0; REGION_BYTES]));
        let region = region(&mut memory);
        assert_eq!(region.state(), Some(State::Starting));
        assert_eq!(region.element(0), NO_ELEMENT);
        assert_eq!(region.console().consumer().available(), Ok(0));
        region.console().producer().write_lossy(b"hello").unwrap();
        region.requests().producer().write_lossy(b"a").unwrap();
        region.answers().producer().write_lossy(b"bc").unwrap();
        assert_eq!(region.console().consumer().available(), Ok(5));
        assert_eq!(region.requests().consumer().available(), Ok(1));
        assert_eq!(region.answers().consumer().available(), Ok(2));
    }

    #[test]
    fn state_and_message_cross() {
        let mut memory = Box::new(Memory([0; REGION_BYTES]));
        let region = region(&mut memory);
        region.set_state(State::Failed, "no memory left");
        assert_eq!(region.state(), Some(State::Failed));
        assert_eq!(region.message(&mut [0; MESSAGE_MAX]), b"no memory left");
        assert_eq!(region.configurations(), (0, 0));
        region.set_configurations(1 << 63, 2, &[Some(7), None, Some(0)]);
        assert_eq!(region.configurations(), (1 << 63, 2));
        let place = |number: u32| {
            region.element_word(1).store(number, Ordering::Relaxed);
            let place = region.place(1);
            place.map(|place| (place.configuration, place.element))
        };
        assert_eq!(place(NO_ELEMENT), None);
        assert_eq!([place(1), place(7)], [Some((2, 0)), Some((2, 6))]);
        assert_eq!([place(8), place(10)], [Some((0, 0)), Some((0, 2))]);
        region.beat(1);
        assert_eq!((region.heartbeat(0), region.heartbeat(1)), (0, 1));
    }

    #[test]
    fn a_scribbled_region_reads_without_harm() {
        let mut memory = Box::new(Memory([0xff; REGION_BYTES]));
        let region = region(&mut memory);
        assert_eq!(region.state(), None);
        assert_eq!(region.message(&mut [0; MESSAGE_MAX]).len(), MESSAGE_MAX);
        assert_eq!(region.sleep(CPUS_MAX - 1).nanoseconds, u64::MAX);
        assert!(region.guest_sleeps());
        // Both cursors are the same, so the ring looks empty: harmless.
        assert_eq!(region.console().consumer().available(), Ok(0));
    }
}
