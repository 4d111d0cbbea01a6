//! Interests in sockets of an NSM, and the ready list of each epoll.

use core::ffi::c_int;
use core::sync::atomic::Ordering;
use std::collections::VecDeque;

use crate::cell::event;
use crate::table;

const ET: u32 = libc::EPOLLET as u32;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;

pub struct Interest {
    pub epoll: u32,
    pub fd: c_int,
    pub socket: u32,
    /// 0 after a one-shot report.
    pub events: u32,
    pub data: u64,
    pub queued: bool,
    pub live: bool,
    /// The socket's next interest, plus one.
    pub next: u32,
}

#[derive(Default)]
pub struct Epoll {
    /// Descriptors that stand for it; 0: free.
    pub descriptors: u32,
    pub interests: usize,
    pub ready: VecDeque<u32>,
    pub waiters: u64,
    /// Reports since the kernel's part was looked at.
    pub unseen: u32,
    /// A socket waits for a chunk to send from, of which it is not told.
    pub starved: bool,
    /// It came from another process by fork: its sockets' events may go there.
    pub foreign: bool,
    /// The eventfd behind [`KICK`], plus one.
    pub kick: c_int,
    /// When it is removed.
    pub kick_until: u64,
}

#[derive(Default)]
pub struct Tables {
    pub interests: Vec<Interest>,
    pub free: Vec<u32>,
    pub epolls: Vec<Epoll>,
}

impl Tables {
    pub fn queue(&mut self, index: u32) {
        let interest = &mut self.interests[index as usize];
        if !interest.queued {
            interest.queued = true;
            self.epolls[interest.epoll as usize].ready.push_back(index);
        }
    }

    pub fn find(&self, epoll: u32, socket: u32, fd: c_int) -> Option<u32> {
        let mut next = table::local(socket).interests.load(Ordering::Relaxed);
        while let Some(index) = next.checked_sub(1) {
            let interest = &self.interests[index as usize];
            if interest.epoll == epoll && interest.fd == fd {
                return Some(index);
            }
            next = interest.next;
        }
        None
    }

    pub fn add(&mut self, interest: Interest) -> u32 {
        let head = &table::local(interest.socket).interests;
        let epoll = interest.epoll as usize;
        let interest = Interest {
            next: head.load(Ordering::Relaxed),
            ..interest
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.interests[index as usize] = interest;
                index
            }
            None => {
                self.interests.push(interest);
                self.interests.len() as u32 - 1
            }
        };
        head.store(index + 1, Ordering::SeqCst);
        let epoll = &mut self.epolls[epoll];
        epoll.interests += 1;
        // Room for all, so that an event never allocates.
        let room = epoll.interests + 1;
        epoll.ready.reserve(room.saturating_sub(epoll.ready.len()));
        index
    }

    pub fn remove(&mut self, index: u32) {
        let (socket, after) = {
            let interest = &mut self.interests[index as usize];
            interest.live = false;
            (interest.socket, interest.next)
        };
        let head = &table::local(socket).interests;
        if head.load(Ordering::Relaxed) == index + 1 {
            head.store(after, Ordering::Relaxed);
        } else {
            let mut at = head.load(Ordering::Relaxed);
            while let Some(i) = at.checked_sub(1) {
                let interest = &mut self.interests[i as usize];
                if interest.next == index + 1 {
                    interest.next = after;
                    break;
                }
                at = interest.next;
            }
        }
        let interest = &self.interests[index as usize];
        let epoll = &mut self.epolls[interest.epoll as usize];
        epoll.interests -= 1;
        if interest.queued {
            epoll.ready.retain(|&queued| queued != index);
        }
        self.free.push(index);
    }

    /// Reports ready interests into `out`, at most `most`, and takes interests that are not ready off
    /// the list.
    pub fn report(
        &mut self,
        number: u32,
        most: usize,
        readiness: impl Fn(u32) -> u32,
        mut out: impl FnMut(usize, libc::epoll_event),
    ) -> usize {
        let mut n = 0;
        for _ in 0..self.epolls[number as usize].ready.len() {
            if n == most {
                break;
            }
            let Some(index) = self.epolls[number as usize].ready.pop_front() else {
                break;
            };
            let interest = &mut self.interests[index as usize];
            interest.queued = false;
            let ready = match interest.events {
                0 => 0,
                events => readiness(interest.socket) & (events | event::ALWAYS),
            };
            if ready == 0 {
                continue;
            }
            let told = libc::epoll_event {
                events: ready,
                u64: interest.data,
            };
            out(n, told);
            n += 1;
            if interest.events & ONESHOT != 0 {
                interest.events = 0;
            } else if interest.events & ET == 0 {
                self.queue(index);
            }
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(events: &[u32]) -> Tables {
        let mut tables = Tables::default();
        tables.epolls.push(Epoll::default());
        for (i, &events) in events.iter().enumerate() {
            // Sockets that no other test uses.
            tables.add(Interest {
                epoll: 0,
                fd: i as c_int,
                socket: 60_000 + i as u32,
                events,
                data: i as u64,
                queued: false,
                live: true,
                next: 0,
            });
        }
        tables
    }

    fn told(tables: &mut Tables, most: usize, ready: impl Fn(u32) -> u32) -> Vec<u64> {
        let mut all = Vec::new();
        tables.report(
            0,
            most,
            |socket| ready(socket - 60_000),
            |_, event| all.push(event.u64),
        );
        all
    }

    /// The tests share the heads of the sockets' lists, so they are one test.
    #[test]
    fn the_ready_list_is_the_kernels() {
        let mut t = tables(&[event::IN, event::IN | ET, event::IN | ONESHOT, event::OUT]);
        assert_eq!(told(&mut t, 9, |_| event::IN), []);
        for index in 0..4 {
            t.queue(index);
            t.queue(index);
        }
        // Level-triggered ones are reported while ready, edge-triggered and one-shot ones once.
        assert_eq!(told(&mut t, 9, |_| event::IN), [0, 1, 2]);
        assert_eq!(told(&mut t, 9, |_| event::IN), [0]);
        assert_eq!(told(&mut t, 9, |_| 0), []);
        assert_eq!(told(&mut t, 9, |_| event::IN), []);
        // A new event reports an edge-triggered one again, and a one-shot one only after MOD.
        t.queue(1);
        t.queue(2);
        assert_eq!(told(&mut t, 9, |_| event::IN), [1]);
        // An error is told though not asked for.
        t.queue(3);
        assert_eq!(told(&mut t, 9, |_| event::ERR), [3]);
        assert_eq!(t.find(0, 60_003, 3), Some(3));
        assert_eq!(t.find(0, 60_003, 2), None);
        t.remove(3);
        assert_eq!(t.find(0, 60_003, 3), None);
        assert_eq!(told(&mut t, 9, |_| event::OUT), []);
        for index in 0..3 {
            t.remove(index);
        }

        // Reports of one at a time go round all that are ready.
        let mut t = tables(&[event::IN; 3]);
        for index in 0..3 {
            t.queue(index);
        }
        let rounds: Vec<_> = (0..6)
            .flat_map(|_| told(&mut t, 1, |_| event::IN))
            .collect();
        assert_eq!(rounds, [0, 1, 2, 0, 1, 2]);
    }
}
