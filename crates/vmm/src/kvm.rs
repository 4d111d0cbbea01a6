//! The KVM wall: a virtual machine whose virtual processors only ever run at ring 3.
//!
//! A processor starts in 64-bit mode at ring 3 on page tables that the VMM wrote. The guest has no
//! descriptor tables, no interrupts and no devices: an exception finds no handler and shuts the machine down
//! with all registers intact, which is the crash report. Two of its doorbells end in eventfds inside the
//! kernel; the others come to [`Processor::run`], in the thread that each processor has.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use abi::boot::Span;
use abi::control::{Region, Sleep};
use kvm_bindings::{
    CpuId, KVM_MAX_CPUID_ENTRIES, kvm_regs, kvm_segment, kvm_sregs, kvm_userspace_memory_region,
    kvm_xcr, kvm_xcrs,
};
use kvm_ioctls::{Cap, IoEventAddress, NoDatamatch, VcpuExit, VcpuFd, VmFd};
use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, sigaction};
use rustix::fs::{Mode, OFlags, open};
use rustix::mm::{Advice, madvise};
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};
use vmm_sys_util::eventfd::EventFd;

use crate::child::Ground;
use crate::error::{Context, Error, Result};
use crate::image::{Access, Image};
use crate::layout::{Layout, doorbell};
use crate::paging::Tables;
use crate::report::{NO_FAULT, Reporter, kind, register};
use crate::watchdog;

/// KVM requests that a running machine makes: run, and read registers when it has crashed.
pub(crate) const IOCTLS: [u32; 3] = [0xae80, 0x8090_ae81, 0x8138_ae83];

const CR0: u64 = 1 << 0 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 16 | 1 << 18 | 1 << 31;
/// PAE, FXSR and SIMD exceptions, XSAVE.
const CR4: u64 = 1 << 5 | 1 << 9 | 1 << 10 | 1 << 18;
/// LME, LMA, NXE. Not SCE: the SYSCALL instruction does not exist for a guest, so it has no way to ring 0.
const EFER: u64 = 1 << 8 | 1 << 10 | 1 << 11;
const RFLAGS: u64 = 1 << 1 | 1 << 9;
/// The instruction of that name.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// State that a guest may use: x87, SSE, AVX and the three parts of AVX-512.
const XCR0: u64 = 0xe7;

/// KVM as all guests find it.
pub(crate) struct Kvm {
    device: OwnedFd,
    cpuid: CpuId,
    xcr0: u64,
    /// Ticks of the time stamp counter in a millisecond.
    pub(crate) tsc_khz: u64,
    /// The machine that KVM was tried with. As long as there is one whose interrupts are not KVM's affair, KVM
    /// need not patch its own code when another comes or goes, which takes longer than all the rest (130 us
    /// here).
    _first: (VcpuFd, VmFd),
}

impl Kvm {
    /// Opens KVM and tries it: a machine is made and thrown away, so that a KVM that can't do what guests
    /// need is found out now.
    pub(crate) fn open() -> Result<Self> {
        let device = open("/dev/kvm", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let device = device.map_err(|error| match error {
            rustix::io::Errno::NOENT | rustix::io::Errno::NXIO | rustix::io::Errno::NODEV => {
                Error::NoKvm
            }
            rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => Error::KvmPermission,
            other => Error::KvmUnusable(other.to_string()),
        })?;
        let system = system(device.as_fd());
        for (capability, name) in [
            (Cap::UserMemory, "user memory"),
            (Cap::Ioeventfd, "ioeventfd"),
            (Cap::Xcrs, "XCRs"),
            (Cap::ExtCpuid, "CPUID"),
        ] {
            if !system.check_extension(capability) {
                return Err(Error::KvmUnusable(format!("it has no {name}")));
            }
        }
        let unusable = |error: kvm_ioctls::Error| Error::KvmUnusable(error.to_string());
        let cpuid = system
            .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
            .map_err(unusable)?;
        let machine = system.create_vm().map_err(unusable)?;
        let mut processor = machine.create_vcpu(0).map_err(unusable)?;
        let xcr0 = xcr0(&cpuid);
        equip(&processor, &cpuid, xcr0)
            .and_then(|()| aim(&processor, Start::default()))
            .map_err(|error| Error::KvmUnusable(error.to_string()))?;
        let tsc_khz = processor.get_tsc_khz().map_err(unusable)?.into();
        // Guests' processes don't inherit it.
        let shared = std::ptr::from_mut(processor.get_kvm_run()).cast();
        let length = system.get_vcpu_mmap_size().map_err(unusable)?;
        // SAFETY: says something about this mapping only; the parent's stays as it is.
        unsafe { madvise(shared, length, Advice::LinuxDontFork) }.context("keeping a mapping")?;
        Ok(Self {
            device,
            cpuid,
            xcr0,
            tsc_khz,
            _first: (processor, machine),
        })
    }

    /// /dev/kvm.
    pub(crate) fn device(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Makes a machine whose memory is what is mapped, now or later, in `range`, and whose doorbells lie behind
    /// that.
    pub(crate) fn create(&self, ground: &Ground<'_>) -> Result<Vacant> {
        let range = ground.range;
        let machine = system(self.device())
            .create_vm()
            .context("creating a virtual machine")?;
        // One slot for all: each costs a grace period of KVM's readers. It has holes, which the guest's page
        // tables don't lead to.
        let region = kvm_userspace_memory_region {
            slot: 0,
            flags: 0,
            guest_phys_addr: range.address,
            memory_size: range.length,
            userspace_addr: range.address,
        };
        // SAFETY: what is mapped there is the guest's, mapped for good; what isn't mapped faults.
        unsafe { machine.set_user_memory_region(region) }.context("giving the guest memory")?;
        for (doorbell, offset) in [
            (ground.switch_doorbell, doorbell::SWITCH),
            (ground.control_doorbell, doorbell::CONTROL),
        ] {
            if let Some(doorbell) = doorbell {
                let place = IoEventAddress::Mmio(range.end() + offset);
                machine
                    .register_ioevent(&event(doorbell), &place, NoDatamatch)
                    .context("connecting a doorbell")?;
            }
        }
        let processors = (0..ground.cpus)
            .map(|number| {
                let processor = machine
                    .create_vcpu(number)
                    .context("creating a virtual processor")?;
                equip(&processor, &self.cpuid, self.xcr0)?;
                Ok(processor)
            })
            .collect::<Result<_>>()?;
        handle_alarm()?;
        Ok(Vacant {
            processors,
            machine,
        })
    }
}

/// A machine without a guest.
pub(crate) struct Vacant {
    processors: Vec<VcpuFd>,
    machine: VmFd,
}

impl Vacant {
    /// Brings the machine's processors to the first instruction of a guest that is mapped already.
    pub(crate) fn enter(self, image: &Image, layout: &Layout) -> Result<Vec<Processor>> {
        write_tables(image, layout);
        // Each processor keeps the machine, which ends with the process.
        std::mem::forget(self.machine);
        let processors = (0..).zip(self.processors);
        let processors = processors.map(|(number, processor)| {
            let start = Start {
                entry: image.entry,
                stack: layout.stack(number).end(),
                boot: layout.boot.address,
                number,
                tables: layout.private.address,
            };
            aim(&processor, start)?;
            Ok(Processor {
                number: number as usize,
                processor,
                layout: *layout,
                text: text(image),
                heart: Heart::default(),
            })
        });
        processors.collect()
    }
}

/// Gives a new virtual processor what every guest has.
fn equip(processor: &VcpuFd, cpuid: &CpuId, xcr0: u64) -> Result<()> {
    processor
        .set_cpuid2(cpuid)
        .context("setting the guest's CPUID")?;
    let mut extended = kvm_xcrs {
        nr_xcrs: 1,
        ..kvm_xcrs::default()
    };
    extended.xcrs[0] = kvm_xcr {
        xcr: 0,
        reserved: 0,
        value: xcr0,
    };
    processor.set_xcrs(&extended).context("setting XCR0")
}

/// Brings an equipped virtual processor to the guest's first instruction.
fn aim(processor: &VcpuFd, start: Start) -> Result<()> {
    let mut special = processor.get_sregs().context("reading registers")?;
    long_mode(&mut special, start.tables);
    processor
        .set_sregs(&special)
        .context("setting special registers")?;
    let registers = kvm_regs {
        rip: start.entry,
        rsp: start.stack,
        rdi: start.boot,
        rsi: start.number,
        rflags: RFLAGS,
        ..kvm_regs::default()
    };
    processor.set_regs(&registers).context("setting registers")
}

/// What a processor starts with.
#[derive(Clone, Copy, Default)]
struct Start {
    entry: u64,
    stack: u64,
    boot: u64,
    number: u64,
    tables: u64,
}

/// The library's own view of /dev/kvm; closing stays with the owner.
fn system(device: BorrowedFd<'_>) -> ManuallyDrop<kvm_ioctls::Kvm> {
    // SAFETY: an open /dev/kvm, not closed by the copy.
    ManuallyDrop::new(unsafe { kvm_ioctls::Kvm::from_raw_fd(device.as_raw_fd()) })
}

fn event(descriptor: BorrowedFd<'_>) -> ManuallyDrop<EventFd> {
    // SAFETY: an open descriptor, not closed by the copy. KVM refuses it if it is no eventfd.
    ManuallyDrop::new(unsafe { EventFd::from_raw_fd(descriptor.as_raw_fd()) })
}

/// State that both the processor and a guest have.
fn xcr0(cpuid: &CpuId) -> u64 {
    let leaf = cpuid
        .as_slice()
        .iter()
        .find(|leaf| leaf.function == 0xd && leaf.index == 0);
    leaf.map_or(1, |leaf| u64::from(leaf.eax) & XCR0)
}

fn long_mode(special: &mut kvm_sregs, tables: u64) {
    let code = kvm_segment {
        limit: u32::MAX,
        selector: 0x33,
        type_: 11,
        present: 1,
        dpl: 3,
        s: 1,
        l: 1,
        g: 1,
        ..kvm_segment::default()
    };
    let data = kvm_segment {
        selector: 0x2b,
        type_: 3,
        db: 1,
        l: 0,
        ..code
    };
    special.cs = code;
    special.ds = data;
    special.es = data;
    special.fs = data;
    special.gs = data;
    special.ss = data;
    special.gdt.limit = 0;
    special.idt.limit = 0;
    special.cr0 = CR0;
    special.cr2 = NO_FAULT;
    special.cr3 = tables;
    special.cr4 = CR4;
    special.efer = EFER;
}

fn write_tables(image: &Image, layout: &Layout) {
    let Span { address, length } = layout.private;
    // SAFETY: mapped, zeroed, page aligned, and nothing else refers to it.
    let memory = unsafe {
        std::slice::from_raw_parts_mut(address as *mut [u64; 512], length as usize / abi::PAGE)
    };
    let mut tables = Tables::new(memory, address);
    for segment in &image.segments {
        tables.map(
            Span {
                address: segment.address,
                length: segment.length,
            },
            segment.access,
        );
    }
    tables.map(layout.boot, Access::Read);
    for span in [layout.control, layout.heap]
        .into_iter()
        .chain(layout.stacks())
    {
        tables.map(span, Access::Write);
    }
    tables.map_large(layout.data);
    tables.map_doorbells(layout.doorbells, layout.doorbells_physical());
}

fn text(image: &Image) -> Span {
    let text = image.segments.iter().find(|s| s.access == Access::Execute);
    text.map_or(Span::default(), |s| Span {
        address: s.address,
        length: s.length,
    })
}

thread_local! {
    /// Ticks of the watchdog that the handler has seen in this thread.
    static ALARMS: Cell<u32> = const { Cell::new(0) };
}

extern "C" fn on_alarm(_signal: i32) {
    ALARMS.set(ALARMS.get().wrapping_add(1));
}

/// A handled signal makes KVM_RUN return, which is all that it is for.
fn handle_alarm() -> Result<()> {
    let handler = SigHandler::Handler(on_alarm);
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler touches a word of its thread's that needs neither making nor a destructor.
    unsafe { sigaction(watchdog::SIGNAL, &action) }.context("handling the watchdog's signal")?;
    Ok(())
}

/// One of a guest's processors.
pub(crate) struct Processor {
    number: usize,
    processor: VcpuFd,
    layout: Layout,
    text: Span,
    heart: Heart,
}

/// What follows from an exit.
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
    /// Runs the guest in this thread to its end, which goes into the report. What the guest's other
    /// processors do meanwhile ends with the process.
    pub(crate) fn run(&mut self, control: Region<'static>, reporter: Reporter) {
        loop {
            match self.step() {
                Next::Continue => {}
                Next::Sleep => {
                    self.sleep(control);
                    self.heart.rest();
                }
                Next::Wake(number) => {
                    // Not private: the host wakes the same words from elsewhere.
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
            if self.heart.stopped(control.heartbeat(self.number)) {
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
                    // Nobody listens to it; with a listener it wouldn't come here.
                    (doorbell::SWITCH | doorbell::CONTROL, 8) => Next::Continue,
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
                    detail: errno as u32 | 1 << 16,
                    address: 0,
                },
            },
        }
    }

    /// Sleeps as the guest asked for.
    fn sleep(&self, control: Region<'static>) {
        let Sleep {
            control: seen,
            data,
            nanoseconds,
        } = control.sleep(self.number);
        let word = control.wake_word(self.number);
        let mut words = [waiter(word.as_ptr() as u64, seen); 2];
        let count = if self.layout.data_wake == 0 {
            1
        } else {
            words[1] = waiter(self.layout.data_wake + 4 * self.number as u64, data);
            2
        };
        let until = (nanoseconds != u64::MAX).then(|| after(nanoseconds));
        // Woken, changed already, time up, interrupted: in every case the guest looks for itself.
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
            // Another processor's end came first, and ends this one in a moment.
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
            // Some kinds of KVM carry out SYSCALL even where it is switched off. It leads to address 0, where
            // nothing is; the place it was made from is in RCX.
            kind = kind::SYSTEM_CALL;
            registers[register::RIP] = caller;
        }
        reporter.write_code(self.code(registers[register::RIP]));
        reporter.write(self.number, kind, detail, address, &registers);
    }

    /// The bytes at an address in the image's code; zero where there are none.
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

/// The watchdog's notes.
#[derive(Default)]
struct Heart {
    alarms: u32,
    beat: u64,
    missed: u64,
}

impl Heart {
    /// The guest sleeps or slept: it is well.
    fn rest(&mut self) {
        self.missed = 0;
    }

    /// Whether the heart, which has beaten `beat` times, has not done so for too long.
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
        self.missed >= watchdog::TICKS
    }
}
