//! The memory functions that compiled code calls: copy, move, fill, compare, length of a string.
//!
//! They are written in assembly, since a compiler may turn a copying loop into a call of the function that
//! contains it. Short lengths use two overlapping moves, medium ones 32 bytes a step, long ones the string
//! instructions, which are fastest on every processor of the last ten years (ERMS, FSRM). In the image they
//! have the C library's names.

use core::arch::naked_asm;

/// `memcpy`: copies `n` bytes that don't overlap; returns `to`.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `n` bytes; the two don't overlap.
#[unsafe(naked)]
#[cfg_attr(feature = "image", unsafe(export_name = "memcpy"))]
pub unsafe extern "C" fn copy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    naked_asm!(
        "mov rax, rdi",
        "cmp rdx, 16",
        "jb 20f",
        "cmp rdx, 32",
        "ja 21f",
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + rdx - 16]",
        "movups [rdi], xmm0",
        "movups [rdi + rdx - 16], xmm1",
        "ret",
        // More than 32: steps of 32, then the last 32.
        "21:",
        "cmp rdx, 768",
        "jae 23f",
        "lea rcx, [rdx - 32]",
        "xor r8d, r8d",
        "22:",
        "movups xmm0, [rsi + r8]",
        "movups xmm1, [rsi + r8 + 16]",
        "movups [rdi + r8], xmm0",
        "movups [rdi + r8 + 16], xmm1",
        "add r8, 32",
        "cmp r8, rcx",
        "jb 22b",
        "movups xmm0, [rsi + rcx]",
        "movups xmm1, [rsi + rcx + 16]",
        "movups [rdi + rcx], xmm0",
        "movups [rdi + rcx + 16], xmm1",
        "ret",
        "23:",
        "mov rcx, rdx",
        "rep movsb",
        "ret",
        // Fewer than 16.
        "20:",
        "cmp edx, 8",
        "jb 24f",
        "mov rcx, [rsi]",
        "mov r8, [rsi + rdx - 8]",
        "mov [rdi], rcx",
        "mov [rdi + rdx - 8], r8",
        "ret",
        "24:",
        "cmp edx, 4",
        "jb 25f",
        "mov ecx, [rsi]",
        "mov r8d, [rsi + rdx - 4]",
        "mov [rdi], ecx",
        "mov [rdi + rdx - 4], r8d",
        "ret",
        "25:",
        "test edx, edx",
        "jz 26f",
        "movzx ecx, byte ptr [rsi]",
        "movzx r8d, byte ptr [rsi + rdx - 1]",
        "cmp edx, 2",
        "jbe 27f",
        "movzx r9d, byte ptr [rsi + 1]",
        "mov [rdi + 1], r9b",
        "27:",
        "mov [rdi], cl",
        "mov [rdi + rdx - 1], r8b",
        "26:",
        "ret",
    )
}

/// `memmove`: copies `n` bytes that may overlap; returns `to`.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `n` bytes.
#[unsafe(naked)]
#[cfg_attr(feature = "image", unsafe(export_name = "memmove"))]
pub unsafe extern "C" fn shift(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    naked_asm!(
        // Up to 32 bytes `copy` reads everything before it writes; without overlap it is right anyway.
        "cmp rdx, 32",
        "jbe {copy}",
        "mov rcx, rdi",
        "sub rcx, rsi",
        "cmp rcx, rdx",
        "jb 20f",
        "neg rcx",
        "cmp rcx, rdx",
        "jae {copy}",
        // The target starts before the source: upwards, with the last 32 bytes read beforehand.
        "mov rax, rdi",
        "lea rcx, [rdx - 32]",
        "movups xmm2, [rsi + rcx]",
        "movups xmm3, [rsi + rcx + 16]",
        "xor r8d, r8d",
        "21:",
        "movups xmm0, [rsi + r8]",
        "movups xmm1, [rsi + r8 + 16]",
        "movups [rdi + r8], xmm0",
        "movups [rdi + r8 + 16], xmm1",
        "add r8, 32",
        "cmp r8, rcx",
        "jb 21b",
        "movups [rdi + rcx], xmm2",
        "movups [rdi + rcx + 16], xmm3",
        "ret",
        // The target starts inside the source: downwards, with the first 32 bytes read beforehand.
        "20:",
        "mov rax, rdi",
        "movups xmm2, [rsi]",
        "movups xmm3, [rsi + 16]",
        "mov r8, rdx",
        "22:",
        "movups xmm0, [rsi + r8 - 16]",
        "movups xmm1, [rsi + r8 - 32]",
        "movups [rdi + r8 - 16], xmm0",
        "movups [rdi + r8 - 32], xmm1",
        "sub r8, 32",
        "cmp r8, 32",
        "ja 22b",
        "movups [rdi], xmm2",
        "movups [rdi + 16], xmm3",
        "ret",
        copy = sym copy,
    )
}

/// `memset`: fills `n` bytes with the low byte of `value`; returns `to`.
///
/// # Safety
/// `to` is valid for writes of `n` bytes.
#[unsafe(naked)]
#[cfg_attr(feature = "image", unsafe(export_name = "memset"))]
pub unsafe extern "C" fn fill(to: *mut u8, value: i32, n: usize) -> *mut u8 {
    naked_asm!(
        "mov rax, rdi",
        "movzx esi, sil",
        "cmp rdx, 768",
        "jae 23f",
        "mov rcx, 0x0101010101010101",
        "imul rsi, rcx",
        "cmp rdx, 16",
        "jb 20f",
        "movq xmm0, rsi",
        "punpcklqdq xmm0, xmm0",
        "lea rcx, [rdx - 16]",
        "xor r8d, r8d",
        "21:",
        "movups [rdi + r8], xmm0",
        "add r8, 16",
        "cmp r8, rcx",
        "jb 21b",
        "movups [rdi + rcx], xmm0",
        "ret",
        "23:",
        "mov r8, rdi",
        "mov eax, esi",
        "mov rcx, rdx",
        "rep stosb",
        "mov rax, r8",
        "ret",
        "20:",
        "cmp edx, 8",
        "jb 24f",
        "mov [rdi], rsi",
        "mov [rdi + rdx - 8], rsi",
        "ret",
        "24:",
        "cmp edx, 4",
        "jb 25f",
        "mov [rdi], esi",
        "mov [rdi + rdx - 4], esi",
        "ret",
        "25:",
        "test edx, edx",
        "jz 26f",
        "mov [rdi], sil",
        "mov [rdi + rdx - 1], sil",
        "cmp edx, 2",
        "jbe 26f",
        "mov [rdi + 1], sil",
        "26:",
        "ret",
    )
}

/// `memcmp`: compares `n` bytes; negative, 0 or positive as `a` is before, the same as or behind `b`.
///
/// # Safety
/// Both are valid for reads of `n` bytes.
#[unsafe(naked)]
#[cfg_attr(feature = "image", unsafe(export_name = "memcmp"))]
pub unsafe extern "C" fn compare(a: *const u8, b: *const u8, n: usize) -> i32 {
    naked_asm!(
        "cmp rdx, 8",
        "jb 21f",
        "20:",
        "mov rax, [rdi]",
        "mov rcx, [rsi]",
        "cmp rax, rcx",
        "jne 23f",
        "add rdi, 8",
        "add rsi, 8",
        "sub rdx, 8",
        "cmp rdx, 8",
        "jae 20b",
        "21:",
        "test edx, edx",
        "jz 24f",
        "22:",
        "movzx eax, byte ptr [rdi]",
        "movzx ecx, byte ptr [rsi]",
        "sub eax, ecx",
        "jne 25f",
        "inc rdi",
        "inc rsi",
        "dec edx",
        "jnz 22b",
        "24:",
        "xor eax, eax",
        "25:",
        "ret",
        // The first byte that differs is the most significant one after the swap.
        "23:",
        "bswap rax",
        "bswap rcx",
        "cmp rax, rcx",
        "sbb eax, eax",
        "or eax, 1",
        "ret",
    )
}

/// `bcmp`: compares `n` bytes; 0 if they are the same.
///
/// # Safety
/// As for [`compare`].
#[unsafe(naked)]
#[cfg_attr(feature = "image", unsafe(export_name = "bcmp"))]
pub unsafe extern "C" fn differ(a: *const u8, b: *const u8, n: usize) -> i32 {
    naked_asm!("jmp {}", sym compare)
}

/// `strlen`: bytes before the first zero byte.
///
/// # Safety
/// `text` is valid for reads up to its first zero byte.
#[unsafe(naked)]
#[cfg_attr(feature = "image", unsafe(export_name = "strlen"))]
pub unsafe extern "C" fn length(text: *const u8) -> usize {
    naked_asm!(
        "mov rax, rdi",
        "20:",
        "cmp byte ptr [rax], 0",
        "je 21f",
        "inc rax",
        "jmp 20b",
        "21:",
        "sub rax, rdi",
        "ret",
    )
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// All lengths that any of the functions treats apart, and their neighbours.
    fn lengths() -> impl Iterator<Item = usize> {
        (0..200).chain([255, 256, 767, 768, 769, 1500, 4096, 5001])
    }

    fn pattern(n: usize) -> Vec<u8> {
        (0..n).map(|i| (i * 7 + i / 251) as u8).collect()
    }

    #[test]
    fn copy_copies_exactly() {
        for n in lengths() {
            let from = pattern(n);
            let mut to = std::vec![0xaa; n + 32];
            // SAFETY: both are long enough.
            let result = unsafe { copy(to.as_mut_ptr().add(16), from.as_ptr(), n) };
            assert_eq!(result, to[16..].as_mut_ptr());
            assert_eq!(&to[16..16 + n], &from[..], "{n}");
            assert!(
                to[..16].iter().chain(&to[16 + n..]).all(|&b| b == 0xaa),
                "{n}"
            );
        }
    }

    #[test]
    fn shift_keeps_overlapping_bytes() {
        for n in lengths() {
            for distance in [0usize, 1, 2, 7, 15, 16, 17, 31, 32, 33, 64, 500] {
                for up in [true, false] {
                    let original = pattern(n + distance);
                    let mut bytes = original.clone();
                    let (to, from) = if up { (distance, 0) } else { (0, distance) };
                    // SAFETY: both ranges lie in the vector.
                    unsafe { shift(bytes.as_mut_ptr().add(to), bytes.as_ptr().add(from), n) };
                    let mut expected = original;
                    expected.copy_within(from..from + n, to);
                    assert_eq!(bytes, expected, "{n} bytes by {distance}, up: {up}");
                }
            }
        }
    }

    #[test]
    fn fill_fills_exactly() {
        for n in lengths() {
            let mut to = std::vec![0xaa; n + 32];
            // SAFETY: long enough.
            let result = unsafe { fill(to.as_mut_ptr().add(16), 0x1_5b, n) };
            assert_eq!(result, to[16..].as_mut_ptr());
            assert!(to[16..16 + n].iter().all(|&b| b == 0x5b), "{n}");
            assert!(
                to[..16].iter().chain(&to[16 + n..]).all(|&b| b == 0xaa),
                "{n}"
            );
        }
    }

    #[test]
    fn compare_orders_as_bytes() {
        for n in lengths().filter(|&n| n > 0) {
            let a = pattern(n);
            // SAFETY: both have n bytes.
            assert_eq!(unsafe { compare(a.as_ptr(), a.clone().as_ptr(), n) }, 0);
            for at in [0, n / 2, n - 1] {
                let mut b = a.clone();
                b[at] ^= 0x80;
                // SAFETY: as above.
                let order = unsafe { compare(a.as_ptr(), b.as_ptr(), n) };
                assert_eq!(order.signum(), if a < b { -1 } else { 1 }, "{n} at {at}");
                // SAFETY: as above.
                assert_ne!(unsafe { differ(a.as_ptr(), b.as_ptr(), n) }, 0);
            }
        }
    }

    #[test]
    fn length_stops_at_zero() {
        for n in 0..40 {
            let mut text = std::vec![b'x'; n];
            text.extend([0, b'y']);
            // SAFETY: there is a zero byte.
            assert_eq!(unsafe { length(text.as_ptr()) }, n);
        }
    }
}
