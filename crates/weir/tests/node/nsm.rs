//! Network stack modules and the applications that they serve, with real programs.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Host, alive, assert_contains, inside, ip, kill, named, until};

/// A program that is ended when this is dropped.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `weir sock run` with these arguments.
fn start(host: &Host, arguments: &str) -> Program {
    let words: Vec<_> = ["sock", "run"]
        .into_iter()
        .chain(arguments.split_whitespace())
        .collect();
    let mut program = host.weir(&words);
    program.current_dir(&host.folder).stdout(Stdio::null());
    Program(program.stderr(Stdio::null()).spawn().unwrap())
}

/// Starts a web server of this folder, as the application `name`, and waits until it listens.
fn serve(host: &Host, nsm: &str, name: &str, port: u16) -> Program {
    let server = format!("--nsm {nsm} --name {name} -- python3 -m http.server {port}");
    let server = start(host, &server);
    until("it does not listen", || {
        host.output(&format!("sock ls {name} -p -o state")).stdout == b"listening\n"
    });
    server
}

/// What a web server says to curl as an application.
fn fetch(host: &Host, nsm: &str, port: u16) -> Option<String> {
    let curl = format!("sock run --nsm {nsm} -- curl -s -m 5 http://127.0.0.1:{port}/said");
    let output = host.output(&curl);
    let said = String::from_utf8(output.stdout).unwrap();
    output.status.success().then_some(said)
}

fn status(host: &Host, nsm: &str) -> Value {
    host.json(&format!("nsm ls {nsm}"))[0]["status"].clone()
}

fn pid(host: &Host, nsm: &str) -> u32 {
    pid_of(host, nsm).unwrap()
}

fn pid_of(host: &Host, nsm: &str) -> Option<u32> {
    Some(status(host, nsm)["pid"].as_u64()? as u32)
}

/// A host with an NSM `web` in a namespace that begins with the host's prefix, and a file to fetch.
fn host() -> Host {
    let host = Host::new();
    std::fs::write(host.folder.join("said"), "hello").unwrap();
    let namespace = format!("{}-web", host.prefix);
    ip(&format!("netns add {namespace}"));
    host.ok(&format!("nsm create web --netns {namespace}"));
    host
}

#[test]
fn an_nsm_serves_programs_in_its_namespace_and_leaves_nothing() {
    let host = host();
    // Its own namespace; names of NSMs are the node's.
    let own = format!("{}own", host.prefix);
    host.ok(&format!("nsm create {own}"));
    assert_eq!(
        named(&format!("weir-nsm-{own}")),
        [format!("weir-nsm-{own}")]
    );
    host.shows(
        &format!("nsm ls -p -o nsm,kind,state {own}"),
        &format!("{own}:kernel:up\n"),
    );
    let core = host.view().core_pid.unwrap();
    assert_eq!(host.view().nsms, 2);
    let nsm = pid(&host, "web");
    // It has no privileges but to serve any port, no files, and is where it is to be.
    let said = std::fs::read_to_string(format!("/proc/{nsm}/status")).unwrap();
    assert_contains(&said, "CapEff:\t0000000000000400");
    assert_contains(&said, "Uid:\t65534\t");
    assert_contains(&said, "NoNewPrivs:\t1");
    assert_contains(&said, "Seccomp:\t2");
    let root = std::fs::read_dir(format!("/proc/{nsm}/root")).unwrap();
    assert_eq!(root.count(), 0);

    let server = serve(&host, "web", "server", 80);
    assert_eq!(fetch(&host, "web", 80).as_deref(), Some("hello"));
    // Others in the namespace reach it, and the host's own does not.
    let namespace = format!("{}-web", host.prefix);
    let direct = inside(&namespace, "curl -s -m 5 http://127.0.0.1/said");
    assert_eq!(direct.as_deref(), Some("hello"));
    assert_eq!(fetch(&host, &own, 80), None);
    host.shows(
        "sock ls server -p -o nsm,state,bound",
        "web:listening:0.0.0.0\\:80\n",
    );
    let list = host.json("sock ls");
    let server_is = list.as_array().unwrap().iter();
    let server_is = server_is.clone().find(|it| it["name"] == "server").unwrap();
    assert_eq!(server_is["nsm"], "web");
    assert_eq!(server_is["status"]["processes"], 1);
    assert!(server_is["status"]["sent"].as_u64() >= Some(10), "{list}");
    assert!(status(&host, "web")["requests"].as_u64() > Some(4));
    assert!(host.ok("nsm stat web").contains("REQUESTS"));

    // Another NSM in a namespace keeps it.
    let other = format!("{}other", host.prefix);
    host.ok(&format!("nsm create {other} --netns weir-nsm-{own}"));
    let said = format!("namespace ‘weir-nsm-{own}’ of NSM ‘{own}’ is in use");
    let refusal = host.refusal(&format!("nsm delete {own}"));
    assert_contains(&refusal, &said);
    assert_contains(&refusal, &format!("({other})"));
    host.ok(&format!("nsm delete {other}"));

    // It goes with its last process and socket.
    host.refuses("nsm delete web", "NSM ‘web’ is in use");
    drop(server);
    until("the applications do not end", || {
        host.ok("sock ls -p").is_empty()
    });
    assert_contains(&host.ok("events server"), "application ‘server’ ended");
    for name in ["web", &own] {
        host.ok(&format!("nsm delete {name}"));
    }
    let events = host.ok("events web");
    for happened in ["was created", "was started", "was removed"] {
        assert_contains(&events, &format!("NSM ‘web’ {happened}"));
    }
    assert!(!alive(nsm) && !alive(core), "processes are left");
    assert_eq!(named(&format!("weir-nsm-{own}")), [""; 0]);
    assert_eq!(
        named(&namespace),
        [namespace.as_str()],
        "it is not the node's"
    );
    assert!(!host.run().join("sock").exists());
}

/// By system calls, a supervisor is the application's process, and the program has the number of the
/// command.
#[test]
fn an_intercepted_program_is_an_application_until_it_ends() {
    let host = host();
    let mut server = start(
        &host,
        "--nsm web --name site --intercept syscall -- python3 -m http.server 80",
    );
    until("it does not listen", || {
        host.output("sock ls site -p -o state").stdout == b"listening\n"
    });
    host.shows("sock ls -p -o application,processes", "site:1\n");
    let words = std::fs::read_to_string(format!("/proc/{}/cmdline", server.0.id())).unwrap();
    assert_contains(&words, "http.server");
    assert_eq!(fetch(&host, "web", 80).as_deref(), Some("hello"));
    let curl = "sock run --nsm web --intercept syscall -- curl -s -m 5 http://127.0.0.1/said";
    assert_eq!(host.ok(curl), "hello");
    // Its supervisor goes with it, and what it served.
    server.0.kill().unwrap();
    server.0.wait().unwrap();
    until("the application is there", || {
        host.output("sock ls -p -o application").stdout.is_empty()
    });
}

#[test]
fn what_an_applications_sockets_do_is_traced_and_counted() {
    let host = host();
    let server = serve(&host, "web", "server", 80);
    let fetched = std::thread::scope(|scope| {
        let trace = scope.spawn(|| host.ok("sock trace server --count 12"));
        // The trace begins a moment after the command; each fetch is traced from then on.
        let mut fetched = 0;
        until("the trace does not end", || {
            assert_eq!(fetch(&host, "web", 80).as_deref(), Some("hello"));
            fetched += 1;
            trace.is_finished()
        });
        let trace = trace.join().unwrap();
        assert_eq!(trace.lines().count(), 12, "{trace}");
        for said in [
            "< incoming 127.0.0.1:",
            "> accept",
            "< data ",
            "< sent ",
            "bytes (",
            "> close",
        ] {
            assert_contains(&trace, said);
        }
        fetched
    });
    assert!(fetched > 0);
    host.refuses("sock trace nobody", "no application ‘nobody’");

    // A connection that stays: its peer and its bytes.
    let client = "import socket, time
s = socket.create_connection(('127.0.0.1', 80)); s.sendall(b'GET /said HTTP/1.0\\r\\n'); time.sleep(60)";
    let script = host.folder.join("client.py");
    std::fs::write(&script, client).unwrap();
    let client = format!("--nsm web --name client -- python3 {}", script.display());
    let _client = start(&host, &client);
    until("it is not connected", || {
        let sockets = host.output("sock ls client -p -o transport,state,peer,sent,received,nsm");
        sockets.stdout == b"tcp:open:127.0.0.1\\:80:20:0:web\n"
    });
    let local = host.ok("sock ls client -p -o local");
    until("the server's end is not there", || {
        host.ok("sock ls server -p -o peer,received")
            .contains(&format!("{}:20\n", local.trim()))
    });
    drop(server);
}

#[test]
fn an_nsm_serves_by_as_many_workers_as_it_has_cores() {
    let host = Host::new();
    let namespace = format!("{}-web", host.prefix);
    ip(&format!("netns add {namespace}"));
    for (arguments, told) in [
        ("--cores 0", "`cores` is 0: an NSM has 1 to 16 workers"),
        ("--cores 17", "is 17: an NSM has 1 to 16 workers"),
        (
            "--kind shm --cores 2",
            "`cores` is not for this kind of NSM",
        ),
    ] {
        host.refuses(&format!("nsm create web {arguments}"), told);
    }
    host.ok(&format!("nsm create web --netns {namespace} --cores 2"));
    let folder = host.folder.display().to_string();
    std::fs::write(host.folder.join("said"), "hello").unwrap();
    let configuration = format!(
        "daemon off; worker_processes 1; user root; pid {folder}/pid; error_log {folder}/errors;
        events {{ worker_connections 256; }}
        http {{ access_log off; server {{ listen 80; root {folder}; }} }}"
    );
    let file = host.config("nginx.conf", &configuration);
    let nginx = start(&host, &format!("--nsm web --name nginx -- nginx -c {file}"));
    let get = || inside(&namespace, "curl -s -m 1 http://127.0.0.1/said");
    let serves = || get().as_deref() == Some("hello");
    let listening = || {
        let sockets = inside(&namespace, "ss -Hltn sport = 80").unwrap_or_default();
        sockets.lines().count()
    };
    until("nginx does not serve", serves);
    assert_eq!(listening(), 2);
    // 40 connections that stay: each worker has some.
    let code = "import socket
all = [socket.create_connection(('127.0.0.1', 80), 5) for _ in range(40)]
for turn in range(3):
    for s in all: s.sendall(b'GET /said HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
    for s in all: assert s.recv(1000).startswith(b'HTTP/1.1 200')
print('all')";
    let file = host.config("all.py", code);
    let waits = |pid: u32| -> Vec<u64> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let waits = tasks.map(|task| {
            let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let mut lines = status.lines();
            let waits = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            waits.unwrap().trim().parse().unwrap()
        });
        waits.collect()
    };
    let nsm = pid(&host, "web");
    let before = waits(nsm);
    let said = inside(&namespace, &format!("python3 {file}"));
    assert_eq!(said.as_deref(), Some("all\n"));
    let after = waits(nsm);
    assert_eq!(after.len(), 2);
    assert!(
        before
            .iter()
            .zip(&after)
            .all(|(before, after)| before < after)
    );

    // A killed NSM is back with all its workers, and so is one that gets another number.
    kill("-KILL", nsm);
    until("it is not served again", || {
        pid_of(&host, "web") != Some(nsm) && serves()
    });
    assert_eq!(listening(), 2);
    let nsm = pid(&host, "web");
    host.ok("nsm set --cores 3 -p conns=1000 web");
    host.shows("nsm ls web -p -o cores,properties", "3:conns=1000\n");
    until("it is not served by three", || listening() == 3 && serves());
    assert!(!alive(nsm));
    assert_eq!(waits(pid(&host, "web")).len(), 3);
    kill("-TERM", nginx.0.id());
    until("its sockets stay", || listening() == 0);
}

#[test]
fn an_nsm_that_is_killed_is_back_within_a_second_and_so_are_its_listeners() {
    let host = host();
    let _server = serve(&host, "web", "server", 80);
    let nsm = pid(&host, "web");
    kill("-KILL", nsm);
    let killed = Instant::now();
    until("it does not serve", || {
        fetch(&host, "web", 80).as_deref() == Some("hello")
    });
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}, with curl's start");
    assert_ne!(pid(&host, "web"), nsm);
    assert_eq!(status(&host, "web")["restarts"], 1);
    let events = host.ok("events web");
    assert_contains(&events, "was killed by signal 9: it restarts in 0.1 s");
    assert_contains(&events, "NSM ‘web’ was restarted");
}

#[test]
fn core_engine_is_replaced_and_knows_all_as_before() {
    let host = host();
    let program = start(&host, "--nsm web --name stays -p conns=7 -- sleep 60");
    until("it is not there", || {
        host.ok("sock ls -p").contains("stays")
    });
    let core = host.view().core_pid.unwrap();
    kill("-KILL", core);
    until("no other CoreEngine runs", || {
        let view = host.view();
        view.core_pid.is_some_and(|pid| pid != core) && status(&host, "web")["state"] == "up"
    });
    assert_contains(&host.ok("events"), "CoreEngine ");
    // Programs of the application have the same token as before.
    let environment = std::fs::read(format!("/proc/{}/environ", program.0.id())).unwrap();
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let variable = |name: &str| {
        let found = environment.split('\0').find_map(|it| it.strip_prefix(name));
        found.unwrap_or_else(|| panic!("{environment}")).to_string()
    };
    let code = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 81)); s.listen(); \
                import time; time.sleep(60)";
    let child = Command::new("python3")
        .args(["-c", code])
        .env("LD_PRELOAD", variable("LD_PRELOAD="))
        .env("WEIR_SOCK", variable("WEIR_SOCK="))
        .spawn();
    let _child = Program(child.unwrap());
    until("its socket is not there", || {
        host.ok("sock ls stays -p -o state,bound") == "listening:127.0.0.1\\:81\n"
    });
    host.shows("sock ls -p -o application,properties", "stays:conns=7\n");
}

/// nginx with two workers and redis serve again when CoreEngine was killed, with their processes.
#[test]
fn programs_outlive_core_engine() {
    let mut host = host();
    let folder = host.folder.display().to_string();
    let configuration = format!(
        "daemon off; worker_processes 2; user root; pid {folder}/pid; error_log {folder}/errors;
        events {{ worker_connections 64; }}
        http {{ access_log off; server {{ listen 80; listen [::]:80; root {folder}; }} }}"
    );
    std::fs::write(host.folder.join("nginx.conf"), configuration).unwrap();
    let nginx = format!("--nsm web --name nginx -- nginx -c {folder}/nginx.conf");
    let nginx = start(&host, &nginx);
    let redis = format!("--nsm web --name redis -- redis-server --dir {folder}");
    let redis = start(&host, &redis);
    let namespace = format!("{}-web", host.prefix);
    let get = |host: &str| inside(&namespace, &format!("curl -s -m 1 http://{host}/said"));
    let serves = || {
        ["127.0.0.1", "[::1]"]
            .map(get)
            .map(|said| said.as_deref() == Some("hello"))
    };
    let ask = |what: &str| inside(&namespace, &format!("redis-cli {what}"));
    until("nginx does not serve", || serves() == [true; 2]);
    until("redis does not serve", || {
        ask("ping").as_deref() == Some("PONG\n")
    });
    ask("set one 1");
    let pid = nginx.0.id();
    let children = || std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let workers = children();
    for node in [false, true, false] {
        if node {
            // The next node gets the applications' files from CoreEngine.
            host.end("-KILL");
            host.start();
        }
        // One that ran for less than a second is replaced later.
        std::thread::sleep(Duration::from_secs(1));
        let core = host.view().core_pid.unwrap();
        kill("-KILL", core);
        let killed = Instant::now();
        until("nginx does not serve again", || serves() == [true; 2]);
        until("redis does not serve again", || {
            ask("get one").as_deref() == Some("1\n")
        });
        let took = killed.elapsed();
        assert!(
            took < Duration::from_secs(3),
            "{took:?}, with the clients' starts"
        );
        assert_ne!(host.view().core_pid, Some(core));
        // As for other applications.
        assert_eq!(fetch(&host, "web", 80).as_deref(), Some("hello"));
    }
    assert_eq!(children(), workers);
    host.shows("sock ls redis -p -o state", "listening\nlistening\n");
    kill("-TERM", pid);
    // Its workers would outlive it if it were killed before it told them to end.
    until("nginx does not end", || !alive(pid));
    drop((nginx, redis));
    until("the applications do not end", || {
        host.ok("sock ls -p").is_empty()
    });
    host.ok("nsm delete web");
}

#[test]
fn nsms_and_applications_outlive_the_node() {
    let mut host = host();
    let server = serve(&host, "web", "server", 80);
    let (core, nsm) = (host.view().core_pid, pid(&host, "web"));
    host.end("-KILL");
    host.start();
    assert_eq!((host.view().core_pid, pid(&host, "web")), (core, nsm));
    host.shows("sock ls server -p -o state", "listening\n");
    assert_eq!(fetch(&host, "web", 80).as_deref(), Some("hello"));

    // They are brought back where nothing is left of them.
    host.end("-KILL");
    drop(server);
    kill("-KILL", nsm);
    kill("-KILL", core.unwrap());
    until("they do not end", || !alive(nsm) && !alive(core.unwrap()));
    host.start();
    until("it is not up", || status(&host, "web")["state"] == "up");
    let _server = serve(&host, "web", "again", 80);
    assert_eq!(fetch(&host, "web", 80).as_deref(), Some("hello"));
    until("the first one does not go", || {
        !host.ok("sock ls -p").contains("server")
    });

    // One whose namespace is another goes there; its own namespace is recreated.
    let namespace = format!("{}-web", host.prefix);
    let own = format!("{}own", host.prefix);
    host.ok(&format!("nsm create {own}"));
    let of_own = format!("weir-nsm-{own}");
    for namespace in [&namespace, &of_own] {
        ip(&format!("netns delete {namespace}"));
    }
    ip(&format!("netns add {namespace}"));
    let inode = |path: String| {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).ok().map(|file| file.ino())
    };
    for (nsm, namespace) in [("web", &namespace), (&own, &of_own)] {
        until("it is not in the new namespace", || {
            let is = status(&host, nsm)["pid"].as_u64();
            let is = is.and_then(|pid| inode(format!("/proc/{pid}/ns/net")));
            is.is_some() && is == inode(format!("/run/netns/{namespace}"))
        });
    }
}

#[test]
fn an_application_lasts_as_long_as_a_process_of_it() {
    let host = host();
    let _server = serve(&host, "web", "server", 80);
    // The program ends at once; its child, which has closed all descriptors, has no socket for some time.
    let code = "import os, time, urllib.request
if os.fork():
    os._exit(0)
os.setsid()
os.closerange(0, 9999)
time.sleep(3)
said = urllib.request.urlopen('http://127.0.0.1:80/said').read()
os.write(os.open('fetched', os.O_CREAT | os.O_WRONLY), said)
time.sleep(1)";
    let file = host.config("daemon.py", code);
    let run = format!("sock run --nsm web --name daemon -- python3 {file}");
    let words: Vec<_> = run.split_whitespace().collect();
    let mut program = host.weir(&words);
    assert!(
        program
            .current_dir(&host.folder)
            .status()
            .unwrap()
            .success()
    );
    // Its name is not given to another.
    let again = "sock run --nsm web --name daemon -- true";
    host.refuses(again, "already an application named ‘daemon’");
    let fetched = host.folder.join("fetched");
    until("it fetches nothing", || {
        std::fs::read(&fetched).is_ok_and(|said| said == b"hello")
    });
    until("it does not end", || {
        !host.ok("sock ls -p").contains("daemon")
    });
}

#[test]
fn new_sockets_go_to_the_nsm_that_an_application_is_moved_to() {
    let host = host();
    let other = format!("{}-other", host.prefix);
    ip(&format!("netns add {other}"));
    host.ok(&format!("nsm create other --netns {other}"));
    // A server that listens again each second, on the next port.
    let code = "import socket, time\nkept = []\nfor port in range(80, 200):\n s = socket.socket(); \
                s.bind(('127.0.0.1', port)); s.listen(); kept.append(s); time.sleep(0.2)";
    let file = host.config("ports.py", code);
    let _server = start(&host, &format!("--nsm web --name server -- python3 {file}"));
    until("it is not there", || {
        host.ok("sock ls -p").contains("server")
    });
    let nsms = || host.ok("sock ls server -p -o nsm");
    until("it has no sockets", || nsms().lines().count() > 1);
    host.ok("nsm move server other");
    until("new sockets do not go to the other", || {
        nsms().contains("other")
    });
    let at = nsms();
    assert!(at.starts_with("web\nweb\n"), "{at}");
    assert_eq!(at.matches("web\nother").count(), 1, "{at}");
    host.shows("sock ls -p -o application,nsm", "server:other\n");
    assert_contains(
        &host.ok("events"),
        "new sockets go to NSM ‘other’, no longer to ‘web’",
    );
    // Present sockets stay, and go there, too, when their NSM is removed.
    host.ok("nsm delete web");
    until("they do not listen there", || {
        let listening = inside(&other, "ss -ltnH").unwrap_or_default();
        listening.contains("127.0.0.1:80 ") && listening.contains("127.0.0.1:81 ")
    });
    assert!(!nsms().contains("web"));
    assert!(!host.ok("sock ls server -p -o state").contains("failed"));
}

#[test]
fn what_an_application_may_have_holds_at_once() {
    let host = host();
    std::fs::write(host.folder.join("long"), vec![b'x'; 3 << 20]).unwrap();
    let server = serve(&host, "web", "server", 80);
    let time = || {
        let start = Instant::now();
        let curl = "sock run --nsm web -- curl -s -m 20 -o /dev/null http://127.0.0.1/long";
        host.ok(curl);
        start.elapsed()
    };
    let free = time();
    // 3 MB are 24 Mb.
    host.ok("sock set -p maxbw=20M server");
    let limited = time();
    assert!(
        limited > free + Duration::from_millis(700),
        "{free:?}, {limited:?}"
    );
    host.ok("sock reset -p maxbw server");
    let properties = host.ok("sock ls -p -o application,properties");
    assert_contains(&properties, "server:\n");
    assert!(time() < limited - Duration::from_millis(350));
    host.refuses("sock reset -p speed server", "no property ‘speed’");
    drop(server);
    let code = "import socket\na = socket.socket(); a.bind(('', 90))\n\
                try:\n b = socket.socket(); b.bind(('', 91))\n\
                except OSError as e: print(e.errno)";
    let file = host.config("two.py", code);
    let said = host.ok(&format!("sock run --nsm web -p conns=1 -- python3 {file}"));
    let error = said.trim().parse::<i32>().unwrap();
    assert!(error == 24 || error == 23, "{error}: EMFILE");
}

#[test]
fn what_an_nsm_may_have_holds_for_all_its_applications() {
    let host = host();
    std::fs::write(host.folder.join("long"), vec![b'x'; 3 << 20]).unwrap();
    let _server = serve(&host, "web", "server", 80);
    host.ok("nsm set -p conns=2 web");
    host.shows("nsm ls web -p -o properties", "conns=2\n");
    let code = "import socket\na = socket.socket(); a.bind(('', 90)); print(a.getsockname()[1])\n\
                try:\n b = socket.socket(); b.bind(('', 91))\n\
                except OSError as e: print(e.errno)";
    let file = host.config("two.py", code);
    host.shows(
        &format!("sock run --nsm web -- python3 {file}"),
        "90\n105\n",
    );
    // 3 MB are 24 Mb, and they pass twice: both ends are here.
    host.ok("nsm set -p conns=100,maxbw=20M web");
    let start = Instant::now();
    host.ok("sock run --nsm web -- curl -s -m 20 -o /dev/null http://127.0.0.1/long");
    let took = start.elapsed();
    assert!(took > Duration::from_millis(1500), "{took:?}");
    host.ok("nsm reset -p maxbw,conns web");
    host.shows("nsm ls web -p -o properties", "\n");
    host.refuses("nsm set -p maxbw=0 web", "maxbw=0 is invalid");
    host.refuses("nsm set -p weight=2 web", "no property ‘weight’");
}

/// A host with a user NSM `fast` on a stub, 10.0.0.2 and fd00::2, a namespace on it with 10.0.0.1 and fd00::1, and a file
/// to fetch.
fn user_host() -> (Host, String) {
    let host = Host::new();
    std::fs::write(host.folder.join("said"), "hello").unwrap();
    let near = format!("{}-near", host.prefix);
    ip(&format!("netns add {near}"));
    host.ok("stub create lan");
    host.ok(&format!(
        "vnic create -l lan --netns {near} -a 10.0.0.1/24 -a fd00::1/64 near0"
    ));
    host.ok("nsm create fast --kind user -l lan -a 10.0.0.2/24 -a fd00::2/64");
    (host, near)
}

/// What the web server of the user NSM says to curl in a namespace.
fn fetch_from(namespace: &str) -> Option<String> {
    inside(namespace, "curl -s -m 5 http://10.0.0.2/said")
}

#[test]
fn a_user_nsm_serves_programs_on_a_vnic_of_its_own_without_any_privilege() {
    let (host, near) = user_host();
    host.shows(
        "nsm ls -p -o nsm,kind,state,addresses",
        "fast:user:up:10.0.0.2/24,fd00\\:\\:2/64\n",
    );
    host.shows(
        "vnic show -p -o vnic,link,state,serves fast",
        "fast:lan:up:nsm\\:fast\n",
    );
    host.refuses(
        "nsm create twin --kind user -l lan -a 10.0.0.3/24 -a 10.0.0.2/16",
        "NSM ‘fast’ on link ‘lan’ has the address 10.0.0.2: choose another",
    );
    let nsm = pid(&host, "fast");
    kill("-STOP", nsm);
    assert_contains(
        &host.ok("nsm ls"),
        &format!("stopped by a signal: `kill -CONT {nsm}`"),
    );
    kill("-CONT", nsm);
    host.shows("nsm ls -p -o state", "up\n");
    let said = std::fs::read_to_string(format!("/proc/{nsm}/status")).unwrap();
    assert_contains(&said, "CapEff:\t0000000000000000");
    assert_contains(&said, "Uid:\t65534\t");
    assert_contains(&said, "Seccomp:\t2");
    let root = std::fs::read_dir(format!("/proc/{nsm}/root")).unwrap();
    assert_eq!(root.count(), 0);
    for address in ["10.0.0.2", "fd00::2"] {
        until("it does not answer", || {
            inside(&near, &format!("ping -c 1 -W 1 {address}")).is_some()
        });
    }

    // Programs in the namespace reach one at the NSM, and the other way.
    let server = serve(&host, "fast", "server", 80);
    assert_eq!(fetch_from(&near).as_deref(), Some("hello"));
    assert_eq!(fetch(&host, "fast", 80).as_deref(), Some("hello"));
    let there = Command::new("ip")
        .args(["netns", "exec", &near, "python3", "-m", "http.server", "81"])
        .current_dir(&host.folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let there = Program(there.unwrap());
    until("its server does not answer", || {
        host.output("sock run --nsm fast -- curl -s -m 5 http://10.0.0.1:81/said")
            .stdout
            == b"hello"
    });
    drop(there);

    // A limit of the VNIC's is the NSM's. 3 MB are 24 Mb.
    std::fs::write(host.folder.join("long"), vec![b'x'; 3 << 20]).unwrap();
    host.ok("vnic set-prop -p maxbw=20M fast");
    let start = Instant::now();
    let got = inside(&near, "curl -s -m 20 http://10.0.0.2/long");
    assert_eq!(got.map(|got| got.len()), Some(3 << 20));
    let took = start.elapsed();
    assert!(took > Duration::from_millis(700), "{took:?}");
    host.refuses("vnic delete fast", "is that of NSM ‘fast’");
    host.refuses(
        "vnic set-prop -p mtu=1400 fast",
        "while NSM ‘fast’ runs with it",
    );
    host.refuses("stub delete lan", "‘lan’ is in use");

    drop(server);
    until("the applications do not end", || {
        host.ok("sock ls -p").is_empty()
    });
    host.ok("nsm delete fast");
    assert!(!alive(nsm), "its process is left");
    host.shows("vnic show -p -o vnic", "near0\n");
}

#[test]
fn a_user_nsm_outlives_switch_and_node_and_is_back_with_its_listeners_if_it_is_killed() {
    let (mut host, near) = user_host();
    let _server = serve(&host, "fast", "server", 80);
    assert_eq!(fetch_from(&near).as_deref(), Some("hello"));
    let nsm = pid(&host, "fast");
    host.lose_switch();
    until("it is not reached by another switch", || {
        fetch_from(&near).as_deref() == Some("hello")
    });
    host.end("-KILL");
    host.start();
    assert_eq!(fetch_from(&near).as_deref(), Some("hello"));
    assert_eq!(pid(&host, "fast"), nsm);
    kill("-KILL", nsm);
    let killed = Instant::now();
    until("it does not serve", || {
        fetch_from(&near).as_deref() == Some("hello")
    });
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}, with curl's start");
    assert_ne!(pid(&host, "fast"), nsm);
}

#[test]
fn a_user_nsm_that_cannot_be_is_told_in_a_sentence() {
    let host = Host::new();
    host.ok("stub create lan");
    for (arguments, told) in [
        ("-a 10.0.0.2/24", "a user NSM needs the link or stub"),
        ("-l lan", "a user NSM has 1 to 7"),
        ("-l wan -a 10.0.0.2/24", "no link ‘wan’"),
        (
            "-l lan -a 10.0.0.2/24 --gateway 10.1.0.1",
            "gateway 10.1.0.1 is in the network of none",
        ),
        (
            "-l lan -a 127.0.0.1/8",
            "127.0.0.1 cannot be the address of an NSM",
        ),
        (
            "-l lan -a 10.0.0.2/24 --netns there",
            "`namespace` is not for this kind of NSM",
        ),
    ] {
        host.refuses(&format!("nsm create fast --kind user {arguments}"), told);
    }
    host.refuses(
        "nsm create fast -l lan",
        "`link` is not for this kind of NSM",
    );
    assert_eq!(host.ok("nsm ls -p") + &host.ok("vnic show -p"), "");
    assert_eq!(host.view().core_pid, None);
}

#[test]
fn what_cannot_be_is_told_in_a_sentence() {
    let host = Host::new();
    let refused = [
        (
            "nsm create a/b",
            "‘a/b’ is not a valid name for a network stack module: use 1 to 64 letters",
        ),
        (
            "nsm create a --netns weir-none9",
            "no network namespace ‘weir-none9’: `ip netns add weir-none9` makes one; without `namespace`, the NSM gets its own",
        ),
        (
            "nsm create a --kind other",
            "invalid value 'other' for '--kind <KIND>' [possible values: kernel, user, shm, program]",
        ),
        ("nsm ls a", "no NSM ‘a’: `weir nsm ls` lists them"),
        ("nsm delete a", "no NSM ‘a’: `weir nsm ls` lists them"),
        (
            "sock run --nsm a -- true",
            "no NSM ‘a’: `weir nsm ls` lists them, `weir nsm create a` makes one",
        ),
        ("sock ls a", "no application ‘a’: `weir sock ls` lists them"),
        ("sock set -p maxbw=1G a", "no application ‘a’"),
        ("nsm move a b", "no application ‘a’"),
        ("nsm set -p conns=1 a", "no NSM ‘a’"),
        ("sock set -p maxbw=1X a", "maxbw=1X is invalid"),
        (
            "sock set -p weight=0 a",
            "weight=0 is invalid: it is a number from 1 to 100",
        ),
        ("sock set -p share=1 a", "no property ‘share’"),
        ("sock run --name x -- true", "--nsm"),
    ];
    for (command, part) in refused {
        host.refuses(command, part);
    }
    assert_eq!(host.view().core_pid, None, "nothing was begun");
    let taken = format!("weir-nsm-{}", host.prefix);
    ip(&format!("netns add {taken}"));
    let refusal = host.refusal(&format!("nsm create {}", host.prefix));
    ip(&format!("netns delete {taken}"));
    assert_contains(&refusal, "or use it, as `namespace`");

    let namespace = format!("{}-web", host.prefix);
    ip(&format!("netns add {namespace}"));
    host.ok(&format!("nsm create web --netns {namespace}"));
    host.refuses("nsm create web", "there is already an NSM named ‘web’");
    let _program = start(&host, "--nsm web --name x -- sleep 60");
    until("it is not there", || !host.ok("sock ls -p").is_empty());
    host.refuses(
        "sock run --nsm web --name x -- true",
        "there is already an application named ‘x’",
    );
    host.refuses("nsm move x y", "no NSM ‘y’");
    host.refuses(
        "nsm delete web",
        "or `weir nsm move` them to another NSM first (x)",
    );
    host.refuses(
        "sock run --nsm web -- /no/such/program",
        "/no/such/program: No such file",
    );
}
