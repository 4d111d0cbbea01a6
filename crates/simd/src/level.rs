//! The vector instructions that the processor has and the operating system enables.

use core::sync::atomic::{AtomicU8, Ordering};

/// A set of vector instructions that this machine has, by width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(Width);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Width {
    /// The instructions that the program is built for.
    Baseline = 1,
    /// 32 bytes, and BMI.
    Avx2,
    /// 64 bytes: the F, BW, DQ and VL parts.
    Avx512,
}

/// The detected width; 0 before the detection.
static FOUND: AtomicU8 = AtomicU8::new(0);

impl Level {
    /// The widest level of this machine. Detected once: CPUID takes microseconds under a hypervisor.
    #[inline]
    pub fn detected() -> Level {
        match FOUND.load(Ordering::Relaxed) {
            1 => Level(Width::Baseline),
            2 => Level(Width::Avx2),
            3 => Level(Width::Avx512),
            _ => Level::detect(),
        }
    }

    #[cold]
    fn detect() -> Level {
        let width = detect();
        FOUND.store(width as u8, Ordering::Relaxed);
        Level(width)
    }

    /// All levels of this machine, the narrowest first.
    pub fn all() -> impl Iterator<Item = Level> {
        [Width::Baseline, Width::Avx2, Width::Avx512]
            .into_iter()
            .map(Level)
            .take_while(|level| *level <= Level::detected())
    }

    /// The level of a name (`baseline`, `avx2`, `avx512`), if this machine has it.
    pub fn named(name: &str) -> Option<Level> {
        let width = match name {
            "baseline" => Width::Baseline,
            "avx2" => Width::Avx2,
            "avx512" => Width::Avx512,
            _ => return None,
        };
        (Level(width) <= Level::detected()).then_some(Level(width))
    }

    /// How many bytes an instruction works on.
    pub fn bytes(self) -> usize {
        match self.0 {
            Width::Baseline => 16,
            Width::Avx2 => 32,
            Width::Avx512 => 64,
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn avx2(self) -> Option<crate::Avx2> {
        // SAFETY: a level of this width is made only if CPUID and XCR0 report it.
        (self.0 >= Width::Avx2).then(|| unsafe { crate::Avx2::assume() })
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn avx512(self) -> Option<crate::Avx512> {
        // SAFETY: as above.
        (self.0 >= Width::Avx512).then(|| unsafe { crate::Avx512::assume() })
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Width {
    Width::Baseline
}

/// Reads CPUID and XCR0: a guest has no standard library to detect features. Bits as in the Intel
/// SDM, volume 1, sections 14.3 and 15.2 to 15.4.
#[cfg(target_arch = "x86_64")]
fn detect() -> Width {
    use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

    const OSXSAVE_AVX: u32 = 1 << 27 | 1 << 28;
    const POPCNT: u32 = 1 << 23;
    /// BMI1, AVX2, BMI2.
    const V3: u32 = 1 << 3 | 1 << 5 | 1 << 8;
    const LZCNT: u32 = 1 << 5;
    /// F, DQ, BW, VL.
    const V4: u32 = 1 << 16 | 1 << 17 | 1 << 30 | 1 << 31;
    /// XMM and YMM state; and the opmasks' and ZMM's.
    const YMM: u64 = 0x6;
    const ZMM: u64 = 0xe6;

    let has = |bits: u32, wanted: u32| bits & wanted == wanted;
    if __cpuid(0).eax < 7 || __cpuid(0x8000_0000).eax < 0x8000_0001 {
        return Width::Baseline;
    }
    let (first, seventh) = (__cpuid(1).ecx, __cpuid_count(7, 0).ebx);
    if !has(first, OSXSAVE_AVX | POPCNT) {
        return Width::Baseline;
    }
    // SAFETY: OSXSAVE is set, so the instruction exists and is allowed at any privilege.
    let state = unsafe { _xgetbv(0) };
    let avx2 = has(seventh, V3) && has(__cpuid(0x8000_0001).ecx, LZCNT) && state & YMM == YMM;
    match avx2 {
        true if has(seventh, V4) && state & ZMM == ZMM => Width::Avx512,
        true => Width::Avx2,
        false => Width::Baseline,
    }
}
