//! Queues that are enabled before features are set.
//!
//! By the protocol, a queue may be enabled only when protocol features are agreed on, and `vhost`
//! enforces it. QEMU enables its network device's queues while it makes the device, before a driver
//! can set features (seen with QEMU 7.2). So this module handles that one message until they are
//! agreed on.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use vhost::vhost_user::Error;

use super::device::VhostDevice;

/// The message's number.
const SET_VRING_ENABLE: u32 = 18;
/// Its length: request, flags and size; the queue's number, and whether it is to run.
const LEN: usize = 20;
/// In the flags: version 1.
const VERSION: u32 = 1;
/// In the flags: this answers a message.
const REPLY: u32 = 1 << 2;
/// In the flags: an answer is waited for.
const NEED_REPLY: u32 = 1 << 3;

/// Carries out the message that a frontend sends, and that has arrived whole, if it enables or
/// halts a queue. Returns whether it does.
pub fn enable(socket: BorrowedFd<'_>, device: &mut VhostDevice) -> Result<bool, Error> {
    let mut message = [0; LEN];
    let flags = RecvFlags::DONTWAIT;
    match rustix::net::recv(socket, &mut message, flags | RecvFlags::PEEK) {
        Ok((LEN, _)) => {}
        _ => return Ok(false),
    }
    let [request, asked, size, index, enable] = words(&message);
    if request != SET_VRING_ENABLE || size as usize != LEN - 12 {
        return Ok(false);
    }
    rustix::net::recv(socket, &mut message, flags).map_err(|_| Error::Disconnected)?;
    if enable > 1 {
        return Err(Error::InvalidParam);
    }
    device.enable(index, enable == 1)?;
    if asked & NEED_REPLY != 0 {
        let answer = [request, VERSION | REPLY, 8, 0, 0].map(u32::to_ne_bytes);
        let parts = [IoSlice::new(answer.as_flattened())];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let nothing = &mut SendAncillaryBuffer::default();
        // The filter knows sendmsg(2) only.
        rustix::net::sendmsg(socket, &parts, nothing, flags).map_err(|_| Error::Disconnected)?;
    }
    Ok(true)
}

/// The message as numbers.
fn words(message: &[u8; LEN]) -> [u32; LEN / 4] {
    let (words, _) = message.as_chunks();
    std::array::from_fn(|i| u32::from_ne_bytes(words[i]))
}
