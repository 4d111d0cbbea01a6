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

unsafe extern "Rust" {
    /// Defined by [`crate::entry!`].
    fn weir_main(platform: &'static Platform) -> !;
}

/// Where the wall starts each of the guest's CPUs: the boot area's address in RDI, the CPU's number in RSI, its
/// stack's end in RSP.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text._start")]
unsafe extern "C" fn _start() -> ! {
    // A call from an aligned stack is what the ABI promises to a function; a frame pointer of 0 ends the chain.
    naked_asm!("xor ebp, ebp", "and rsp, -16", "call {}", "ud2", sym begin)
}

extern "C" fn begin(boot: *const u8, cpu: usize) -> ! {
    if cpu > 0 {
        loop {
            // The first CPU needs a moment to set up what all share.
            match PLATFORM.get() {
                Some(platform) => platform.cpu(cpu).serve(),
                None => spin_loop(),
            }
        }
    }
    // SAFETY: the wall hands over its boot area, once to the first CPU.
    let Ok(platform) = (unsafe { Platform::new(boot) }) else {
        crash();
    };
    // SAFETY: called once; the other CPUs wait for it.
    let platform = unsafe { PLATFORM.set(platform) };
    let heap = platform.boot().heap;
    // SAFETY: the heap is the allocator's alone.
    if !unsafe { HEAP.claim(heap) } {
        platform.fail(format_args!(
            "the guest's memory is too small: {} bytes are left for its heap",
            heap.length
        ));
    }
    // The others have nothing to do yet that would take memory.
    HEAP.shared.store(platform.cpus() > 1, Ordering::Relaxed);
    // SAFETY: the binary defines it with `entry!`, which checks its type.
    unsafe { weir_main(platform) }
}

/// The platform, once it is there.
struct Slot {
    platform: UnsafeCell<MaybeUninit<Platform>>,
    set: AtomicBool,
}

// SAFETY: nobody reads before the first CPU has written.
unsafe impl Sync for Slot {}

static PLATFORM: Slot = Slot {
    platform: UnsafeCell::new(MaybeUninit::uninit()),
    set: AtomicBool::new(false),
};

impl Slot {
    /// # Safety
    /// Call once.
    unsafe fn set(&'static self, platform: Platform) -> &'static Platform {
        // SAFETY: nobody has a reference before `set` is true.
        let place = unsafe { &mut *self.platform.get() };
        let platform = place.write(platform);
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

/// The heap that the boot page names. Packets come from pools; what uses the heap is control, so that one lock
/// for all CPUs does.
struct Heap {
    talc: TalcCell<Front>,
    lock: Mutex<()>,
    /// The guest has several CPUs, and those beside the first may use the heap.
    shared: AtomicBool,
}

// SAFETY: whoever uses the allocator holds the lock, or is the only CPU.
unsafe impl Sync for Heap {}

/// Bytes of the heap that the allocator has at first: those that the wall provides ahead.
const FRONT: usize = 32 << 10;

/// How much of the heap the allocator has: the front, and more as it needs it. It keeps notes at the end of
/// what it has, and pages that nobody touches take neither time nor memory.
#[derive(Debug)]
struct Front {
    start: usize,
    /// Where what the allocator has ends; `None` before it has any.
    end: Option<NonNull<u8>>,
    /// Where the heap ends.
    limit: *mut u8,
}

// SAFETY: reaches no allocator but the one it is called by.
unsafe impl Source for Front {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        let Front { start, end, limit } = talc.source;
        let end = end.ok_or(())?;
        let had = end.addr().get() - start;
        // Room for what is wanted at any alignment, and for the allocator's notes; at least twice as much.
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
    /// Takes the heap over; `false` if it is too small.
    ///
    /// # Safety
    /// Call once, before anything is allocated. The heap is nobody else's.
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

    /// Keeps other CPUs away, if there are any.
    #[inline]
    fn alone(&self) -> Option<MutexGuard<'_, ()>> {
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

// SAFETY: hands every call on to an allocator that keeps the contract.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _alone = self.alone();
        // SAFETY: the caller's promise is the same.
        unsafe { self.talc.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        let _alone = self.alone();
        // SAFETY: the caller's promise is the same.
        unsafe { self.talc.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _alone = self.alone();
        // SAFETY: the caller's promise is the same.
        unsafe { self.talc.realloc(address, layout, size) }
    }
}

/// What `alloc` panics with when memory is out starts so.
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
        // A panic while one is being reported leaves it at that.
        Err(before) if before == cpu => crash(),
        // Another CPU's panic came first, and ends the guest in a moment.
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
    platform.fail_with(sentence.as_str())
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
