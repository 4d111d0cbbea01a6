//! `weir doctor`: whether this host has what Weir needs, and what to change.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use node::limits;
use node::paths::Paths;
use serde::Serialize;
use switch::port::links::{Device, HostLink, Mode, Tap};

use crate::nouns::{self, output};

/// Checks what Weir needs of this host, and says what to change
#[derive(Debug, Args)]
#[command(
    after_help = "Each line is ok, a warning (Weir runs, with less), or a failure. The exit code is 1 if anything
failed. Run it as the user of the node.

Examples:
  weir doctor
  weir doctor --json"
)]
pub struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Ok,
    Warning,
    Failed,
}

/// The finding on one requirement.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    state: State,
    /// How it is, and what to change.
    said: String,
}

impl Finding {
    fn ok(what: &'static str, said: impl Into<String>) -> Finding {
        let said = said.into();
        let state = State::Ok;
        Finding { what, state, said }
    }

    /// Something is as it has to be, or it is not, for this reason and with this remedy.
    fn of<E: ToString>(
        what: &'static str,
        (good, state): (&str, State),
        found: Result<(), E>,
        remedy: &str,
    ) -> Finding {
        match found {
            Ok(()) => Finding::ok(what, good),
            Err(error) => Finding {
                what,
                state,
                said: format!("{}: {remedy}", error.to_string()),
            },
        }
    }
}

/// Runs `weir doctor`.
pub fn run(args: &DoctorArgs) -> nouns::Result<ExitCode> {
    let findings = findings();
    let failed = findings.iter().any(|it| it.state == State::Failed);
    if args.json {
        output::made(true, &findings)?;
    } else {
        for Finding { what, state, said } in &findings {
            let state = match state {
                State::Ok => "ok",
                State::Warning => "warning",
                State::Failed => "FAILED",
            };
            output::print(&format!("{what:<12} {state:<8} {said}\n"))?;
        }
    }
    Ok(ExitCode::from(u8::from(failed)))
}

fn findings() -> Vec<Finding> {
    use State::{Failed, Warning};
    let root = rustix::process::geteuid().is_root();
    let user = match root {
        true => Ok(()),
        false => Err("this user is not root"),
    };
    let mut all = vec![
        Finding::of(
            "user",
            ("root", Warning),
            user,
            "links, VNICs and the node need root; `weir run` and `weir click` do without",
        ),
        kvm(),
        Finding::of(
            "jail",
            ("guests get a process of their own", Failed),
            process_wall(),
            "allow seccomp filters and memory files",
        ),
        limits(),
        Finding::of(
            "folders",
            ("those of the node can be written", Failed),
            folders(root),
            "run as the node's user, or set WEIR_RUN and WEIR_STATE",
        ),
        huge_pages(),
        Finding::of(
            "cgroups",
            ("guests can be limited (--cpu-max, --memory-max)", Warning),
            node::limits::cgroups(),
            "guests can have no limits until then",
        ),
        Finding::of(
            "migration",
            ("the kernel tells what a guest writes", Warning),
            vmm::can_track()
                .then_some(())
                .ok_or("no asynchronous userfaultfd"),
            "use Linux 6.7 or later; all of a guest's memory is sent while it stands still otherwise",
        ),
    ];
    if root {
        all.extend(network());
    }
    all
}

fn kvm() -> Finding {
    let template = vmm::Template::new(vmm::IMAGE);
    let wall = template.and_then(|template| template.wall(vmm::Isolation::Vm));
    Finding::of(
        "kvm",
        ("virtual machines can be made", State::Warning),
        wall.map(drop),
        "guests with isolation ‘auto’ have the process wall",
    )
}

fn process_wall() -> vmm::Result<()> {
    let template = vmm::Template::new(vmm::IMAGE)?;
    template.wall(vmm::Isolation::Process).map(drop)
}

fn limits() -> Finding {
    let descriptors = limits::raise_descriptors();
    match limits::advice(descriptors) {
        None => Finding::ok("limits", limits::room(descriptors)),
        Some(said) => Finding {
            what: "limits",
            state: State::Warning,
            said,
        },
    }
}

/// Whether the node's folders are writable, or the nearest of those above them that exist.
fn folders(root: bool) -> Result<(), String> {
    let paths = Paths::from_environment();
    // A user without root has no node's state there.
    let state = root.then_some(&paths.state);
    for folder in [Some(&paths.run), state].into_iter().flatten() {
        let there = folder.ancestors().find(|folder| folder.exists());
        let there = there.unwrap_or(Path::new("/"));
        let access = rustix::fs::Access::WRITE_OK;
        rustix::fs::access(there, access)
            .map_err(|error| format!("{} cannot be written: {error}", there.display()))?;
    }
    Ok(())
}

fn huge_pages() -> Finding {
    let file = "/sys/kernel/mm/transparent_hugepage/enabled";
    let found = match fs::read_to_string(file) {
        Ok(text) if !text.contains("[never]") => Ok(()),
        Ok(_) => Err("the kernel gives none".to_string()),
        Err(error) => Err(format!("{file}: {error}")),
    };
    Finding::of(
        "huge pages",
        ("busy guests' rings can be in huge pages", State::Warning),
        found,
        "`echo madvise >/sys/kernel/mm/transparent_hugepage/enabled`",
    )
}

/// What concerns the network, tried in a network namespace that goes with its thread.
fn network() -> Vec<Finding> {
    let tried = std::thread::spawn(|| {
        let namespace = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET);
        let has_namespace = namespace.is_ok();
        let mut all = vec![Finding::of(
            "namespaces",
            ("network namespaces can be made", State::Failed),
            namespace,
            "use a kernel with network namespaces, or allow this container to make them",
        )];
        let tap = HostLink::open(&Tap {
            name: "doctor-tap",
            mac: None,
            mtu: 1500,
            owner: None,
        });
        if has_namespace {
            all.push(Finding::of(
                "tap",
                ("TAP devices can be made", State::Failed),
                tap.map(drop),
                "`modprobe tun`",
            ));
            all.extend(interfaces());
        }
        all
    });
    tried.join().unwrap_or_default()
}

/// Whether interfaces can be attached by a packet socket and by AF_XDP.
fn interfaces() -> Vec<Finding> {
    let pair = Command::new("ip")
        .args([
            "link", "add", "doctor0", "type", "veth", "peer", "name", "doctor1",
        ])
        .stderr(Stdio::null())
        .status();
    if !pair.is_ok_and(|status| status.success()) {
        return vec![Finding {
            what: "links",
            state: State::Warning,
            said: "no veth pair can be made to try them: install iproute2, or load the module veth"
                .into(),
        }];
    }
    let up = Command::new("ip")
        .args(["link", "set", "doctor0", "up"])
        .status();
    let attach = |mode| {
        let name = "doctor0";
        HostLink::attach(&Device { name, mode }).map(drop)
    };
    let _ = up;
    vec![
        Finding::of(
            "links",
            ("interfaces can be attached by AF_PACKET", State::Failed),
            attach(Mode::Packet),
            "allow packet sockets (CAP_NET_RAW)",
        ),
        Finding::of(
            "xdp",
            ("interfaces can be attached by AF_XDP", State::Warning),
            attach(Mode::Xdp),
            "use a kernel with CONFIG_XDP_SOCKETS; links are attached by AF_PACKET otherwise",
        ),
    ]
}
