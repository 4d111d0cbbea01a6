//! Guests' connections to the store: two byte rings each, of the guest's control region, which this process maps. It
//! keeps no descriptor of a guest: guests wake it by eventfds, each shared by many guests.
//!
//! Until its first request, a guest costs the store only the mapping.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use ::store::server::EventLoop;
use ::store::{ConnectionId, DomainId, Stream};
use abi::bytes::Corrupt;
use vmm::StoreConnection;

/// The first number of wakers among the numbers of the process's descriptors.
const WAKERS: u64 = 1 << 32;

/// The connections of all guests.
#[derive(Default)]
pub struct Rings {
    guests: HashMap<u16, Guest>,
    wakers: HashMap<u64, Waker>,
}

/// A guest.
struct Guest {
    /// Its rings, until it makes its first request.
    quiet: Option<StoreConnection>,
    /// Its number among the store's clients from then on.
    client: Option<ConnectionId>,
    waker: u64,
}

/// An eventfd, and the guests that ring by it.
struct Waker {
    file: OwnedFd,
    domains: Vec<u16>,
}

/// What carries a guest's bytes.
struct Ring(StoreConnection);

/// A guest that breaks a ring is disconnected.
fn broken(_: Corrupt) -> io::Error {
    io::ErrorKind::InvalidData.into()
}

fn moved(bytes: Result<usize, Corrupt>) -> io::Result<usize> {
    match bytes.map_err(broken)? {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        bytes => Ok(bytes),
    }
}

impl Stream for Ring {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        moved(self.0.read(into))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        moved(self.0.write(bytes))
    }

    fn await_room(&mut self, awaits: bool) -> io::Result<()> {
        self.0.set_waits(awaits);
        Ok(())
    }
}

impl Rings {
    /// Begins a connection with a guest, by the files of its control region and its waker. One that there is goes on.
    pub fn connect(
        &mut self,
        serving: &mut EventLoop,
        domain: u16,
        waker: u64,
        [region, file]: [OwnedFd; 2],
    ) {
        if self.guests.contains_key(&domain) {
            return;
        }
        // A guest that cannot be reached is a domain as before.
        let Ok(connection) = StoreConnection::begin(region) else {
            return;
        };
        let there = self.wakers.get_mut(&waker);
        if there.is_none() && serving.watch(file.as_fd(), WAKERS + waker).is_err() {
            return;
        }
        let domains = Vec::new();
        let there = self.wakers.entry(waker).or_insert(Waker { file, domains });
        there.domains.push(domain);
        let guest = Guest {
            quiet: Some(connection),
            client: None,
            waker,
        };
        self.guests.insert(domain, guest);
    }

    /// Ends the connection of a guest that has ended.
    pub fn release(&mut self, serving: &mut EventLoop, domain: u16) {
        let Some(guest) = self.guests.remove(&domain) else {
            return;
        };
        if let Some(id) = guest.client {
            serving.disconnect(id);
        }
        let Some(waker) = self.wakers.get_mut(&guest.waker) else {
            return;
        };
        waker.domains.retain(|other| *other != domain);
        if waker.domains.is_empty()
            && let Some(waker) = self.wakers.remove(&guest.waker)
        {
            // The node has it open as well: closing it would leave it watched. An error means that it was not watched.
            let _ = serving.forget(waker.file.as_fd());
        }
    }

    /// Serves the guests of a waker that was written to, if `number` is one.
    pub fn ring(&mut self, serving: &mut EventLoop, number: u64) {
        let waker = number.checked_sub(WAKERS);
        let Some(waker) = waker.and_then(|waker| self.wakers.get(&waker)) else {
            return;
        };
        // The eventfd may be empty already: another process can read it.
        let _ = rustix::io::read(&waker.file, &mut [0; 8]);
        for domain in &waker.domains {
            let Some(guest) = self.guests.get_mut(domain) else {
                continue;
            };
            if let Some(id) = guest.client {
                serving.touch(id);
            } else if let Some(quiet) = guest.quiet.take_if(StoreConnection::has_requests) {
                let ring = Box::new(Ring(quiet));
                guest.client = Some(serving.connect(DomainId(*domain), ring));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use ::store::Store;
    use ::store::server::Shared;
    use abi::control::{STORE_OFFSET, STORE_WORDS_OFFSET};
    use abi::store::{RING_BYTES, Words};
    use abi::xenstore::{Header, Kind};
    use proptest::prelude::*;
    use rustix::event::{EventfdFlags, eventfd};
    use vmm::Control;

    use super::*;

    /// Offsets of the guest's words and of the rings' cursors, as `abi::store` has them.
    const ACCEPTED: usize = 64;
    const REQUESTS: usize = 128;
    const REPLIES: usize = 256;
    /// From what is produced to what is consumed.
    const CONSUMED: usize = 64;

    /// A guest, by the file of its control region: it can write anything there.
    struct Guest {
        file: File,
        produced: u64,
    }

    impl Guest {
        fn put(&self, at: usize, bytes: &[u8]) {
            self.file.write_all_at(bytes, at as u64).unwrap();
        }

        fn word(&self, at: usize) -> [u8; 8] {
            let mut word = [0; 8];
            let at = STORE_WORDS_OFFSET + at;
            self.file.read_exact_at(&mut word, at as u64).unwrap();
            word
        }

        fn set_word(&self, at: usize, word: u64) {
            self.put(STORE_WORDS_OFFSET + at, &word.to_ne_bytes());
        }

        /// Begins the connection.
        fn begin(&mut self) {
            self.produced = 0;
            self.set_word(REQUESTS, 0);
            self.set_word(REPLIES + CONSUMED, 0);
            let connection = self.word(0);
            self.put(STORE_WORDS_OFFSET + ACCEPTED, &connection[..4]);
        }

        fn send(&mut self, bytes: &[u8]) {
            for byte in bytes {
                let at = self.produced as usize % RING_BYTES;
                self.put(STORE_OFFSET + at, &[*byte]);
                self.produced += 1;
            }
            self.set_word(REQUESTS, self.produced);
        }

        /// Bytes of replies so far.
        fn replied(&self) -> u64 {
            u64::from_ne_bytes(self.word(REPLIES))
        }
    }

    /// The store's process without its sockets, and guests that share a waker.
    struct Rig {
        serving: EventLoop,
        rings: Rings,
        waker: OwnedFd,
        guests: Vec<Guest>,
        socket: PathBuf,
    }

    impl Rig {
        fn new(domains: u16) -> Rig {
            let thread = std::thread::current().id();
            let name = format!("weir-rings-{}-{thread:?}", std::process::id());
            let socket = std::env::temp_dir().join(name);
            let _ = std::fs::remove_file(&socket);
            let listener = UnixListener::bind(&socket).unwrap();
            let store = Shared::new(Store::default()).unwrap();
            let serving = EventLoop::new(listener, store.clone()).unwrap();
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let mut rig = Rig {
                serving,
                rings: Rings::default(),
                waker: eventfd(0, flags).unwrap(),
                guests: Vec::new(),
                socket,
            };
            for domain in 1..=domains {
                store.with(|store| store.introduce(DomainId(domain)));
                let file = Control::new().unwrap().take_file().unwrap();
                let mut guest = Guest {
                    file: file.try_clone().unwrap().into(),
                    produced: 0,
                };
                rig.connect(domain, file);
                guest.begin();
                rig.guests.push(guest);
            }
            rig
        }

        fn connect(&mut self, domain: u16, region: OwnedFd) {
            let files = [region, self.waker.try_clone().unwrap()];
            self.rings.connect(&mut self.serving, domain, 7, files);
        }

        /// Writes to a guest's waker, and does all the work that follows.
        fn ring(&mut self) {
            rustix::io::write(&self.waker, &1u64.to_ne_bytes()).unwrap();
            for _ in 0..3 {
                // So that the loop has something to wait for.
                self.serving.store().with(|_| ());
                let mut own = Vec::new();
                self.serving.wait(&mut own).unwrap();
                own.iter()
                    .for_each(|it| self.rings.ring(&mut self.serving, *it));
                self.serving.serve();
            }
        }

        /// Whether a guest gets an answer.
        fn is_answered(&mut self, guest: usize) -> bool {
            let before = self.guests[guest].replied();
            let header = Header {
                kind: Kind::Directory as u32,
                request: 3,
                transaction: 0,
                len: 2,
            };
            let request = [&header.to_bytes()[..], b"/\0"].concat();
            self.guests[guest].send(&request);
            self.ring();
            self.guests[guest].replied() > before
        }
    }

    impl Drop for Rig {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.socket);
        }
    }

    #[test]
    fn guests_that_share_a_waker_are_answered_until_they_end() {
        let mut rig = Rig::new(3);
        assert!((0..3).all(|guest| rig.is_answered(guest)));
        rig.rings.release(&mut rig.serving, 2);
        assert!(rig.is_answered(0) && rig.is_answered(2));
        assert!(!rig.is_answered(1), "its connection is over");
        rig.rings.release(&mut rig.serving, 1);
        rig.rings.release(&mut rig.serving, 3);
        assert!(rig.rings.wakers.is_empty() && rig.rings.guests.is_empty());
    }

    #[test]
    fn a_waker_is_heard_again_after_all_its_guests_have_ended() {
        let mut rig = Rig::new(1);
        assert!(rig.is_answered(0));
        rig.rings.release(&mut rig.serving, 1);
        rustix::io::write(&rig.waker, &1u64.to_ne_bytes()).unwrap();
        rig.serving.store().with(|_| ());
        let mut own = Vec::new();
        rig.serving.wait(&mut own).unwrap();
        assert!(own.is_empty(), "a waker without guests keeps the loop busy");
        let region = rig.guests[0].file.try_clone().unwrap();
        rig.connect(1, region.into());
        rig.guests[0].begin();
        assert!(rig.is_answered(0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_guest_that_scribbles_takes_nothing_from_the_others(
            requests in proptest::collection::vec(any::<u8>(), 0..600),
            scribbles in proptest::collection::vec(
                (0..size_of::<Words>() / 8, prop_oneof![any::<u64>(), 0u64..9000], any::<bool>()),
                0..12,
            ),
        ) {
            let mut rig = Rig::new(2);
            rig.guests[0].send(&requests);
            for (word, value, rings) in scribbles {
                rig.guests[0].set_word(8 * word, value);
                if rings {
                    rig.ring();
                }
            }
            rig.ring();
            prop_assert!(rig.is_answered(1));
        }
    }
}
