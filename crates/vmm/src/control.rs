//! The host's end of a guest's control region.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use abi::bytes::{Consumer, Producer};
use abi::control::{MESSAGE_MAX, REGION_BYTES, Region, State};
use abi::message::{CONTENTS_MAX, ChannelError, Outgoing, PAYLOAD_MAX, receive, status};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::thread::futex;

use crate::error::{Context, Error, Result};
use crate::layout::REPORT_BYTES;
use crate::report::RawReport;

/// Bytes of the memory file: the region that the guest shares, and the report behind it.
pub(crate) const FILE_BYTES: usize = REGION_BYTES + REPORT_BYTES as usize;
/// Most bytes of requests that wait to be taken by the guest.
const BACKLOG_MAX: usize = 2 * CONTENTS_MAX;

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
    file: OwnedFd,
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
        let file = memfd_create("weir-control", flags).context("a memory file for control")?;
        ftruncate(&file, FILE_BYTES as u64).context("sizing the control region")?;
        // Its size stays: a guest's process can't make its parent's accesses fail.
        let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW;
        fcntl_add_seals(&file, seals).context("sealing the control region")?;
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
            file,
            memory,
            console: region.console().consumer(),
            requests: region.requests().producer(),
            answers: region.answers().consumer(),
            leaving: VecDeque::new(),
            backlog: 0,
            arriving: Vec::new(),
            next: 1,
            moved: 0,
        })
    }

    /// The memory file.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
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

    /// Rounds that the guest says its main loop has made.
    pub fn heartbeat(&self) -> u64 {
        self.region().heartbeat()
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
        region.bump();
        // Not private: the sleeper is another process.
        let _ = futex::wake(region.wake_word(), futex::Flags::empty(), 1);
    }

    /// Sends a request and returns its number. See [`abi::message::kind`] for what there is. What does not
    /// fit the ring yet goes out with [`Self::poll`].
    pub fn request(&mut self, kind: u32, contents: impl Into<Vec<u8>>) -> Result<u32> {
        let contents = contents.into();
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.backlog += contents.len();
        if contents.len() > CONTENTS_MAX || self.backlog > BACKLOG_MAX {
            self.backlog -= contents.len();
            return Err(ChannelError::Length(contents.len() as u32).into());
        }
        self.leaving
            .push_back((Outgoing::new(kind, number, status::OK), contents));
        self.push()?;
        Ok(number)
    }

    /// Moves requests on and takes the next answer, if it is there.
    pub fn poll(&mut self) -> Result<Option<Answer>> {
        self.push()?;
        let mut payload = [0; PAYLOAD_MAX];
        let mut taken = false;
        let mut answer = None;
        while let Some(header) = receive(&mut self.answers, &mut payload)? {
            taken = true;
            self.moved += 1;
            if self.arriving.len() + header.length as usize > CONTENTS_MAX {
                return Err(ChannelError::Length(header.length).into());
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
        let number = self.request(kind, contents)?;
        let start = Instant::now();
        const SHORT: Duration = Duration::from_micros(20);
        let mut pause = SHORT;
        loop {
            let before = self.moved;
            match self.poll()? {
                Some(answer) if answer.request == number => return Ok(answer),
                Some(_) => {}
                None if start.elapsed() > limit => return Err(Error::NoAnswer(limit.as_millis())),
                None => {
                    if self.moved != before {
                        pause = SHORT;
                    }
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(2));
                }
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
