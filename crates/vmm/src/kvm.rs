//! The KVM wall: a virtual machine whose virtual processors only ever run at ring 3.
//!
//! A processor starts in 64-bit mode at ring 3 on page tables that the VMM wrote. The guest has no
//! descriptor tables, no interrupts and no devices: an exception finds no handler and shuts the machine down
//! with all registers intact, which is the crash report. Its doorbells to the switch, the control
//! plane and CoreEngine end in eventfds inside the kernel. The others exit to [`Processor::run`], in the processor's own thread.

mod processor;

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use abi::boot::Span;
use kvm_bindings::{
    CpuId, KVM_MAX_CPUID_ENTRIES, kvm_regs, kvm_segment, kvm_sregs, kvm_userspace_memory_region,
    kvm_xcr, kvm_xcrs,
};
use kvm_ioctls::{Cap, IoEventAddress, NoDatamatch, VcpuFd, VmFd};
pub(crate) use processor::Processor;
use processor::{HeartbeatMonitor, handle_alarm};
use rustix::fs::{Mode, OFlags, open};
use rustix::mm::{Advice, madvise};
use vmm_sys_util::eventfd::EventFd;

use crate::child::{ChildSetup, Descriptors, populate};
use crate::error::{Context, Error, Result};
use crate::image::{Access, Image};
use crate::layout::{Layout, doorbell};
use crate::paging::Tables;
use crate::report::NO_FAULT;

/// KVM requests that a running machine makes: run, and read registers when it has crashed.
pub(crate) const IOCTLS: [u32; 3] = [0xae80, 0x8090_ae81, 0x8138_ae83];

const CR0: u64 = 1 << 0 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 16 | 1 << 18 | 1 << 31;
/// PAE, FXSR and SIMD exceptions, XSAVE.
const CR4: u64 = 1 << 5 | 1 << 9 | 1 << 10 | 1 << 18;
/// LME, LMA, NXE. Not SCE: without the SYSCALL instruction, a guest has no way to ring 0.
const EFER: u64 = 1 << 8 | 1 << 10 | 1 << 11;
const RFLAGS: u64 = 1 << 1 | 1 << 9;
/// State that a guest may use: x87, SSE, AVX and the three parts of AVX-512.
const XCR0: u64 = 0xe7;

/// The parts of KVM that all guests share.
pub(crate) struct Kvm {
    device: OwnedFd,
    cpuid: CpuId,
    xcr0: u64,
    /// Ticks of the time stamp counter in a millisecond.
    pub(crate) tsc_khz: u64,
    /// The machine that KVM was tested with. As long as a machine without an in-kernel interrupt controller
    /// exists, KVM need not patch its own code when another is created or destroyed, which would take longer
    /// than all the rest (130 us here).
    _first: (VcpuFd, VmFd),
}

impl Kvm {
    /// Opens KVM and creates a machine, so that a KVM that lacks something is detected now.
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
        configure(&processor, &cpuid, xcr0)
            .and_then(|()| set_entry(&processor, Start::default()))
            .map_err(|error| Error::KvmUnusable(error.to_string()))?;
        let tsc_khz = processor.get_tsc_khz().map_err(unusable)?.into();
        // Guests' processes don't inherit it.
        let shared = std::ptr::from_mut(processor.get_kvm_run()).cast();
        let length = system.get_vcpu_mmap_size().map_err(unusable)?;
        // SAFETY: changes this mapping's inheritance only.
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

    /// Creates a machine whose memory is what is mapped in the setup's range, now or later, and whose doorbells
    /// lie behind that range.
    pub(crate) fn create(
        &self,
        setup: &ChildSetup<'_>,
        descriptors: &Descriptors,
    ) -> Result<Machine> {
        let range = setup.range;
        let machine = system(self.device())
            .create_vm()
            .context("creating a virtual machine")?;
        // One slot for all: each costs a grace period of KVM's readers. The guest's page tables don't map the
        // holes in it.
        let region = kvm_userspace_memory_region {
            slot: 0,
            flags: 0,
            guest_phys_addr: range.address,
            memory_size: range.length,
            userspace_addr: range.address,
        };
        // SAFETY: all that is mapped there is the guest's and stays mapped; other addresses fault.
        unsafe { machine.set_user_memory_region(region) }.context("giving the guest memory")?;
        for (doorbell, offset) in [
            (descriptors.switch_doorbell, doorbell::SWITCH),
            (descriptors.control_doorbell, doorbell::CONTROL),
        ] {
            if let Some(doorbell) = doorbell {
                connect(&machine, doorbell, range.end() + offset)?;
            }
        }
        let processors = (0..setup.cpus)
            .map(|number| {
                let processor = machine
                    .create_vcpu(number)
                    .context("creating a virtual processor")?;
                configure(&processor, &self.cpuid, self.xcr0)?;
                Ok(processor)
            })
            .collect::<Result<_>>()?;
        handle_alarm()?;
        Ok(Machine {
            processors,
            machine,
        })
    }
}

/// A machine without a guest.
pub(crate) struct Machine {
    processors: Vec<VcpuFd>,
    machine: VmFd,
}

impl Machine {
    /// Sets the machine's processors to the first instruction of a mapped guest.
    pub(crate) fn enter(
        self,
        image: &Image,
        layout: &Layout,
        sockets_doorbell: Option<BorrowedFd<'_>>,
    ) -> Result<Vec<Processor>> {
        write_tables(image, layout);
        if let Some(doorbell) = sockets_doorbell {
            connect(&self.machine, doorbell, layout.end() + doorbell::SOCKETS)?;
        }
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
            set_entry(&processor, start)?;
            Ok(Processor {
                number: number as usize,
                processor,
                layout: *layout,
                text: text(image),
                monitor: HeartbeatMonitor::default(),
            })
        });
        processors.collect()
    }
}

/// Has a store to an address ring a doorbell.
fn connect(machine: &VmFd, doorbell: BorrowedFd<'_>, address: u64) -> Result<()> {
    let address = IoEventAddress::Mmio(address);
    machine
        .register_ioevent(&event(doorbell), &address, NoDatamatch)
        .context("connecting a doorbell")
}

/// Sets CPUID and XCR0 of a new virtual processor.
fn configure(processor: &VcpuFd, cpuid: &CpuId, xcr0: u64) -> Result<()> {
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

/// Sets a configured virtual processor to the guest's first instruction.
fn set_entry(processor: &VcpuFd, start: Start) -> Result<()> {
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

/// A processor's initial registers.
#[derive(Clone, Copy, Default)]
struct Start {
    entry: u64,
    stack: u64,
    boot: u64,
    number: u64,
    tables: u64,
}

/// The library's view of /dev/kvm, which stays open.
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

/// Page tables that a guest of the usual size has at least. Each that is not provided in advance faults twice here:
/// when it is read, and when it is written.
const TABLES_AHEAD: u64 = 6;

fn write_tables(image: &Image, layout: &Layout) {
    populate(layout.private, 0, TABLES_AHEAD);
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
    tables.map_large(layout.sockets);
    tables.map_doorbells(layout.doorbells, layout.doorbells_physical());
}

fn text(image: &Image) -> Span {
    let text = image.segments.iter().find(|s| s.access == Access::Execute);
    text.map_or(Span::default(), |s| Span {
        address: s.address,
        length: s.length,
    })
}
