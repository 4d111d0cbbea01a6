//! ServiceLib for C, as `include/weir_nsm.h` describes it: [`netkernel::service`] behind functions of C.
//!
//! An NSM that is written in C, Go or another language links `libweir_nsm.a` or `libweir_nsm.so`.
//! `examples/echo.c` is a whole one.

mod address;
mod element;

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use netkernel::protocol::{ToNsm, Token};
use netkernel::service::Service;

pub use address::{weir_nqe_address, weir_nqe_set_address};
pub use element::{Element, weir_nqe_error, weir_nqe_set_error};

/// `struct weir_nsm`: an NSM's connection to CoreEngine.
pub struct Connection {
    service: Service,
}

/// `struct weir_tenant`: a tenant that comes or goes.
#[repr(C)]
pub struct Tenancy {
    /// The tenant.
    pub tenant: u8,
    /// Whether it is gone, and its sockets with it.
    pub gone: bool,
}

/// Leaves the error in `errno`.
fn fail(error: &io::Error) {
    // A refusal without a number of its own breaks the protocol.
    let number = error.raw_os_error().unwrap_or(libc::EPROTO);
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = number };
}

/// What a call says that finds something, nothing or an error.
fn found<T>(result: io::Result<Option<T>>, to: impl FnOnce(T)) -> c_int {
    match result {
        Ok(Some(it)) => {
            to(it);
            1
        }
        Ok(None) => 0,
        Err(error) => {
            fail(&error);
            -1
        }
    }
}

fn join(door: &CStr, token: &CStr) -> io::Result<Service> {
    let wrong = || io::Error::from_raw_os_error(libc::EINVAL);
    let token = token.to_str().map_err(|_| wrong())?.to_owned();
    let token = Token::try_from(token).map_err(|_| wrong())?;
    Service::join(Path::new(OsStr::from_bytes(door.to_bytes())), token)
}

/// Joins CoreEngine.
///
/// # Safety
/// Both are strings of C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_nsm_join(
    door: *const c_char,
    token: *const c_char,
) -> *mut Connection {
    // SAFETY: the caller's promise.
    let (door, token) = unsafe { (CStr::from_ptr(door), CStr::from_ptr(token)) };
    match join(door, token) {
        Ok(service) => Box::into_raw(Box::new(Connection { service })),
        Err(error) => {
            fail(&error);
            std::ptr::null_mut()
        }
    }
}

/// Leaves CoreEngine.
///
/// # Safety
/// `nsm` is of [`weir_nsm_join`], or null, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_nsm_leave(nsm: *mut Connection) {
    if !nsm.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(nsm) });
    }
}

/// The descriptor that is readable when requests wait.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nsm_waker(nsm: &Connection) -> c_int {
    nsm.service.waker().as_raw_fd()
}

/// The descriptor that is readable when a tenant comes or goes.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nsm_control(nsm: &Connection) -> c_int {
    nsm.service.control().as_raw_fd()
}

/// Hears of the next tenant that comes or goes.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nsm_hear(nsm: &mut Connection, to: &mut Tenancy) -> c_int {
    let heard = nsm.service.hear().map(|heard| match heard? {
        ToNsm::Tenant { tenant, .. } => Some(Tenancy {
            tenant,
            gone: false,
        }),
        ToNsm::TenantGone { tenant } => Some(Tenancy { tenant, gone: true }),
        // It is not asked: ServiceLib answers with nothing.
        ToNsm::Measure { .. } => None,
    });
    found(heard, |heard| *to = heard)
}

/// Whether a tenant is known.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nsm_knows(nsm: &Connection, tenant: u8) -> bool {
    nsm.service.knows(tenant)
}

/// Takes the next request.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nsm_request(nsm: &mut Connection, to: &mut Element) -> c_int {
    found(nsm.service.request(), |nqe| *to = nqe.into())
}

/// Submits an answer or an event.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nsm_answer(nsm: &mut Connection, element: &Element) {
    nsm.service.answer((*element).into());
}

/// Publishes the answers.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nsm_flush(nsm: &mut Connection) {
    nsm.service.flush();
}

/// Announces a wait.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nsm_sleep(nsm: &mut Connection) -> bool {
    nsm.service.sleep()
}

/// Ends a wait.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nsm_awake(nsm: &mut Connection) {
    nsm.service.awake();
}

/// The bytes of a tenant's payload.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nsm_payload(
    nsm: &Connection,
    tenant: u8,
    offset: u64,
    len: u32,
) -> *mut c_void {
    match nsm.service.payload(tenant, offset, len) {
        Some(bytes) => bytes.start().as_ptr().cast(),
        None => std::ptr::null_mut(),
    }
}

/// Lends a chunk to a socket.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nsm_lend(
    nsm: &mut Connection,
    tenant: u8,
    socket: u32,
    offset: &mut u64,
) -> bool {
    let chunk = nsm.service.lend(tenant, socket);
    if let Some(chunk) = chunk {
        *offset = chunk.offset();
    }
    chunk.is_some()
}

/// Takes back a chunk that was lent to a socket.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nsm_take_back(
    nsm: &mut Connection,
    tenant: u8,
    socket: u32,
    offset: u64,
) -> bool {
    nsm.service.consumed(tenant, socket, offset).is_some()
}

/// Takes back all chunks that are lent to a socket.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nsm_reclaim(nsm: &mut Connection, tenant: u8, socket: u32) -> usize {
    nsm.service.reclaim(tenant, socket)
}
