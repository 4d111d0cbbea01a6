//! Pings from a network namespace.

use std::collections::HashMap;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recv, sendto, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Pings under way at a time.
const WINDOW: usize = 64;
/// How long an answer may take.
const WAIT: Duration = Duration::from_secs(1);
/// Number of requests to a guest that does not answer.
const ROUNDS: usize = 3;

/// A socket for ICMP.
pub struct Prober {
    socket: OwnedFd,
    sequence: u16,
}

impl Prober {
    /// A prober in a namespace, where this thread is from then on.
    pub fn enter(namespace: &str) -> Result<Prober, String> {
        let file = format!("/run/netns/{namespace}");
        let open = File::open(&file).map_err(|error| format!("{file}: {error}"))?;
        move_into_link_name_space(open.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| format!("{file}: {error}"))?;
        let socket = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP));
        let socket = socket.map_err(|error| format!("a socket for ICMP: {error}"))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(WAIT)).map_err(|e| e.to_string())?;
        set_socket_recv_buffer_size(&socket, 1 << 22).map_err(|e| e.to_string())?;
        Ok(Prober {
            socket,
            sequence: 0,
        })
    }

    fn send(&mut self, to: Ipv4Addr) -> Result<(), String> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = [0; 16];
        message[0] = 8;
        message[6..8].copy_from_slice(&self.sequence.to_be_bytes());
        let sum: u32 = message
            .chunks_exact(2)
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
            .sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let sent = sendto(
            &self.socket,
            &message,
            SendFlags::empty(),
            &SocketAddrV4::new(to, 0),
        );
        sent.map(drop)
            .map_err(|error| format!("ping {to}: {error}"))
    }

    /// The address that answers next; `None` after the timeout.
    fn receive(&mut self) -> Result<Option<Ipv4Addr>, String> {
        let mut message = [0; 128];
        loop {
            let length = match recv(&self.socket, &mut message, RecvFlags::empty()) {
                Ok((length, _)) => length,
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(format!("pings: {error}")),
            };
            // The IP header has no options here. An answer is of type 0.
            if length >= 28 && message[20] == 0 {
                let from: [u8; 4] = [message[12], message[13], message[14], message[15]];
                return Ok(Some(from.into()));
            }
        }
    }

    /// Seconds until one answers.
    pub fn time(&mut self, to: Ipv4Addr) -> Result<f64, String> {
        let start = Instant::now();
        self.send(to)?;
        while let Some(from) = self.receive()? {
            if from == to {
                return Ok(start.elapsed().as_secs_f64());
            }
        }
        Err(format!("{to} does not answer"))
    }

    /// Pings all of these for so long, with `window` pings under way to each; the answers of each. One that lets a ping
    /// go without an answer for long is asked again.
    pub fn flood(
        &mut self,
        all: &[Ipv4Addr],
        window: usize,
        time: Duration,
    ) -> Result<Vec<u64>, String> {
        let places = all.iter().enumerate();
        let places: HashMap<Ipv4Addr, usize> = places.map(|(at, to)| (*to, at)).collect();
        let mut answers = vec![0; all.len()];
        let start = Instant::now();
        while start.elapsed() < time {
            for to in all.iter().flat_map(|to| std::iter::repeat_n(to, window)) {
                self.send(*to)?;
            }
            while start.elapsed() < time {
                let Some(from) = self.receive()? else {
                    break;
                };
                if let Some(at) = places.get(&from) {
                    answers[*at] += 1;
                    self.send(from)?;
                }
            }
        }
        // Drop answers that are still under way.
        let quiet = Instant::now();
        while quiet.elapsed() < WAIT && self.receive()?.is_some() {}
        Ok(answers)
    }

    /// How many of these answer.
    pub fn answering(&mut self, all: &[Ipv4Addr]) -> Result<usize, String> {
        let mut silent: std::collections::BTreeSet<Ipv4Addr> = all.iter().copied().collect();
        for _ in 0..ROUNDS {
            let asked: Vec<Ipv4Addr> = silent.iter().copied().collect();
            for some in asked.chunks(WINDOW) {
                some.iter().try_for_each(|to| self.send(*to))?;
                let before = silent.len();
                while before - silent.len() < some.len() {
                    let Some(from) = self.receive()? else {
                        break;
                    };
                    silent.remove(&from);
                }
            }
        }
        Ok(all.len() - silent.len())
    }
}
