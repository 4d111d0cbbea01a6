//! An image that misbehaves on command, for the wall's tests. Its configuration is the name of a misdeed, and sometimes
//! a number. With a CPU's number and a slash in front, that CPU does it, while the first CPU answers requests; with
//! `all/` in front, all CPUs do it. Each misdeed must harm the guest alone.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use core::arch::asm;
use core::fmt::Write;
use core::sync::atomic::Ordering;

use abi::boot::BootPage;
use abi::message::kind;
use guest::{Answer, Application, Cpu, Platform, Request, Round, run};

guest::entry!(main);

/// A constant in read-only memory, for writing to.
static CONSTANT: [u64; 4] = [1, 2, 3, 4];

fn main(platform: &'static Platform) -> ! {
    let text = core::str::from_utf8(platform.config()).unwrap_or("");
    let (which, text) = text.split_once('/').unwrap_or(("0", text));
    let (deed, number) = text.split_once(' ').unwrap_or((text, "0"));
    let number = number.trim().parse::<u64>().unwrap_or(0);
    let _ = writeln!(platform.console(), "{}: {deed}", platform.name());
    let chosen = |cpu: usize| which == "all" || which.parse() == Ok(cpu);
    for cpu in (1..platform.cpus()).filter(|cpu| chosen(*cpu)) {
        platform
            .cpu(cpu)
            .give(move |cpu| attempt(cpu, deed, number));
    }
    if chosen(0) {
        attempt(platform.cpu(0), deed, number);
    }
    run(platform, &mut Echo)
}

fn attempt(cpu: Cpu, deed: &str, number: u64) {
    cpu.element_word()
        .store(7 + cpu.number() as u32, Ordering::Relaxed);
    // SAFETY: none is needed: the wall is to stop what this does.
    unsafe { misbehave(cpu, deed, number) };
    cpu.element_word().store(0, Ordering::Relaxed);
}

/// Answers any request with its own contents.
struct Echo;

impl Application for Echo {
    fn round(&mut self) -> Round {
        Round::Idle(None)
    }

    fn ask_for_wake(&mut self, _wake: bool) -> bool {
        false
    }

    fn request(&mut self, request: Request) -> Answer {
        if request.kind == kind::LIST {
            return Answer::ok(alloc::vec![b'x'; 100_000]);
        }
        Answer::ok(request.contents)
    }
}

unsafe fn misbehave(cpu: Cpu, deed: &str, number: u64) {
    let platform = cpu.platform();
    let boot = platform.boot();
    let here = misbehave as *const () as u64;
    // SAFETY: as in `main`.
    unsafe {
        match deed {
            "nothing" => {}
            "panic" => panic!("on purpose, number {number}"),
            "memory" => {
                let mut hoard: Vec<Vec<u8>> = Vec::new();
                loop {
                    hoard.push(alloc::vec![1; 64 << 10]);
                    cpu.beat();
                }
            }
            "halt" => platform.halt(),
            "null" => store(8, 1),
            "write-text" => store(here & !7, 1),
            "write-constant" => store(CONSTANT.as_ptr() as u64, 1),
            "write-boot" => store(core::ptr::from_ref(boot) as u64, 1),
            "jump-data" => jump(boot.heap.address + 4096),
            "jump-stack" => jump(boot.stack.end() - 64),
            "jump-away" => jump(0x7000_0000_0000),
            "overflow" => {
                overflow(1);
            }
            "loop" => asm!("2:", "jmp 2b"),
            "divide" => {
                asm!("xor edx, edx", "xor ecx, ecx", "mov eax, 1", "div ecx", out("eax") _, out("ecx") _, out("edx") _)
            }
            "hlt" => asm!("hlt"),
            "out" => asm!("mov dx, 0x3f8", "mov al, 65", "out dx, al", out("dx") _, out("al") _),
            "cli" => asm!("cli"),
            "cr3" => asm!("mov cr3, {}", in(reg) 0u64),
            "lgdt" => asm!("lgdt [{}]", in(reg) boot.heap.address),
            "wrmsr" => asm!("wrmsr", in("ecx") 0xc000_0082u32, in("eax") 0, in("edx") 0),
            "int3" => asm!("int3"),
            "int80" => asm!("int 0x80", inlateout("eax") 20 => _),
            "syscall" => call(39),
            "socket" => call(41),
            "sysenter" => asm!("sysenter"),
            "port" => doorbell(boot, number),
            "wide" => asm!("movups [{}], xmm0", in(reg) boot.doorbells.halt + 24),
            "byte" => asm!("mov byte ptr [{}], 1", in(reg) boot.doorbells.wait),
            "read" => asm!("mov {0}, [{0}]", inout(reg) boot.doorbells.wait => _),
            "probe" => probe(platform, number),
            "scribble" => scribble(boot, number),
            "storm" => storm(cpu, number),
            "wakes" => wakes(cpu, number),
            "jump-stack-above" => jump(boot.stack.address + boot.stack_stride + 64),
            "float" => floats(platform),
            _ => platform.refuse(format_args!("no such misdeed: {deed}")),
        }
    }
}

unsafe fn store(address: u64, value: u64) {
    // SAFETY: none; see `main`.
    unsafe { asm!("mov [{}], {}", in(reg) address, in(reg) value) };
}

unsafe fn jump(address: u64) {
    // SAFETY: none; see `main`.
    unsafe { asm!("jmp {}", in(reg) address) };
}

unsafe fn call(number: u64) {
    // SAFETY: none; see `main`.
    unsafe { asm!("syscall", inlateout("rax") number => _, lateout("rcx") _, lateout("r11") _) };
}

#[inline(never)]
fn overflow(n: u64) -> u64 {
    if n == u64::MAX {
        return 0;
    }
    let frame = core::hint::black_box([n; 32]);
    overflow(n + frame[7]) + core::hint::black_box(frame)[3]
}

/// A store somewhere in the doorbell page.
unsafe fn doorbell(boot: &BootPage, offset: u64) {
    // SAFETY: none; see `main`.
    unsafe { store((boot.doorbells.wait & !0xfff) + offset, u64::MAX) };
}

/// Writes to a page behind the doorbells, where page tables or the process wall's own memory may be.
unsafe fn probe(platform: &Platform, number: u64) {
    let boot = platform.boot();
    let after = (boot.heap.end().max(boot.data.end()) | 0xfff) + 1;
    // SAFETY: none; see `main`.
    unsafe { store(after + 4096 * number, 0xffff_ffff_ffff_ffff) };
}

/// Fills all memory that is shared with the host with one byte or with noise, then loops.
unsafe fn scribble(boot: &BootPage, seed: u64) {
    let mut noise = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for span in [boot.control, boot.data] {
        for address in (span.address..span.end()).step_by(8) {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            let value = match seed {
                0 => 0,
                1 => u64::MAX,
                _ => noise,
            };
            // SAFETY: none; see `main`.
            unsafe { store(address, value) };
        }
    }
    // SAFETY: none; see `main`.
    unsafe { asm!("2:", "jmp 2b") };
}

/// Rings and sleeps for no time, over and over, then goes on.
unsafe fn storm(cpu: Cpu, number: u64) {
    let platform = cpu.platform();
    for _ in 0..number {
        platform.ring_switch();
        let seen = cpu.wakes();
        cpu.sleep(seen, Some(platform.clock().now() + 1000));
    }
}

/// Wakes all CPUs, which may do the same, and sleeps until one of them wakes this one, over and over.
fn wakes(cpu: Cpu, number: u64) {
    let platform = cpu.platform();
    for _ in 0..number {
        let seen = cpu.wakes();
        for other in (0..platform.cpus()).filter(|other| *other != cpu.number()) {
            platform.cpu(other).wake();
        }
        cpu.sleep(seen, Some(platform.clock().now() + 1_000_000));
        cpu.beat();
    }
}

/// Uses the vector registers that the processor says it has.
fn floats(platform: &Platform) {
    let mut names = Vec::new();
    // SAFETY: each is used only after CPUID and XCR0 said so.
    unsafe {
        let extended = core::arch::x86_64::__cpuid(1).ecx;
        if extended & 1 << 27 == 0 {
            platform.refuse(format_args!("no XSAVE"));
        }
        let state: u32;
        asm!("xgetbv", in("ecx") 0, out("eax") state, out("edx") _);
        let leaf = core::arch::x86_64::__cpuid_count(7, 0);
        asm!("addps xmm1, xmm1", out("xmm1") _);
        names.push("sse");
        if state & 6 == 6 && leaf.ebx & 1 << 5 != 0 {
            asm!("vpaddd ymm1, ymm1, ymm1", out("ymm1") _);
            names.push("avx2");
        }
        if state & 0xe6 == 0xe6 && leaf.ebx & 1 << 16 != 0 {
            asm!("vpaddd zmm1, zmm1, zmm1", out("xmm1") _);
            names.push("avx512");
        }
    }
    let _ = writeln!(platform.console(), "{}", names.join(" "));
}
