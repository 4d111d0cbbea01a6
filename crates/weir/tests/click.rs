//! `weir click` as a user meets it: exit codes, output, signals, the control socket, hotswapping.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

fn weir() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("click").env("LC_ALL", "C");
    command
}

fn run(arguments: &[&str]) -> Output {
    weir().args(arguments).output().expect("weir starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is text")
}

fn path_of(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("weir-click-{name}-{}", std::process::id()))
}

/// A path of this test's own, which does not exist.
fn path(name: &str) -> PathBuf {
    let path = path_of(name);
    let _ = std::fs::remove_file(&path);
    path
}

/// A router that runs until the test ends.
struct Running(Child);

impl Running {
    fn start(arguments: &[&str]) -> Running {
        let mut command = weir();
        command.args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().expect("weir starts"))
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).expect("it runs");
    }

    /// Waits for its end; returns its exit code and standard output.
    fn end(&mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.0.try_wait().expect("it is our child") {
                let mut output = String::new();
                if let Some(mut stdout) = self.0.stdout.take() {
                    stdout.read_to_string(&mut output).expect("output is text");
                }
                return (status.code(), output);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it does not end");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client of a control socket.
struct Client(BufReader<UnixStream>);

impl Client {
    fn connect(path: &std::path::Path) -> Client {
        let start = Instant::now();
        let stream = loop {
            match UnixStream::connect(path) {
                Ok(stream) => break stream,
                Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout can be set");
        let mut client = Client(BufReader::new(stream));
        assert_eq!(client.line(), "Click::ControlSocket/1.3");
        client
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the router answers");
        line.trim_end().to_string()
    }

    fn say(&mut self, line: &str) -> String {
        let stream = self.0.get_mut();
        stream
            .write_all(format!("{line}\r\n").as_bytes())
            .expect("the router listens");
        self.line()
    }

    fn read(&mut self, handler: &str) -> String {
        let answer = self.say(&format!("READ {handler}"));
        assert!(answer.starts_with("200 "), "{answer}");
        let length = self.line();
        let length = length.strip_prefix("DATA ").expect("data follows");
        let mut data = vec![0; length.parse().expect("a length")];
        self.0.read_exact(&mut data).expect("the data comes");
        String::from_utf8(data).expect("text")
    }

    /// Reads a handler until it says `value`.
    fn until(&mut self, handler: &str, value: &str) {
        let start = Instant::now();
        while self.read(handler) != value {
            assert!(start.elapsed() < PATIENCE, "{handler} is not {value}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn write(&mut self, handler: &str, value: &str) -> String {
        let command = format!("WRITEDATA {handler} {}\r\n{value}", value.len());
        let stream = self.0.get_mut();
        stream
            .write_all(command.as_bytes())
            .expect("the router listens");
        self.line()
    }
}

#[test]
fn handlers_are_printed_when_the_router_has_stopped() {
    let router = "InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> d :: Discard";
    let one = run(&["-e", router, "-h", "c.count"]);
    assert_eq!(text(&one.stdout), "5\n");
    assert_eq!(one.status.code(), Some(0));
    let several = run(&["-e", router, "-h", "c.count", "-hd.class"]);
    assert_eq!(
        text(&several.stdout),
        "c.count:\n5\n\nd.class:\nDiscard\n\n"
    );
    let pattern = run(&["-qe", router, "-h", "?.class"]);
    assert_eq!(
        text(&pattern.stdout),
        "c.class:\nCounter\n\nd.class:\nDiscard\n\n"
    );
    let none = run(&["-qe", router, "-h", "c.nothing"]);
    assert_eq!(text(&none.stderr), "no 'c.nothing' handler\n");
    assert_eq!(none.status.code(), Some(1));
    let mut command = weir();
    command.args(["-qe", router, "-h", "list"]);
    let full = std::fs::File::create("/dev/full").expect("a full device");
    let full = command.stdout(full).output().expect("weir runs");
    assert_eq!(
        text(&full.stderr),
        "standard output: No space left on device\n"
    );
    assert_eq!(full.status.code(), Some(1));
}

#[test]
fn exit_codes_are_click_s() {
    let source =
        |limit| format!("InfiniteSource(LIMIT {limit}, STOP true) -> c :: Counter -> i :: Discard");
    assert_eq!(
        run(&["-e", &source(7), "-x", "c.count"]).status.code(),
        Some(7)
    );
    assert_eq!(
        run(&["-qe", "i :: Idle", "-x", "i.class"]).status.code(),
        Some(255)
    );
    assert_eq!(run(&["-qe", "i :: Idle"]).status.code(), Some(0));
    let wrong = run(&["-e", "Idle ->"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert_eq!(text(&wrong.stderr), "config:1: syntax error near ''\n");
    let missing = run(&["/no/such/router"]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(
        text(&missing.stderr),
        "/no/such/router: No such file or directory\n"
    );
    let option = run(&["--foo"]);
    assert_eq!(option.status.code(), Some(1));
    assert!(text(&option.stderr).starts_with("weir click: unrecognized option '--foo'\n"));
}

/// Runs with arguments of any bytes; returns what is on standard output and standard error.
fn run_bytes(arguments: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
    let arguments = arguments.iter().map(|bytes| OsStr::from_bytes(bytes));
    let output = weir().args(arguments).output().expect("weir starts");
    (output.stdout, output.stderr)
}

#[test]
fn configurations_values_and_messages_are_bytes() {
    let all: Vec<u8> = (0x80..=0xff).collect();
    let script = [b"Script(print \"", &all[..], b"\", stop)"].concat();
    assert_eq!(run_bytes(&[b"-e", &script]).0, [&all[..], b"\n"].concat());
    for (script, expected) in [
        (&b"print \"\\<e9>\\377\""[..], &b"\xe9\xff\n"[..]),
        (b"print \"caf\xc3\xa9\"", b"caf\xc3\xa9\n"),
        (
            b"print \"\xef\xbf\xa9\xee\xbf\xa9\"",
            b"\xef\xbf\xa9\xee\xbf\xa9\n",
        ),
        (b"print $V, print \"$V\"", b"\xe9\xff\n\xe9\xff\n"),
        (b"print $(sprintf \"%3s|\\<ff>\" \xe9)", b"  \xe9|\xff\n"),
        (b"print $(unquote \"\\<e9>\")", b"\xe9\n"),
    ] {
        let script = [b"Script(", script, b", stop)"].concat();
        let (output, _) = run_bytes(&[b"-e", &script, b"V=\xe9\xff"]);
        assert_eq!(output, expected, "{}", script.escape_ascii());
    }

    let source = b"s :: InfiniteSource(DATA \"\xff\\<00e9>\", LIMIT 1, STOP true)
        -> Print(\"\\<ff>\xe9\", 4) -> Discard";
    let (output, error) = run_bytes(&[b"-e", source, b"-h", b"s.data"]);
    assert_eq!(output, b"\xff\0\xe9");
    assert_eq!(error, b"\xff\xe9:    3 | ff00e9\n");
    let (config, _) = run_bytes(&[b"-q", b"-e", source, b"-h", b"s.config"]);
    assert_eq!(config, b"DATA \"\xff\\<00e9>\", LIMIT 1, STOP true\n");

    let (_, error) = run_bytes(&[b"-e", b"a\xe9 :: Idle"]);
    assert!(text(&error).contains("syntax error near '\\351'"));
    let (_, error) = run_bytes(&[b"-e", b"Script(print $(foo\xe9.bar), stop)"]);
    assert!(error.windows(6).any(|bytes| bytes == b"'foo\xe9'"));
}

#[test]
fn file_names_are_bytes() {
    let path = path("name").into_os_string().into_vec();
    let name = [&path[..], b"-\xe9"].concat();
    let script = [b"Script(print >", &name[..], b" \"\xff\", stop)"].concat();
    run_bytes(&[b"-e", &script]);
    let file = PathBuf::from(OsString::from_vec(name.clone()));
    assert_eq!(std::fs::read(&file).expect("it was written"), b"\xff\n");
    let script = [b"Script(print $(cat ", &name[..], b"), stop)"].concat();
    assert_eq!(run_bytes(&[b"-e", &script]).0, b"\xff\n");
    std::fs::write(&file, b"Script(print \"\xe9\", stop)").expect("it is there");
    assert_eq!(run_bytes(&[&name]).0, b"\xe9\n");
    std::fs::remove_file(&file).expect("it is there");
    let (_, error) = run_bytes(&[&name]);
    assert_eq!(
        error,
        [&name, &b": No such file or directory\n"[..]].concat()
    );
}

#[test]
fn a_control_socket_carries_bytes() {
    let socket = path("bytes");
    let place = socket.to_str().expect("the path is text");
    let config = "s :: InfiniteSource(ACTIVE false) -> Discard;";
    let _router = Running::start(&["-u", place, "-e", config]);
    let mut client = Client::connect(&socket);
    let stream = client.0.get_mut();
    let commands = b"WRITEDATA s.data 3\r\n\xff\0\xe9READ s.data\r\n";
    stream.write_all(commands).expect("the router listens");
    assert_eq!(client.line(), "200 Write handler 's.data' OK");
    assert_eq!(client.line(), "200 Read handler 's.data' OK");
    assert_eq!(client.line(), "DATA 3");
    let mut data = [0; 3];
    client.0.read_exact(&mut data).expect("the data comes");
    assert_eq!(&data, b"\xff\0\xe9");
}

#[test]
fn settings_and_standard_input() {
    let mut child = weir()
        .args(["-q", "-", "LIMIT=3", "-h", "i.limit"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("weir starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin
        .write_all(b"define($LIMIT 1) i :: InfiniteSource(LIMIT $LIMIT) -> Discard;")
        .expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(text(&output.stdout), "3\n");
}

/// Runs `SOURCE -> c :: Counter` from a file named after `name`, with `input` on the standard
/// input; prints `c.count`.
fn run_source(name: &str, source: &str, input: &[u8]) -> Output {
    let config = path(name);
    std::fs::write(&config, format!("{source} -> c :: Counter -> Discard;"))
        .expect("a file can be written");
    let mut child = weir()
        .args([config.as_os_str(), "-h".as_ref(), "c.count".as_ref()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("weir starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    // Fails if the element does not read to the end, which the count then shows.
    let _ = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    std::fs::remove_file(&config).expect("it is there");
    output
}

#[test]
fn summaries_are_read_from_the_standard_input() {
    for (name, source, input) in [
        (
            "summary",
            "FromIPSummaryDump(-, STOP true)",
            "!IPSummaryDump 1.3\n!data ip_src ip_dst\n1.0.0.1 2.0.0.2\n1.0.0.1 2.0.0.3\n",
        ),
        (
            "flows",
            "FromNetFlowSummaryDump(-, STOP true)",
            "1.0.0.1|2.0.0.2||1|2|3|120|1|2|80|81||0|6|0\n\
             1.0.0.1|2.0.0.3||1|2|3|120|1|2|80|81||0|6|0\n",
        ),
    ] {
        let output = run_source(name, source, input.as_bytes());
        let error = text(&output.stderr);
        assert_eq!((text(&output.stdout), error), ("2\n", ""), "{source}");
    }
}

/// A pcap file of `packets` packets, of a byte each.
fn capture(packets: usize) -> Vec<u8> {
    let header: [u32; 6] = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65535, 1];
    let record: [u32; 4] = [1, 0, 1, 1];
    let bytes = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
    let record = [bytes(&record), vec![b'x']].concat();
    [bytes(&header), record.repeat(packets)].concat()
}

#[test]
fn captures_are_read_from_the_standard_input() {
    let source = "FromDump(-, STOP true)";
    // More than a pipe holds, and more than is read at a time.
    let output = run_source("capture", source, &capture(50_000));
    let error = text(&output.stderr);
    assert_eq!((text(&output.stdout), error), ("50000\n", ""));
}

/// What is compressed is unpacked from files only.
#[test]
fn a_compressed_capture_on_the_standard_input_is_refused() {
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let output = run_source("compressed", "FromDump(-, STOP true)", &gzip);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    let refusal = "\n<stdin>:   compressed file; unpack it first\n";
    assert!(error.contains(refusal), "{error}");
}

#[test]
fn a_link_named_click_is_click() {
    let link = path("link");
    std::fs::create_dir(&link).expect("a new directory");
    let link = link.join("click");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir"), &link).expect("a new link");
    let output = Command::new(&link).arg("-x").output().expect("it starts");
    assert!(text(&output.stderr).starts_with("click: "), "{output:?}");
    std::fs::remove_dir_all(link.parent().expect("it has one")).expect("it can be removed");
}

#[test]
fn signals_end_the_run_and_handlers_are_still_read() {
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let socket = path("signal");
        let shown = socket.to_str().expect("text");
        let router = "InfiniteSource(LIMIT 2) -> c :: Counter -> Discard";
        let mut running = Running::start(&["-e", router, "-u", shown, "-h", "c.count"]);
        let mut client = Client::connect(&socket);
        client.until("c.count", "2");
        running.signal(signal);
        assert_eq!(running.end(), (Some(0), "2\n".to_string()));
        assert!(!socket.exists(), "the socket is removed");
    }
}

#[test]
fn a_signal_leaves_the_driver_its_last_work() {
    for driver in [
        "DriverManager(pause, print \"final $(c.count)\", stop)",
        "DriverManager(wait 1h, print \"final $(c.count)\")",
        "Script(TYPE DRIVER, wait_stop 2, print \"final $(c.count)\")",
    ] {
        let socket = path("final");
        let shown = socket.to_str().expect("text");
        let router = format!("InfiniteSource(LIMIT 2) -> c :: Counter -> Discard; {driver}");
        let mut running = Running::start(&["-e", &router, "-u", shown]);
        Client::connect(&socket).until("c.count", "2");
        running.signal(rustix::process::Signal::INT);
        assert_eq!(
            running.end(),
            (Some(0), "final 2\n".to_string()),
            "{driver}"
        );
    }
}

#[test]
fn a_script_that_takes_a_signal_goes_on() {
    use rustix::process::Signal;
    let socket = path("taken");
    let shown = socket.to_str().expect("text");
    let router = "s :: Script(TYPE SIGNAL INT TERM HUP, init n 0, set n $(add $n 1),
            print \"$n $0\", wait 1ms, write i.limit $n, end);
        i :: InfiniteSource(LIMIT 0) -> Discard;";
    let mut running = Running::start(&["-e", router, "-u", shown]);
    let mut client = Client::connect(&socket);
    for (n, signal) in [Signal::INT, Signal::TERM, Signal::HUP]
        .into_iter()
        .enumerate()
    {
        running.signal(signal);
        client.until("i.limit", &(n + 1).to_string());
    }
    running.signal(Signal::KILL);
    assert_eq!(running.end().1, "1 run\n2 run\n3 run\n");
}

#[test]
fn a_script_that_gives_a_signal_up_ends_no_run_by_it() {
    use rustix::process::Signal;
    for threads in ["1", "2"] {
        let socket = path(&format!("given-up-{threads}"));
        let shown = socket.to_str().expect("text");
        let router = "s :: Script(TYPE SIGNAL INT TERM, write i.limit 1, exit);
            i :: InfiniteSource(LIMIT 0) -> c :: Counter -> Discard; StaticThreadSched(i 1);";
        let mut running = Running::start(&["-j", threads, "-e", router, "-u", shown]);
        let mut client = Client::connect(&socket);
        running.signal(Signal::INT);
        client.until("c.count", "1");
        std::thread::sleep(Duration::from_millis(50));
        client.until("i.limit", "1");
        // The next one does what it does by default.
        running.signal(Signal::INT);
        assert_eq!(running.end().0, None);
    }
}

#[test]
fn a_script_that_gave_a_signal_up_takes_it_again_once_it_has_run_to_its_end() {
    use rustix::process::Signal;
    let socket = path("taken-again");
    let shown = socket.to_str().expect("text");
    let router = "s :: Script(TYPE SIGNAL INT, write i.limit $(add $(i.limit) 1),
            goto exit $(eq $(i.limit) 1), end);
        i :: InfiniteSource(LIMIT 0) -> c :: Counter -> Discard;";
    let mut running = Running::start(&["-e", router, "-u", shown]);
    let mut client = Client::connect(&socket);
    running.signal(Signal::INT);
    client.until("c.count", "1");
    assert!(client.write("s.run", "").starts_with("200"));
    client.until("c.count", "2");
    running.signal(Signal::INT);
    client.until("c.count", "3");
    running.signal(Signal::KILL);
    running.end();
}

#[test]
fn a_signal_has_its_default_effect_while_its_script_waits() {
    use rustix::process::Signal;
    let socket = path("waiting");
    let shown = socket.to_str().expect("text");
    let router = "s :: Script(TYPE SIGNAL INT, write i.limit 1, wait 60s);
        i :: InfiniteSource(LIMIT 0) -> c :: Counter -> Discard;";
    let mut running = Running::start(&["-e", router, "-u", shown]);
    let mut client = Client::connect(&socket);
    running.signal(Signal::INT);
    client.until("c.count", "1");
    running.signal(Signal::INT);
    assert_eq!(running.end().0, None);
}

#[test]
fn a_signal_gives_up_no_other_signal() {
    use rustix::process::Signal;
    let socket = path("others");
    let shown = socket.to_str().expect("text");
    let router = "s :: Script(TYPE SIGNAL INT TERM USR1, write i.limit $(add $(i.limit) 1), exit);
        t :: Script(TYPE SIGNAL USR1, write j.limit $(add $(j.limit) 1), end);
        i :: InfiniteSource(LIMIT 0) -> Discard; j :: InfiniteSource(LIMIT 0) -> Discard;";
    let mut running = Running::start(&["-e", router, "-u", shown]);
    let mut client = Client::connect(&socket);
    for (signal, own, other) in [
        (Signal::INT, "1", "0"),
        (Signal::TERM, "2", "0"),
        (Signal::USR1, "3", "1"),
        // The second script is armed for this one still.
        (Signal::USR1, "3", "2"),
    ] {
        running.signal(signal);
        client.until("i.limit", own);
        client.until("j.limit", other);
    }
    running.signal(Signal::INT);
    assert_eq!(running.end().0, None);
}

#[test]
fn a_signal_whose_script_fails_has_its_default_effect() {
    let router = "Script(TYPE SIGNAL USR1, print \"heard $1\", error bad);
        Script(set x $(kill USR1 $$), wait 60s, stop);";
    let mut running = Running::start(&["-e", router]);
    assert_eq!(running.end(), (None, "heard \n".to_string()));
}

#[test]
fn signals_that_reach_no_program_are_taken_without_effect() {
    let output = run(&[
        "-e",
        "Script(TYPE SIGNAL 0 9 0x1f, end); Script(print \"$(kill 0 $$)\", stop);",
    ]);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("\n", ""));
}

#[test]
fn an_idle_router_uses_no_processor_time() {
    let socket = path("idle");
    let mut running = Running::start(&[
        "-t",
        "-e",
        "Idle -> Queue -> Unqueue -> Discard",
        "-u",
        socket.to_str().expect("text"),
    ]);
    let _client = Client::connect(&socket);
    std::thread::sleep(Duration::from_millis(700));
    running.signal(rustix::process::Signal::INT);
    let (_, times) = running.end();
    let user = times.split('u').next().expect("a time");
    let user: f64 = user.parse().expect("seconds");
    assert!(user < 0.1, "{times}");
}

#[test]
fn simulated_time_does_not_wait() {
    let start = Instant::now();
    let output = run(&[
        "--simtime",
        "-e",
        "TimedSource(INTERVAL 100, LIMIT 20, STOP true) -> c :: Counter -> Discard",
        "-h",
        "c.count",
    ]);
    assert_eq!(text(&output.stdout), "20\n");
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn a_hotswap_keeps_what_is_queued_and_who_is_connected() {
    let socket = path("hotswap");
    let shown = socket.to_str().expect("text");
    let before = "InfiniteSource(LIMIT 5) -> q :: Queue(10) -> Idle";
    let mut running = Running::start(&["-R", "-e", before, "-u", shown]);
    let mut client = Client::connect(&socket);
    client.until("q.length", "5");

    let refused = client.write("hotconfig", "Idle -> nonsense");
    assert_eq!(refused, "520-Write handler 'hotconfig' error:");
    assert_eq!(client.line(), "520 config:1: undeclared element 'nonsense'");
    assert_eq!(client.read("q.length"), "5");

    let after = "i :: Idle -> q :: Queue(10) -> Idle";
    assert_eq!(
        client.write("hotconfig", after),
        "200 Write handler 'hotconfig' OK"
    );
    // The swap happens between two rounds of tasks.
    client.until("config", after);
    assert_eq!(client.read("q.length"), "5");
    // New clients come in as well.
    let mut other = Client::connect(&socket);
    assert_eq!(other.read("q.length"), "5");
    assert_eq!(client.say("QUIT"), "200 Goodbye!");
    running.signal(rustix::process::Signal::INT);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn without_r_nothing_is_reconfigured() {
    let socket = path("fixed");
    let _running = Running::start(&["-e", "Idle", "-u", socket.to_str().expect("text")]);
    let mut client = Client::connect(&socket);
    let answer = client.say("WRITE hotconfig Idle");
    assert_eq!(answer, "511 No handler named 'hotconfig'");
}

#[test]
fn a_port_with_a_plus_is_the_first_free_one() {
    let taken = std::net::TcpListener::bind(("0.0.0.0", 0)).expect("a port is free");
    let port = taken.local_addr().expect("it has one").port();
    let socket = path("port");
    let _running = Running::start(&[
        "-e",
        "Idle",
        "-p",
        &format!("{port}+"),
        "-u",
        socket.to_str().expect("text"),
    ]);
    let mut client = Client::connect(&socket);
    let chosen: u16 = client
        .read("click_driver@@ControlSocket.port")
        .parse()
        .expect("a port");
    assert!(chosen > port);
    let stream = TcpStream::connect(("127.0.0.1", chosen)).expect("it listens");
    let mut greeting = String::new();
    BufReader::new(stream)
        .read_line(&mut greeting)
        .expect("it greets");
    assert_eq!(greeting, "Click::ControlSocket/1.3\r\n");
}

#[test]
fn checks_say_what_is_wrong_and_where() {
    let file = path("check");
    let check = |text: &str| {
        std::fs::write(&file, text).expect("a new file");
        Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("check")
            .arg(&file)
            .output()
            .expect("weir starts")
    };
    let wrong = check("Idle\n -> Queue(x) -> Discard;");
    assert_eq!(wrong.status.code(), Some(1));
    let place = format!("{}:2: ", file.display());
    assert!(
        text(&wrong.stderr).contains(&place),
        "{}",
        text(&wrong.stderr)
    );
    let right = check("Idle -> Queue(5) -> Unqueue -> Discard;");
    assert_eq!((right.status.code(), text(&right.stderr)), (Some(0), ""));
    std::fs::remove_file(&file).expect("it is ours");
}

#[test]
fn a_router_runs_on_several_threads() {
    let config =
        "a :: InfiniteSource(LIMIT 100000, BURST 8) -> q :: Queue -> u :: Unqueue(BURST 16)
            -> k :: Counter(COUNT_CALL 100000 stop) -> Discard;
        StaticThreadSched(a 0, u 1);";
    let handlers = [
        "-h",
        "k.count",
        "-h",
        "q.drops",
        "-h",
        "thread_drops",
        "-h",
        "threads",
    ];
    let output = run(&[&["-j", "2", "-a", "-e", config][..], &handlers].concat());
    let expected = "k.count:\n100000\n\nq.drops:\n0\n\nthread_drops:\n0\n\nthreads:\n2\n\n";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
    let output = run(&["-j", "65", "-e", "Idle -> Discard"]);
    assert!(text(&output.stderr).starts_with("a router runs on at most 64 threads"));
}

#[test]
fn a_division_that_does_not_pay_is_named() {
    let two = "a :: InfiniteSource(LIMIT 9, STOP true) -> Discard; b :: InfiniteSource(LIMIT 9) -> Discard;";
    let queue =
        "a :: InfiniteSource(LIMIT 9, STOP true) -> q :: Queue -> u :: Unqueue -> Discard; ";
    let long = format!(
        "a :: InfiniteSource(LIMIT 9, STOP true){0} -> q :: Queue -> u :: Unqueue{0} -> Discard; ",
        " -> Null".repeat(8)
    );
    let apart = |config: &str| format!("{config} StaticThreadSched(a 0, u 1);");
    let warnings = |threads: &str, config: &str, more: &[&str]| {
        let output = run(&[&["-j", threads, "-e", config][..], more].concat());
        assert_eq!(output.status.code(), Some(0));
        text(&output.stderr).to_string()
    };
    let idle = "warning: thread 1 has nothing to do: StaticThreadSched or BalancedThreadSched gives tasks to threads\n";
    assert_eq!(warnings("2", two, &[]), idle);
    assert_eq!(warnings("2", two, &["-w"]), "");
    assert_eq!(warnings("1", two, &[]), "");
    assert!(warnings("4", two, &[]).contains("threads 1, 2, 3 have nothing to do"));
    assert_eq!(
        warnings("2", &format!("{two} StaticThreadSched(a 0, b 1);"), &[]),
        ""
    );
    assert_eq!(
        warnings("2", &apart(queue), &[]),
        "warning: thread 0 hands packets to thread 1 at 'q', which costs each of them as much as 8 simple elements, \
         and thread 0 has 1 element: one thread may be faster\n"
    );
    assert_eq!(warnings("2", &apart(&long), &[]), "");
}

#[test]
fn a_rewriter_with_a_thread_mapper_has_mappings_for_each_thread() {
    let flow = path("flow");
    std::fs::write(
        &flow,
        "!data src sport dst dport proto\n9.0.0.1 30 10.0.0.4 40 U\n",
    )
    .expect("a file can be written");
    let replies = path("replies");
    std::fs::write(
        &replies,
        "!data src sport dst dport proto\n10.0.0.4 40 1.0.0.1 1024 U\n10.0.0.4 40 1.0.0.1 2000 U\n",
    )
    .expect("a file can be written");
    let (flow, replies) = (flow.display(), replies.display());
    let source = |name, file: &dyn std::fmt::Display, input| {
        format!("{name} :: FromIPSummaryDump({file}, STOP true, ACTIVE false) -> [{input}] rw;")
    };
    let config = [
        "m :: ThreadIPMapper(1.0.0.1 1024-1999# - - 0 1, 1.0.0.1 2000-2999# - - 0 1);
         rw :: UDPRewriter(m, drop);
         rw[0] -> ToIPSummaryDump(-, FIELDS thread src sport);
         rw[1] -> ToIPSummaryDump(-, FIELDS thread dst dport);
         DriverManager(write a.active true, pause, write b.active true, pause,
                       write c.active true, pause, write d.active true, pause);
         StaticThreadSched(a 0, b 1, c 0, d 1);"
            .to_string(),
        source("a", &flow, 0),
        source("b", &flow, 0),
        source("c", &replies, 1),
        source("d", &replies, 1),
    ]
    .concat();
    let output = run(&["-j", "2", "-e", &config]);
    let lines = text(&output.stdout).lines();
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with('!')).collect();
    assert_eq!(
        lines,
        [
            "0 1.0.0.1 1024",
            "1 1.0.0.1 2000",
            "0 9.0.0.1 30",
            "1 9.0.0.1 30"
        ],
        "{}",
        text(&output.stderr)
    );
    for file in ["flow", "replies"] {
        std::fs::remove_file(path_of(file)).expect("it is there");
    }
}

#[test]
fn rules_of_a_filter_stand_in_files() {
    let rules = path("rules");
    let filter = |content: &str| {
        std::fs::write(&rules, content).expect("a file can be written");
        let config = format!(
            "f :: IPFilter(deny src 9.9.9.9, file {}, deny all);
             InfiniteSource(DATA \\<450000140000000040060000 01010101 02020202>, LIMIT 3, STOP true)
                 -> CheckIPHeader(CHECKSUM false) -> f -> c :: Counter -> Discard;",
            rules.display()
        );
        run(&["-e", &config, "-h", "c.count"])
    };
    let output = filter("deny icmp\n\n  allow src 1.1.1.1  \n");
    assert_eq!(text(&output.stdout), "3\n", "{}", text(&output.stderr));
    let output = filter("deny icmp\nallow nonsense 3\n");
    assert_eq!(output.status.code(), Some(1));
    let wrong = format!("file {}/pattern 1: ", rules.display());
    assert!(
        text(&output.stderr).contains(&wrong),
        "{}",
        text(&output.stderr)
    );
    std::fs::remove_file(&rules).expect("it is there");
    let output = run(&["-e", "Idle -> IPFilter(file /no/such) -> Discard;"]);
    let missing = "pattern 0: file '/no/such': No such file or directory";
    assert!(
        text(&output.stderr).contains(missing),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn in_simulated_time_threads_are_assigned_and_events_keep_their_order() {
    let config = "i :: InfiniteSource(LIMIT 3) -> q :: Queue -> u :: Unqueue -> k :: Counter
            -> Discard;
        StaticThreadSched(i 0, u 1);
        Script(wait 10s, print $(i.home_thread) $(u.home_thread) $(k.count), stop);";
    let output = run(&["--simtime", "-j", "2", "-e", config]);
    assert_eq!(
        (text(&output.stdout), text(&output.stderr)),
        ("0 1 3\n", "")
    );
}

#[test]
fn a_task_that_is_to_move_says_so_at_once() {
    let config = "i :: InfiniteSource -> Discard;
        Script(write i.home_thread 1, print $(i.home_thread), wait 0.1, print $(i.home_thread), stop);";
    let output = run(&["-j", "2", "-w", "-e", config]);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("1\n1\n", ""));
}

#[test]
fn signals_that_come_right_before_the_end_run_their_script() {
    let config = "Script(TYPE SIGNAL USR1, print \"heard\", end);
        Script(set x $(kill USR1 $$), print \"sent\", stop);";
    let output = run(&["-e", config]);
    assert_eq!(text(&output.stdout), "sent\nheard\n");
}

#[test]
fn threads_go_on_under_handlers_and_hotswaps_and_end_by_a_signal() {
    let socket = path("threads");
    let config = |source: u16| {
        format!(
            "a :: InfiniteSource -> q :: Queue -> u :: Unqueue(BURST 16) -> k :: Counter -> Discard;
             StaticThreadSched(a {source}, u {});",
            1 - source
        )
    };
    let place = socket.to_str().expect("the path is text");
    let mut router = Running::start(&["-j", "2", "-R", "-u", place, "-e", &config(0)]);
    let mut client = Client::connect(&socket);
    assert_eq!(client.read("u.home_thread"), "1");
    assert!(client.write("u.home_thread", "0").starts_with("200"));
    assert_eq!(client.read("u.home_thread"), "0");
    for source in [1, 0, 1] {
        let answer = client.write("hotconfig", &config(source));
        assert!(answer.starts_with("200"), "{answer}");
        client.until("a.home_thread", &source.to_string());
        let count = |client: &mut Client| client.read("k.count").parse::<u64>().expect("a number");
        let before = count(&mut client);
        while count(&mut client) <= before {}
    }
    router.signal(rustix::process::Signal::INT);
    assert_eq!(router.end().0, Some(0));
}

/// Commands that come with the connection reach elements of other threads as later ones do.
#[test]
fn the_first_command_of_a_connection_reaches_all_threads() {
    let socket = path("first");
    let place = socket.to_str().expect("the path is text");
    let config = "a :: InfiniteSource -> k :: Counter -> Discard; StaticThreadSched(a 1);";
    let _router = Running::start(&["-j", "2", "-u", place, "-e", config]);
    drop(Client::connect(&socket));
    for _ in 0..50 {
        let mut stream = UnixStream::connect(&socket).expect("it listens");
        let timeout = stream.set_read_timeout(Some(PATIENCE));
        timeout.expect("a timeout can be set");
        stream
            .write_all(b"READ k.count\r\nQUIT\r\n")
            .expect("it listens");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.contains("200 Read handler 'k.count' OK"), "{answer}");
    }
}

#[test]
fn a_compact_configuration_is_a_requirement() {
    let config = "require(compact_config); Idle -> Discard";
    let output = run(&["-q", "-e", config, "-h", "requirements"]);
    assert_eq!(text(&output.stdout), "compact_config\n\n");
}

#[test]
fn a_command_called_click_keeps_clicks_order() {
    let link = path("bin").join("click");
    std::fs::create_dir(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir"), &link).unwrap();
    // Each copy of a packet goes before the next packet: a batch would go down one path whole.
    let config = "InfiniteSource(DATA x, LIMIT 2, BURST 2, STOP true) -> t :: Tee;
        t[0] -> Print(a) -> Discard; t[1] -> Print(b) -> Discard;";
    let order = |command: &mut Command| {
        let output = command.args(["-e", config]).output().expect("it starts");
        let lines = text(&output.stderr).lines();
        lines.map(|line| line[..1].to_string()).collect::<String>()
    };
    let as_click = order(&mut Command::new(&link));
    let as_weir = order(&mut weir());
    // Timers wait for 32 rounds of 129 tasks, or for the end of all work.
    let sources =
        "InfiniteSource -> c :: Counter -> Discard; InfiniteSource -> d :: Counter -> Discard;
        i :: InfiniteSource(LIMIT 1000) -> Discard; Script(print \"$(c.count) $(i.count)\", stop);";
    let counts = Command::new(&link).args(["-e", sources]).output();
    assert_eq!(text(&counts.expect("it starts").stdout), "1564 1000\n");
    std::fs::remove_dir_all(link.parent().unwrap()).unwrap();
    assert_eq!(as_click, "abab");
    assert_eq!(as_weir, "aabb");
}
