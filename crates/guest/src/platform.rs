//! The guest's platform: the boot area, its regions, its doorbells.

use core::arch::asm;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;

use abi::CPUS_MAX;
use abi::boot::{BootArea, BootError, Span, WALL_PROCESS};
use abi::control::{MESSAGE_MAX, Region, State};
use abi::tenant::{
    GUEST_BYTES, GUEST_WAKE_OFFSET, NSM_FILE_BYTES, PAYLOAD_FILE_BYTES, PayloadFile, QueueFile,
};

use spin::Mutex;

use crate::cpu::Job;
use crate::{Clock, Console, Cpu, system};

/// The guest's platform. There is one, used by reference.
pub struct Platform {
    boot: BootArea<'static>,
    control: Region<'static>,
    console: Console,
    clock: Clock,
    /// Jobs of the CPUs other than the first.
    pub(crate) jobs: [Mutex<Option<Job>>; CPUS_MAX],
    /// Locked while the state changes, and forever after the last change.
    changing: Mutex<()>,
}

// SAFETY: the boot area is only read, and the control region is accessed through atomics and locks.
unsafe impl Sync for Platform {}

impl Platform {
    /// The platform that the boot area at `address` describes. The clock starts.
    ///
    /// # Safety
    /// `address` is that of a boot area, and all of its spans stay mapped. There is no other platform.
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
            jobs: [const { Mutex::new(None) }; CPUS_MAX],
            changing: Mutex::new(()),
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

    /// The data region's address and length, for `abi::region::Region::open`. `None` if the guest has none.
    pub fn data(&self) -> Option<(NonNull<u8>, usize)> {
        let Span { address, length } = self.boot.page().data;
        Some((NonNull::new(address as *mut u8)?, length as usize))
    }

    /// The queue set and the payload of its sockets. `None` if the guest has none.
    pub(crate) fn sockets(&self) -> Option<(QueueFile, PayloadFile)> {
        let Span { address, length } = self.boot.page().sockets;
        let payload = NonNull::new(address as *mut u8)?;
        // SAFETY: the boot page says that so many bytes are mapped there.
        let sockets = unsafe {
            let queues = payload.add(PAYLOAD_FILE_BYTES);
            (
                QueueFile::new(queues, NSM_FILE_BYTES),
                PayloadFile::new(payload),
            )
        };
        (length as usize >= GUEST_BYTES).then_some(sockets)
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

    /// Number of the guest's CPUs.
    pub fn cpus(&self) -> usize {
        (self.boot.page().cpus as usize).clamp(1, CPUS_MAX)
    }

    /// One of its CPUs. The first serves the control channel.
    ///
    /// # Panics
    /// If there is no CPU of that number.
    pub fn cpu(&'static self, number: usize) -> Cpu {
        assert!(number < self.cpus(), "the guest has no CPU {number}");
        Cpu::new(self, number)
    }

    /// The CPU that this runs on, by its stack.
    #[cfg(feature = "image")]
    pub(crate) fn here(&self) -> usize {
        let probe = 0u8;
        let (page, at) = (self.boot.page(), (&raw const probe) as u64);
        (at.wrapping_sub(page.stack.address) / page.stack_stride.max(1)) as usize % CPUS_MAX
    }

    /// Sets the guest's state. After the last state, this call never returns.
    pub fn set_state(&self, state: State, message: &str) {
        let _changing = self.changing.lock();
        self.control.set_state(state, message);
    }

    /// Sets the guest's last state. The first CPU to call it wins.
    fn set_last_state(&self, state: State, message: &str) {
        core::mem::forget(self.changing.lock());
        self.control.set_state(state, message);
    }

    /// Rings the switch's doorbell, when the switch sleeps on a changed ring.
    pub fn ring_switch(&self) {
        self.ring(self.boot.page().doorbells.switch);
    }

    /// Rings the control plane's doorbell if it sleeps.
    pub(crate) fn ring_control(&self) {
        if self.control.host_sleeps() {
            self.ring(self.boot.page().doorbells.control);
        }
    }

    /// Rings for the control store, which has the control plane's doorbell where there is a store.
    pub(crate) fn ring_store(&self) {
        self.ring(self.boot.page().doorbells.control);
    }

    /// Rings CoreEngine's doorbell, when it sleeps on a changed ring.
    pub(crate) fn ring_sockets(&self) {
        self.ring(self.boot.page().doorbells.sockets);
    }

    fn ring(&self, doorbell: u64) {
        match (self.is_process(), doorbell) {
            (true, u64::MAX) => {}
            (true, descriptor) => system::ring(descriptor),
            // SAFETY: the boot page says that a store here is a doorbell.
            (false, address) => unsafe { store(address, 1) },
        }
    }

    pub(crate) fn is_process(&self) -> bool {
        self.boot.page().wall == WALL_PROCESS
    }

    /// The word by which the switch wakes CPU `cpu`; `None` if there is no data region.
    pub(crate) fn data_wake(&self, cpu: usize) -> Option<&AtomicU32> {
        let address = self.boot.page().data_wake as *const AtomicU32;
        if address.is_null() {
            return None;
        }
        // SAFETY: the first of a word for each CPU in the data region, by the boot page.
        unsafe { address.add(cpu).as_ref() }
    }

    /// The word by which CoreEngine wakes the guest's CPUs; `None` if it has no sockets.
    pub(crate) fn sockets_wake(&self) -> Option<&AtomicU32> {
        let Span { address, length } = self.boot.page().sockets;
        let word = (address as usize + GUEST_WAKE_OFFSET) as *const AtomicU32;
        // SAFETY: inside the sockets' memory, by the boot page.
        (length > 0).then(|| unsafe { &*word })
    }

    /// Ends the guest cleanly.
    pub fn halt(&self) -> ! {
        self.set_last_state(State::Halted, "");
        if self.is_process() {
            system::exit();
        }
        loop {
            // SAFETY: the boot page says that a store here is a doorbell.
            unsafe { store(self.boot.page().doorbells.halt, 0) };
        }
    }

    /// Ends the guest, which cannot run its configuration, with the reason.
    pub fn refuse(&self, reason: fmt::Arguments<'_>) -> ! {
        let mut text = Text::new();
        let _ = fmt::write(&mut text, reason);
        self.set_last_state(State::Refused, text.as_str());
        crash()
    }

    /// Ends the guest, in which something is wrong, with a sentence that says what.
    #[cfg(feature = "image")]
    pub(crate) fn fail(&self, reason: &str) -> ! {
        self.set_last_state(State::Failed, reason);
        crash()
    }
}

/// Executes an undefined instruction: behind either wall, that ends the guest with a crash report.
pub(crate) fn crash() -> ! {
    // SAFETY: does not return.
    unsafe { asm!("ud2", options(noreturn, nomem, nostack)) }
}

/// An 8-byte store that the compiler can't merge, widen or drop: doorbells are emulated, and only plain moves
/// are.
///
/// # Safety
/// The address is a doorbell's.
pub(crate) unsafe fn store(address: u64, value: u64) {
    // SAFETY: by the caller's promise. Not `nomem`: earlier stores must be in memory first.
    unsafe { asm!("mov [{}], {}", in(reg) address, in(reg) value, options(nostack)) };
}

/// A bounded string, truncated to fit.
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
            // Truncated in the middle of a character: up to there.
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
