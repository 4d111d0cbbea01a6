//! What guests print: kept, shown, followed.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::common::{Host, LIMIT, assert_contains, kill, until};

/// A guest that prints what `say.run` is given.
const SAYS: &str = "Idle -> Discard; say :: Script(TYPE PASSIVE, print \"said $1\");";

/// A command that goes on, and its lines.
struct Following {
    child: Child,
    lines: Receiver<String>,
}

impl Following {
    fn start(host: &Host, arguments: &str) -> Following {
        let words: Vec<_> = arguments.split_whitespace().collect();
        let mut command = host.weir(&words);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        Following { child, lines: told }
    }

    #[track_caller]
    fn next(&self) -> String {
        self.lines.recv_timeout(LIMIT).expect("a line comes")
    }

    #[track_caller]
    fn says(&self, expected: &str) {
        assert_eq!(self.next(), expected);
    }

    /// It ends, and says no more.
    #[track_caller]
    fn ends(mut self) {
        let next = self.lines.recv_timeout(LIMIT);
        assert_eq!(next, Err(RecvTimeoutError::Disconnected));
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_guests_print_is_kept_over_their_ends_and_shown() {
    let mut host = Host::new();
    let config = host.config("says.click", SAYS);
    host.ok(&format!("create fw-1 {config} --restart never"));
    host.ok(&format!("create fw-2 {config} --isolation process"));
    host.shows("console fw-1", "");
    host.ok("write fw-1 say.run one");
    host.ok("write fw-2 say.run two");
    host.shows("console fw-1", "said one\n");
    host.shows("logs fw-*", "fw-1: said one\nfw-2: said two\n");
    host.shows("logs fw-2", "said two\n");
    // It is kept when its guest is restarted; the console is of the last run.
    host.ok("restart fw-1");
    host.ok("write fw-1 say.run three");
    host.shows("console fw-1", "said three\n");
    host.shows("logs fw-1", "said one\nsaid three\n");
    host.shows("logs fw-1 --tail 1", "said three\n");
    // And when it is killed, or stopped.
    host.ok("write fw-1 say.run four");
    kill(
        "-KILL",
        host.ok("ls fw-1 -p -o pid").trim().parse().unwrap(),
    );
    until("its end is not seen", || {
        host.ok("ls fw-1 -p -o state") == "crashed\n"
    });
    host.shows("console fw-1", "said three\nsaid four\n");
    host.ok("write fw-2 say.run five");
    host.ok("stop fw-2");
    host.shows("logs fw-2", "said two\nsaid five\n");
    // Times are when the node took a line.
    let line = host.ok("logs fw-2 --timestamps --tail 1");
    let (time, text) = line.split_once(' ').unwrap();
    assert_eq!(text, "said five\n");
    host.shows(&format!("logs fw-2 --since {time}"), "said five\n");
    host.shows(
        "logs fw-* --since 1h --tail 1",
        "fw-1: said four\nfw-2: said five\n",
    );
    host.shows("logs fw-2 --since 2100-01-01T00:00:00Z", "");
    host.refuses("logs fw-2 --since soon", "‘soon’ is not a time");
    host.refuses("logs none", "no guest ‘none’");
    host.refuses("console none", "no guest ‘none’");
    host.refuses("logs lb-*", "no guest matches ‘lb-*’");
    // A renamed guest has its lines; a recreated one has none.
    host.ok("rename fw-2 nat");
    host.shows(
        "logs nat fw-1 --tail 1",
        "fw-1: said four\nnat: said five\n",
    );
    host.ok("destroy nat");
    host.ok(&format!("create nat {config}"));
    host.shows("logs nat", "");
    // What a guest printed while no node was there is in its ring.
    host.end("-KILL");
    host.start();
    host.ok("write nat say.run six");
    host.end("-KILL");
    host.start();
    host.shows("logs nat", "said six\n");
}

#[test]
fn followers_see_lines_as_they_come_and_guests_as_they_are_made() {
    let host = Host::new();
    let config = host.config("says.click", SAYS);
    host.ok(&format!("create fw-1 {config}"));
    host.ok("write fw-1 say.run one");
    host.shows("logs fw-1", "said one\n");
    let some = Following::start(&host, "logs -f fw-*");
    let console = Following::start(&host, "console -f fw-1");
    some.says("fw-1: said one");
    console.says("said one");
    host.ok("write fw-1 say.run two");
    some.says("fw-1: said two");
    console.says("said two");
    // A guest that is made later, and one that ends with a line that has no end.
    host.ok(&format!("create fw-2 {config}"));
    host.ok("write fw-2 say.run three");
    some.says("fw-2: said three");
    host.ok("stop fw-2");
    host.ok("start fw-2");
    host.ok("write fw-2 say.run four");
    some.says("fw-2: said four");
    host.ok("write fw-1 say.run five");
    console.says("said five");
    let json = Following::start(&host, "logs -f fw-1 --json --tail 1");
    let line: serde_json::Value = serde_json::from_str(&json.next()).unwrap();
    assert_eq!(
        (&line["guest"], &line["line"]),
        (&"fw-1".into(), &"said five".into())
    );
    // A follower of guests by their names ends when they are gone.
    host.ok(&format!("create gone {config}"));
    let last = Following::start(&host, "console -f gone");
    host.ok("write gone say.run last");
    last.says("said last");
    host.ok("destroy gone");
    last.ends();
    // A client that is gone costs nothing: the node forgets it.
    drop(some);
    let answer = get(&host, "/v1/guests/fw-1/log?tail=1&run=true", "");
    assert_contains(&answer, "\"line\":\"said five\"");
    assert_contains(
        &get(&host, "/v1/guest-logs?tails=1", ""),
        "unknown field `tails`",
    );
    assert_contains(
        &get(&host, "/v1/guest-logs?since=soon", ""),
        "is not a time",
    );
}

/// A guest's printing more than the node looks at says so; nothing that it prints reaches a terminal.
#[test]
fn a_guest_that_prints_without_end_loses_lines_and_says_so() {
    let host = Host::new();
    let flood = "RatedSource(DATA \"\\<1b>[2J\", RATE 3000) -> Print(flood, MAXLENGTH 40, CONTENTS ASCII) -> Discard; Script(print \"a\\<1b>[2Jb\");";
    let config = host.config("flood.click", flood);
    host.ok(&format!("create flood {config}"));
    assert_contains(&host.ok("logs flood"), "a\\u{1b}[2Jb\n");
    // Rings are looked at every 5 s, and this one is full after less than a tenth.
    std::thread::sleep(Duration::from_secs(1));
    until("nothing is lost", || {
        host.ok("logs flood")
            .contains(" bytes lost: the guest printed more than its console holds\n")
    });
    let log = host.ok("logs flood");
    assert!(!log.contains('\u{1b}'));
    until("the log does not grow", || {
        host.ok("logs flood").lines().count() > 900
    });
    for _ in 0..50 {
        assert!(host.ok("logs flood").lines().count() <= 1000);
    }
    // A follower that does not read is told, when it reads, what it has missed.
    let mut stream = UnixStream::connect(host.run().join("node.sock")).unwrap();
    let head =
        "GET /v1/guests/flood/log HTTP/1.1\r\nhost: node\r\naccept: text/event-stream\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let start = Instant::now();
    let mut told = String::new();
    while !told.contains(" lines lost: they came faster than they were read") {
        assert!(start.elapsed() < LIMIT, "nothing is lost");
        // Not so long that it would be disconnected.
        std::thread::sleep(Duration::from_secs(3));
        told.clear();
        while told.len() < 1 << 20 {
            let mut part = vec![0; 64 << 10];
            let read = stream.read(&mut part).unwrap();
            assert!(read > 0, "the follower is disconnected");
            told += &String::from_utf8_lossy(&part[..read]);
            if read < 4096 {
                break;
            }
        }
    }
    assert_eq!(host.ok("ls -p -o state flood"), "running\n");
}

/// An answer as curl would have it.
fn get(host: &Host, path: &str, headers: &str) -> String {
    let mut stream = UnixStream::connect(host.run().join("node.sock")).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: node\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_watched_list_shows_what_guests_use_and_how_they_change() {
    let host = Host::new();
    let config = host.config("says.click", SAYS);
    host.ok(&format!("create g {config}"));
    let watched = Following::start(&host, "ls --watch -p -o guest,state,cpu,rss");
    let line = watched.next();
    let fields: Vec<_> = line.split(':').collect();
    assert_eq!(fields[..2], ["g", "running"]);
    assert!(
        fields[2].ends_with('s') && fields[3].ends_with('K'),
        "{line}"
    );
    host.ok("stop g");
    until("it does not show", || watched.next() == "g:stopped::");
}
