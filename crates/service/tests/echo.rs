//! The NSM in C, `examples/echo.c`, with a CoreEngine and an unmodified program; and the header beside `abi`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use abi::nqe::{self, operation};
use netkernel::core::CoreEngine;
use netkernel::protocol::{Limits, Operator, Request, TOKEN_VARIABLE, Token};

const TIME: Duration = Duration::from_secs(30);

fn folder(name: &str) -> PathBuf {
    let name = format!("weir-service-{}-{name}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn in_crate(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A C compiler that finds the header, and has a warning be an error.
fn compiler() -> Command {
    let mut cc = Command::new("cc");
    cc.args([
        "-std=c11",
        "-D_GNU_SOURCE",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-I",
    ]);
    cc.arg(in_crate("include"));
    cc
}

/// Waits for a program to end well.
fn finish(mut child: Child, what: &str) {
    let end = Instant::now() + TIME;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{what}: {status}");
            return;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("{what} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_has_what_it_sends_echoed_by_an_nsm_in_c() {
    let folder = folder("echo");
    // Beside the test, as cargo builds the library for it.
    let test = std::env::current_exe().unwrap();
    let library = test.with_file_name("libweir_nsm.a");
    let program = folder.join("echo");
    let built = compiler()
        .arg("-o")
        .arg(&program)
        .arg(in_crate("examples/echo.c"))
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm"])
        .status()
        .expect("a C compiler is there");
    assert!(built.success());

    let (door, operator) = (folder.join("door"), folder.join("operator"));
    let core = CoreEngine::listen(&door, &operator).unwrap();
    std::thread::spawn(move || core.run().unwrap());
    let operator = Operator::connect(&operator).unwrap();
    let [nsm, tenant] = [(); 2].map(|()| Token::random().unwrap());
    let name = "echo".to_owned();
    let request = Request::AddNsm {
        name: name.clone(),
        token: nsm,
    };
    operator.ask(&request).unwrap();
    let request = Request::AddTenant {
        name: "program".to_owned(),
        token: tenant,
        nsm: name,
        limits: Limits::default(),
    };
    operator.ask(&request).unwrap();
    let _echo = Ended(
        Command::new(&program)
            .arg(&door)
            .env(TOKEN_VARIABLE, nsm.to_string())
            .spawn()
            .unwrap(),
    );
    let end = Instant::now() + TIME;
    while !operator.status().unwrap().nsms[0].present {
        assert!(Instant::now() < end, "the NSM does not join");
        std::thread::sleep(Duration::from_millis(5));
    }

    let guest_lib = folder.join("libweir_sock.so");
    std::fs::write(&guest_lib, netkernel::LIBRARY).unwrap();
    let script = "import socket
s = socket.create_connection(('192.0.2.1', 7))
assert s.getpeername() == ('192.0.2.1', 7), s.getpeername()
assert s.getsockname() == ('192.0.2.2', 1024), s.getsockname()
for size in (1, 8192, 100):
    sent = bytes(n % 251 for n in range(size))
    s.sendall(sent)
    assert s.recv(size, socket.MSG_WAITALL) == sent, size
s.shutdown(socket.SHUT_WR)
assert s.recv(1) == b''
try:
    socket.socket().bind(('192.0.2.2', 80))
    raise SystemExit('bound')
except OSError as error:
    assert error.errno == 95, error";
    let child = Command::new("python3")
        .args(["-c", script])
        .env("LD_PRELOAD", &guest_lib)
        .env("WEIR_SOCK", format!("{}:{tenant}", door.display()))
        .stdin(Stdio::null())
        .spawn()
        .expect("python3 is there");
    finish(child, "the program");
    let end = Instant::now() + TIME;
    while operator.status().unwrap().nsms[0].sockets > 0 {
        assert!(Instant::now() < end, "a socket of the program stays");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_header_says_what_abi_says() {
    let mut text = String::from("#include \"weir_nsm.h\"\n");
    let constants: [(&str, u64); 31] = [
        ("SOCKET", operation::SOCKET.into()),
        ("BIND", operation::BIND.into()),
        ("LISTEN", operation::LISTEN.into()),
        ("CONNECT", operation::CONNECT.into()),
        ("ACCEPT", operation::ACCEPT.into()),
        ("SEND", operation::SEND.into()),
        ("SEND_TO", operation::SEND_TO.into()),
        ("CONSUMED", operation::CONSUMED.into()),
        ("SHUTDOWN", operation::SHUTDOWN.into()),
        ("SET_OPTION", operation::SET_OPTION.into()),
        ("GET_OPTION", operation::GET_OPTION.into()),
        ("LOCAL_ADDRESS", operation::LOCAL_ADDRESS.into()),
        ("PEER_ADDRESS", operation::PEER_ADDRESS.into()),
        ("CLOSE", operation::CLOSE.into()),
        ("RESULT", operation::RESULT.into()),
        ("INCOMING", operation::INCOMING.into()),
        ("DATA", operation::DATA.into()),
        ("DATAGRAM", operation::DATAGRAM.into()),
        ("END", operation::END.into()),
        ("SENT", operation::SENT.into()),
        ("FAILED", operation::FAILED.into()),
        ("CLOSED", operation::CLOSED.into()),
        ("STREAM", nqe::STREAM),
        ("DATAGRAM_TYPE", nqe::DATAGRAM_TYPE),
        ("MORE", nqe::MORE.into()),
        ("RESTORED", nqe::RESTORED.into()),
        ("CHOSEN_BY_NSM", nqe::CHOSEN_BY_NSM.into()),
        ("DATAGRAM_HEAD", nqe::DatagramHead::LEN as u64),
        ("CHUNK_BYTES", abi::tenant::CHUNK_BYTES as u64),
        ("RECEIVE_WINDOW", abi::tenant::RECEIVE_WINDOW as u64),
        ("NQE_BYTES", 32),
    ];
    text.push_str("#define WEIR_NQE_BYTES sizeof(struct weir_nqe)\n");
    for (name, value) in constants {
        writeln!(text, "_Static_assert(WEIR_{name} == {value}u, \"{name}\");").unwrap();
    }
    for (field, at) in [
        (
            "operation",
            std::mem::offset_of!(weir_nsm::Element, operation),
        ),
        ("tenant", std::mem::offset_of!(weir_nsm::Element, tenant)),
        (
            "queue_set",
            std::mem::offset_of!(weir_nsm::Element, queue_set),
        ),
        ("flags", std::mem::offset_of!(weir_nsm::Element, flags)),
        ("socket", std::mem::offset_of!(weir_nsm::Element, socket)),
        ("data", std::mem::offset_of!(weir_nsm::Element, data)),
        ("offset", std::mem::offset_of!(weir_nsm::Element, offset)),
        ("len", std::mem::offset_of!(weir_nsm::Element, len)),
        ("extra", std::mem::offset_of!(weir_nsm::Element, extra)),
    ] {
        let assert = format!("offsetof(struct weir_nqe, {field}) == {at}");
        writeln!(text, "_Static_assert({assert}, \"{field}\");").unwrap();
    }
    let folder = folder("header");
    let source = folder.join("header.c");
    std::fs::write(&source, text).unwrap();
    let mut cc = compiler();
    let checked = cc.arg("-fsyntax-only").arg(&source).status().unwrap();
    assert!(checked.success());
    std::fs::remove_dir_all(folder).unwrap();
}
