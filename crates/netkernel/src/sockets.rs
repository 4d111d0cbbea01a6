//! The sockets of an NSM, by their numbers, and what each has.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;

use abi::nqe::{CHOSEN_BY_NSM, Nqe};
use abi::tenant::ACCEPT_QUEUE;
use rustix::io::Errno;

/// A chunk to be sent.
#[derive(Clone, Copy)]
pub(crate) struct Sending {
    pub offset: u64,
    pub len: u32,
    /// Bytes that the stack has.
    pub done: u32,
    pub more: bool,
    /// The queue set that it came from.
    pub set: u8,
}

/// The backlog that LISTEN asks for, where all connections of it are offered: one more than it is, as Linux has it, and
/// no more than the tenant has room for.
pub(crate) fn backlog(listen: Nqe) -> u32 {
    listen.data.clamp(1, u64::from(ACCEPT_QUEUE) - 1) as u32
}

/// What every socket of a tenant's has.
pub(crate) struct Common {
    pub tenant: u8,
    pub sending: VecDeque<Sending>,
    /// Chunks that are lent to it.
    pub lent: usize,
    /// It waits in the list of sockets to look at.
    pub marked: bool,
    /// It waits for a chunk of its tenant's, or of its peer's.
    pub starved: bool,
    /// The peer's end has been told.
    pub ended: bool,
    /// The connection is broken.
    pub failed: Option<Errno>,
    /// The tenant has shut down writing; it is done when all is sent.
    pub shut: bool,
    /// The tenant has closed it, by this queue set; it ends when all is sent.
    pub closing: Option<u8>,
    /// An offered connection: the listening socket that it came by.
    pub listener: Option<u32>,
}

impl Common {
    pub fn new(tenant: u8) -> Common {
        Common {
            tenant,
            sending: VecDeque::new(),
            lent: 0,
            marked: false,
            starved: false,
            ended: false,
            failed: None,
            shut: false,
            closing: None,
            listener: None,
        }
    }
}

/// The table: by numbers of CoreEngine's choosing and of this NSM's.
pub(crate) struct Sockets<S> {
    chosen: Vec<Option<Box<S>>>,
    own: Vec<Option<Box<S>>>,
    free: Vec<u32>,
}

impl<S> Default for Sockets<S> {
    fn default() -> Self {
        Sockets {
            chosen: Vec::new(),
            own: Vec::new(),
            free: Vec::new(),
        }
    }
}

/// Most sockets of each kind, as CoreEngine has it.
const MOST: usize = 1 << 20;

impl<S: Deref<Target = Common>> Sockets<S> {
    /// A socket.
    #[inline]
    pub fn get(&mut self, number: u32) -> Option<&mut S> {
        let (rows, at) = if number & CHOSEN_BY_NSM == 0 {
            (&mut self.chosen, number)
        } else {
            (&mut self.own, number & !CHOSEN_BY_NSM)
        };
        rows.get_mut(at as usize)?.as_deref_mut()
    }

    /// Puts a socket at the number that CoreEngine has chosen.
    pub fn put(&mut self, number: u32, socket: S) {
        let at = number as usize;
        if at < MOST {
            if at >= self.chosen.len() {
                self.chosen.resize_with(at + 1, || None);
            }
            self.chosen[at] = Some(Box::new(socket));
        }
    }

    /// A number of this NSM's; `None`: there are too many sockets.
    pub fn choose(&mut self) -> Option<u32> {
        if let Some(at) = self.free.pop() {
            return Some(at | CHOSEN_BY_NSM);
        }
        if self.own.len() == MOST {
            return None;
        }
        self.own.push(None);
        Some((self.own.len() as u32 - 1) | CHOSEN_BY_NSM)
    }

    /// Puts a socket at a number of this NSM's.
    pub fn put_own(&mut self, number: u32, socket: S) {
        self.own[(number & !CHOSEN_BY_NSM) as usize] = Some(Box::new(socket));
    }

    /// Gives a number back that was chosen and not used.
    pub fn give_back(&mut self, number: u32) {
        self.free.push(number & !CHOSEN_BY_NSM);
    }

    /// Takes a socket out.
    pub fn remove(&mut self, number: u32) -> Option<Box<S>> {
        if number & CHOSEN_BY_NSM == 0 {
            return self.chosen.get_mut(number as usize)?.take();
        }
        let at = number & !CHOSEN_BY_NSM;
        let removed = self.own.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(removed)
    }

    /// The numbers of the sockets for which something holds.
    pub fn numbers_that(&self, holds: impl Fn(&S) -> bool) -> Vec<u32> {
        let numbered = |rows: &[Option<Box<S>>], bit: u32| -> Vec<u32> {
            let rows = rows.iter().enumerate();
            rows.filter(|(_, row)| row.as_ref().is_some_and(|socket| holds(socket)))
                .map(|(at, _)| at as u32 | bit)
                .collect()
        };
        let mut all = numbered(&self.chosen, 0);
        all.extend(numbered(&self.own, CHOSEN_BY_NSM));
        all
    }

    /// Takes the sockets of a tenant out.
    pub fn remove_of(&mut self, tenant: u8) -> Vec<S> {
        let numbers = self.numbers_that(|socket| socket.tenant == tenant);
        let removed = numbers.into_iter().map(|number| self.remove(number));
        removed.flatten().map(|socket| *socket).collect()
    }
}

/// An address as the stack has it, from one that a tenant gives a socket, of IPv6 or IPv4; IPv4 addresses in IPv6 ones are
/// IPv4.
pub(crate) fn heard(ipv6: bool, only_ipv6: bool, address: SocketAddr) -> Result<SocketAddr, Errno> {
    let ip = match address.ip() {
        IpAddr::V4(_) if ipv6 => return Err(Errno::AFNOSUPPORT),
        IpAddr::V6(_) if !ipv6 => return Err(Errno::AFNOSUPPORT),
        ip => ip.to_canonical(),
    };
    if ip.is_ipv4() && ipv6 && only_ipv6 {
        return Err(Errno::NETUNREACH);
    }
    Ok(SocketAddr::new(ip, address.port()))
}

/// An address as the tenant of a socket, of IPv6 or IPv4, is told.
pub(crate) fn told(ipv6: bool, address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ipv6 => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        _ => address,
    }
}
