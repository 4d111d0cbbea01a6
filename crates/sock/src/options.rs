//! Socket options: answered here, kept and passed on, or asked of the NSM.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use abi::nqe::{Nqe, ONLY_IPV6, REUSE_PORT, operation};
use abi::tenant::CHUNK_BYTES;

use crate::cell::{Cell, flag, state};
use crate::dispatch::RESTART;
use crate::process::Shared;
use crate::queues::{self, Answer, Urgency};
use crate::restart;
use crate::socket::Socket;
use crate::sys::{Errno, Result};

/// Most bytes of an option's value.
const VALUE_MAX: usize = 256;
/// What SO_SNDBUF and SO_RCVBUF say before they are set: both windows, in bytes.
const BUFFER: u32 = (abi::tenant::SEND_WINDOW * CHUNK_BYTES) as u32;

/// Integer options whose value is kept here, and sent without waiting.
fn kept(level: c_int, name: c_int) -> bool {
    match level {
        libc::SOL_SOCKET => matches!(
            name,
            libc::SO_REUSEADDR
                | libc::SO_REUSEPORT
                | libc::SO_KEEPALIVE
                | libc::SO_BROADCAST
                | libc::SO_DONTROUTE
                | libc::SO_OOBINLINE
                | libc::SO_PRIORITY
                | libc::SO_SNDBUF
                | libc::SO_RCVBUF
                | libc::SO_INCOMING_CPU
                | libc::SO_BUSY_POLL
        ),
        libc::IPPROTO_TCP => matches!(
            name,
            libc::TCP_NODELAY
                | libc::TCP_CORK
                | libc::TCP_KEEPIDLE
                | libc::TCP_KEEPINTVL
                | libc::TCP_KEEPCNT
                | libc::TCP_SYNCNT
                | libc::TCP_LINGER2
                | libc::TCP_DEFER_ACCEPT
                | libc::TCP_QUICKACK
                | libc::TCP_USER_TIMEOUT
                | libc::TCP_NOTSENT_LOWAT
                | libc::TCP_FASTOPEN
        ),
        libc::IPPROTO_IP => matches!(name, libc::IP_TOS | libc::IP_TTL | libc::IP_MTU_DISCOVER),
        libc::IPPROTO_IPV6 => {
            matches!(
                name,
                libc::IPV6_V6ONLY | libc::IPV6_TCLASS | libc::IPV6_UNICAST_HOPS
            )
        }
        _ => false,
    }
}

/// The value before it is set, of options that have one that needs no asking.
fn default(level: c_int, name: c_int) -> Option<u32> {
    match (level, name) {
        (
            libc::SOL_SOCKET,
            libc::SO_REUSEADDR
            | libc::SO_REUSEPORT
            | libc::SO_KEEPALIVE
            | libc::SO_BROADCAST
            | libc::SO_DONTROUTE
            | libc::SO_OOBINLINE
            | libc::SO_PRIORITY
            | libc::SO_BUSY_POLL,
        ) => Some(0),
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_RCVBUF) => Some(BUFFER),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY | libc::TCP_CORK) => Some(0),
        _ => None,
    }
}

fn int(value: &[u8]) -> Result<u32> {
    let first = value.first_chunk().ok_or(Errno(libc::EINVAL))?;
    Ok(u32::from_ne_bytes(*first))
}

/// Microseconds of a `struct timeval`.
fn microseconds(value: &[u8]) -> Result<u64> {
    let (seconds, rest) = value.split_first_chunk::<8>().ok_or(Errno(libc::EINVAL))?;
    let seconds = i64::from_ne_bytes(*seconds);
    let micro = i64::from_ne_bytes(*rest.first_chunk().ok_or(Errno(libc::EINVAL))?);
    if !(0..1_000_000).contains(&micro) {
        return Err(Errno(libc::EDOM));
    }
    // A negative time is one that has passed, as Linux has it.
    Ok(match u64::try_from(seconds) {
        Ok(seconds) => seconds
            .saturating_mul(1_000_000)
            .saturating_add(micro as u64)
            .min(1 << 52),
        Err(_) => 1,
    })
}

fn timeval(micro: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&((micro / 1_000_000) as i64).to_ne_bytes());
    bytes[8..].copy_from_slice(&((micro % 1_000_000) as i64).to_ne_bytes());
    bytes
}

/// As [`Socket::shares_address`].
pub fn shares_address(cell: &Cell) -> u8 {
    let is_set = |level: c_int, name: c_int| {
        cell.option(level as u32, name as u32)
            .is_some_and(|it| it != 0)
    };
    let only_ipv6 = is_set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY);
    let reuse_port = is_set(libc::SOL_SOCKET, libc::SO_REUSEPORT);
    let only_ipv6 = if only_ipv6 { ONLY_IPV6 } else { 0 };
    only_ipv6 | if reuse_port { REUSE_PORT } else { 0 }
}

/// Elements that set the options of a socket that is restored. One for which there is no chunk is left
/// out.
pub fn restore(shared: &Shared, number: u32, cell: &Cell, into: &mut Vec<Nqe>) {
    for (level, name, value) in cell.kept_options() {
        let (level, name) = (level as c_int, name as c_int);
        // What is shown of a buffer is not what was asked for, and it has no effect.
        let buffer = level == libc::SOL_SOCKET && matches!(name, libc::SO_SNDBUF | libc::SO_RCVBUF);
        let Some(offset) = (!buffer)
            .then(|| shared.private.take_chunk(number))
            .flatten()
        else {
            continue;
        };
        let value = value.to_ne_bytes();
        if let Some(bytes) = shared.payload.bytes(offset, value.len() as u32) {
            bytes.write(&value);
        }
        cell.options_pending.fetch_add(1, Ordering::AcqRel);
        into.push(
            Nqe::new(operation::SET_OPTION, number)
                .with_data(word(level, name))
                .with_chunk(offset, value.len() as u32),
        );
    }
}

fn word(level: c_int, name: c_int) -> u64 {
    u64::from(level as u32) << 32 | u64::from(name as u32)
}

impl Socket {
    pub fn set_option(&self, level: c_int, name: c_int, value: &[u8]) -> Result<()> {
        let cell = self.cell;
        if level == libc::SOL_SOCKET {
            match name {
                libc::SO_RCVTIMEO => {
                    cell.receive_timeout
                        .store(microseconds(value)?, Ordering::Relaxed);
                    return Ok(());
                }
                libc::SO_SNDTIMEO => {
                    cell.send_timeout
                        .store(microseconds(value)?, Ordering::Relaxed);
                    return Ok(());
                }
                libc::SO_TYPE
                | libc::SO_DOMAIN
                | libc::SO_PROTOCOL
                | libc::SO_ERROR
                | libc::SO_ACCEPTCONN => return Err(Errno(libc::ENOPROTOOPT)),
                libc::SO_LINGER => {
                    let on = int(value)?;
                    let seconds = int(value.get(4..).unwrap_or_default())?;
                    let kept = if on != 0 {
                        seconds.saturating_add(1)
                    } else {
                        0
                    };
                    cell.linger.store(kept, Ordering::Relaxed);
                    self.pass_option(level, name, value)?;
                    return Ok(());
                }
                _ => {}
            }
        }
        if level == libc::IPPROTO_TCP && !cell.is_stream() {
            return Err(Errno(libc::ENOPROTOOPT));
        }
        if kept(level, name) {
            let number = int(value)?;
            // Linux says twice the size that was asked for.
            let shown = match (level, name) {
                (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_RCVBUF) => {
                    number.clamp(1024, BUFFER) * 2
                }
                (
                    libc::SOL_SOCKET,
                    libc::SO_REUSEADDR
                    | libc::SO_REUSEPORT
                    | libc::SO_KEEPALIVE
                    | libc::SO_BROADCAST
                    | libc::SO_DONTROUTE
                    | libc::SO_OOBINLINE,
                )
                | (libc::IPPROTO_TCP, libc::TCP_NODELAY | libc::TCP_CORK)
                | (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => u32::from(number != 0),
                _ => number,
            };
            cell.keep_option(level as u32, name as u32, shown);
            return self.pass_option(level, name, value);
        }
        let (offset, _) = self.ask(operation::SET_OPTION, (level, name), value, value.len())?;
        self.shared.private.free_chunk(self.number, offset);
        Ok(())
    }

    /// Asks about an option. The chunk of its value, of `len` bytes, is the caller's to free.
    fn ask(
        &self,
        operation: u8,
        (level, name): (c_int, c_int),
        value: &[u8],
        len: usize,
    ) -> Result<(u64, Answer)> {
        loop {
            let offset = self.option_chunk(value)?;
            let nqe = Nqe::new(operation, self.number)
                .with_data(word(level, name))
                .with_chunk(offset, len as u32);
            match queues::request(&self.shared, self.set, self.cell, nqe) {
                Ok(answer) => return Ok((offset, answer)),
                // The chunk was freed when CoreEngine ended.
                Err(Errno(RESTART)) => {}
                Err(error) => {
                    self.shared.private.free_chunk(self.number, offset);
                    return Err(error);
                }
            }
        }
    }

    /// Sends an option and does not wait for its result, which frees the chunk.
    pub fn pass_option(&self, level: c_int, name: c_int, value: &[u8]) -> Result<()> {
        restart::ready()?;
        let offset = self.option_chunk(value)?;
        let nqe = Nqe::new(operation::SET_OPTION, self.number)
            .with_data(word(level, name))
            .with_chunk(offset, value.len() as u32);
        let _guard = self.cell.lock.lock();
        self.cell.options_pending.fetch_add(1, Ordering::AcqRel);
        if queues::submit(&self.shared, self.set, &[nqe], Urgency::Quiet) {
            return Ok(());
        }
        self.cell.options_pending.fetch_sub(1, Ordering::AcqRel);
        self.shared.private.free_chunk(self.number, offset);
        Err(Errno(libc::ENOBUFS))
    }

    /// Which other sockets may have the address that this one is bound to: flags of a BIND.
    pub fn shares_address(&self) -> u8 {
        shares_address(self.cell)
    }

    fn option_chunk(&self, value: &[u8]) -> Result<u64> {
        if value.len() > VALUE_MAX {
            return Err(Errno(libc::EINVAL));
        }
        let offset = self.shared.private.take_chunk(self.number);
        let offset = offset.ok_or(Errno(libc::ENOBUFS))?;
        if let Some(bytes) = self.shared.payload.bytes(offset, value.len() as u32) {
            bytes.write(value);
        }
        Ok(offset)
    }

    /// Reads an option into `value`; how many bytes it has.
    pub fn option(&self, level: c_int, name: c_int, value: &mut [u8]) -> Result<usize> {
        let cell = self.cell;
        let mut put = |bytes: &[u8]| {
            let n = bytes.len().min(value.len());
            value[..n].copy_from_slice(&bytes[..n]);
            Ok(n)
        };
        if level == libc::SOL_SOCKET {
            let number = match name {
                libc::SO_ERROR => {
                    self.drain();
                    cell.unset(flag::CONNECT_OUTCOME);
                    Some(cell.take_error())
                }
                libc::SO_TYPE => Some(cell.kind.load(Ordering::Relaxed)),
                libc::SO_DOMAIN => Some(cell.domain.load(Ordering::Relaxed)),
                libc::SO_PROTOCOL => Some(cell.protocol.load(Ordering::Relaxed)),
                libc::SO_ACCEPTCONN => Some(u32::from(cell.is(state::LISTENING))),
                libc::SO_RCVTIMEO => {
                    return put(&timeval(cell.receive_timeout.load(Ordering::Relaxed)));
                }
                libc::SO_SNDTIMEO => {
                    return put(&timeval(cell.send_timeout.load(Ordering::Relaxed)));
                }
                libc::SO_LINGER => {
                    let kept = cell.linger.load(Ordering::Relaxed);
                    let mut bytes = [0; 8];
                    bytes[..4].copy_from_slice(&u32::from(kept != 0).to_ne_bytes());
                    bytes[4..].copy_from_slice(&kept.saturating_sub(1).to_ne_bytes());
                    return put(&bytes);
                }
                _ => None,
            };
            if let Some(number) = number {
                return put(&number.to_ne_bytes());
            }
        }
        if level == libc::IPPROTO_TCP && !cell.is_stream() {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let known = cell
            .option(level as u32, name as u32)
            .filter(|_| kept(level, name));
        if let Some(number) = known.or_else(|| default(level, name)) {
            return put(&number.to_ne_bytes());
        }
        let wanted = value.len().min(CHUNK_BYTES);
        let (offset, answer) = self.ask(operation::GET_OPTION, (level, name), &[], wanted)?;
        let len = answer.len.min(wanted as u32);
        let bytes = self.shared.payload.bytes(offset, len);
        let read = bytes.map_or(0, |bytes| bytes.read(value));
        self.shared.private.free_chunk(self.number, offset);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_written() {
        for micro in [0, 1, 999_999, 1_000_000, 86_400_000_001] {
            assert_eq!(microseconds(&timeval(micro)), Ok(micro));
        }
        assert_eq!(microseconds(&[0; 15]), Err(Errno(libc::EINVAL)));
        let mut bad = timeval(0);
        bad[8..].copy_from_slice(&1_000_000i64.to_ne_bytes());
        assert_eq!(microseconds(&bad), Err(Errno(libc::EDOM)));
    }
}
