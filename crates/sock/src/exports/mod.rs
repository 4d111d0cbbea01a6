//! The functions of the C library that this one interposes. Each asks first whether the descriptor is an
//! NSM's socket; if not, it calls the C library's with the same arguments.
//!
//! The contracts of these functions are the C library's: pointers are the application's, as valid as it
//! makes them.

mod calls;
mod descriptors;
mod files;
mod io;
mod messages;
mod processes;
mod ready;
pub mod stdio;

use core::ffi::c_int;

use crate::sys::{Errno, Result, returned};

/// Runs a call on the NSM's socket that a descriptor stands for, if it does; otherwise returns from
/// the calling function with the C library's.
macro_rules! redirect {
    ($fd:expr, $real:expr, |$socket:ident| $body:expr) => {
        match $crate::socket::of($fd) {
            None => $real,
            Some(Err(error)) => $crate::exports::failed(error) as _,
            Some(Ok($socket)) => $crate::sys::returned($body) as _,
        }
    };
}
pub(crate) use redirect;

pub(crate) fn failed(error: Errno) -> isize {
    returned(Err(error))
}

/// The result of a call that has no value.
fn done(result: Result<()>) -> Result<usize> {
    result.map(|()| 0)
}

/// Milliseconds from now as a deadline; negative: none.
fn deadline(milliseconds: c_int) -> Option<u64> {
    match u64::try_from(milliseconds) {
        Ok(0) => Some(0),
        Ok(ms) => Some(crate::sys::now() + ms * 1_000_000),
        Err(_) => None,
    }
}

/// A time from now as a deadline; null: none.
///
/// # Safety
/// `time` is null or a time.
unsafe fn deadline_of(time: *const libc::timespec) -> Result<Option<u64>> {
    if time.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's time.
    let time = unsafe { *time };
    if time.tv_sec < 0 || !(0..1_000_000_000).contains(&time.tv_nsec) {
        return Err(Errno(libc::EINVAL));
    }
    let ns = (time.tv_sec as u64).saturating_mul(1_000_000_000) + time.tv_nsec as u64;
    Ok(Some(if ns == 0 {
        0
    } else {
        crate::sys::now().saturating_add(ns)
    }))
}
