//! The filter of system calls that a program is started with: the set-up calls of sockets notify the
//! supervisor, io_uring is absent, all other calls run in the kernel as before.
#![allow(unsafe_code)]

use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::Errno;

use crate::sys::last;

/// The architecture's number in the kernel's `seccomp_data` (linux/audit.h).
const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") {
    0xc000_003e
} else if cfg!(target_arch = "aarch64") {
    0xc000_00b7
} else {
    panic!("the filter does not know this architecture")
};

/// Calls that notify, whatever their arguments.
const ALWAYS: [i64; 14] = [
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
];

/// Calls that notify if their fifth argument, an address, is not null.
const WITH_ADDRESS: [i64; 2] = [libc::SYS_sendto, libc::SYS_recvfrom];

/// Offsets in `seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const fn argument_at(n: u32) -> u32 {
    16 + 8 * n
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

const fn step(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Skips instructions: `then` many if the loaded word is `k`, otherwise `or`.
const fn if_equal(k: u32, then: u8, or: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: IF_EQUAL as u16,
        jt: then,
        jf: or,
        k,
    }
}

/// The filter. Programs of another architecture (32 bits) are let alone: their numbers mean other calls.
fn program() -> Vec<libc::sock_filter> {
    let allow = step(RETURN, libc::SECCOMP_RET_ALLOW);
    let notify = step(RETURN, libc::SECCOMP_RET_USER_NOTIF);
    let absent = step(RETURN, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
    let mut all = vec![
        step(LOAD, ARCHITECTURE_AT),
        if_equal(ARCHITECTURE, 1, 0),
        allow,
        step(LOAD, NUMBER_AT),
    ];
    for call in ALWAYS {
        all.extend([if_equal(call as u32, 0, 1), notify]);
    }
    all.extend([if_equal(libc::SYS_io_uring_setup as u32, 0, 1), absent]);
    for call in WITH_ADDRESS {
        all.extend([
            if_equal(call as u32, 0, 6),
            step(LOAD, argument_at(4)),
            if_equal(0, 0, 3),
            step(LOAD, argument_at(4) + 4),
            if_equal(0, 0, 1),
            allow,
            notify,
        ]);
    }
    // socket: an Internet family, and a stream or datagrams.
    all.extend([
        if_equal(libc::SYS_socket as u32, 0, 8),
        step(LOAD, argument_at(0)),
        if_equal(libc::AF_INET as u32, 1, 0),
        if_equal(libc::AF_INET6 as u32, 0, 5),
        step(LOAD, argument_at(1)),
        step(AND, 0xf),
        if_equal(libc::SOCK_STREAM as u32, 1, 0),
        if_equal(libc::SOCK_DGRAM as u32, 0, 1),
        notify,
        allow,
    ]);
    all
}

/// Installs the filter in this thread, which is to become the program; returns the descriptor that hears
/// the notifications. It is closed on exec.
///
/// Without the right to, as a user's, the thread gives up ever gaining rights by an exec.
pub(super) fn install() -> Result<OwnedFd, Errno> {
    match set(&program()) {
        Err(Errno::ACCESS) => {
            rustix::thread::set_no_new_privs(true)?;
            set(&program())
        }
        set => set,
    }
}

fn set(program: &[libc::sock_filter]) -> Result<OwnedFd, Errno> {
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        // The kernel reads it only.
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: a program of this length, which outlives the call.
    let listener = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const filter,
        )
    };
    if listener < 0 {
        return Err(last());
    }
    // SAFETY: a descriptor that the kernel has just made for us.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as i32) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the filter says of a call, as the kernel would run it.
    fn verdict(architecture: u32, number: i64, arguments: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend((number as u32).to_ne_bytes());
        data.extend(architecture.to_ne_bytes());
        data.extend([0; 8]);
        data.extend(arguments.iter().flat_map(|argument| argument.to_ne_bytes()));
        let program = program();
        let (mut at, mut word) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            match u32::from(step.code) {
                LOAD => {
                    let from = step.k as usize;
                    word = u32::from_ne_bytes(data[from..from + 4].try_into().unwrap());
                }
                AND => word &= step.k,
                IF_EQUAL if word == step.k => at += step.jt as usize,
                IF_EQUAL => at += step.jf as usize,
                RETURN => return step.k,
                code => panic!("{code}"),
            }
        }
    }

    const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;
    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

    fn here(number: i64, arguments: [u64; 6]) -> u32 {
        verdict(ARCHITECTURE, number, arguments)
    }

    #[test]
    fn set_up_calls_notify_and_transfers_do_not() {
        let inet = libc::AF_INET as u64;
        let flags = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u64;
        assert_eq!(here(libc::SYS_socket, [inet, flags, 0, 0, 0, 0]), NOTIFY);
        assert_eq!(here(libc::SYS_socket, [10, 2, 17, 0, 0, 0]), NOTIFY);
        for other in [[1, 1], [inet, 3], [16, 2], [17, 2]] {
            let [domain, kind] = other;
            assert_eq!(here(libc::SYS_socket, [domain, kind, 0, 0, 0, 0]), ALLOW);
        }
        for call in ALWAYS {
            assert_eq!(here(call, [3, 0, 0, 0, 0, 0]), NOTIFY);
        }
        for call in WITH_ADDRESS {
            assert_eq!(here(call, [3, 1, 1, 0, 0, 0]), ALLOW);
            assert_eq!(here(call, [3, 1, 1, 0, 1, 0]), NOTIFY);
            assert_eq!(here(call, [3, 1, 1, 0, 1 << 32, 0]), NOTIFY);
        }
        let absent = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
        assert_eq!(here(libc::SYS_io_uring_setup, [0; 6]), absent);
        assert_eq!(verdict(0x4000_0003, libc::SYS_bind, [0; 6]), ALLOW);
    }

    proptest! {
        /// The filter ends, and never notifies of a call that is not one of its own.
        #[test]
        fn other_calls_are_let_alone(number in 0i64..600, arguments: [u64; 6]) {
            let own = ALWAYS.contains(&number) || WITH_ADDRESS.contains(&number);
            let own = own || [libc::SYS_socket, libc::SYS_io_uring_setup].contains(&number);
            prop_assert!(own || here(number, arguments) == ALLOW);
        }
    }
}
