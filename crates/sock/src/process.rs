//! This process as one of a tenant's: joining CoreEngine, and the files that it shares.
//!
//! A process joins at its first socket. A forked child joins by itself at its first use of a socket: it
//! has inherited the *door*, a connection to CoreEngine's socket, so joining also works where that
//! socket's path does not.

use core::ffi::c_int;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use abi::tenant::{
    Hello, PAYLOAD_FILE_BYTES, PayloadFile, QUEUE_FILE_BYTES, QueueFile, Role, SETS, Welcome,
};

use crate::lock::Lock;
use crate::private::Private;
use crate::sys::{self, Errno, Result, syscall};
use crate::table::{self, Entry};
use crate::{hangup, message, queues, restart, share};

struct Config {
    path: Vec<u8>,
    token: [u8; 16],
    variables: [CString; 2],
}

static CONFIG: OnceLock<Config> = OnceLock::new();

/// The queue set, plus one; 0: the process has not joined.
static SET: AtomicU32 = AtomicU32::new(0);
static TENANT: AtomicU32 = AtomicU32::new(0);
/// The CoreEngine that the process, or a parent of it, has joined: see [`Welcome`]. 0: none, or it has ended.
static ENGINE: AtomicU32 = AtomicU32::new(0);
static DOOR: AtomicI32 = AtomicI32::new(-1);
static CONNECTION: AtomicI32 = AtomicI32::new(-1);
static BELL: AtomicI32 = AtomicI32::new(-1);
static CORE: AtomicI32 = AtomicI32::new(-1);
static QUEUES: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static PAYLOAD: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// The queue file that is mapped; 0: none.
static INODE: AtomicU64 = AtomicU64::new(0);
/// Held by a thread that joins.
pub static JOINING: Lock = Lock::new();
static COMPLAINED: AtomicU32 = AtomicU32::new(0);
/// No CoreEngine has the files in which this process has its sockets.
static LOST: AtomicBool = AtomicBool::new(false);

/// What a tenant's processes share.
#[derive(Clone, Copy)]
pub struct Shared {
    pub queues: QueueFile,
    pub payload: PayloadFile,
    pub private: &'static Private,
}

/// Reads the environment, at the start of the program.
pub fn configure() {
    // SAFETY: no memory is passed.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return;
    }
    let Some(value) = std::env::var_os("WEIR_SOCK") else {
        return;
    };
    let Some((path, token)) = parse(value.as_bytes()) else {
        complain("WEIR_SOCK is not <path>:<32 hexadecimal digits>; sockets go to the kernel");
        return;
    };
    let path = path.to_vec();
    let variables = ["LD_PRELOAD", "WEIR_SOCK"].map(|name| {
        let value = std::env::var_os(name).unwrap_or_default();
        let text = [name.as_bytes(), b"=", value.as_bytes()].concat();
        // A variable holds no zero.
        CString::new(text).unwrap_or_default()
    });
    let config = Config {
        path,
        token,
        variables,
    };
    if CONFIG.set(config).is_ok() {
        share::begin();
    }
}

fn parse(value: &[u8]) -> Option<(&[u8], [u8; 16])> {
    let colon = value.iter().rposition(|&byte| byte == b':')?;
    let (path, digits) = (&value[..colon], &value[colon + 1..]);
    if path.is_empty() || digits.len() != 32 {
        return None;
    }
    let mut token = [0; 16];
    for (byte, pair) in token.iter_mut().zip(digits.chunks(2)) {
        let digit = |at: usize| (pair[at] as char).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some((path, token))
}

/// The variables that have a program of this process redirected as well, `NAME=VALUE` each.
pub fn variables() -> Option<&'static [CString; 2]> {
    CONFIG.get().map(|config| &config.variables)
}

/// Whether the process's sockets are redirected.
pub fn redirects() -> bool {
    CONFIG.get().is_some()
}

fn complain(text: &str) {
    let line = format!("weir sock: {text}\n");
    // SAFETY: our bytes.
    let _ = syscall!(libc::SYS_write, 2, line.as_ptr(), line.len());
}

/// The files, if the process has mapped them; a forked child has before it joins.
pub fn mapped() -> Option<Shared> {
    let queues = NonNull::new(QUEUES.load(Ordering::Acquire))?;
    let payload = NonNull::new(PAYLOAD.load(Ordering::Acquire))?;
    // SAFETY: the mappings have these lengths and stay for the life of the process; private memory is
    // page aligned, long enough, and only atomics for which any bytes are a value.
    unsafe {
        let queues = QueueFile::new(queues, QUEUE_FILE_BYTES);
        Some(Shared {
            queues,
            payload: PayloadFile::new(payload),
            private: queues.private()?.cast::<Private>().as_ref(),
        })
    }
}

/// The process's queue set, once it has joined.
#[inline]
pub fn set() -> Option<usize> {
    (SET.load(Ordering::Acquire) as usize).checked_sub(1)
}

/// The eventfd by which CoreEngine wakes this process.
pub fn waker() -> c_int {
    BELL.load(Ordering::Acquire)
}

/// Wakes CoreEngine.
pub fn wake_core() {
    sys::write_eventfd(CORE.load(Ordering::Acquire));
}

/// The files and the queue set of this process, which joins if it has not.
#[inline]
pub fn joined() -> Result<(Shared, usize)> {
    if let (Some(set), Some(shared)) = (set(), mapped()) {
        return Ok((shared, set));
    }
    join().inspect_err(|error| {
        if COMPLAINED.swap(1, Ordering::Relaxed) == 0 {
            complain(&match error.0 {
                libc::EACCES => "the application of this process has ended: run it again".into(),
                libc::EUSERS => {
                    format!("the application has {SETS} processes with sockets, as many as it may")
                }
                error => {
                    let error = std::io::Error::from_raw_os_error(error);
                    format!("CoreEngine does not take this process: {error}")
                }
            });
        }
    })
}

/// How long a program that begins waits for a CoreEngine that is being restarted.
const PATIENCE_NS: u64 = 1_000_000_000;

#[cold]
fn join() -> Result<(Shared, usize)> {
    let guard = JOINING.lock();
    if let (Some(set), Some(shared)) = (set(), mapped()) {
        return Ok((shared, set));
    }
    let deadline = sys::now()
        + if COMPLAINED.load(Ordering::Relaxed) == 0 {
            PATIENCE_NS
        } else {
            0
        };
    let waker = sys::eventfd()?;
    let (welcome, [ours, queues, payload, core]) = loop {
        match enter(waker, None) {
            Ok(entered) => break entered,
            // There is none, or it does not know the tenant yet.
            Err(Errno(
                libc::ENOENT | libc::ECONNREFUSED | libc::ECONNRESET | libc::EPIPE | libc::EACCES,
            )) if sys::now() < deadline => {
                let _ = sys::ppoll(&mut [], Some(sys::now() + restart::RETRY_NS), None);
            }
            Err(error) => {
                sys::close(waker);
                return Err(error);
            }
        }
    };
    // A forked child has its parent's mappings. They are of the tenant's files no more if no node has kept
    // these.
    let inode = inode(queues)?;
    if INODE.swap(inode, Ordering::AcqRel) != inode {
        for (mapping, file, len) in [
            (&QUEUES, queues, QUEUE_FILE_BYTES),
            (&PAYLOAD, payload, PAYLOAD_FILE_BYTES),
        ] {
            let before = mapping.swap(map(file, len)?, Ordering::AcqRel);
            if !before.is_null() {
                // SAFETY: a mapping of this length, which nothing uses: no socket is left in it.
                let _ = syscall!(libc::SYS_munmap, before, len);
            }
        }
    }
    sys::close(queues);
    sys::close(payload);
    let shared = mapped().ok_or(Errno(libc::ENETDOWN))?;
    let set = welcome.set as usize;
    if !shared.queues.valid() || set >= shared.queues.sets() {
        return Err(Errno(libc::EPROTO));
    }
    for (slot, fd) in [(&CONNECTION, ours), (&BELL, waker), (&CORE, core)] {
        slot.store(own(fd), Ordering::Release);
    }
    // Without it, threads that sleep look now and then whether CoreEngine has ended.
    let _ = hangup::watch(connection(), self::waker());
    TENANT.store(welcome.tenant, Ordering::Release);
    let before = ENGINE.swap(welcome.engine, Ordering::AcqRel);
    queues::open(&shared, set, &restart::inherit(&shared, set, before));
    SET.store(welcome.set + 1, Ordering::Release);
    drop(guard);
    if before != welcome.engine {
        share::renew();
    }
    Ok((shared, set))
}

/// Joins another CoreEngine, with the queue set that the process has. Under the lock [`JOINING`].
pub fn rejoin(set: usize) -> Result<()> {
    let (welcome, [ours, queues, payload, core]) = enter(waker(), Some(set as u32))?;
    let same = inode(queues) == Ok(INODE.load(Ordering::Acquire)) && welcome.set as usize == set;
    sys::close(queues);
    sys::close(payload);
    if !same {
        // The sockets of this process are in files that no CoreEngine has.
        sys::close(ours);
        sys::close(core);
        lose();
        return Err(Errno(libc::ENETDOWN));
    }
    // The numbers stay: another thread may be about to use them.
    for (slot, fd) in [(&CONNECTION, ours), (&CORE, core)] {
        let at = slot.load(Ordering::Acquire);
        // SAFETY: no memory is passed.
        let _ = syscall!(libc::SYS_dup3, fd, at, libc::O_CLOEXEC);
        sys::close(fd);
    }
    let _ = hangup::watch(connection(), waker());
    TENANT.store(welcome.tenant, Ordering::Release);
    ENGINE.store(welcome.engine, Ordering::Release);
    Ok(())
}

/// Gives up to return to a CoreEngine: none has the sockets of this process.
pub fn lose() {
    if !LOST.swap(true, Ordering::AcqRel) {
        complain("the node has lost this program's sockets: start it again");
    }
}

/// Says hello to CoreEngine: its welcome, the process's connection, the queue file, the payload file and the
/// eventfd that wakes CoreEngine.
fn enter(waker: c_int, returns_to: Option<u32>) -> Result<(Welcome, [c_int; 4])> {
    let config = CONFIG.get().ok_or(Errno(libc::ENETDOWN))?;
    let hello = Hello {
        role: Role::Process,
        token: config.token,
        returns_to,
    };
    let [ours, theirs] = sys::pair(libc::SOCK_SEQPACKET)?;
    let say = || message::send(door(config)?, &hello.to_bytes(), &[theirs, waker]);
    let said = match say() {
        // The door was that of a CoreEngine that has ended.
        Err(Errno(libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN)) => {
            disown(&DOOR);
            say()
        }
        said => said,
    };
    sys::close(theirs);
    match said.and_then(|()| welcome(ours)) {
        Ok((welcome, [queues, payload, core])) => Ok((welcome, [ours, queues, payload, core])),
        Err(error) => {
            sys::close(ours);
            Err(error)
        }
    }
}

/// Whether CoreEngine has ended that the process has joined.
pub fn has_ended() -> bool {
    sys::has_hung_up(connection())
}

/// Whether the process cannot return to any CoreEngine.
pub fn is_lost() -> bool {
    LOST.load(Ordering::Acquire)
}

/// There is no CoreEngine that knows the process.
pub fn forget_engine() {
    ENGINE.store(0, Ordering::Release);
}

/// The CoreEngine that the process has joined, by its number; 0: it has ended.
#[inline]
pub fn engine() -> u32 {
    ENGINE.load(Ordering::Acquire)
}

fn door(config: &Config) -> Result<c_int> {
    let door = DOOR.load(Ordering::Acquire);
    if door >= 0 {
        return Ok(door);
    }
    // SAFETY: zeros are an address of no name.
    let mut name: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    name.sun_family = libc::AF_UNIX as _;
    if config.path.len() >= name.sun_path.len() {
        return Err(Errno(libc::ENAMETOOLONG));
    }
    for (to, &from) in name.sun_path.iter_mut().zip(&config.path) {
        *to = from as _;
    }
    let fd = sys::stand_in(libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC)?;
    let len = size_of_val(&name);
    // SAFETY: our address.
    if let Err(error) = syscall!(libc::SYS_connect, fd, &raw const name, len) {
        sys::close(fd);
        return Err(error);
    }
    let fd = own(fd);
    DOOR.store(fd, Ordering::Release);
    Ok(fd)
}

fn welcome(fd: c_int) -> Result<(Welcome, [c_int; 3])> {
    let (mut bytes, mut fds) = ([0; 64], [-1; 3]);
    let (n, descriptors) = message::receive(fd, &mut bytes, &mut fds)?;
    let refused = match Welcome::from_bytes(&bytes[..n]) {
        Some(welcome) if welcome.refused == 0 && descriptors == 3 => return Ok((welcome, fds)),
        Some(welcome) if welcome.refused != 0 => welcome.refused as c_int,
        // It has ended.
        None if n == 0 => libc::ECONNRESET,
        _ => libc::EPROTO,
    };
    for &fd in &fds[..descriptors] {
        sys::close(fd);
    }
    Err(Errno(refused))
}

fn inode(fd: c_int) -> Result<u64> {
    // SAFETY: zeros are a stat of nothing.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: room for the stat.
    syscall!(libc::SYS_fstat, fd, &raw mut stat)?;
    Ok(stat.st_ino)
}

fn map(fd: c_int, len: usize) -> Result<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, wherever the kernel puts it. The files are sealed against shrinking.
    let at = syscall!(
        libc::SYS_mmap,
        null_mut::<u8>(),
        len,
        protection,
        libc::MAP_SHARED,
        fd,
        0usize
    )?;
    Ok(at as *mut u8)
}

/// Moves a descriptor of the library's to a high number, where the application neither meets it nor
/// closes it.
pub fn own(fd: c_int) -> c_int {
    let mut limit = libc::rlimit {
        rlim_cur: 1024,
        rlim_max: 1024,
    };
    // SAFETY: room for the limit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let limit = (limit.rlim_cur as usize).min(8192);
    let from = limit - limit.min(1024) / 4;
    let high = sys::fcntl(fd, libc::F_DUPFD_CLOEXEC, from).inspect(|_| sys::close(fd));
    let fd = high.unwrap_or(fd);
    table::set(fd, Some(Entry::Owned));
    fd
}

/// The connection on which this process shares sockets.
pub fn connection() -> c_int {
    CONNECTION.load(Ordering::Acquire)
}

pub fn tenant() -> u32 {
    TENANT.load(Ordering::Relaxed)
}

/// In the child of a fork: what the parent has joined with is not this process's.
pub fn leave() {
    JOINING.reset();
    SET.store(0, Ordering::Release);
    hangup::in_child();
    restart::in_child();
    for fd in [&CONNECTION, &BELL, &CORE] {
        disown(fd);
    }
}

fn disown(fd: &AtomicI32) {
    let fd = fd.swap(-1, Ordering::AcqRel);
    if fd >= 0 {
        table::set(fd, None);
        sys::close(fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_a_path_and_a_token() {
        let (path, token) = parse(b"/run/a:b:000102030405060708090a0b0c0d0eFF").unwrap();
        assert_eq!(path, b"/run/a:b");
        assert_eq!(
            token,
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]
        );
        for bad in [&b"/run"[..], b":00", b"/a:0g", b""] {
            assert!(parse(bad).is_none());
        }
    }
}
