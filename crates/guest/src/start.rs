//! From the first instruction to `main`: entry point, allocator, panic handler.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use abi::control::State;
use talc::{TalcCell, source::Manual};

use crate::Platform;
use crate::platform::{Text, crash};

unsafe extern "Rust" {
    /// Defined by [`crate::entry!`].
    fn weir_main(platform: &'static Platform) -> !;
}

/// Where the wall starts the guest: the boot area's address in RDI, the stack's end in RSP.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text._start")]
unsafe extern "C" fn _start() -> ! {
    // A call from an aligned stack is what the ABI promises to a function; a frame pointer of 0 ends the chain.
    naked_asm!("xor ebp, ebp", "and rsp, -16", "call {}", "ud2", sym begin)
}

extern "C" fn begin(boot: *const u8) -> ! {
    // SAFETY: the wall hands over its boot area, once.
    let Ok(platform) = (unsafe { Platform::new(boot) }) else {
        crash();
    };
    // SAFETY: nothing else runs yet.
    let platform = unsafe { PLATFORM.set(platform) };
    let heap = platform.boot().heap;
    // SAFETY: the heap is the allocator's alone.
    let claimed = unsafe { HEAP.0.claim(heap.address as *mut u8, heap.length as usize) };
    if claimed.is_none() {
        platform.fail(format_args!(
            "the guest's memory is too small: {} bytes are left for its heap",
            heap.length
        ));
    }
    // SAFETY: the binary defines it with `entry!`, which checks its type.
    unsafe { weir_main(platform) }
}

/// The platform, once it is there.
struct Slot {
    platform: UnsafeCell<MaybeUninit<Platform>>,
    set: AtomicBool,
}

// SAFETY: a guest has one thread.
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
        self.set.store(true, Ordering::Relaxed);
        platform
    }

    fn get(&'static self) -> Option<&'static Platform> {
        // SAFETY: written once, before `set` became true, and never again.
        self.set
            .load(Ordering::Relaxed)
            .then(|| unsafe { (*self.platform.get()).assume_init_ref() })
    }
}

/// The heap that the boot page names.
struct Heap(TalcCell<Manual>);

// SAFETY: a guest has one thread.
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap = Heap(TalcCell::new(Manual));

// SAFETY: hands every call on to an allocator that keeps the contract.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.realloc(address, layout, size) }
    }
}

/// What `alloc` panics with when memory is out starts so.
const ALLOCATION: &str = "memory allocation of";

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    static PANICKING: AtomicBool = AtomicBool::new(false);
    // A panic while one is being reported leaves it at that.
    if PANICKING.swap(true, Ordering::Relaxed) {
        crash();
    }
    let Some(platform) = PLATFORM.get() else {
        crash();
    };
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
    platform.set_state(State::Failed, sentence.as_str());
    crash()
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
