//! A switch that goes on without the process that started it. Needs root; each in a process of its own,
//! since the switch is forked from a process without threads.

#[macro_use]
mod common;

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Host, join, output, tap, unique, wait_for};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use switch::client::{ClientError, SwitchClient};
use switch::links::HostLink;
use switch::lookup::Mac;
use switch::port::LinkRecord;
use switch::process::{Options, Switch};
use switch::properties::PortProperties;
use switch::protocol::{ExchangeError, PortKind, PortState};

/// Set for the run of this program that plays a parent to be killed: the socket.
const PARENT: &str = "SWITCH_TEST_PARENT";

fn main() {
    if let Ok(socket) = std::env::var(PARENT) {
        return play_parent(Path::new(&socket));
    }
    common::run_all(tests![
        it_outlives_its_parent_and_its_clients,
        what_it_gave_back_goes_on_in_another,
        what_it_says_too_late_is_no_answer_to_the_next_request,
    ]);
}

/// How long a switch is waited for that is to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A socket that clients can connect to, and its path.
fn listener(path: &Path) -> OwnedFd {
    let kind = SocketType::SEQPACKET;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let socket = socket.unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    rustix::net::listen(&socket, 4).unwrap();
    socket
}

fn socket_path(what: &str) -> PathBuf {
    std::env::temp_dir().join(unique(what))
}

fn play_parent(path: &Path) {
    let switch = Switch::spawn_detached(&Options::default(), listener(path)).unwrap();
    println!("{}", switch.pid().as_raw_pid());
    std::thread::sleep(Duration::from_secs(30));
}

fn it_outlives_its_parent_and_its_clients() {
    let path = socket_path("a.sock");
    let (mut parent, _) = common::played_parent(PARENT, path.as_ref());
    let first = SwitchClient::connect(&path, TIMEOUT).unwrap();
    let name = unique("t");
    let properties = PortProperties {
        cpus: vec![0],
        ..PortProperties::default()
    };
    let port = first.attach_link(tap(&name), 7, properties.clone());
    let port = port.unwrap();
    parent.kill().unwrap();
    parent.wait().unwrap();
    drop(first);

    let second = SwitchClient::connect(&path, TIMEOUT).unwrap();
    let ports = second.ports().unwrap();
    assert_eq!(ports.len(), 1);
    assert_eq!((ports[0].id, ports[0].domain), (port, 7));
    assert_eq!(ports[0].name, name);
    assert_eq!(
        (ports[0].kind, ports[0].state),
        (PortKind::Tap, PortState::Open)
    );
    assert_eq!(ports[0].properties, properties);
    let other = PortProperties::default();
    second.set_properties(port, other.clone()).unwrap();
    assert_eq!(second.ports().unwrap()[0].properties, other);
    assert!(output(&format!("ip link show {name}")).status.success());
    second.stop().unwrap();
    wait_for("the TAP is gone", || {
        !output(&format!("ip link show {name}")).status.success()
    });
    assert!(SwitchClient::connect(&path, TIMEOUT).is_err());
    fs::remove_file(&path).unwrap();
}

fn what_it_gave_back_goes_on_in_another() {
    let path = socket_path("b.sock");
    let switch = Switch::spawn_detached(&Options::default(), listener(&path)).unwrap();
    let client = SwitchClient::connect(&path, TIMEOUT).unwrap();
    let names = [unique("t"), unique("u")];
    let hosts = [Host::new("a"), Host::new("b")];
    let ports = names.each_ref().map(|name| join(&client, tap(name), 0));
    for ((name, host), n) in names.iter().zip(&hosts).zip(1..) {
        host.take(name, 1, n);
    }
    hosts[0].run("ping -q -c 3 -i 0.05 -W 2 10.9.1.2");
    let table = client.table(0).unwrap();
    assert!(table.iter().any(|entry| entry.port == ports[0]));
    let files = ports.map(|port| client.files(port).unwrap().remove(0));
    drop(client);
    let kill = format!("kill -9 {}", switch.pid().as_raw_pid());
    assert!(output(&kill).status.success());
    wait_for("the switch has ended", || switch.has_ended());
    fs::remove_file(&path).unwrap();

    let switch = Switch::spawn_detached(&Options::default(), listener(&path)).unwrap();
    let client = SwitchClient::connect(&path, TIMEOUT).unwrap();
    for (file, name) in files.into_iter().zip(&names) {
        let link = HostLink::reopened(LinkRecord::Tap(()), name, Mac([0; 6]), 1500, vec![file]);
        join(&client, link, 0);
    }
    hosts[0].run("ping -q -c 3 -i 0.05 -W 2 10.9.1.2");
    client.stop().unwrap();
    wait_for("the switch has ended", || switch.has_ended());
    fs::remove_file(&path).unwrap();
}

fn what_it_says_too_late_is_no_answer_to_the_next_request() {
    let path = socket_path("c.sock");
    let switch = Switch::spawn_detached(&Options::default(), listener(&path)).unwrap();
    let pid = switch.pid().as_raw_pid();
    let client = SwitchClient::connect(&path, Duration::from_millis(100)).unwrap();
    let is_silent = |result| matches!(result, Err(ClientError::Exchange(ExchangeError::Silent)));
    assert!(output(&format!("kill -STOP {pid}")).status.success());
    assert!(is_silent(client.flows().map(drop)));
    assert!(client.is_silent());
    assert!(output(&format!("kill -CONT {pid}")).status.success());
    let mut answer = [PollFd::new(&client, PollFlags::IN)];
    assert_eq!(poll(&mut answer, None), Ok(1));
    assert!(is_silent(client.ports().map(drop)));
    drop(client);
    let client = SwitchClient::connect(&path, TIMEOUT).unwrap();
    assert_eq!(client.ports().unwrap(), []);
    client.stop().unwrap();
    wait_for("the switch has ended", || switch.has_ended());
    fs::remove_file(&path).unwrap();
}
