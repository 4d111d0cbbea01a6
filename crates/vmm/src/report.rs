//! How a guest ended: the report of its process, and its interpretation.
//!
//! The process writes a [`RawReport`] into a page behind the control region. Under KVM the guest cannot access
//! it. Behind the process wall it can, so a report is checked like everything else from a guest: at worst the
//! report is false.

mod diagnosis;

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use abi::CPUS_MAX;
use abi::control::{MESSAGE_MAX, Place, Region, State};

use crate::image::Image;
use crate::layout::Layout;
use crate::text::printable;

/// Names of the registers in a report, in the order of a Linux signal frame.
pub const REGISTERS: [&str; 23] = [
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax",
    "rcx", "rsp", "rip", "rflags", "segments", "error", "trap", "mask", "cr2",
];
/// Indices in [`REGISTERS`].
pub(crate) mod register {
    pub(crate) const RCX: usize = 14;
    pub(crate) const RSP: usize = 15;
    pub(crate) const RIP: usize = 16;
    pub(crate) const TRAP: usize = 20;
    pub(crate) const CR2: usize = 22;
}

/// [`RawReport::kind`].
pub(crate) mod kind {
    pub(crate) const NONE: u32 = 0;
    /// The guest rang the HALT doorbell.
    pub(crate) const HALTED: u32 = 1;
    /// KVM: an exception. `CR2` holds [`NO_FAULT`](super::NO_FAULT) or the address of a page fault.
    pub(crate) const EXCEPTION: u32 = 2;
    /// KVM: a store or load of the doorbell page that is no doorbell, at `address`.
    pub(crate) const DOORBELL: u32 = 3;
    /// KVM: an instruction that KVM can't execute, or another unexpected exit; `detail` is its number, or the error of
    /// KVM_RUN with [`REFUSED`](super::REFUSED).
    pub(crate) const UNEXPECTED: u32 = 4;
    /// Process: a signal; `detail` is its number, `address` its address. One that was sent to the process is no fault of
    /// the guest, and has [`SENT`](super::SENT).
    pub(crate) const SIGNAL: u32 = 5;
    /// The watchdog found no heartbeat.
    pub(crate) const WATCHDOG: u32 = 6;
    /// The guest could not be started; the text has the reason.
    pub(crate) const SETUP: u32 = 7;
    /// KVM: an attempt to enter ring 0.
    pub(crate) const SYSTEM_CALL: u32 = 8;
}

/// CR2 before the first page fault: no address that can be accessed.
pub(crate) const NO_FAULT: u64 = 0xdead_0000_0000_0000;
/// In the detail of [`kind::UNEXPECTED`]: KVM_RUN failed, with the error in the low bits.
pub(crate) const REFUSED: u32 = 1 << 16;
/// In the detail of [`kind::SIGNAL`]: another process sent it.
pub(crate) const SENT: u32 = 1 << 16;
/// Longest sentence about a start that failed, in bytes.
const TEXT_MAX: usize = 1024;

/// The report page. The assembly in [`crate::process`] knows the offsets.
#[repr(C)]
pub(crate) struct RawReport {
    /// Written last.
    pub(crate) kind: AtomicU32,
    pub(crate) detail: u32,
    pub(crate) address: u64,
    pub(crate) registers: [u64; 23],
    /// Behind the process wall: not 0 once a CPU has begun to write the report.
    pub(crate) claimed: AtomicU32,
    /// The CPU that the guest ended on.
    pub(crate) cpu: u32,
    /// Behind the process wall: threads that have left the memory to be unmapped, and whether it is unmapped.
    pub(crate) arrived: AtomicU32,
    pub(crate) unmapped: AtomicU32,
    /// Behind the process wall, the watchdog's state of each CPU: last heartbeat, ticks since.
    pub(crate) beats: [[u64; 2]; CPUS_MAX],
    /// Bytes at `rip`, if they could be read.
    pub(crate) code: [u8; 16],
    pub(crate) text_length: u32,
    pub(crate) text: [u8; TEXT_MAX],
}

const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<RawReport>() <= abi::PAGE);
    assert!(offset_of!(RawReport, registers) == 16);
    assert!(offset_of!(RawReport, claimed) == 200);
    assert!(offset_of!(RawReport, cpu) == 204);
    assert!(offset_of!(RawReport, arrived) == 208);
    assert!(offset_of!(RawReport, unmapped) == 212);
    assert!(offset_of!(RawReport, beats) == 216);
};

/// The writing side, in the guest's process.
#[derive(Clone, Copy)]
pub(crate) struct Reporter(NonNull<RawReport>);

// SAFETY: the page stays mapped and is only copied to; the last write counts.
unsafe impl Send for Reporter {}
// SAFETY: as above.
unsafe impl Sync for Reporter {}

impl Reporter {
    /// # Safety
    /// `page` is the report page, which stays mapped and writable.
    pub(crate) unsafe fn new(page: NonNull<RawReport>) -> Self {
        Self(page)
    }

    /// Writes a report. The last one counts.
    pub(crate) fn write(
        self,
        cpu: usize,
        kind: u32,
        detail: u32,
        address: u64,
        registers: &[u64; 23],
    ) {
        let page = self.0.as_ptr();
        // SAFETY: it stays mapped, and its reader copies it without trusting it.
        unsafe {
            (&raw mut (*page).cpu).write_volatile(cpu as u32);
            (&raw mut (*page).detail).write_volatile(detail);
            (&raw mut (*page).address).write_volatile(address);
            (&raw mut (*page).registers).write_volatile(*registers);
            (*page).kind.store(kind, Ordering::Release);
        }
    }

    /// Adds the bytes at the address of the crash.
    pub(crate) fn write_code(self, code: [u8; 16]) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.0.as_ptr()).code).write_volatile(code) };
    }

    /// Reports a start that failed.
    pub(crate) fn write_setup(self, sentence: &str) {
        let length = sentence.len().min(TEXT_MAX);
        // SAFETY: as above.
        unsafe {
            let page = self.0.as_ptr();
            ptr::copy_nonoverlapping(sentence.as_ptr(), (&raw mut (*page).text).cast(), length);
            (&raw mut (*page).text_length).write_volatile(length as u32);
        }
        self.write(0, kind::SETUP, 0, 0, &[0; 23]);
    }
}

/// The registers of a guest that crashed, in the order of [`REGISTERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers(pub [u64; 23]);

impl Registers {
    /// The instruction pointer.
    pub fn rip(&self) -> u64 {
        self.0[register::RIP]
    }

    /// The stack pointer.
    pub fn rsp(&self) -> u64 {
        self.0[register::RSP]
    }
}

impl fmt::Display for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The registers that the guest itself can read: up to the flags.
        for (i, (name, value)) in REGISTERS.iter().zip(self.0).take(18).enumerate() {
            let end = if i % 4 == 3 || i == 17 { "\n" } else { "  " };
            write!(f, "{name:>6} {value:016x}{end}")?;
        }
        Ok(())
    }
}

/// The kind of fault that ended a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It failed with a reason of its own.
    Failed,
    /// It accessed unmapped memory.
    Unmapped,
    /// It wrote to memory that is read-only or executable.
    Protected,
    /// It jumped to memory that is not executable.
    NotExecutable,
    /// It ran out of stack.
    StackOverflow,
    /// It divided by zero.
    DivideByZero,
    /// It executed an undefined or forbidden instruction.
    Instruction,
    /// It made a system call.
    SystemCall,
    /// It accessed its doorbell page at an offset without a doorbell, or in a way that no doorbell allows.
    Doorbell,
    /// Another reason for which the wall stopped it.
    Other,
}

/// A guest that ended by a fault.
#[derive(Clone, Debug)]
pub struct Crash {
    /// Its kind.
    pub fault: Fault,
    /// One sentence: the guest's own reason, or the fault.
    pub reason: String,
    /// Registers at that time.
    pub registers: Registers,
    /// Function and offset of the instruction, where the image's symbols know it.
    pub symbol: Option<String>,
    /// The address it accessed.
    pub address: Option<u64>,
    /// The element that it reported to run.
    pub element: Option<Place>,
    /// The CPU, if it has several.
    pub cpu: Option<u32>,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at {:#x}", self.reason, self.registers.rip())?;
        if let Some(symbol) = &self.symbol {
            write!(f, ", {symbol}")?;
        }
        if let Some(place) = self.element {
            write!(f, ", in element {}", place.element)?;
            if place.configuration > 0 {
                write!(f, " of configuration {}", place.configuration)?;
            }
        }
        if let Some(cpu) = self.cpu {
            write!(f, ", on vCPU {cpu}")?;
        }
        f.write_str(")")
    }
}

/// How a guest ended.
#[derive(Clone, Debug)]
pub enum Exit {
    /// It ended cleanly.
    Halted,
    /// It could not run its configuration: its own reason.
    Refused(String),
    /// It had a fault.
    Crashed(Box<Crash>),
    /// The watchdog stopped it: it used its CPU for almost half a second, or for ten seconds in a start or
    /// a request, without a round of its main loop.
    Stopped(Box<Crash>),
    /// Its process was killed by a signal; 0 if unknown, since another process was its parent.
    Killed(i32),
    /// It could not be started: a sentence.
    NotStarted(String),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Halted => f.write_str("the guest halted"),
            Self::Refused(reason) => write!(f, "the configuration cannot run: {reason}"),
            Self::Crashed(crash) => write!(f, "the guest crashed: {crash}"),
            Self::Stopped(crash) => write!(f, "the guest was stopped: {crash}"),
            Self::Killed(0) => f.write_str("the guest's process was killed"),
            Self::Killed(signal) => {
                write!(
                    f,
                    "the guest's process was killed by {}",
                    signal_name(*signal)
                )
            }
            Self::NotStarted(sentence) => write!(f, "the guest could not be started: {sentence}"),
        }
    }
}

fn signal_name(signal: i32) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {signal}"),
    }
}

/// Interprets the report of a guest's process that exited by itself, or ended in any way if its end was not
/// `seen` by its parent.
pub(crate) fn read(
    page: NonNull<RawReport>,
    control: Region<'_>,
    image: &Image,
    layout: &Layout,
    seen: bool,
) -> Exit {
    // SAFETY: the page is mapped, its process has ended, and every bit pattern is a valid report.
    let raw = unsafe { page.as_ptr().read_volatile() };
    let kind = raw.kind.load(Ordering::Acquire);
    match kind {
        kind::HALTED => return Exit::Halted,
        kind::NONE if control.state() == Some(State::Halted) => return Exit::Halted,
        // A process that exits by itself leaves a report.
        kind::NONE if !seen => return Exit::Killed(0),
        kind::SIGNAL if raw.detail & SENT != 0 => {
            return Exit::Killed((raw.detail & !SENT) as i32);
        }
        kind::SETUP => {
            let length = (raw.text_length as usize).min(TEXT_MAX);
            // Behind the process wall, the guest can write the whole report.
            let text = String::from_utf8_lossy(&raw.text[..length]);
            return Exit::NotStarted(printable(&text));
        }
        _ => {}
    }
    let registers = Registers(raw.registers);
    let (fault, reason, address) = match kind {
        kind::EXCEPTION => diagnosis::exception(&raw, image, layout),
        kind::SYSTEM_CALL => diagnosis::system_call(),
        kind::SIGNAL => diagnosis::signal(&raw, layout),
        kind::DOORBELL => diagnosis::wild_doorbell(raw.address, layout),
        kind::WATCHDOG => {
            let reason = "it used its CPU for almost half a second, or ten seconds in a start or a request, \
                 without a round of its main loop";
            (Fault::Other, reason.to_owned(), None)
        }
        kind::UNEXPECTED => (Fault::Other, diagnosis::unexpected_exit(raw.detail), None),
        _ => (
            Fault::Other,
            "its process ended without a report".to_owned(),
            None,
        ),
    };
    let cpu = raw.cpu.min(layout.cpus as u32 - 1);
    let said = match control.state() {
        Some(state @ (State::Failed | State::Refused)) if fault == Fault::Instruction => {
            own_reason(control).map(|said| (state, said))
        }
        _ => None,
    };
    let own = match said {
        Some((State::Refused, reason)) => return Exit::Refused(reason),
        said => said.map(|(_, reason)| reason),
    };
    let crash = Box::new(Crash {
        fault: if own.is_some() { Fault::Failed } else { fault },
        reason: own.unwrap_or(reason),
        symbol: image.symbol(registers.rip()),
        registers,
        address,
        cpu: (layout.cpus > 1).then_some(cpu),
        element: control.place(cpu as usize),
    });
    if kind == kind::WATCHDOG {
        Exit::Stopped(crash)
    } else {
        Exit::Crashed(crash)
    }
}

/// The message that the guest left, made printable.
fn own_reason(control: Region<'_>) -> Option<String> {
    let mut bytes = [0; MESSAGE_MAX];
    let text = String::from_utf8_lossy(control.message(&mut bytes)).into_owned();
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    (!text.is_empty()).then_some(text)
}
