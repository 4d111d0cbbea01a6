//! Messages with descriptors on Unix sockets.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;

use crate::sys::{Errno, Result, syscall};

/// Most descriptors of a message.
const DESCRIPTORS: usize = 4;

/// Room for the control message of as many descriptors, aligned as its header must be.
#[repr(align(8))]
struct Control([u8; 64]);

const _: () = {
    // SAFETY: arithmetic only.
    let needed = unsafe { libc::CMSG_SPACE((DESCRIPTORS * size_of::<c_int>()) as u32) };
    assert!(needed as usize <= size_of::<Control>());
};

fn header(part: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: zeros are a message of nothing.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>() as _;
    message
}

/// Sends bytes with descriptors.
pub fn send(fd: c_int, bytes: &[u8], descriptors: &[c_int]) -> Result<()> {
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr() as *mut c_void,
        iov_len: bytes.len(),
    };
    let mut control = Control([0; 64]);
    let mut message = header(&mut part, &mut control);
    let len = size_of_val(descriptors);
    assert!(descriptors.len() <= DESCRIPTORS);
    // SAFETY: the control message and its descriptors fit the room, by the assertions.
    unsafe {
        message.msg_controllen = libc::CMSG_SPACE(len as u32) as _;
        let head = libc::CMSG_FIRSTHDR(&message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(len as u32) as _;
        core::ptr::copy_nonoverlapping(
            descriptors.as_ptr().cast::<u8>(),
            libc::CMSG_DATA(head),
            len,
        );
    }
    loop {
        // SAFETY: the message names memory of ours.
        match syscall!(
            libc::SYS_sendmsg,
            fd,
            &raw const message,
            libc::MSG_NOSIGNAL
        ) {
            Err(Errno(libc::EINTR)) => {}
            sent => return sent.map(drop),
        }
    }
}

/// Receives bytes with descriptors, which are closed at exec; how many of each.
pub fn receive(fd: c_int, bytes: &mut [u8], descriptors: &mut [c_int]) -> Result<(usize, usize)> {
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut control = Control([0; 64]);
    let mut message = header(&mut part, &mut control);
    let received = loop {
        // SAFETY: the message names memory of ours.
        match syscall!(
            libc::SYS_recvmsg,
            fd,
            &raw mut message,
            libc::MSG_CMSG_CLOEXEC
        ) {
            Err(Errno(libc::EINTR)) => {}
            received => break received?,
        }
    };
    let mut n = 0;
    rights(&message, |fd| {
        if let Some(slot) = descriptors.get_mut(n) {
            *slot = fd;
            n += 1;
        } else {
            crate::sys::close(fd);
        }
    });
    Ok((received, n))
}

/// The descriptors in a message.
pub fn rights(message: &libc::msghdr, mut with: impl FnMut(c_int)) {
    if message.msg_control.is_null() {
        return;
    }
    // SAFETY: the macros keep inside the control bytes, whose length the message has.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(message);
        while !head.is_null() {
            let data = libc::CMSG_LEN(0) as usize;
            let len = (*head).cmsg_len as usize;
            if (*head).cmsg_level == libc::SOL_SOCKET
                && (*head).cmsg_type == libc::SCM_RIGHTS
                && len >= data
            {
                let fds = libc::CMSG_DATA(head).cast::<c_int>();
                for i in 0..(len - data) / size_of::<c_int>() {
                    with(fds.add(i).read_unaligned());
                }
            }
            head = libc::CMSG_NXTHDR(message, head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    #[test]
    fn descriptors_arrive_with_their_bytes() {
        let [a, b] = sys::pair(libc::SOCK_SEQPACKET).unwrap();
        let waker = sys::eventfd().unwrap();
        send(a, b"hello", &[a, waker]).unwrap();
        let (mut bytes, mut fds) = ([0; 16], [-1; 3]);
        assert_eq!(receive(b, &mut bytes, &mut fds), Ok((5, 2)));
        assert_eq!(&bytes[..5], b"hello");
        sys::write_eventfd(fds[1]);
        assert_eq!(sys::read_eventfd(waker), Ok(()));
        for fd in [a, b, waker, fds[0], fds[1]] {
            sys::close(fd);
        }
    }
}
