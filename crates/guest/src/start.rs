//! From the first instruction to `main`: entry point, allocator, panic handler.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::fmt::Write;
use core::hint::spin_loop;
use core::mem::MaybeUninit;
use core::panic::PanicInfo;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use abi::boot::Span;
use spin::{Mutex, MutexGuard};
use talc::base::{Talc, binning::Binning};
use talc::{TalcCell, source::Source};

use crate::Platform;
use crate::platform::{Text, crash};
use crate::suspension;

unsafe extern "Rust" {
    /// Defined by [`crate::entry!`].
    fn weir_main(platform: &'static Platform) -> !;
}

/// Entry point of each of the guest's CPUs: the boot area's address in RDI, the CPU's number in RSI, its
/// stack's end in RSP. In a copy of a suspended guest, the CPU goes on where it stood.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text._start")]
unsafe extern "C" fn _start() -> ! {
    // The ABI requires a call from an aligned stack; a frame pointer of 0 ends the chain.
    naked_asm!(
        "lea rdx, [rip + {slots}]",
        "mov rdx, [rdx + rsi * 8]",
        "test rdx, rdx",
        "jnz 2f",
        "xor ebp, ebp",
        "and rsp, -16",
        "call {begin}",
        "ud2",
        "2:",
        "mov rsp, rdx",
        "mov eax, 1",
        "jmp {go_on}",
        slots = sym suspension::SLOTS,
        begin = sym begin,
        go_on = sym suspension::go_on,
    )
}

extern "C" fn begin(boot: *const u8, cpu: usize) -> ! {
    if cpu > 0 {
        loop {
            // Until the first CPU has set up the platform.
            match PLATFORM.get() {
                Some(platform) => platform.cpu(cpu).serve(),
                None => spin_loop(),
            }
        }
    }
    // SAFETY: the wall passes its boot area; only the first CPU gets here.
    let Ok(platform) = (unsafe { Platform::new(boot) }) else {
        crash();
    };
    // SAFETY: called once; the other CPUs wait for it.
    let platform = unsafe { PLATFORM.set(platform) };
    let heap = platform.boot().heap;
    // SAFETY: the heap is the allocator's alone.
    if !unsafe { HEAP.claim(heap) } {
        platform.refuse(format_args!(
            "the guest's memory is too small: {} bytes are left for its heap",
            heap.length
        ));
    }
    // The other CPUs have no jobs yet, and so allocate nothing.
    HEAP.shared.store(platform.cpus() > 1, Ordering::Relaxed);
    // SAFETY: the binary defines it with `entry!`, which checks its type.
    unsafe { weir_main(platform) }
}

/// The platform, once it is set.
struct Slot {
    platform: UnsafeCell<MaybeUninit<Platform>>,
    set: AtomicBool,
}

// SAFETY: no CPU reads before the first one has written.
unsafe impl Sync for Slot {}

static PLATFORM: Slot = Slot {
    platform: UnsafeCell::new(MaybeUninit::uninit()),
    set: AtomicBool::new(false),
};

impl Slot {
    /// # Safety
    /// Call once.
    unsafe fn set(&'static self, platform: Platform) -> &'static Platform {
        // SAFETY: there is no reference before `set` is true.
        let slot = unsafe { &mut *self.platform.get() };
        let platform = slot.write(platform);
        self.set.store(true, Ordering::Release);
        platform
    }

    fn get(&'static self) -> Option<&'static Platform> {
        // SAFETY: written once, before `set` became true, and never again.
        self.set
            .load(Ordering::Acquire)
            .then(|| unsafe { (*self.platform.get()).assume_init_ref() })
    }
}

/// The heap of the boot page. Packets come from pools; only control code uses the heap, so one lock for all
/// CPUs suffices.
struct Heap {
    talc: TalcCell<Front>,
    lock: Mutex<()>,
    /// The guest has several CPUs that may use the heap.
    shared: AtomicBool,
}

// SAFETY: a CPU that uses the allocator holds the lock, or is the only one.
unsafe impl Sync for Heap {}

/// Bytes of the heap that the allocator has at first. The wall provides them in advance.
const FRONT: usize = 32 << 10;

/// The part of the heap that the allocator has: the front, extended on demand. The allocator keeps metadata at
/// the end of its part; untouched pages take neither time nor memory.
#[derive(Debug)]
struct Front {
    start: usize,
    /// End of the allocator's part; `None` before it has one.
    end: Option<NonNull<u8>>,
    /// End of the heap.
    limit: *mut u8,
}

// SAFETY: uses no allocator but the calling one.
unsafe impl Source for Front {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        let Front { start, end, limit } = talc.source;
        let end = end.ok_or(())?;
        let had = end.addr().get() - start;
        // Enough for the layout at any alignment and the allocator's metadata; at least twice the present part.
        let more = had.max(
            layout
                .size()
                .saturating_add(layout.align())
                .saturating_add(1024),
        );
        let more = more.min(limit.addr() - end.addr().get());
        // SAFETY: up to the limit the heap is the allocator's alone.
        let extended = unsafe { talc.extend(end, end.as_ptr().add(more)) };
        talc.source.end = Some(extended);
        if extended == end { Err(()) } else { Ok(()) }
    }
}

impl Heap {
    /// Initializes the allocator; `false` if the heap is too small.
    ///
    /// # Safety
    /// Call once, before any allocation. The heap has no other user.
    unsafe fn claim(&self, heap: Span) -> bool {
        let (start, length) = (heap.address as *mut u8, heap.length as usize);
        // SAFETY: promised by the caller.
        let end = unsafe { self.talc.claim(start, length.min(FRONT)) };
        self.talc.replace_source(Front {
            start: start.addr(),
            end,
            // SAFETY: the end of the heap.
            limit: unsafe { start.add(length) },
        });
        end.is_some()
    }

    /// Locks the heap, if there are other CPUs.
    #[inline]
    fn lock(&self) -> Option<MutexGuard<'_, ()>> {
        self.shared
            .load(Ordering::Relaxed)
            .then(|| self.lock.lock())
    }
}

#[global_allocator]
static HEAP: Heap = Heap {
    talc: TalcCell::new(Front {
        start: 0,
        end: None,
        limit: null_mut(),
    }),
    lock: Mutex::new(()),
    shared: AtomicBool::new(false),
};

// SAFETY: passes every call to an allocator that keeps the contract.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _lock = self.lock();
        // SAFETY: the caller's promise is the same.
        unsafe { self.talc.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        let _lock = self.lock();
        // SAFETY: the caller's promise is the same.
        unsafe { self.talc.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _lock = self.lock();
        // SAFETY: the caller's promise is the same.
        unsafe { self.talc.realloc(address, layout, size) }
    }
}

/// Start of `alloc`'s panic message when memory runs out.
const ALLOCATION: &str = "memory allocation of";

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    /// The CPU that panics, plus one.
    static PANICKING: AtomicUsize = AtomicUsize::new(0);
    let Some(platform) = PLATFORM.get() else {
        crash();
    };
    let cpu = platform.here() + 1;
    match PANICKING.compare_exchange(0, cpu, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {}
        // A second panic, in the report of the first.
        Err(before) if before == cpu => crash(),
        // Another CPU's panic came first, and is about to end the guest.
        Err(_) => loop {
            spin_loop();
        },
    }
    let mut text = Text::new();
    let _ = write!(text, "{}", info.message());
    let mut sentence = Text::new();
    if text.as_str().starts_with(ALLOCATION) {
        let _ = write!(
            sentence,
            "the guest's memory is too small: {} in a heap of {} bytes",
            text.as_str(),
            platform.boot().heap.length
        );
    } else if let Some(place) = info.location() {
        let _ = write!(
            sentence,
            "panicked at {}:{}: {}",
            place.file(),
            place.line(),
            text.as_str()
        );
    } else {
        let _ = write!(sentence, "panicked: {}", text.as_str());
    }
    let _ = writeln!(platform.console(), "{}", sentence.as_str());
    platform.fail(sentence.as_str())
}

/// The precompiled core library names these two for unwinding, which never happens in the image.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {
    crash();
}

#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    crash();
}
