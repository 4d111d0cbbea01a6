//! Socket addresses, between C and Rust.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::sys::{Errno, Result};

/// What an application's address says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    Inet(SocketAddr),
    /// AF_UNSPEC.
    None,
}

/// Reads an address of `len` bytes.
///
/// # Safety
/// `at` begins `len` bytes that can be read, or is null.
pub unsafe fn read(at: *const libc::sockaddr, len: libc::socklen_t) -> Result<Address> {
    if at.is_null() || (len as usize) < size_of::<libc::sa_family_t>() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: the caller's bytes, as many as each length test says.
    unsafe {
        match i32::from(at.cast::<libc::sa_family_t>().read_unaligned()) {
            libc::AF_UNSPEC => Ok(Address::None),
            libc::AF_INET if len as usize >= size_of::<libc::sockaddr_in>() => {
                let v4 = at.cast::<libc::sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                let port = u16::from_be(v4.sin_port);
                Ok(Address::Inet(SocketAddrV4::new(ip, port).into()))
            }
            // RFC 2553's structure had no scope, and Linux still takes it.
            libc::AF_INET6 if len as usize >= size_of::<libc::sockaddr_in6>() - 4 => {
                let mut v6: libc::sockaddr_in6 = core::mem::zeroed();
                let n = (len as usize).min(size_of_val(&v6));
                core::ptr::copy_nonoverlapping(at.cast::<u8>(), (&raw mut v6).cast(), n);
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Ok(Address::Inet(
                    SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into(),
                ))
            }
            libc::AF_INET | libc::AF_INET6 => Err(Errno(libc::EINVAL)),
            _ => Err(Errno(libc::EAFNOSUPPORT)),
        }
    }
}

/// Writes as much of an address as there is room for, and its whole length to `len`. A null address is
/// not asked for.
///
/// # Safety
/// `at` is null, or begins as many bytes as `len` points to a number of, which can be written.
pub unsafe fn write(
    address: Option<SocketAddr>,
    at: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> Result<()> {
    if at.is_null() || len.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's length and bytes.
    unsafe {
        let room = *len as usize;
        if room > i32::MAX as usize {
            return Err(Errno(libc::EINVAL));
        }
        *len = with_bytes(address, |from, n| {
            core::ptr::copy_nonoverlapping(from, at.cast::<u8>(), n.min(room));
        }) as libc::socklen_t;
    }
    Ok(())
}

fn with_bytes(address: Option<SocketAddr>, with: impl FnOnce(*const u8, usize)) -> usize {
    match address {
        None => 0,
        Some(SocketAddr::V4(v4)) => {
            let c = libc::sockaddr_in {
                sin_family: libc::AF_INET as _,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            with((&raw const c).cast(), size_of_val(&c));
            size_of_val(&c)
        }
        Some(SocketAddr::V6(v6)) => {
            let c = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as _,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            with((&raw const c).cast(), size_of_val(&c));
            size_of_val(&c)
        }
    }
}

/// The address of a socket that has none yet.
pub fn unspecified(domain: u32) -> SocketAddr {
    if domain == libc::AF_INET6 as u32 {
        SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0).into()
    } else {
        SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0).into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_address_is_read_as_written(ip: core::net::IpAddr, port: u16, scope: u32) {
            let mut address = SocketAddr::new(ip, port);
            if let SocketAddr::V6(v6) = &mut address {
                v6.set_scope_id(scope);
            }
            // SAFETY: room for every address.
            unsafe {
                let mut room: libc::sockaddr_storage = core::mem::zeroed();
                let mut len = size_of_val(&room) as libc::socklen_t;
                write(Some(address), (&raw mut room).cast(), &mut len).unwrap();
                prop_assert_eq!(read((&raw const room).cast(), len), Ok(Address::Inet(address)));
            }
        }

        /// Whatever bytes an application passes, they are an address or an error.
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            // SAFETY: the bytes.
            let _ = unsafe { read(bytes.as_ptr().cast(), bytes.len() as libc::socklen_t) };
        }
    }

    #[test]
    fn a_short_room_gets_what_fits_and_the_whole_length() {
        let address = Some("10.0.0.1:80".parse().unwrap());
        let mut room = [0xffu8; 16];
        let mut len = 4;
        // SAFETY: more room than told.
        unsafe { write(address, room.as_mut_ptr().cast(), &mut len).unwrap() };
        assert_eq!(len, 16);
        assert_eq!(&room[..6], &[libc::AF_INET as u8, 0, 0, 80, 0xff, 0xff]);
    }
}
