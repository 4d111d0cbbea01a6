//! Socket options: which the stack obeys, and which are kept and have no effect.

use std::time::Duration;

use abi::SharedBytes;
use rustix::io::Errno;
use smoltcp::socket::tcp;

/// The interval of keep-alive probes, in seconds, and how many are not answered, before they are set: Linux's.
const KEEP_IDLE: u32 = 7200;
const KEEP_INTERVAL: u32 = 75;
const KEEP_COUNT: u32 = 9;
/// How long a peer may not answer to bytes or an end, in milliseconds: about what Linux takes (net.ipv4.tcp_retries2).
const USER_TIMEOUT: u32 = 924_600;
/// Most options of a socket that are only kept.
const KEPT_MAX: usize = 32;
/// Longest value, in bytes: that of a congestion control's name.
const VALUE_MAX: usize = 16;

/// The options of a socket.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub reuse_address: bool,
    pub reuse_port: bool,
    pub broadcast: bool,
    pub v6_only: bool,
    /// Close waits in the application; here it says whether it resets.
    pub resets: bool,
    linger: [i32; 2],
    keep_alive: bool,
    keep_idle: u32,
    keep_interval: u32,
    keep_count: u32,
    /// In milliseconds; 0: the usual.
    user_timeout: u32,
    no_delay: bool,
    hop_limit: Option<u8>,
    /// What comes with a datagram.
    pub packet_info: bool,
    pub tells_hop_limit: bool,
    pub tells_class: bool,
    kept: Vec<(i32, i32, i32)>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            reuse_address: false,
            reuse_port: false,
            broadcast: false,
            v6_only: false,
            resets: false,
            linger: [0; 2],
            keep_alive: false,
            keep_idle: KEEP_IDLE,
            keep_interval: KEEP_INTERVAL,
            keep_count: KEEP_COUNT,
            user_timeout: 0,
            no_delay: false,
            hop_limit: None,
            packet_info: false,
            tells_hop_limit: false,
            tells_class: false,
            kept: Vec::new(),
        }
    }
}

/// Whether an option is kept without an effect: with it, a stack would send otherwise, and as right.
fn is_kept(level: i32, name: i32) -> bool {
    match level {
        libc::SOL_SOCKET => matches!(
            name,
            libc::SO_DONTROUTE
                | libc::SO_OOBINLINE
                | libc::SO_RCVBUF
                | libc::SO_SNDBUF
                | libc::SO_RCVLOWAT
                | libc::SO_PRIORITY
                | libc::SO_BUSY_POLL
                | libc::SO_INCOMING_CPU
        ),
        libc::IPPROTO_TCP => matches!(
            name,
            libc::TCP_CORK
                | libc::TCP_SYNCNT
                | libc::TCP_LINGER2
                | libc::TCP_DEFER_ACCEPT
                | libc::TCP_WINDOW_CLAMP
                | libc::TCP_QUICKACK
                | libc::TCP_FASTOPEN
                | libc::TCP_NOTSENT_LOWAT
        ),
        libc::IPPROTO_IP => matches!(
            name,
            libc::IP_TOS
                | libc::IP_MTU_DISCOVER
                | libc::IP_RECVERR
                | libc::IP_BIND_ADDRESS_NO_PORT
                | libc::IP_MULTICAST_TTL
                | libc::IP_MULTICAST_LOOP
        ),
        libc::IPPROTO_IPV6 => matches!(
            name,
            libc::IPV6_TCLASS
                | libc::IPV6_MTU_DISCOVER
                | libc::IPV6_RECVERR
                | libc::IPV6_MULTICAST_HOPS
                | libc::IPV6_MULTICAST_LOOP
        ),
        _ => false,
    }
}

impl Options {
    /// Sets an option.
    pub fn set(&mut self, level: i32, name: i32, value: SharedBytes) -> Result<(), Errno> {
        let mut bytes = [0; VALUE_MAX];
        let len = value.read(&mut bytes);
        if (level, name) == (libc::IPPROTO_TCP, libc::TCP_CONGESTION) {
            let is_cubic = bytes[..len].strip_suffix(b"\0").unwrap_or(&bytes[..len]) == b"cubic";
            return if is_cubic { Ok(()) } else { Err(Errno::NOENT) };
        }
        // Some may be set by one byte, as Linux has it.
        let number = match (len, bytes) {
            (0, _) => return Err(Errno::INVAL),
            (1..4, [byte, ..]) => i32::from(byte),
            (_, [a, b, c, d, ..]) => i32::from_ne_bytes([a, b, c, d]),
        };
        let (is_set, positive) = (number != 0, u32::try_from(number).ok().filter(|n| *n > 0));
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => self.reuse_address = is_set,
            (libc::SOL_SOCKET, libc::SO_REUSEPORT) => self.reuse_port = is_set,
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => self.keep_alive = is_set,
            (libc::SOL_SOCKET, libc::SO_BROADCAST) => self.broadcast = is_set,
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let [_, _, _, _, a, b, c, d, ..] = bytes;
                self.linger = [number, i32::from_ne_bytes([a, b, c, d])];
                self.resets = is_set && self.linger[1] == 0;
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => self.no_delay = is_set,
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
                self.keep_idle = positive.ok_or(Errno::INVAL)?
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => {
                self.keep_interval = positive.ok_or(Errno::INVAL)?
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => {
                self.keep_count = positive.ok_or(Errno::INVAL)?
            }
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
                self.user_timeout = u32::try_from(number).map_err(|_| Errno::INVAL)?;
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
                self.hop_limit = match number {
                    -1 => None,
                    1..=255 => Some(number as u8),
                    _ => return Err(Errno::INVAL),
                };
            }
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => self.v6_only = is_set,
            (libc::IPPROTO_IP, libc::IP_PKTINFO) | (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => {
                self.packet_info = is_set;
            }
            (libc::IPPROTO_IP, libc::IP_RECVTTL)
            | (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT) => {
                self.tells_hop_limit = is_set;
            }
            (libc::IPPROTO_IP, libc::IP_RECVTOS) | (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS) => {
                self.tells_class = is_set;
            }
            _ if is_kept(level, name) => {
                self.kept.retain(|it| (it.0, it.1) != (level, name));
                if self.kept.len() < KEPT_MAX {
                    self.kept.push((level, name, number));
                }
            }
            _ => return Err(Errno::NOPROTOOPT),
        }
        Ok(())
    }

    /// Reads an option into the bytes; returns the length of its value.
    pub fn get(&self, level: i32, name: i32, value: SharedBytes) -> Result<u32, Errno> {
        let number = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => self.reuse_address.into(),
            (libc::SOL_SOCKET, libc::SO_REUSEPORT) => self.reuse_port.into(),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => self.keep_alive.into(),
            (libc::SOL_SOCKET, libc::SO_BROADCAST) => self.broadcast.into(),
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let mut bytes = [0; 8];
                bytes[..4].copy_from_slice(&self.linger[0].to_ne_bytes());
                bytes[4..].copy_from_slice(&self.linger[1].to_ne_bytes());
                return Ok(value.write(&bytes) as u32);
            }
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                let mut name = [0; VALUE_MAX];
                name[..5].copy_from_slice(b"cubic");
                return Ok(value.write(&name[..value.len().min(VALUE_MAX)]) as u32);
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => self.no_delay.into(),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => self.keep_idle as i32,
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => self.keep_interval as i32,
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => self.keep_count as i32,
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => self.user_timeout as i32,
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
                self.hop_limit.unwrap_or(64).into()
            }
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => self.v6_only.into(),
            (libc::IPPROTO_IP, libc::IP_PKTINFO) | (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => {
                self.packet_info.into()
            }
            (libc::IPPROTO_IP, libc::IP_RECVTTL)
            | (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT) => self.tells_hop_limit.into(),
            (libc::IPPROTO_IP, libc::IP_RECVTOS) | (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS) => {
                self.tells_class.into()
            }
            _ if is_kept(level, name) => {
                let kept = self.kept.iter().find(|it| (it.0, it.1) == (level, name));
                kept.map_or(0, |it| it.2)
            }
            _ => return Err(Errno::NOPROTOOPT),
        };
        Ok(value.write(&number.to_ne_bytes()) as u32)
    }

    /// Of datagrams: the hop limit, if it is not the usual one.
    pub fn hop_limit(&self) -> Option<u8> {
        self.hop_limit
    }

    /// How long a peer may not answer to what was sent.
    pub fn user_timeout(&self) -> Duration {
        let timeout = match self.user_timeout {
            0 => USER_TIMEOUT,
            timeout => timeout,
        };
        Duration::from_millis(timeout.into())
    }

    /// How long a peer may be silent, if it is asked whether it is there.
    pub fn silence(&self) -> Option<Duration> {
        let probes = u64::from(self.keep_interval) * u64::from(self.keep_count);
        self.keep_alive
            .then(|| Duration::from_secs(u64::from(self.keep_idle) + probes))
    }

    /// Has a connection obey them.
    pub fn apply(&self, tcp: &mut tcp::Socket<'_>) {
        tcp.set_nagle_enabled(!self.no_delay);
        tcp.set_hop_limit(self.hop_limit);
        let keep_alive = self
            .keep_alive
            .then(|| smoltcp::time::Duration::from_secs(self.keep_idle.into()));
        if tcp.keep_alive() != keep_alive {
            tcp.set_keep_alive(keep_alive);
        }
    }
}
