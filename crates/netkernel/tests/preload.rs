//! Unmodified programs under GuestLib, with CoreEngine and the kernel NSM. The programs are Python's; what
//! they do with their sockets is in `preload.py`.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netkernel::core::CoreEngine;
use netkernel::kernel::KernelNsm;
use netkernel::protocol::{Limits, Operator, Request, Token};

const TIME: Duration = Duration::from_secs(30);

/// Runs a function of `preload.py` as a tenant.
fn run(function: &str, local: bool) {
    let name = format!("weir-preload-{}-{function}-{local}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let library = folder.join("libweir_sock.so");
    std::fs::write(&library, netkernel::LIBRARY).unwrap();
    let (door, operator) = (folder.join("door"), folder.join("operator"));
    let core = CoreEngine::listen(&door, &operator).unwrap();
    std::thread::spawn(move || core.run().unwrap());
    let operator = Operator::connect(&operator).unwrap();
    let token = Token::random().unwrap();
    let nsm = "kernel".to_owned();
    let request = Request::AddNsm {
        name: nsm.clone(),
        token,
    };
    operator.ask(&request).unwrap();
    let kernel = KernelNsm::join(&door, token, local).unwrap();
    std::thread::spawn(move || kernel.run());
    let token = Token::random().unwrap();
    let request = Request::AddTenant {
        name: function.to_owned(),
        token,
        nsm,
        limits: Limits::default(),
    };
    operator.ask(&request).unwrap();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/preload.py");
    let mut child = Command::new("python3")
        .arg(script)
        .arg(function)
        .env("LD_PRELOAD", &library)
        .env("WEIR_SOCK", format!("{}:{token}", door.display()))
        .stdin(Stdio::null())
        .spawn()
        .expect("python3 is there");
    let end = Instant::now() + TIME;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("{function} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{function}: {status}");
    // The sockets went to the NSM, and none is left.
    loop {
        let tenant = operator.status().unwrap().tenants.remove(0);
        if tenant.processes == 0 && tenant.sockets == 0 {
            assert_eq!(tenant.violations, 0);
            break;
        }
        assert!(Instant::now() < end, "{} sockets are left", tenant.sockets);
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

macro_rules! functions {
    ($($name:ident: $function:literal;)*) => {
        $(
            #[test]
            fn $name() {
                run($function, false);
                run($function, true);
            }
        )*
    };
}

functions! {
    streams_carry_every_byte: "streams";
    datagrams_keep_their_bounds_and_addresses: "datagrams";
    an_epoll_knows_a_socket_until_its_last_descriptor_is_closed: "duplicates";
    errors_are_told_as_the_kernel_does: "errors";
    forked_processes_accept_in_turn: "forks";
    a_socket_goes_to_another_program_in_a_message: "messages";
    a_program_has_a_socket_for_its_standard_streams: "programs";
    a_file_is_sent: "files";
    a_blocked_thread_is_woken_for_its_own_socket: "threads";
}
