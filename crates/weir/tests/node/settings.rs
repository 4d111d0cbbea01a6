//! What an administrator sets up: the file of settings, the service manager, `weir doctor`, manual pages and
//! completions.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::common::{Host, assert_contains, until};

#[test]
fn a_file_of_settings_holds_the_options_and_the_command_line_goes_before_it() {
    let mut host = Host::new();
    let notify = host.folder.join("notify");
    let manager = UnixDatagram::bind(&notify).unwrap();
    manager
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let file = host.config(
        "node.toml",
        "[switch]\nlanes = 2\n[log]\nformat = 'json'\n[audit]\n",
    );
    let restart = |host: &mut Host, options: &[&str]| {
        host.end("-TERM");
        host.options = options.iter().map(ToString::to_string).collect();
        host.start();
    };
    host.notify = Some(notify);
    restart(&mut host, &["--config", &file]);
    let mut said = [0; 20];
    let length = manager.recv(&mut said).unwrap();
    assert_eq!(&said[..length], b"READY=1");
    let lanes = || host.client().lanes().unwrap().len();
    assert_eq!(lanes(), 2);
    let last = host.said.lock().unwrap().last().unwrap().clone();
    assert!(last.starts_with('{'), "{last}");
    restart(
        &mut host,
        &["--config", &file, "--lanes", "1", "--log", "human"],
    );
    let lanes = || host.client().lanes().unwrap().len();
    until("it has other lanes", || lanes() == 1);
    let last = host.said.lock().unwrap().last().unwrap().clone();
    assert!(!last.starts_with('{'), "{last}");

    for (text, part) in [
        ("lanes = 2\n", "line 1: unknown field `lanes`"),
        (
            "[listen]\naddress = '127.0.0.1:1'\ncert = 'c'\nkey = 'k'\nclient-ca = 'a'\n",
            "have no roles",
        ),
    ] {
        let file = host.config("wrong.toml", text);
        host.refuses(&format!("node --config {file}"), part);
    }
    host.refuses("node --config /nowhere/node.toml", "/nowhere/node.toml");
    // The file that packages bring is one.
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/node.toml");
    let text = std::fs::read_to_string(shipped).unwrap();
    let all: String = text
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(setting) if setting.contains(['=', '[']) => format!("{setting}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    for text in [text, all] {
        let file = host.config("shipped.toml", &text);
        node::config::Config::read(file.as_ref()).unwrap();
    }
}

#[test]
fn the_doctor_finds_what_is_there_and_leaves_nothing() {
    let host = Host::new();
    let found = host.json("doctor");
    let found = found.as_array().unwrap();
    let state = |what: &str| {
        let one = found.iter().find(|one| one["what"] == what);
        one.unwrap_or_else(|| panic!("nothing is said of {what}"))["state"].clone()
    };
    for what in ["user", "jail", "folders", "namespaces", "tap", "links"] {
        assert_eq!(state(what), "ok", "{what}");
    }
    assert_eq!(state("kvm") == "ok", std::fs::exists("/dev/kvm").unwrap());
    assert!(!std::fs::exists("/sys/class/net/doctor0").unwrap());
    assert_contains(&host.ok("doctor"), "network namespaces can be made");
}

#[test]
fn manual_pages_and_completions_are_made_of_the_command_line() {
    let host = Host::new();
    let folder = host.folder.join("man");
    host.ok(&format!("man {}", folder.display()));
    for (page, part) in [
        ("weir", "migrate"),
        ("weir-create", "ring"),
        ("weir-vnic-create", "mac"),
    ] {
        let text = std::fs::read_to_string(folder.join(format!("{page}.1"))).unwrap();
        assert_contains(&text, part);
    }
    for shell in ["bash", "zsh", "fish"] {
        let text = host.ok(&format!("completions {shell}"));
        assert_contains(&text, "migrate");
    }
    host.refuses("completions tcsh", "tcsh");
    assert_contains(
        &host.ok("--version"),
        concat!("weir ", env!("CARGO_PKG_VERSION")),
    );
}
