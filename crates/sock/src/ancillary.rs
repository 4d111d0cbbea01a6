//! The ancillary data of datagrams (RFC 3542, ip(7)), between control messages and what is passed to the
//! NSM: hop limit or TTL, traffic class or TOS, packet information.

use core::ffi::c_int;

use abi::nqe::{DatagramHead, PacketInfo};

use crate::sys::{Errno, Result};

const HEADER: usize = size_of::<libc::cmsghdr>();
const _: () = assert!(HEADER.is_multiple_of(align_of::<libc::cmsghdr>()));
const V4_INFO: usize = size_of::<libc::in_pktinfo>();
const V6_INFO: usize = size_of::<libc::in6_pktinfo>();

fn padded(len: usize) -> usize {
    len.next_multiple_of(align_of::<libc::cmsghdr>())
}

/// The ancillary data of a message to send. `ipv4`: it goes out by IPv4. As Linux has it, control
/// messages of the other version are not looked at; messages that an NSM does not serve are an error.
///
/// # Safety
/// The message's control bytes can be read.
pub unsafe fn read(message: &libc::msghdr, ipv4: bool) -> Result<DatagramHead> {
    let invalid = Err(Errno(libc::EINVAL));
    let mut head = DatagramHead::default();
    if message.msg_control.is_null() {
        return Ok(head);
    }
    let len = message.msg_controllen;
    // SAFETY: the caller's promise.
    let mut left = unsafe { core::slice::from_raw_parts(message.msg_control.cast::<u8>(), len) };
    while left.len() >= HEADER {
        // SAFETY: as many bytes as a header has; any bytes are one.
        let control = unsafe { left.as_ptr().cast::<libc::cmsghdr>().read_unaligned() };
        let len = control.cmsg_len as usize;
        if len < HEADER || len > left.len() {
            return invalid;
        }
        add(
            &mut head,
            control.cmsg_level,
            control.cmsg_type,
            &left[HEADER..len],
            ipv4,
        )?;
        left = left.get(padded(len)..).unwrap_or_default();
    }
    Ok(head)
}

fn add(head: &mut DatagramHead, level: c_int, kind: c_int, value: &[u8], ipv4: bool) -> Result<()> {
    let invalid = Errno(libc::EINVAL);
    let int = || {
        value
            .try_into()
            .map(i32::from_ne_bytes)
            .map_err(|_| invalid)
    };
    // Of IPv6, -1 is the socket's own value.
    let byte_or_default = |value: i32| match value {
        -1 => Ok(None),
        value => u8::try_from(value).map(Some).map_err(|_| invalid),
    };
    match (level, kind) {
        (libc::SOL_SOCKET, libc::SCM_RIGHTS | libc::SCM_CREDENTIALS) => {}
        (libc::SOL_SOCKET | libc::SOL_UDP, _) => return Err(invalid),
        (libc::IPPROTO_IP, _) if !ipv4 => {}
        (libc::IPPROTO_IPV6, _) if ipv4 => {}
        (libc::IPPROTO_IP, libc::IP_TTL) => match int()? {
            ttl @ 1..=255 => head.hop_limit = Some(ttl as u8),
            _ => return Err(invalid),
        },
        (libc::IPPROTO_IP, libc::IP_TOS) => {
            let tos = match value {
                [tos] => *tos,
                _ => u8::try_from(int()?).map_err(|_| invalid)?,
            };
            head.traffic_class = Some(tos);
        }
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let info: &[u8; V4_INFO] = value.try_into().map_err(|_| invalid)?;
            let word = |at: usize| [info[at], info[at + 1], info[at + 2], info[at + 3]];
            head.packet = Some(PacketInfo::V4 {
                interface: u32::from_ne_bytes(word(0)),
                local: word(4).into(),
                destination: word(8).into(),
            });
        }
        (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => head.hop_limit = byte_or_default(int()?)?,
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => head.traffic_class = byte_or_default(int()?)?,
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let (address, interface) = value.split_first_chunk::<16>().ok_or(invalid)?;
            let interface = interface.try_into().map_err(|_| invalid)?;
            head.packet = Some(PacketInfo::V6 {
                interface: u32::from_ne_bytes(interface),
                address: (*address).into(),
            });
        }
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, _) => return Err(invalid),
        _ => {}
    }
    Ok(())
}

/// Writes the ancillary data of a message received to its control bytes, as far as there is room.
///
/// # Safety
/// The message's control bytes can be written.
pub unsafe fn write(head: &DatagramHead, message: &mut libc::msghdr) {
    let room = if message.msg_control.is_null() {
        0
    } else {
        message.msg_controllen
    };
    let mut control = Control {
        at: message.msg_control.cast(),
        room,
        used: 0,
        truncated: false,
    };
    // SAFETY: the caller's promise.
    unsafe { control.put_all(head) };
    if control.truncated {
        message.msg_flags |= libc::MSG_CTRUNC;
    }
    message.msg_controllen = control.used as _;
}

struct Control {
    at: *mut u8,
    room: usize,
    used: usize,
    truncated: bool,
}

impl Control {
    /// # Safety
    /// As many bytes as there is room can be written.
    unsafe fn put_all(&mut self, head: &DatagramHead) {
        let ipv4 = head
            .address
            .is_some_and(|from| from.ip().to_canonical().is_ipv4());
        // SAFETY: the caller's promise. The order is Linux's.
        unsafe {
            match head.packet {
                None => {}
                Some(PacketInfo::V4 {
                    interface,
                    local,
                    destination,
                }) => {
                    let mut info = [0; V4_INFO];
                    info[..4].copy_from_slice(&interface.to_ne_bytes());
                    info[4..8].copy_from_slice(&local.octets());
                    info[8..].copy_from_slice(&destination.octets());
                    self.put(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
                }
                Some(PacketInfo::V6 { interface, address }) => {
                    let mut info = [0; V6_INFO];
                    info[..16].copy_from_slice(&address.octets());
                    info[16..].copy_from_slice(&interface.to_ne_bytes());
                    self.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
                }
            }
            if let Some(hops) = head.hop_limit {
                let hops = i32::from(hops).to_ne_bytes();
                if ipv4 {
                    self.put(libc::IPPROTO_IP, libc::IP_TTL, &hops);
                } else {
                    self.put(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &hops);
                }
            }
            if let Some(class) = head.traffic_class {
                if ipv4 {
                    self.put(libc::IPPROTO_IP, libc::IP_TOS, &[class]);
                } else {
                    let class = i32::from(class).to_ne_bytes();
                    self.put(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class);
                }
            }
        }
    }

    /// # Safety
    /// As for `put_all`.
    unsafe fn put(&mut self, level: c_int, kind: c_int, value: &[u8]) {
        let left = self.room - self.used;
        if left < HEADER {
            self.truncated = true;
            return;
        }
        let len = (HEADER + value.len()).min(left);
        self.truncated |= len < HEADER + value.len();
        // SAFETY: zeros are a header.
        let mut control: libc::cmsghdr = unsafe { core::mem::zeroed() };
        control.cmsg_level = level;
        control.cmsg_type = kind;
        control.cmsg_len = len as _;
        // SAFETY: `left` bytes can be written from here on, and `len` is no more.
        unsafe {
            let at = self.at.add(self.used);
            at.cast::<libc::cmsghdr>().write_unaligned(control);
            at.add(HEADER)
                .copy_from_nonoverlapping(value.as_ptr(), len - HEADER);
        }
        self.used += padded(HEADER + value.len()).min(left);
    }
}

#[cfg(test)]
mod tests {
    use core::mem::MaybeUninit;

    use proptest::prelude::*;

    use super::*;

    /// A message with these control bytes.
    fn message(control: &mut [u64], len: usize) -> libc::msghdr {
        assert!(len <= size_of_val(control));
        // SAFETY: zeros are a message of nothing.
        let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = len as _;
        message
    }

    fn heads() -> impl Strategy<Value = (DatagramHead, bool)> {
        let parts = (
            1..=255u8,
            any::<u8>(),
            any::<[u8; 16]>(),
            any::<u32>(),
            any::<bool>(),
        );
        parts.prop_map(|(hops, class, ip, interface, ipv4)| {
            let mapped = "1.2.3.4:5".parse().unwrap();
            let packet = if ipv4 {
                PacketInfo::V4 {
                    interface,
                    local: [ip[0], ip[1], ip[2], ip[3]].into(),
                    destination: [ip[4], ip[5], ip[6], ip[7]].into(),
                }
            } else {
                PacketInfo::V6 {
                    interface,
                    address: ip.into(),
                }
            };
            let head = DatagramHead {
                address: ipv4.then_some(mapped),
                hop_limit: Some(hops),
                traffic_class: Some(class),
                packet: Some(packet),
            };
            (head, ipv4)
        })
    }

    proptest! {
        /// What is written is read again; with less room, what does not fit is told to be cut.
        #[test]
        fn ancillary_data_is_read_as_written((head, ipv4) in heads(), room in 0..120usize) {
            let mut control = [0u64; 16];
            let mut all = message(&mut control, 128);
            // SAFETY: the control bytes of the test.
            unsafe { write(&head, &mut all) };
            prop_assert_eq!(all.msg_flags, 0);
            let expected = DatagramHead { address: None, ..head };
            // SAFETY: as above.
            prop_assert_eq!(unsafe { read(&all, ipv4) }, Ok(expected));
            // SAFETY: as above.
            prop_assert_eq!(unsafe { read(&all, !ipv4) }, Ok(DatagramHead::default()));
            let whole = all.msg_controllen;
            let mut control = [u64::MAX; 16];
            let mut cut = message(&mut control, room);
            // SAFETY: as above.
            unsafe { write(&head, &mut cut) };
            prop_assert!(cut.msg_controllen <= room);
            // Padding of the last may be missing.
            if room >= whole {
                prop_assert_eq!(cut.msg_flags, 0);
            } else if room + 8 < whole {
                prop_assert_eq!(cut.msg_flags, libc::MSG_CTRUNC);
            }
            prop_assert!(control.iter().flat_map(|w| w.to_ne_bytes()).skip(room).all(|b| b == 255));
        }

        /// Whatever bytes an application passes, they are ancillary data or an error.
        #[test]
        fn any_bytes_are_read(mut control: [u64; 16], len in 0..128usize, small: bool) {
            if small {
                control[0] %= 40;
            }
            let message = message(&mut control, len);
            // SAFETY: the control bytes of the test.
            let _ = unsafe { (read(&message, false), read(&message, true)) };
        }
    }

    #[test]
    fn numbers_out_of_range_are_errors_and_minus_one_is_the_default() {
        let one = |level, kind, value: i32, ipv4| {
            let mut head = DatagramHead::default();
            add(&mut head, level, kind, &value.to_ne_bytes(), ipv4).map(|()| head)
        };
        let invalid = Err(Errno(libc::EINVAL));
        let default = Ok(DatagramHead::default());
        assert_eq!(
            one(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, -1, false),
            default
        );
        assert_eq!(
            one(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 256, false),
            invalid
        );
        assert_eq!(one(libc::IPPROTO_IP, libc::IP_TTL, 0, true), invalid);
        // UDP_SEGMENT: one message would be several datagrams.
        assert_eq!(one(libc::SOL_UDP, 103, 100, true), invalid);
        let mut head = DatagramHead::default();
        let long = [0; 5];
        let done = add(
            &mut head,
            libc::IPPROTO_IPV6,
            libc::IPV6_TCLASS,
            &long,
            false,
        );
        assert_eq!(done, Err(Errno(libc::EINVAL)));
    }
}
