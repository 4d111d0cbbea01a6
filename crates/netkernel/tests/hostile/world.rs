//! CoreEngine, an NSM, a hostile tenant and another, which take their steps in one thread. A user NSM has a hostile network
//! as well.
#![allow(dead_code)]

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use abi::nqe::{Nqe, STREAM, operation};
use abi::region::{RECEIVE_OFFSET, Region};
use abi::ring::{Consumer, Producer, Slot};
use netkernel::core::CoreEngine;
use netkernel::kernel::KernelNsm;
use netkernel::process::Process;
use netkernel::protocol::{Limits, Operator, Request, Token};
use netkernel::service::Service;
use netkernel::user::{Network, UserNsm};
use rustix::event::EventfdFlags;

#[path = "../common/region.rs"]
mod region;

use region::Memory;

/// Which NSM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    Kernel,
    /// A kernel NSM whose own connections go through shared memory.
    Local,
    User,
}

enum Nsm {
    Kernel(Box<KernelNsm>),
    User(Box<UserNsm>),
}

/// The switch's side of a user NSM's VNIC.
struct Wire {
    region: Region,
    receive: Producer,
    transmit: Consumer,
}

/// CoreEngine, an NSM, a hostile tenant and another.
pub struct World {
    core: CoreEngine,
    nsm: Nsm,
    wire: Option<Wire>,
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
    pub fn new(of: Of) -> World {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("weir-nkh-{process}-{number}"));
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
            let (nsm, wire) = match of {
                Of::Kernel | Of::Local => {
                    let nsm = KernelNsm::join(&door, tokens[0], of == Of::Local).unwrap();
                    (Nsm::Kernel(Box::new(nsm)), None)
                }
                Of::User => {
                    let (nsm, wire) = user(Service::join(&door, tokens[0]).unwrap());
                    (Nsm::User(Box::new(nsm)), Some(wire))
                }
            };
            let [hostile, other] =
                [tokens[1], tokens[2]].map(|token| Process::join(&door, token).unwrap());
            (nsm, wire, hostile, other)
        });
        while !joining.is_finished() {
            core.hear(Duration::from_millis(1)).unwrap();
        }
        let (nsm, wire, hostile, other) = joining.join().unwrap();
        World {
            core,
            nsm,
            wire,
            hostile,
            other,
            folder,
        }
    }

    /// Everybody's turn.
    pub fn turn(&mut self) {
        self.core.round();
        self.core.hear(Duration::ZERO).unwrap();
        match &mut self.nsm {
            Nsm::Kernel(nsm) => nsm.step(),
            Nsm::User(nsm) => nsm.step(),
        }
        .unwrap();
        self.core.round();
    }

    /// The network sends a user NSM a frame.
    pub fn send(&mut self, frame: &[u8]) {
        let Some(wire) = &mut self.wire else { return };
        if wire.receive.free(1).unwrap() == 0 {
            return;
        }
        let slot = Slot {
            offset: RECEIVE_OFFSET as u16,
            len: frame.len().min(1600) as u16,
            ..Slot::spent(wire.receive.peek(0).buffer)
        };
        wire.region.frame(slot).unwrap().write(frame);
        wire.receive.fill(0, slot);
        wire.receive.publish(1);
    }

    /// The frames that a user NSM has sent.
    pub fn sent(&mut self) -> Vec<Vec<u8>> {
        let Some(wire) = &mut self.wire else {
            return Vec::new();
        };
        let n = wire.transmit.filled(u32::MAX).unwrap();
        let frames = (0..n).map(|i| {
            let bytes = wire.region.frame(wire.transmit.peek(i)).unwrap();
            let mut frame = vec![0; bytes.len()];
            bytes.read(&mut frame);
            frame
        });
        let frames = frames.collect();
        wire.transmit.release(n);
        frames
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
        self.other.payload(data.offset, 1).unwrap().read(&mut byte);
        assert_eq!((data.len, byte), (1, *b"!"));
        for socket in [3, 2, 1] {
            self.other(Nqe::new(operation::CLOSE, socket));
            self.next(socket, operation::CLOSED);
        }
    }
}

/// A user NSM, 10.0.0.2 and fd00::2, and the switch's side of its VNIC.
fn user(service: Service) -> (UserNsm, Wire) {
    let memory = Memory::new(2);
    let network = Network {
        addresses: [("10.0.0.2", 24), ("fd00::2", 64)]
            .map(|(ip, prefix)| (ip.parse().unwrap(), prefix))
            .to_vec(),
        gateways: vec!["10.0.0.1".parse().unwrap()],
    };
    let doorbell = rustix::event::eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let nsm = UserNsm::new(service, memory.file.as_fd(), doorbell, network).unwrap();
    // SAFETY: nobody else plays the switch, and the mapping stays as long as the process.
    let (receive, transmit) = unsafe {
        (
            memory.region.receive_producer(0),
            memory.region.transmit_consumer(0),
        )
    };
    let region = memory.region;
    let wire = Wire {
        region,
        receive,
        transmit,
    };
    (nsm, wire)
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
