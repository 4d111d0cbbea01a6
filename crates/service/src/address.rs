//! Socket addresses of C in queue elements.

use std::ffi::c_int;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use abi::nqe::Nqe;
use libc::{
    AF_INET, AF_INET6, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage,
    socklen_t,
};

use crate::element::Element;

/// Writes the address of an element as C has it.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nqe_address(element: &Element, to: &mut sockaddr_storage) -> socklen_t {
    let start = std::ptr::from_mut(to);
    match Nqe::from(*element).address() {
        None => 0,
        Some(SocketAddr::V4(address)) => {
            // SAFETY: zeros are a value of it.
            let mut it: sockaddr_in = unsafe { std::mem::zeroed() };
            it.sin_family = AF_INET as sa_family_t;
            it.sin_port = address.port().to_be();
            it.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
            // SAFETY: a storage has room for each address, and its alignment.
            unsafe { start.cast::<sockaddr_in>().write(it) };
            size_of::<sockaddr_in>() as socklen_t
        }
        Some(SocketAddr::V6(address)) => {
            // SAFETY: as above.
            let mut it: sockaddr_in6 = unsafe { std::mem::zeroed() };
            it.sin6_family = AF_INET6 as sa_family_t;
            it.sin6_port = address.port().to_be();
            it.sin6_addr.s6_addr = address.ip().octets();
            it.sin6_scope_id = address.scope_id();
            // SAFETY: as above.
            unsafe { start.cast::<sockaddr_in6>().write(it) };
            size_of::<sockaddr_in6>() as socklen_t
        }
    }
}

/// Sets the address of an element: 0, or −1 if it is neither of IPv4 nor of IPv6, or too short.
///
/// # Safety
/// `len` bytes begin at `from`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_nqe_set_address(
    element: &mut Element,
    from: *const sockaddr,
    len: socklen_t,
) -> c_int {
    let long = |least: usize| len as usize >= least;
    if !long(size_of::<sa_family_t>()) {
        return -1;
    }
    // SAFETY: the caller's promise, for as many bytes as were compared; the place may be unaligned.
    let address: SocketAddr = unsafe {
        match c_int::from(from.cast::<sa_family_t>().read_unaligned()) {
            AF_INET if long(size_of::<sockaddr_in>()) => {
                let it = from.cast::<sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(it.sin_addr.s_addr.to_ne_bytes());
                SocketAddrV4::new(ip, u16::from_be(it.sin_port)).into()
            }
            AF_INET6 if long(size_of::<sockaddr_in6>()) => {
                let it = from.cast::<sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(it.sin6_addr.s6_addr);
                SocketAddrV6::new(ip, u16::from_be(it.sin6_port), 0, it.sin6_scope_id).into()
            }
            _ => return -1,
        }
    };
    *element = Nqe::from(*element).with_address(address).into();
    0
}
