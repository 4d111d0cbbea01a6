//! CoreEngine, an NSM, a hostile tenant and another, which take their steps in one thread.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use abi::nqe::{Nqe, STREAM, operation};
use netkernel::core::CoreEngine;
use netkernel::kernel::KernelNsm;
use netkernel::process::Process;
use netkernel::protocol::{Limits, Operator, Request, Token};

/// CoreEngine, an NSM, a hostile tenant and another.
pub struct World {
    core: CoreEngine,
    nsm: KernelNsm,
    pub hostile: Process,
    other: Process,
    folder: PathBuf,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl World {
    pub fn new(local: bool) -> World {
        let folder = std::env::temp_dir().join(format!("weir-nkh-{}-{local}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (door, operator) = (folder.join("door"), folder.join("operator"));
        let mut core = CoreEngine::listen(&door, &operator).unwrap();
        let joining = std::thread::spawn(move || {
            let operator = Operator::connect(&operator).unwrap();
            let tokens = [(); 3].map(|()| Token::random().unwrap());
            let name = "nsm".to_owned();
            operator
                .ask(&Request::AddNsm {
                    name,
                    token: tokens[0],
                })
                .unwrap();
            for (name, token) in [("hostile", tokens[1]), ("other", tokens[2])] {
                operator
                    .ask(&Request::AddTenant {
                        name: name.to_owned(),
                        token,
                        nsm: "nsm".to_owned(),
                        limits: Limits::default(),
                    })
                    .unwrap();
            }
            let nsm = KernelNsm::join(&door, tokens[0], local).unwrap();
            let [hostile, other] =
                [tokens[1], tokens[2]].map(|token| Process::join(&door, token).unwrap());
            (nsm, hostile, other)
        });
        while !joining.is_finished() {
            core.hear(Duration::from_millis(1)).unwrap();
        }
        let (nsm, hostile, other) = joining.join().unwrap();
        World {
            core,
            nsm,
            hostile,
            other,
            folder,
        }
    }

    /// Everybody's turn.
    pub fn turn(&mut self) {
        self.core.round();
        self.core.hear(Duration::ZERO).unwrap();
        self.nsm.step().unwrap();
        self.core.round();
    }

    /// What the other tenant is delivered of an operation for a socket.
    fn next(&mut self, socket: u32, operation: u8) -> Nqe {
        for _ in 0..1000 {
            self.turn();
            while let Some(nqe) = self.other.delivered() {
                if nqe.socket == socket && nqe.operation == operation {
                    return nqe;
                }
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        panic!("no {operation} for {socket}");
    }

    fn other(&mut self, nqe: Nqe) {
        assert!(self.other.submit(nqe));
        self.other.flush();
    }

    /// The other tenant connects to itself and sends a byte.
    pub fn the_other_goes_on(&mut self) {
        for socket in [1, 2] {
            let nqe = Nqe::new(operation::SOCKET, socket);
            self.other(nqe.with_data(STREAM).with_family(4));
        }
        self.other(Nqe::new(operation::BIND, 1).with_address("127.0.0.1:0".parse().unwrap()));
        let address = self.next(1, operation::RESULT).address().unwrap();
        self.other(Nqe::new(operation::LISTEN, 1).with_data(1));
        assert_eq!(self.next(1, operation::RESULT).error(), 0);
        self.other(Nqe::new(operation::CONNECT, 2).with_address(address));
        let incoming = self.next(1, operation::INCOMING);
        self.other(Nqe::new(operation::ACCEPT, 3).with_data(incoming.len.into()));
        self.other.payload(0, 1).unwrap().write(b"!");
        self.other(Nqe::new(operation::SEND, 2).with_chunk(0, 1));
        let data = self.next(3, operation::DATA);
        let mut byte = [0];
        self.other.payload(data.place, 1).unwrap().read(&mut byte);
        assert_eq!((data.len, byte), (1, *b"!"));
        for socket in [3, 2, 1] {
            self.other(Nqe::new(operation::CLOSE, socket));
            self.next(socket, operation::CLOSED);
        }
    }
}

/// Gives this thread a network namespace of its own, with loopback up: sockets of the NSM are made there.
pub fn own_namespace() {
    // SAFETY is not asked: only this thread's network namespace changes.
    // SAFETY: no descriptor table or memory is unshared, only this thread's network namespace.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.expect("root");
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    assert!(up.unwrap().success());
}
