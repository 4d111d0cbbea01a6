//! The host's end of a guest's control region.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use abi::bytes::{Consumer, Producer};
use abi::control::{CHANNEL_BYTES, MESSAGE_MAX, REGION_BYTES, Region, State};
use abi::message::{
    CONTENTS_MAX, ChannelError, HEADER_BYTES, Outgoing, PAYLOAD_MAX, kind, receive, status,
};
use rustix::fs::{
    MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate,
    memfd_create, open,
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
/// Most bytes of requests that the guest has not received.
const BACKLOG_MAX: usize = 2 * CONTENTS_MAX;
/// Most messages received at a time: a full ring. So a guest that keeps writing takes no more of its parent's time.
const MESSAGES_MAX: usize = CHANNEL_BYTES / HEADER_BYTES;

/// A complete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Number of the request.
    pub request: u32,
    /// See [`abi::message::status`].
    pub status: u32,
    /// The value, or a sentence with the reason for the refusal. A guest wrote it: any bytes.
    pub contents: Vec<u8>,
}

impl Answer {
    /// Whether the request was carried out.
    pub fn ok(&self) -> bool {
        self.status == status::OK
    }
}

/// A guest's control region: status, console, requests.
///
/// Created before the guest, and readable after its end.
pub struct Control {
    /// `None` once closed.
    file: Option<OwnedFd>,
    memory: NonNull<u8>,
    console: Consumer<'static>,
    requests: Producer<'static>,
    answers: Consumer<'static>,
    outgoing: VecDeque<(Outgoing, Vec<u8>)>,
    backlog: usize,
    incoming: Vec<u8>,
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

/// The number of a first request.
fn random() -> Result<u32> {
    let mut number = [0; 4];
    getrandom(&mut number, GetRandomFlags::empty()).context("a random number")?;
    Ok(u32::from_ne_bytes(number))
}

/// Refuses a file that another process sent and that is no control region.
pub(crate) fn check(file: &OwnedFd) -> Result<()> {
    const ADOPTING: &str = "taking over a control region";
    let seals = fcntl_get_seals(file).context(ADOPTING)?;
    let length = fstat(file).context(ADOPTING)?.st_size;
    if !seals.contains(SealFlags::SHRINK) || length < FILE_BYTES as i64 {
        let source = std::io::ErrorKind::InvalidData.into();
        return Err(Error::System {
            what: ADOPTING,
            source,
        });
    }
    Ok(())
}

/// Maps so many bytes of a control region's file, which is as long as it should be.
pub(crate) fn map(file: &OwnedFd, bytes: usize) -> Result<NonNull<u8>> {
    // SAFETY: a new mapping at an address of the kernel's choice.
    let memory = unsafe {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        mmap(
            std::ptr::null_mut(),
            bytes,
            access,
            MapFlags::SHARED,
            file,
            0,
        )
    }
    .context("mapping the control region")?;
    // Other guests' processes must not inherit it.
    // SAFETY: changes this mapping's inheritance only.
    unsafe { madvise(memory, bytes, Advice::LinuxDontFork) }.context("keeping a mapping")?;
    Ok(NonNull::new(memory.cast()).expect("a mapping is not at 0"))
}

/// Wakes a guest's first CPU if it sleeps.
pub(crate) fn wake(region: Region<'_>) {
    region.bump(0);
    // Not private: another process sleeps.
    let _ = futex::wake(region.wake_word(0), futex::Flags::empty(), 1);
}

impl Control {
    /// A fresh control region.
    pub fn new() -> Result<Self> {
        Self::map(Self::blank()?, 1)
    }

    /// The file of a fresh control region.
    pub(crate) fn blank() -> Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create(CONTROL_FILE, flags).context("a memory file for control")?;
        ftruncate(&file, FILE_BYTES as u64).context("sizing the control region")?;
        // The size is sealed: a guest's process can't make its parent's accesses fail.
        let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW;
        fcntl_add_seals(&file, seals).context("sealing the control region")?;
        Ok(file)
    }

    /// A copy of a suspended guest's control region.
    pub(crate) fn adopt_suspended(file: OwnedFd) -> Result<Self> {
        let control = Self::map(file, random()?)?;
        control.set_sleeps(false);
        Ok(control)
    }

    /// What the guest shares.
    pub fn contents(&self) -> Vec<u8> {
        let mut bytes = vec![0; REGION_BYTES];
        // SAFETY: mapped as long as `self` lives, and copied as bytes. If a suspended guest writes meanwhile, its
        // copies start from the bytes that were read.
        unsafe {
            std::ptr::copy_nonoverlapping(self.memory.as_ptr(), bytes.as_mut_ptr(), REGION_BYTES);
        }
        bytes
    }

    /// The control region of a running guest that another process started. That process's pending requests are
    /// dropped.
    pub fn adopt(file: OwnedFd) -> Result<Self> {
        check(&file)?;
        // Answers to the other process's requests may be under way: ours have other numbers.
        let mut control = Self::map(file, random()?)?;
        control.set_sleeps(false);
        // Ends a request of which only a part had been sent. There is none to a suspended guest, which would go on.
        if control.state() != Some(State::Suspended) {
            control.request(kind::PING, "")?;
        }
        Ok(control)
    }

    fn map(file: OwnedFd, next: u32) -> Result<Self> {
        let memory = map(&file, FILE_BYTES)?;
        // SAFETY: page aligned, mapped until drop, accessed through regions only.
        let region: Region<'static> = unsafe { Region::new(memory) };
        Ok(Self {
            file: Some(file),
            memory,
            console: region.console().consumer(),
            requests: region.requests().producer(),
            answers: region.answers().consumer(),
            outgoing: VecDeque::new(),
            backlog: 0,
            incoming: Vec::new(),
            next,
            moved: 0,
        })
    }

    /// The memory file.
    ///
    /// # Panics
    /// If it was closed.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file
            .as_ref()
            .expect("a guest is started before its control region's file is closed")
            .as_fd()
    }

    /// The file, opened once more for the guest's process alone. So the kernel tells when that process has released it
    /// ([`crate::Ends`]).
    pub(crate) fn reopen(&self) -> Result<OwnedFd> {
        open(self.path(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .context("opening a control region for its guest")
    }

    /// A name of the file in this process.
    pub(crate) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.file().as_raw_fd())
    }

    /// The file; the mapping stays. For a process with many guests, which does not keep it once this one is started.
    pub fn take_file(&mut self) -> Option<OwnedFd> {
        self.file.take()
    }

    pub(crate) fn region(&self) -> Region<'_> {
        // SAFETY: mapped as long as `self` lives, accessed through regions only.
        unsafe { Region::new(self.memory) }
    }

    pub(crate) fn report(&self) -> NonNull<RawReport> {
        // SAFETY: inside the mapping; page aligned.
        unsafe { self.memory.add(REGION_BYTES) }.cast()
    }

    /// The guest's state, as the guest reports it; `None` if invalid.
    pub fn state(&self) -> Option<State> {
        self.region().state()
    }

    /// The status message.
    pub fn message(&self) -> String {
        String::from_utf8_lossy(self.region().message(&mut [0; MESSAGE_MAX])).into_owned()
    }

    /// The configurations that have stopped, and the configurations that failed to start, as the guest reports them:
    /// see [`Region::configurations`].
    pub fn configurations(&self) -> (u64, u64) {
        self.region().configurations()
    }

    /// Rounds of its first CPU's main loop, as the guest reports them.
    pub fn heartbeat(&self) -> u64 {
        self.region().heartbeat(0)
    }

    /// Whether there is console text, or the guest broke its console's ring.
    pub fn has_console(&self) -> bool {
        self.console.available() != Ok(0)
    }

    /// Reads the guest's console text, which may be any bytes; returns how many.
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

    /// Bytes of console text that the guest reports as dropped.
    pub fn console_lost(&self) -> u64 {
        self.console.lost()
    }

    /// Sets whether the guest rings its control doorbell for new console text and answers. After setting it, read
    /// both once more before sleeping.
    pub fn set_sleeps(&self, sleeps: bool) {
        self.region().set_host_sleeps(sleeps);
    }

    /// Wakes the guest if it sleeps.
    pub fn wake(&self) {
        wake(self.region());
    }

    /// Sends a request and returns its number. See [`abi::message::kind`] for the kinds. [`Self::poll`] sends the
    /// part that does not fit the ring yet.
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
        self.outgoing
            .push_back((Outgoing::new(kind, number, status::OK), contents));
        self.push()?;
        Ok(number)
    }

    /// Sends pending requests and receives the next answer, if it is complete. Returns soon, for anything that the
    /// guest writes.
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
            if self.incoming.len() + header.length as usize > CONTENTS_MAX {
                return Err(Error::AnswerTooLong);
            }
            self.incoming
                .extend_from_slice(&payload[..header.length as usize]);
            if !header.more() {
                answer = Some(Answer {
                    request: header.request,
                    status: header.status,
                    contents: std::mem::take(&mut self.incoming),
                });
                break;
            }
        }
        // The guest may be waiting to write its answer.
        if taken && self.region().guest_sleeps() {
            self.wake();
        }
        Ok(answer)
    }

    /// Sends a request and waits for its answer; drops answers to other requests. For tools with nothing else to do.
    pub fn call(
        &mut self,
        kind: u32,
        contents: impl Into<Vec<u8>>,
        limit: Duration,
    ) -> Result<Answer> {
        self.call_while(kind, contents, limit, || true)
    }

    /// As [`Self::call`], and fails with [`Error::Ended`] as soon as `alive` returns false. An answer that was sent
    /// before the guest's end is still received.
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
            // Checked before the answers are read: an ended guest sends no more.
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
        while let Some((outgoing, contents)) = self.outgoing.front_mut() {
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
            self.outgoing.pop_front();
        }
        if moved && self.region().guest_sleeps() {
            self.wake();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
