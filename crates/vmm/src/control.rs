//! The host's end of a guest's control region.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use abi::bytes::{Consumer, Producer};
use abi::control::{CHANNEL_BYTES, MESSAGE_MAX, REGION_BYTES, Region, State};
use abi::message::{
    CONTENTS_MAX, ChannelError, HEADER_BYTES, Outgoing, PAYLOAD_MAX, kind, receive, status,
};
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::thread::futex;

use crate::error::{Context, Error, Result};
use crate::layout::REPORT_BYTES;
use crate::report::RawReport;

/// Bytes of the memory file: the region that the guest shares, and the report behind it.
pub(crate) const FILE_BYTES: usize = REGION_BYTES + REPORT_BYTES as usize;
/// The memory file's name.
pub(crate) const CONTROL_FILE: &str = "weir-control";
/// Most bytes of requests that wait to be taken by the guest.
const BACKLOG_MAX: usize = 2 * CONTENTS_MAX;
/// Most messages taken at a time: all that a full ring can hold. A guest that writes on and on while they are
/// taken gets no more than that of its parent's time.
const MESSAGES_MAX: usize = CHANNEL_BYTES / HEADER_BYTES;

/// An answer whose contents have all arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Number of the request.
    pub request: u32,
    /// See [`abi::message::status`].
    pub status: u32,
    /// The value asked for, or a sentence that says why not. A guest wrote it: bytes of any kind.
    pub contents: Vec<u8>,
}

impl Answer {
    /// Whether the request was carried out.
    pub fn ok(&self) -> bool {
        self.status == status::OK
    }
}

/// A guest's control region: how it fares, its console, requests to it.
///
/// Made before the guest, and usable after its end to read what it left.
pub struct Control {
    /// `None` once it is let go of.
    file: Option<OwnedFd>,
    memory: NonNull<u8>,
    console: Consumer<'static>,
    requests: Producer<'static>,
    answers: Consumer<'static>,
    leaving: VecDeque<(Outgoing, Vec<u8>)>,
    backlog: usize,
    arriving: Vec<u8>,
    next: u32,
    /// Messages moved either way so far.
    moved: u64,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for Control {}

impl Drop for Control {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; the rings, which point into it, are used by this value's methods only.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), FILE_BYTES) };
    }
}

impl Control {
    /// A fresh control region.
    pub fn new() -> Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create(CONTROL_FILE, flags).context("a memory file for control")?;
        ftruncate(&file, FILE_BYTES as u64).context("sizing the control region")?;
        // Its size stays: a guest's process can't make its parent's accesses fail.
        let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW;
        fcntl_add_seals(&file, seals).context("sealing the control region")?;
        Self::map(file, 1)
    }

    /// The control region of a guest that another process started and that goes on. What that process asked and
    /// had not been answered is forgotten.
    pub fn adopt(file: OwnedFd) -> Result<Self> {
        const ADOPTING: &str = "taking over a control region";
        let seals = fcntl_get_seals(&file).context(ADOPTING)?;
        let length = fstat(&file).context(ADOPTING)?.st_size;
        if !seals.contains(SealFlags::SHRINK) || length < FILE_BYTES as i64 {
            let source = std::io::ErrorKind::InvalidData.into();
            return Err(Error::System {
                what: ADOPTING,
                source,
            });
        }
        // Answers to the other process's requests may be under way: ours have other numbers.
        let mut next = [0; 4];
        getrandom(&mut next, GetRandomFlags::empty()).context(ADOPTING)?;
        let mut control = Self::map(file, u32::from_ne_bytes(next))?;
        control.set_sleeps(false);
        // Ends a request of which only a part had been sent.
        control.request(kind::PING, "")?;
        Ok(control)
    }

    fn map(file: OwnedFd, next: u32) -> Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let memory = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap(
                std::ptr::null_mut(),
                FILE_BYTES,
                access,
                MapFlags::SHARED,
                &file,
                0,
            )
        }
        .context("mapping the control region")?;
        // Another guest's process has no business with it.
        // SAFETY: says something about this mapping only; the parent's stays as it is.
        unsafe { madvise(memory, FILE_BYTES, Advice::LinuxDontFork) }
            .context("keeping a mapping")?;
        let memory = NonNull::new(memory.cast()).expect("a mapping is not at 0");
        // SAFETY: page aligned, mapped until drop, reached through regions only.
        let region: Region<'static> = unsafe { Region::new(memory) };
        Ok(Self {
            file: Some(file),
            memory,
            console: region.console().consumer(),
            requests: region.requests().producer(),
            answers: region.answers().consumer(),
            leaving: VecDeque::new(),
            backlog: 0,
            arriving: Vec::new(),
            next,
            moved: 0,
        })
    }

    /// The memory file.
    ///
    /// # Panics
    /// If it was let go of.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file
            .as_ref()
            .expect("a guest is started before its control region's file is let go of")
            .as_fd()
    }

    /// Closes the file; the mapping stays. For one that runs many guests, once this one is started.
    pub fn let_go_of_file(&mut self) {
        self.file = None;
    }

    pub(crate) fn region(&self) -> Region<'_> {
        // SAFETY: mapped as long as `self` lives, reached through regions only.
        unsafe { Region::new(self.memory) }
    }

    pub(crate) fn report(&self) -> NonNull<RawReport> {
        // SAFETY: inside the mapping; page aligned.
        unsafe { self.memory.add(REGION_BYTES) }.cast()
    }

    /// What the guest says it is doing; `None` if it wrote nonsense.
    pub fn state(&self) -> Option<State> {
        self.region().state()
    }

    /// The message that goes with the state.
    pub fn message(&self) -> String {
        String::from_utf8_lossy(self.region().message(&mut [0; MESSAGE_MAX])).into_owned()
    }

    /// Rounds that the guest says the main loop of its first CPU has made.
    pub fn heartbeat(&self) -> u64 {
        self.region().heartbeat(0)
    }

    /// Takes what the guest wrote to its console; says how much. Bytes of any kind.
    pub fn read_console(&mut self, into: &mut Vec<u8>) -> Result<usize> {
        let length = self.console.available().map_err(ChannelError::from)?;
        let start = into.len();
        into.resize(start + length, 0);
        let read = self
            .console
            .read(&mut into[start..])
            .map_err(ChannelError::from)?;
        into.truncate(start + read);
        Ok(read)
    }

    /// Bytes that the guest says it had to drop because nobody read its console.
    pub fn console_lost(&self) -> u64 {
        self.console.lost()
    }

    /// Says whether the guest is to ring its control doorbell when there is something new. After setting it,
    /// read console and answers once more before sleeping.
    pub fn set_sleeps(&self, sleeps: bool) {
        self.region().set_host_sleeps(sleeps);
    }

    /// Wakes the guest if it sleeps.
    pub fn wake(&self) {
        let region = self.region();
        region.bump(0);
        // Not private: the sleeper is another process.
        let _ = futex::wake(region.wake_word(0), futex::Flags::empty(), 1);
    }

    /// Sends a request and returns its number. See [`abi::message::kind`] for what there is. What does not
    /// fit the ring yet goes out with [`Self::poll`].
    pub fn request(&mut self, kind: u32, contents: impl Into<Vec<u8>>) -> Result<u32> {
        let contents = contents.into();
        if contents.len() > CONTENTS_MAX {
            return Err(Error::RequestTooLong(contents.len()));
        }
        if self.backlog + contents.len() > BACKLOG_MAX {
            return Err(Error::Backlog(self.backlog));
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.backlog += contents.len();
        self.leaving
            .push_back((Outgoing::new(kind, number, status::OK), contents));
        self.push()?;
        Ok(number)
    }

    /// Moves requests on and takes the next answer, if it is there. Comes back soon whatever the guest writes.
    pub fn poll(&mut self) -> Result<Option<Answer>> {
        self.push()?;
        let mut payload = [0; PAYLOAD_MAX];
        let mut taken = false;
        let mut answer = None;
        for _ in 0..MESSAGES_MAX {
            let Some(header) = receive(&mut self.answers, &mut payload)? else {
                break;
            };
            taken = true;
            self.moved += 1;
            if self.arriving.len() + header.length as usize > CONTENTS_MAX {
                return Err(Error::AnswerTooLong);
            }
            self.arriving
                .extend_from_slice(&payload[..header.length as usize]);
            if !header.more() {
                answer = Some(Answer {
                    request: header.request,
                    status: header.status,
                    contents: std::mem::take(&mut self.arriving),
                });
                break;
            }
        }
        // The guest may wait for room for its answer.
        if taken && self.region().guest_sleeps() {
            self.wake();
        }
        Ok(answer)
    }

    /// Sends a request and waits for its answer; answers to others are dropped. For tools that do nothing else
    /// meanwhile.
    pub fn call(
        &mut self,
        kind: u32,
        contents: impl Into<Vec<u8>>,
        limit: Duration,
    ) -> Result<Answer> {
        self.call_while(kind, contents, limit, || true)
    }

    /// As [`Self::call`], and gives up with [`Error::Ended`] as soon as `alive` says that the guest has ended.
    /// What it had answered before its end still counts.
    pub fn call_while(
        &mut self,
        kind: u32,
        contents: impl Into<Vec<u8>>,
        limit: Duration,
        mut alive: impl FnMut() -> bool,
    ) -> Result<Answer> {
        let number = self.request(kind, contents)?;
        let start = Instant::now();
        const SHORT: Duration = Duration::from_micros(20);
        let mut pause = SHORT;
        loop {
            // Asked before the answers are read: of a guest that has ended, no more come after them.
            let lives = alive();
            let before = self.moved;
            let answer = self.poll()?;
            let other = answer.is_some();
            if let Some(answer) = answer.filter(|answer| answer.request == number) {
                return Ok(answer);
            }
            if !lives && !other {
                return Err(Error::Ended);
            }
            // Also between answers to others: a hostile guest may send them without end.
            if start.elapsed() > limit {
                return Err(Error::NoAnswer(limit.as_millis()));
            }
            if !other {
                if self.moved != before {
                    pause = SHORT;
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(2));
            }
        }
    }

    fn push(&mut self) -> Result<()> {
        let mut moved = false;
        while let Some((outgoing, contents)) = self.leaving.front_mut() {
            let before = *outgoing;
            let sent = outgoing
                .send(&mut self.requests, contents)
                .map_err(ChannelError::from)?;
            if *outgoing != before {
                moved = true;
                self.moved += 1;
            }
            if !sent {
                break;
            }
            self.backlog -= contents.len();
            self.leaving.pop_front();
        }
        if moved && self.region().guest_sleeps() {
            self.wake();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    const ENDLESS: Duration = Duration::from_secs(3600);

    /// Writes the header of an empty message as a guest would.
    fn write_message(ring: &mut Producer<'_>, request: u32, status: u32) -> bool {
        let words = [kind::PING, request, status, 0].map(u32::to_le_bytes);
        ring.write_whole(&[words.as_flattened()]).unwrap()
    }

    /// Runs `host` while a guest keeps the ring of answers full with such messages.
    fn flooded<T>(status: u32, host: impl FnOnce(&mut Control) -> T) -> T {
        let mut control = Control::new().unwrap();
        // SAFETY: mapped until `control` is dropped, when the thread has ended.
        let region: Region<'static> = unsafe { Region::new(control.memory) };
        let mut ring = region.answers().producer();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    write_message(&mut ring, u32::MAX, status);
                }
            });
            let result = host(&mut control);
            done.store(true, Ordering::Relaxed);
            result
        })
    }

    #[test]
    fn an_endless_answer_does_not_hold_a_poll() {
        let moved = flooded(abi::message::MORE, |control| {
            assert_eq!(control.poll().unwrap(), None);
            control.moved
        });
        assert!(moved <= MESSAGES_MAX as u64);
    }

    #[test]
    fn answers_to_others_do_not_hold_a_call() {
        let limit = Duration::from_millis(50);
        let error = flooded(status::OK, |control| {
            control.call(kind::PING, "", limit).unwrap_err()
        });
        assert!(matches!(error, Error::NoAnswer(50)), "{error}");
    }

    #[test]
    fn the_end_of_the_guest_ends_a_call() {
        let mut control = Control::new().unwrap();
        let error = control.call_while(kind::PING, "", ENDLESS, || false);
        let error = error.unwrap_err();
        assert_eq!(error.to_string(), "the guest ended before it answered");
    }

    #[test]
    fn an_answer_counts_though_the_guest_has_ended() {
        let mut control = Control::new().unwrap();
        let mut ring = control.region().answers().producer();
        assert!(write_message(&mut ring, 77, status::OK));
        assert!(write_message(&mut ring, 1, status::OK));
        let answer = control.call_while(kind::PING, "", ENDLESS, || false);
        assert_eq!(answer.unwrap().request, 1);
    }

    #[test]
    fn long_requests_are_refused_in_words() {
        let mut control = Control::new().unwrap();
        let error = control.request(kind::PING, vec![0; CONTENTS_MAX + 1]);
        let expected = format!(
            "the request is {} bytes long, at most {CONTENTS_MAX} are possible",
            CONTENTS_MAX + 1
        );
        assert_eq!(error.unwrap_err().to_string(), expected);
        for _ in 0..2 {
            control.request(kind::PING, vec![0; CONTENTS_MAX]).unwrap();
        }
        // The first is partly out, and counts until all of it is.
        let error = control.request(kind::PING, "x").unwrap_err();
        assert!(matches!(error, Error::Backlog(_)), "{error}");
    }
}
