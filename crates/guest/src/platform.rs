//! What a guest stands on: the boot area, its regions, its doorbells.

use core::arch::asm;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use abi::boot::{BootArea, BootError, Span, WALL_PROCESS};
use abi::control::{MESSAGE_MAX, Region, Sleep, State};

use crate::{Clock, Console, system};

/// The guest's surroundings. There is one; everything reaches it by reference.
pub struct Platform {
    boot: BootArea<'static>,
    control: Region<'static>,
    console: Console,
    clock: Clock,
}

// SAFETY: a guest has one processor and so one thread; whatever takes a platform to another thread
// would have to make one first.
unsafe impl Sync for Platform {}

/// Values of the two wake words at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakes {
    control: u32,
    data: u32,
}

impl Platform {
    /// The platform that the boot area at `address` describes. The clock starts.
    ///
    /// # Safety
    /// `address` is that of a boot area, and all that it names is mapped as it says, for good. There is no
    /// other platform.
    pub unsafe fn new(address: *const u8) -> Result<Self, BootError> {
        // SAFETY: promised by the caller.
        let boot = unsafe { BootArea::new(address) }?;
        let page = boot.page();
        let control = NonNull::new(page.control.address as *mut u8).ok_or(BootError::Layout)?;
        // SAFETY: as above.
        let control = unsafe { Region::new(control) };
        Ok(Self {
            boot,
            control,
            console: Console::new(control.console().producer()),
            clock: Clock::start(page.tsc_khz, page.wall_clock_ns),
        })
    }

    /// The guest's name.
    pub fn name(&self) -> &'static str {
        self.boot.name()
    }

    /// The guest's number on its host.
    pub fn id(&self) -> u64 {
        self.boot.page().guest_id
    }

    /// The configuration it was booted with.
    pub fn config(&self) -> &'static [u8] {
        self.boot.config()
    }

    /// Seed of its random numbers.
    pub fn seed(&self) -> [u64; 4] {
        self.boot.page().seed
    }

    /// The fixed part of the boot area.
    pub fn boot(&self) -> &'static abi::boot::BootPage {
        self.boot.page()
    }

    /// The data region's place: for `abi::region::Region::open`. `None` if the guest has none.
    pub fn data(&self) -> Option<(NonNull<u8>, usize)> {
        let Span { address, length } = self.boot.page().data;
        Some((NonNull::new(address as *mut u8)?, length as usize))
    }

    /// Text to the host.
    pub fn console(&self) -> &Console {
        &self.console
    }

    /// The guest's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The control region.
    pub(crate) fn control(&self) -> Region<'static> {
        self.control
    }

    /// Where to say which element is being run: its index plus one, or 0 for none. The report of a
    /// crash in it says so.
    pub fn element_word(&self) -> &'static AtomicU32 {
        self.control.element_word()
    }

    /// Says that the guest makes progress. The main loop does so every round; work that takes longer than a
    /// few hundred milliseconds without one does it itself, or the watchdog takes it for an endless loop.
    #[inline]
    pub fn beat(&self) {
        self.control.beat();
    }

    /// Says what the guest is doing.
    pub fn set_state(&self, state: State, message: &str) {
        self.control.set_state(state, message);
    }

    /// Rings the switch's doorbell: call it when the switch sleeps on a ring that changed.
    pub fn ring_switch(&self) {
        self.ring(self.boot.page().doorbells.switch);
    }

    /// Rings the control plane's doorbell if it sleeps.
    pub(crate) fn ring_control(&self) {
        if self.control.host_sleeps() {
            self.ring(self.boot.page().doorbells.control);
        }
    }

    fn ring(&self, doorbell: u64) {
        match (self.is_process(), doorbell) {
            (true, u64::MAX) => {}
            (true, descriptor) => system::ring(descriptor),
            // SAFETY: the boot page says that a store here is a doorbell.
            (false, address) => unsafe { store(address, 1) },
        }
    }

    fn is_process(&self) -> bool {
        self.boot.page().wall == WALL_PROCESS
    }

    fn data_wake(&self) -> Option<&AtomicU32> {
        let address = self.boot.page().data_wake as *const AtomicU32;
        // SAFETY: 0, or the address of a word in the data region, by the boot page.
        unsafe { address.as_ref() }
    }

    /// The wake words' values. Take them before the last look at the rings.
    pub fn wakes(&self) -> Wakes {
        Wakes {
            control: self.control.wake_word().load(Ordering::Acquire),
            data: self
                .data_wake()
                .map_or(0, |word| word.load(Ordering::Acquire)),
        }
    }

    /// Sleeps until the guest is woken, or until `deadline` (nanoseconds on [`Self::clock`]). Returns at once
    /// if it was woken since `seen` was taken. May return early.
    pub fn sleep(&self, seen: Wakes, deadline: Option<u64>) {
        let nanoseconds = match deadline {
            None => u64::MAX,
            Some(deadline) => match deadline.checked_sub(self.clock.now()) {
                None | Some(0) => return,
                Some(left) => left,
            },
        };
        let sleep = Sleep {
            control: seen.control,
            data: seen.data,
            nanoseconds,
        };
        if self.is_process() {
            let control = core::ptr::from_ref(self.control.wake_word()) as u64;
            system::sleep(control, self.boot.page().data_wake, sleep);
        } else {
            self.control.set_sleep(sleep);
            // SAFETY: the boot page says that a store here is a doorbell.
            unsafe { store(self.boot.page().doorbells.wait, nanoseconds) };
        }
    }

    /// Ends the guest in good order.
    pub fn halt(&self) -> ! {
        self.set_state(State::Halted, "");
        if self.is_process() {
            system::exit();
        }
        loop {
            // SAFETY: as in `sleep`.
            unsafe { store(self.boot.page().doorbells.halt, 0) };
        }
    }

    /// Ends the guest with a sentence that says why it can't go on.
    pub fn fail(&self, reason: fmt::Arguments<'_>) -> ! {
        let mut text = Text::new();
        let _ = fmt::write(&mut text, reason);
        self.set_state(State::Failed, text.as_str());
        crash()
    }
}

/// Executes an instruction that does not exist: behind either wall that ends the guest with a report.
pub(crate) fn crash() -> ! {
    // SAFETY: does not return.
    unsafe { asm!("ud2", options(noreturn, nomem, nostack)) }
}

/// An 8-byte store that the compiler can't merge, widen or leave out: doorbells are emulated, and only plain
/// moves are.
///
/// # Safety
/// The address is a doorbell's.
unsafe fn store(address: u64, value: u64) {
    // SAFETY: by the caller's promise. Not `nomem`: what was published before must be in memory first.
    unsafe { asm!("mov [{}], {}", in(reg) address, in(reg) value, options(nostack)) };
}

/// A bounded string; what does not fit is cut.
pub(crate) struct Text {
    bytes: [u8; MESSAGE_MAX],
    length: usize,
}

impl Text {
    pub(crate) fn new() -> Self {
        Self {
            bytes: [0; MESSAGE_MAX],
            length: 0,
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        match core::str::from_utf8(&self.bytes[..self.length]) {
            Ok(text) => text,
            // Cut in the middle of a character: up to there.
            Err(error) => core::str::from_utf8(&self.bytes[..error.valid_up_to()]).unwrap_or(""),
        }
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let length = text.len().min(self.bytes.len() - self.length);
        self.bytes[self.length..self.length + length].copy_from_slice(&text.as_bytes()[..length]);
        self.length += length;
        Ok(())
    }
}
