//! The fault behind a report: what the guest did.

use nix::errno::Errno;

use super::{Fault, NO_FAULT, REFUSED, RawReport, Registers, register, signal_name};
use crate::image::{Access, Image};
use crate::layout::{Layout, doorbell};

pub(super) type Finding = (Fault, String, Option<u64>);

/// KVM reports only that an exception happened. Only page faults change CR2; other exceptions follow from the
/// instruction.
pub(super) fn exception(raw: &RawReport, image: &Image, layout: &Layout) -> Finding {
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
    let memory = layout.describe(address);
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
        let reason = format!("it wrote to {memory} at {address:#x}, which it may only read");
        (Fault::Protected, reason, Some(address))
    } else {
        (
            Fault::Unmapped,
            format!("it accessed {memory} at {address:#x}"),
            Some(address),
        )
    }
}

fn not_executable(address: u64, layout: &Layout) -> Finding {
    let memory = layout.describe(address);
    (
        Fault::NotExecutable,
        format!("it jumped to {memory} at {address:#x}"),
        Some(address),
    )
}

fn instruction() -> Finding {
    let reason = "it executed an invalid or privileged instruction";
    (Fault::Instruction, reason.to_owned(), None)
}

pub(super) fn system_call() -> Finding {
    (
        Fault::SystemCall,
        "it made a system call, which the wall forbids".to_owned(),
        None,
    )
}

/// Why KVM gave up running the guest.
pub(super) fn unexpected_exit(detail: u32) -> String {
    if detail & REFUSED == 0 {
        return format!("the wall does not support what it did (KVM exit {detail})");
    }
    match Errno::from_raw((detail & !REFUSED) as i32) {
        // KVM has a kernel thread for each virtual machine, which it starts when that runs first.
        Errno::EAGAIN => "KVM found no number for its kernel thread: raise kernel.pid_max or kernel.threads-max, or the limit of processes of the cgroup".into(),
        error => format!("KVM refused to run it ({})", error.desc()),
    }
}

pub(super) fn wild_doorbell(address: u64, layout: &Layout) -> Finding {
    let offset = address.wrapping_sub(layout.doorbells.address);
    let reason = match offset {
        doorbell::SWITCH | doorbell::CONTROL | doorbell::WAIT | doorbell::HALT => {
            format!("it used doorbell {offset:#x} in an invalid way")
        }
        offset if layout.woken(offset).is_some() => {
            format!("it used doorbell {offset:#x} in an invalid way")
        }
        _ => format!("it accessed its doorbell page at {offset:#x}, where there is no doorbell"),
    };
    (Fault::Doorbell, reason, Some(address))
}

pub(super) fn signal(raw: &RawReport, layout: &Layout) -> Finding {
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
            let memory = layout.describe(address);
            if layout.is_guard(address) {
                (
                    Fault::StackOverflow,
                    "it ran out of stack".to_owned(),
                    Some(address),
                )
            } else if fetch || registers.rip() == address {
                not_executable(address, layout)
            } else if present && write {
                let reason =
                    format!("it wrote to {memory} at {address:#x}, which it may only read");
                (Fault::Protected, reason, Some(address))
            } else {
                (
                    Fault::Unmapped,
                    format!("it accessed {memory} at {address:#x}"),
                    Some(address),
                )
            }
        }
        other => (
            Fault::Other,
            format!("its process got {}", signal_name(other)),
            None,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_machine_that_cannot_run_says_what_to_raise() {
        assert!(unexpected_exit(REFUSED | 11).contains("kernel.pid_max"));
        assert!(unexpected_exit(REFUSED | 14).contains("Bad address"));
        assert!(unexpected_exit(17).contains("KVM exit 17"));
    }
}
