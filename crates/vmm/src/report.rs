//! How a guest ended: what its process leaves behind, and what its parent makes of it.
//!
//! The process writes a [`RawReport`] into a page behind the control region. Under KVM the guest has no way to
//! it. Behind the process wall it has, so a report is checked like everything else from a guest: at worst it
//! tells lies about itself.

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use abi::CPUS_MAX;
use abi::control::{MESSAGE_MAX, NO_ELEMENT, Region, State};

use crate::image::{Access, Image};
use crate::layout::{Layout, doorbell};
use crate::text::printable;

/// Names of the registers in a report, in the order of a Linux signal frame.
pub const REGISTERS: [&str; 23] = [
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax",
    "rcx", "rsp", "rip", "rflags", "segments", "error", "trap", "mask", "cr2",
];
/// Places in [`REGISTERS`].
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
    /// KVM: a store or load of the doorbell page that is no doorbell; `address` says where.
    pub(crate) const DOORBELL: u32 = 3;
    /// KVM: an instruction that KVM can't carry out, or another exit no guest has; `detail` is its number.
    pub(crate) const UNEXPECTED: u32 = 4;
    /// Process: a signal; `detail` is its number, `address` its address.
    pub(crate) const SIGNAL: u32 = 5;
    /// The watchdog found the heart not beating.
    pub(crate) const WATCHDOG: u32 = 6;
    /// The guest could not be started; the text says why.
    pub(crate) const SETUP: u32 = 7;
    /// KVM: an attempt to enter ring 0.
    pub(crate) const SYSTEM_CALL: u32 = 8;
}

/// What CR2 holds until the first page fault: no address that can be accessed.
pub(crate) const NO_FAULT: u64 = 0xdead_0000_0000_0000;
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
    /// Behind the process wall: threads that have left the memory which is to go, and whether it has gone.
    pub(crate) arrived: AtomicU32,
    pub(crate) gone: AtomicU32,
    /// The watchdog's notes behind the process wall, for each CPU: heartbeat seen last, ticks since.
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
    assert!(offset_of!(RawReport, gone) == 212);
    assert!(offset_of!(RawReport, beats) == 216);
};

/// The writing side, in the guest's process.
#[derive(Clone, Copy)]
pub(crate) struct Reporter(NonNull<RawReport>);

// SAFETY: the page is mapped for good and only ever copied to; the last to write counts.
unsafe impl Send for Reporter {}
// SAFETY: as above.
unsafe impl Sync for Reporter {}

impl Reporter {
    /// # Safety
    /// `page` is the report page, mapped writable for good.
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
        // SAFETY: mapped for good, and shared with a reader that copies it without trusting it.
        unsafe {
            (&raw mut (*page).cpu).write_volatile(cpu as u32);
            (&raw mut (*page).detail).write_volatile(detail);
            (&raw mut (*page).address).write_volatile(address);
            (&raw mut (*page).registers).write_volatile(*registers);
            (*page).kind.store(kind, Ordering::Release);
        }
    }

    /// Adds the bytes at the place of the crash.
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
        // What the guest itself can see of its state: up to the flags.
        for (i, (name, value)) in REGISTERS.iter().zip(self.0).take(18).enumerate() {
            let end = if i % 4 == 3 || i == 17 { "\n" } else { "  " };
            write!(f, "{name:>6} {value:016x}{end}")?;
        }
        Ok(())
    }
}

/// What kind of mistake ended a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It gave up by itself; the reason is its own.
    Failed,
    /// It accessed memory that is not there.
    Unmapped,
    /// It wrote to memory that it may only read or execute.
    Protected,
    /// It jumped to memory that it may not execute.
    NotExecutable,
    /// It ran out of stack.
    StackOverflow,
    /// It divided by zero.
    DivideByZero,
    /// It executed an instruction that does not exist or that it may not execute.
    Instruction,
    /// It made a system call.
    SystemCall,
    /// It accessed its doorbell page at a place where no doorbell is, or in a way that no doorbell has.
    Doorbell,
    /// Something else, for which the wall stopped it.
    Other,
}

/// A guest that ended by a mistake.
#[derive(Clone, Debug)]
pub struct Crash {
    /// What kind.
    pub fault: Fault,
    /// One sentence: the guest's own reason, or what it did.
    pub reason: String,
    /// Registers at that time.
    pub registers: Registers,
    /// Function and offset of the instruction, where the image's symbols know it.
    pub symbol: Option<String>,
    /// The address it accessed.
    pub address: Option<u64>,
    /// Index of the element it says it was running.
    pub element: Option<u32>,
    /// Which of its CPUs that was on, if it has several.
    pub cpu: Option<u32>,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at {:#x}", self.reason, self.registers.rip())?;
        if let Some(symbol) = &self.symbol {
            write!(f, ", {symbol}")?;
        }
        if let Some(element) = self.element {
            write!(f, ", in element {element}")?;
        }
        if let Some(cpu) = self.cpu {
            write!(f, ", on vCPU {cpu}")?;
        }
        f.write_str(")")
    }
}

/// What became of a guest.
#[derive(Clone, Debug)]
pub enum Exit {
    /// It ended in good order.
    Halted,
    /// It made a mistake.
    Crashed(Box<Crash>),
    /// The watchdog stopped it: it used its CPU for almost half a second without one round of its main loop.
    Stopped(Box<Crash>),
    /// Its process was killed by a signal; 0 where that cannot be known, since another process was its parent.
    Killed(i32),
    /// It could not be started: a sentence.
    NotStarted(String),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Halted => f.write_str("the guest halted"),
            Self::Crashed(crash) => write!(f, "the guest crashed: {crash}"),
            Self::Stopped(crash) => write!(f, "the guest was stopped: {crash}"),
            Self::Killed(0) => f.write_str("the guest's process was killed"),
            Self::Killed(signal) => {
                write!(f, "the guest's process was killed by {}", name(*signal))
            }
            Self::NotStarted(sentence) => write!(f, "the guest could not be started: {sentence}"),
        }
    }
}

fn name(signal: i32) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {signal}"),
    }
}

/// Makes sense of what a guest's process left behind when it ended of itself, or, if its end was not `seen` by
/// its parent, in whatever way.
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
        // A process that ends of itself says why.
        kind::NONE if !seen => return Exit::Killed(0),
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
        kind::EXCEPTION => exception(&raw, image, layout),
        kind::SYSTEM_CALL => system_call(),
        kind::SIGNAL => signal(&raw, layout),
        kind::DOORBELL => wild_doorbell(raw.address, layout),
        kind::WATCHDOG => {
            let reason =
                "it used its CPU for almost half a second without one round of its main loop";
            (Fault::Other, reason.to_owned(), None)
        }
        kind::UNEXPECTED => {
            let reason = format!(
                "it did something that the wall does not carry out (KVM exit {})",
                raw.detail
            );
            (Fault::Other, reason, None)
        }
        _ => (
            Fault::Other,
            "its process ended without saying why".to_owned(),
            None,
        ),
    };
    let cpu = raw.cpu.min(layout.cpus as u32 - 1);
    let own = (fault == Fault::Instruction && control.state() == Some(State::Failed))
        .then(|| own_reason(control))
        .flatten();
    let crash = Box::new(Crash {
        fault: if own.is_some() { Fault::Failed } else { fault },
        reason: own.unwrap_or(reason),
        symbol: image.symbol(registers.rip()),
        registers,
        address,
        cpu: (layout.cpus > 1).then_some(cpu),
        element: match control.element(cpu as usize) {
            NO_ELEMENT => None,
            element => Some(element - 1),
        },
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

type Finding = (Fault, String, Option<u64>);

/// KVM says only that an exception happened. Whether it was a page fault shows in CR2, which only page faults
/// change; of the others, the instruction tells.
fn exception(raw: &RawReport, image: &Image, layout: &Layout) -> Finding {
    let registers = Registers(raw.registers);
    let address = raw.registers[register::CR2];
    if address != NO_FAULT {
        return page_fault(&registers, address, image, layout);
    }
    match raw.code {
        [0x0f, 0x05, ..] => system_call(),
        // DIV and IDIV, with and without a prefix.
        [0xf6 | 0xf7, modrm, ..] | [0x40..=0x4f | 0x66, 0xf6 | 0xf7, modrm, ..]
            if modrm >> 4 & 3 == 3 =>
        {
            (Fault::DivideByZero, "it divided by zero".to_owned(), None)
        }
        _ if image.access(registers.rip()) != Some(Access::Execute) => {
            not_executable(registers.rip(), layout)
        }
        _ => instruction(),
    }
}

fn page_fault(registers: &Registers, address: u64, image: &Image, layout: &Layout) -> Finding {
    let place = layout.describe(address);
    if registers.rip() == address {
        return not_executable(address, layout);
    }
    let readable = layout.boot.contains(address) || image.access(address).is_some();
    if layout.is_guard(address) {
        (
            Fault::StackOverflow,
            "it ran out of stack".to_owned(),
            Some(address),
        )
    } else if readable {
        let reason = format!("it wrote to {place} at {address:#x}, which it may only read");
        (Fault::Protected, reason, Some(address))
    } else {
        (
            Fault::Unmapped,
            format!("it accessed {place} at {address:#x}"),
            Some(address),
        )
    }
}

fn not_executable(address: u64, layout: &Layout) -> Finding {
    let place = layout.describe(address);
    (
        Fault::NotExecutable,
        format!("it jumped to {place} at {address:#x}"),
        Some(address),
    )
}

fn instruction() -> Finding {
    let reason = "it executed an instruction that does not exist or that it may not execute";
    (Fault::Instruction, reason.to_owned(), None)
}

fn system_call() -> Finding {
    (
        Fault::SystemCall,
        "it made a system call, which the wall forbids".to_owned(),
        None,
    )
}

fn wild_doorbell(address: u64, layout: &Layout) -> Finding {
    let offset = address.wrapping_sub(layout.doorbells.address);
    let reason = match offset {
        doorbell::SWITCH | doorbell::CONTROL | doorbell::WAIT | doorbell::HALT => {
            format!("it used doorbell {offset:#x} in a way that doorbells don't have")
        }
        offset if layout.woken(offset).is_some() => {
            format!("it used doorbell {offset:#x} in a way that doorbells don't have")
        }
        _ => format!("it accessed its doorbell page at {offset:#x}, where no doorbell is"),
    };
    (Fault::Doorbell, reason, Some(address))
}

fn signal(raw: &RawReport, layout: &Layout) -> Finding {
    /// Numbers of exceptions, and bits of a page fault's error code.
    const GENERAL_PROTECTION: u64 = 13;
    let registers = Registers(raw.registers);
    match raw.detail as i32 {
        libc::SIGSYS => system_call(),
        libc::SIGFPE => (Fault::DivideByZero, "it divided by zero".to_owned(), None),
        libc::SIGILL | libc::SIGTRAP => instruction(),
        libc::SIGSEGV | libc::SIGBUS if registers.0[register::TRAP] == GENERAL_PROTECTION => {
            instruction()
        }
        libc::SIGSEGV | libc::SIGBUS => {
            let address = raw.address;
            let error = registers.0[register::TRAP - 1];
            let (present, write, fetch) = (error & 1 != 0, error & 2 != 0, error & 16 != 0);
            let place = layout.describe(address);
            if layout.is_guard(address) {
                (
                    Fault::StackOverflow,
                    "it ran out of stack".to_owned(),
                    Some(address),
                )
            } else if fetch || registers.rip() == address {
                not_executable(address, layout)
            } else if present && write {
                let reason = format!("it wrote to {place} at {address:#x}, which it may only read");
                (Fault::Protected, reason, Some(address))
            } else {
                (
                    Fault::Unmapped,
                    format!("it accessed {place} at {address:#x}"),
                    Some(address),
                )
            }
        }
        other => (
            Fault::Other,
            format!("its process got {}", name(other)),
            None,
        ),
    }
}
