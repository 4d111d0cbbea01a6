//! Programs that outlive CoreEngine: it is killed, and the NSM ends with it; others take their places, and
//! get the tenant's files. Or they outlive their NSM, which is removed after they were moved to another. The programs are Python's; what they do is in `restart.py`.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netkernel::core::CoreEngine;
use netkernel::kernel::KernelNsm;
use netkernel::protocol::{Limits, Operator, Request, TenantFiles, Token};

const TIME: Duration = Duration::from_secs(30);
/// Longer than programs wait for a CoreEngine that is not there.
const PURGED: Duration = Duration::from_secs(7);

/// A process of this test program, as `role`; see [`be`].
struct Part(Child);

impl Part {
    fn start(role: &str, folder: &Path, token: Option<Token>) -> Part {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "be", "--nocapture"])
            .env("RESTART_ROLE", role)
            .env("RESTART_FOLDER", folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(token) = token {
            command.env("RESTART_TOKEN", token.to_string());
        }
        Part(command.spawn().unwrap())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

/// CoreEngine's or the NSM's process, if this program was started as one.
#[test]
fn be() {
    let Ok(role) = std::env::var("RESTART_ROLE") else {
        return;
    };
    let folder = PathBuf::from(std::env::var_os("RESTART_FOLDER").unwrap());
    let (door, operator) = (folder.join("door"), folder.join("operator"));
    if role == "core" {
        let _ = std::fs::remove_file(&door);
        let _ = std::fs::remove_file(&operator);
        CoreEngine::listen(&door, &operator).unwrap().run().unwrap();
    } else {
        let token = std::env::var("RESTART_TOKEN").unwrap();
        let token = Token::try_from(token).unwrap();
        // It ends with CoreEngine.
        let _ = KernelNsm::join(&door, token, false).unwrap().run();
    }
}

fn until<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + TIME;
    loop {
        if let Some(done) = done() {
            return done;
        }
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A CoreEngine and an NSM that know the tenant.
struct Stack {
    operator: Operator,
    nsm: Part,
    core: Part,
    /// Has a port that a socket of the tenant had.
    taken: Option<TcpListener>,
}

impl Stack {
    fn start(folder: &Path, tokens: [Token; 2], files: &mut Option<TenantFiles>) -> Stack {
        let core = Part::start("core", folder, None);
        let operator = until("CoreEngine does not start", || {
            let operator = Operator::connect(&folder.join("operator")).ok()?;
            (operator.pid().ok()? == core.0.id()).then_some(operator)
        });
        let [nsm, tenant] = tokens;
        let name = "kernel".to_owned();
        operator.ask(&Request::AddNsm { name, token: nsm }).unwrap();
        let nsm = Part::start("nsm", folder, Some(nsm));
        let request = Request::AddTenant {
            name: "program".to_owned(),
            token: tenant,
            nsm: "kernel".to_owned(),
            limits: Limits::default(),
        };
        *files = Some(operator.files(&request, files.as_ref()).unwrap());
        until("the NSM does not start", || {
            let status = operator.status().unwrap();
            status.nsms[0].present.then_some(())
        });
        Stack {
            operator,
            nsm,
            core,
            taken: None,
        }
    }
}

impl Stack {
    /// Has the tenant be at another NSM, and removes its own. `late`: the other starts afterwards, when a port may be
    /// somebody else's.
    fn leave(self, folder: &Path, late: bool, taken: Option<u16>) -> Stack {
        let Stack {
            operator,
            nsm: before,
            core,
            ..
        } = self;
        let names: Vec<_> = operator.status().unwrap().nsms;
        let name = format!("{}'", names[0].name);
        let token = Token::random().unwrap();
        let start = || {
            let nsm = Part::start("nsm", folder, Some(token));
            until("the NSM does not start", || {
                let mut nsms = operator.status().unwrap().nsms.into_iter();
                nsms.any(|nsm| nsm.name == name && nsm.present)
                    .then_some(())
            });
            nsm
        };
        let add = Request::AddNsm {
            name: name.clone(),
            token,
        };
        operator.ask(&add).unwrap();
        let early = (!late).then(start);
        let moved = Request::Move {
            tenant: "program".to_owned(),
            nsm: name.clone(),
        };
        operator.ask(&moved).unwrap();
        drop(before);
        let name = names[0].name.clone();
        operator.ask(&Request::RemoveNsm { name }).unwrap();
        let taken = taken.map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap());
        let nsm = early.unwrap_or_else(start);
        Stack {
            operator,
            nsm,
            core,
            taken,
        }
    }
}

/// Runs a function of `restart.py`, which says `kill` when it wants CoreEngine to be killed, `move`, `move late` or `move late PORT`
/// when it wants to be moved to another NSM, `lose` or `purge` when the tenant's files are to be lost, and is told `back`.
fn run(function: &str) {
    let name = format!("weir-restart-{}-{function}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let library = folder.join("libweir_sock.so");
    std::fs::write(&library, netkernel::LIBRARY).unwrap();
    let tokens = [(); 2].map(|()| Token::random().unwrap());
    let mut files = None;
    let mut stack = Stack::start(&folder, tokens, &mut files);
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/restart.py");
    let mut child = Command::new("timeout")
        .args(["30", "python3"])
        .arg(script)
        .arg(function)
        .env("LD_PRELOAD", &library)
        .env(
            "WEIR_SOCK",
            format!("{}:{}", folder.join("door").display(), tokens[1]),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut input = child.stdin.take().unwrap();
    let mut ends = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        ends += 1;
        let line = line.unwrap();
        stack = if ["kill", "lose", "purge"].contains(&line.as_str()) {
            let Stack { nsm, core, .. } = stack;
            drop(core);
            // The NSM ends by itself; what it served is free then.
            let mut nsm = nsm;
            until("the NSM does not end", || nsm.0.try_wait().unwrap());
            if line == "purge" {
                std::fs::remove_file(folder.join("door")).unwrap();
                std::thread::sleep(PURGED);
            }
            if line != "kill" {
                files = None;
            }
            Stack::start(&folder, tokens, &mut files)
        } else {
            let how = line.strip_prefix("move").unwrap();
            let port = how.strip_prefix(" late ").map(|port| port.parse().unwrap());
            stack.leave(&folder, how.starts_with(" late"), port)
        };
        // A program may have ended without waiting.
        let _ = input.write_all(b"back\n");
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{function}: {status}");
    assert!(ends > 0, "nothing was ended");
    // None of the sockets that it had is left.
    until("processes or sockets are left", || {
        let tenant = stack.operator.status().unwrap().tenants.remove(0);
        assert_eq!(tenant.violations, 0);
        (tenant.processes == 0 && tenant.sockets == 0).then_some(())
    });
    drop(stack.taken);
    std::fs::remove_dir_all(&folder).unwrap();
}

macro_rules! functions {
    ($($name:ident: $function:literal;)*) => {
        $(
            #[test]
            fn $name() {
                run($function);
            }
        )*
    };
}

functions! {
    threads_that_wait_go_on: "waits";
    an_event_loop_serves_again: "loops";
    sockets_keep_their_addresses_and_options: "addresses";
    forked_processes_serve_again: "forks";
    a_program_that_never_sleeps_notices: "polls";
    calls_wait_for_the_next_core_engine: "calls";
    a_signal_handler_does_not_end_a_wait: "signals";
    a_socket_that_cannot_be_restored_fails_in_all_processes: "taken";
    sockets_that_are_lost_fail: "loses";
    sockets_without_a_core_engine_fail: "purged";
    sockets_follow_to_another_nsm_when_theirs_is_removed: "moves";
}
