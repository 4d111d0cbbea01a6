//! A virtual processor's thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use abi::boot::Span;
use abi::control::{LONG_WORK, LONG_WORK_SHIFT, Region, Sleep};
use kvm_ioctls::{VcpuExit, VcpuFd};
use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, sigaction};
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::error::{Context, Result};
use crate::layout::{Layout, doorbell};
use crate::report::{NO_FAULT, REFUSED, Reporter, kind, register};
use crate::watchdog;

/// The opcode of SYSCALL.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

thread_local! {
    /// Ticks of the watchdog that the handler has seen in this thread.
    static ALARMS: Cell<u32> = const { Cell::new(0) };
}

extern "C" fn on_alarm(_signal: i32) {
    ALARMS.set(ALARMS.get().wrapping_add(1));
}

/// Handles the watchdog's signal, so that it makes KVM_RUN return.
pub(super) fn handle_alarm() -> Result<()> {
    let handler = SigHandler::Handler(on_alarm);
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler touches a thread-local word that needs neither initialization nor a destructor.
    unsafe { sigaction(watchdog::SIGNAL, &action) }.context("handling the watchdog's signal")?;
    Ok(())
}

/// One of a guest's processors.
pub(crate) struct Processor {
    pub(super) number: usize,
    pub(super) processor: VcpuFd,
    pub(super) layout: Layout,
    pub(super) text: Span,
    pub(super) monitor: HeartbeatMonitor,
}

/// The consequence of an exit.
enum Next {
    Continue,
    Sleep,
    Wake(usize),
    End {
        kind: u32,
        detail: u32,
        address: u64,
    },
}

impl Processor {
    /// Runs the guest in this thread to its end, and writes the report. The guest's other processors end with
    /// the process.
    pub(crate) fn run(&mut self, control: Region<'static>, reporter: Reporter) {
        loop {
            match self.step() {
                Next::Continue => {}
                Next::Sleep => {
                    self.sleep(control);
                    self.monitor.reset();
                }
                Next::Wake(number) => {
                    // Not private: other processes wake the same words.
                    let _ = futex::wake(control.wake_word(number), futex::Flags::empty(), 1);
                }
                Next::End {
                    kind,
                    detail,
                    address,
                } => {
                    return self.report(reporter, kind, detail, address);
                }
            }
            if self.monitor.stopped(control.heartbeat(self.number)) {
                return self.report(reporter, kind::WATCHDOG, 0, 0);
            }
        }
    }

    fn step(&mut self) -> Next {
        let Span {
            address: page,
            length,
        } = self.layout.doorbells;
        let doorbells = Span {
            address: self.layout.doorbells_physical(),
            length,
        };
        let wild = |physical: u64| {
            let address = physical.wrapping_sub(doorbells.address).wrapping_add(page);
            Next::End {
                kind: kind::DOORBELL,
                detail: 0,
                address,
            }
        };
        match self.processor.run() {
            Ok(VcpuExit::MmioWrite(address, data)) if doorbells.contains(address) => {
                match (address - doorbells.address, data.len()) {
                    (doorbell::WAIT, 8) => Next::Sleep,
                    (doorbell::HALT, 8) => Next::End {
                        kind: kind::HALTED,
                        detail: 0,
                        address: 0,
                    },
                    // A doorbell without an eventfd.
                    (doorbell::SWITCH | doorbell::CONTROL | doorbell::SOCKETS, 8) => Next::Continue,
                    (offset, 8) => match self.layout.woken(offset) {
                        Some(number) => Next::Wake(number),
                        None => wild(address),
                    },
                    _ => wild(address),
                }
            }
            Ok(VcpuExit::MmioRead(address, _) | VcpuExit::MmioWrite(address, _)) => wild(address),
            Ok(VcpuExit::Shutdown) => Next::End {
                kind: kind::EXCEPTION,
                detail: 0,
                address: 0,
            },
            Ok(_) => {
                let detail = self.processor.get_kvm_run().exit_reason;
                Next::End {
                    kind: kind::UNEXPECTED,
                    detail,
                    address: 0,
                }
            }
            Err(error) => match Errno::from_raw(error.errno()) {
                Errno::EINTR => Next::Continue,
                errno => Next::End {
                    kind: kind::UNEXPECTED,
                    detail: errno as u32 | REFUSED,
                    address: 0,
                },
            },
        }
    }

    /// Sleeps as the guest requested.
    fn sleep(&self, control: Region<'static>) {
        let Sleep {
            control: seen,
            data,
            sockets,
            nanoseconds,
        } = control.sleep(self.number);
        let word = control.wake_word(self.number);
        let mut words = [waiter(word.as_ptr() as u64, seen); 3];
        let mut count = 1;
        let data_wake = match self.layout.data_wake {
            0 => 0,
            first => first + 4 * self.number as u64,
        };
        for (word, value) in [(data_wake, data), (self.layout.sockets_wake(), sockets)] {
            if word != 0 {
                words[count] = waiter(word, value);
                count += 1;
            }
        }
        let until = (nanoseconds != u64::MAX).then(|| after(nanoseconds));
        // Woken, changed already, timed out, interrupted: in every case the guest checks its rings.
        let _ = futex::waitv(
            &words[..count],
            futex::WaitvFlags::empty(),
            until.as_ref(),
            ClockId::Monotonic,
        );
    }

    fn report(&self, reporter: Reporter, kind: u32, detail: u32, address: u64) {
        static ENDED: AtomicBool = AtomicBool::new(false);
        while ENDED.swap(true, Ordering::Relaxed) {
            // Another processor ended first, and is about to end the process.
            std::hint::spin_loop();
        }
        let mut registers = [0; 23];
        if let Ok(r) = self.processor.get_regs() {
            registers[..18].copy_from_slice(&[
                r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx,
                r.rdx, r.rax, r.rcx, r.rsp, r.rip, r.rflags,
            ]);
        }
        registers[register::CR2] = self.processor.get_sregs().map_or(NO_FAULT, |s| s.cr2);
        let mut kind = kind;
        let caller = registers[register::RCX].wrapping_sub(2);
        if kind == kind::EXCEPTION
            && registers[register::RIP] == 0
            && self.code(caller).starts_with(&SYSCALL)
        {
            // Some versions of KVM execute SYSCALL even where it is disabled. It jumps to address 0, which is
            // unmapped; RCX holds the address behind the instruction.
            kind = kind::SYSTEM_CALL;
            registers[register::RIP] = caller;
        }
        reporter.write_code(self.code(registers[register::RIP]));
        reporter.write(self.number, kind, detail, address, &registers);
    }

    /// The bytes at an address in the image's code; zero elsewhere.
    fn code(&self, address: u64) -> [u8; 16] {
        let mut code = [0; 16];
        if self.text.contains(address) {
            let length = (self.text.end() - address).min(16) as usize;
            // SAFETY: mapped readable at its own address, and never written to.
            unsafe {
                std::ptr::copy_nonoverlapping(address as *const u8, code.as_mut_ptr(), length);
            }
        }
        code
    }
}

fn waiter(address: u64, value: u32) -> futex::Wait {
    let mut waiter = futex::Wait::new();
    waiter.val = value.into();
    waiter.uaddr = futex::WaitPtr::new(address as *mut core::ffi::c_void);
    waiter.flags = futex::WaitFlags::SIZE_U32;
    waiter
}

/// The moment some nanoseconds from now.
fn after(nanoseconds: u64) -> Timespec {
    const SECOND: u64 = 1_000_000_000;
    let now = clock_gettime(ClockId::Monotonic);
    let fraction = now.tv_nsec as u64 + nanoseconds % SECOND;
    Timespec {
        tv_sec: now.tv_sec + (nanoseconds / SECOND + fraction / SECOND) as i64,
        tv_nsec: (fraction % SECOND) as i64,
    }
}

/// The watchdog's state.
#[derive(Default)]
pub(super) struct HeartbeatMonitor {
    alarms: u32,
    beat: u64,
    missed: u64,
}

impl HeartbeatMonitor {
    /// Notes that the guest has slept.
    fn reset(&mut self) {
        self.missed = 0;
    }

    /// Whether the heartbeat, now at `beat`, has not changed for too long.
    fn stopped(&mut self, beat: u64) -> bool {
        let alarms = ALARMS.get();
        if alarms == self.alarms {
            return false;
        }
        self.alarms = alarms;
        self.missed = if beat == self.beat {
            self.missed + 1
        } else {
            0
        };
        self.beat = beat;
        let most = match beat >> LONG_WORK_SHIFT {
            LONG_WORK => watchdog::LONG_WORK_TICKS,
            _ => watchdog::TICKS,
        };
        self.missed >= most
    }
}
