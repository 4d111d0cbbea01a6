//! `weir run`: one guest in the foreground.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use click::text::encode;
use node::function::{self, FunctionError};
use node::model::{LINK_HELP, Memory, NoSize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use switch::lane::LaneStats;
use switch::process::Options;
use switch::properties::Settle;
use vmm::{Exit, Isolation, Wall};

use super::cpus::{self, CpuList};
use super::instance::{Event, Instance};
use super::links::Link;
use super::name::{Claim, NameError};
use super::plan::{InstanceError, Plan};
use super::serve::Server;
use crate::check::setting_bytes;
use crate::host::chatter_all;

/// Boots one guest in the foreground; Ctrl-C ends it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  weir run firewall --link inside=tap:weir0 --link outside=dev:eth1
  weir run limiter.click RATE=1000 --link a=tap:a --link b=tap:b
  weir run router -p net1_ip=192.168.1.1 -p net1_net=192.168.1.0/24 --link net1=dev:eth1 --link net2=dev:eth2
  weir run firewall --link inside=tap:a --link outside=tap:b --isolation process
  weir run two-lanes.click --link a=dev:eth1 --link b=dev:eth2 --cpus 2 --pin 2,3 --lanes 2")]
pub struct RunArgs {
    /// The configuration: a file, or a function (`weir function` lists them)
    pub file: PathBuf,
    /// Values for the configuration's variables
    #[arg(value_name = "NAME=VALUE", value_parser = setting_bytes())]
    pub settings: Vec<(String, String)>,
    /// A value for a function's parameter (`weir function NAME` lists them)
    #[arg(short, long = "parameter", value_name = "NAME=VALUE", value_parser = setting_bytes())]
    pub parameters: Vec<(String, String)>,
    #[arg(short, long = "link", value_name = "INTERFACE=LINK", help = format!("An interface of the guest, and the link beneath it. {LINK_HELP}"))]
    pub links: Vec<Link>,
    /// The wall around the guest
    #[arg(long, value_enum, default_value_t = IsolationArg::Auto)]
    pub isolation: IsolationArg,
    /// Private memory, as in 4M or 2048K; ring buffers come on top
    #[arg(long, default_value = "4M", value_parser = memory, value_name = "SIZE")]
    pub memory: u64,
    /// Slots of each ring, a power of two from 64 to 2048
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub ring_slots: u32,
    /// Whether the guest may settle flows, whose packets the kernel then passes on between links by `packet:`
    #[arg(long, value_name = "on|off", default_value = "off")]
    pub settle: Settle,
    /// The NSM of this host's node that serves its sockets: SocketServer and SocketClient
    #[arg(long, value_name = "NSM")]
    pub nsm: Option<String>,
    /// Number of vCPUs, for configurations with several threads (StaticThreadSched); default: the
    /// number of CPUs in --pin, else 1
    #[arg(long, visible_alias = "cpu", value_name = "N", value_parser = cpus::count)]
    pub cpus: Option<usize>,
    /// CPUs of this machine for the vCPUs, one each, as in 0,1 or 2-5; default: any
    #[arg(long, value_name = "LIST")]
    pub pin: Option<CpuList>,
    /// Number of lanes (threads) of the switch; the links' flows are spread over them
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = lanes)]
    pub lanes: usize,
    /// The guest's name; default: the configuration's file name without its extension
    #[arg(long)]
    pub name: Option<String>,
    /// Print events as one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// `--isolation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IsolationArg {
    /// A virtual machine
    Vm,
    /// A process under a system call filter
    Process,
    /// A virtual machine if there is KVM, else a process
    Auto,
}

impl From<IsolationArg> for Isolation {
    fn from(arg: IsolationArg) -> Isolation {
        match arg {
            IsolationArg::Vm => Isolation::Vm,
            IsolationArg::Process => Isolation::Process,
            IsolationArg::Auto => Isolation::Auto,
        }
    }
}

/// Bytes, with K, M or G for their binary multiples.
pub fn memory(text: &str) -> Result<u64, String> {
    let Memory(bytes) = text.parse().map_err(|error: NoSize| error.to_string())?;
    Ok(bytes)
}

/// How many lanes a switch has.
pub fn lanes(text: &str) -> Result<usize, String> {
    let number = text
        .parse()
        .map_err(|_| format!("‘{text}’ is not a number of lanes"))?;
    let options = Options {
        lanes: number,
        cpus: Vec::new(),
    };
    options.check().map_err(|error| error.to_string())?;
    Ok(number)
}

/// Why a guest was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration cannot be read, or has no such parameters.
    #[error(transparent)]
    Function(#[from] FunctionError),
    /// The configuration is wrong: what Click would say, line by line.
    #[error("{0}")]
    Config(String),
    /// The name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The guest, its switch and its links.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// No such CPU.
    #[error("there is no CPU {0} that this process may run on: `taskset -p $$` shows its CPUs")]
    Cpu(usize),
    /// One interface for two of the guest's.
    #[error("‘{0}’ and ‘{1}’ use the same interface, ‘{2}’: give each its own")]
    Shared(String, String, String),
    /// More CPUs to pin to than vCPUs to pin.
    #[error(
        "--pin names {0} CPUs for a guest with {1} vCPUs: give at most one CPU for each vCPU, of which a guest has at most 8"
    )]
    Pins(usize, usize),
    /// Signals.
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
}

/// Reports events, as text or as JSON.
struct Reporter {
    json: bool,
    name: String,
}

impl Reporter {
    fn say(&self, event: &str, text: &str, facts: serde_json::Value) {
        if !self.json {
            eprintln!("{}: {text}", self.name);
            return;
        }
        let mut object = serde_json::json!({ "event": event, "name": self.name });
        if let (Some(object), serde_json::Value::Object(facts)) = (object.as_object_mut(), facts) {
            object.extend(facts);
        }
        println!("{object}");
    }

    fn running(&self, instance: &Instance) {
        let wall = match instance.wall() {
            Wall::Vm => "a virtual machine",
            Wall::Process => "a process under a system call filter",
        };
        let milliseconds = instance.boot().as_secs_f64() * 1e3;
        let text = format!(
            "running as {wall} ({}), {milliseconds:.2} ms after the start order",
            instance.wall()
        );
        let facts = serde_json::json!({
            "wall": instance.wall().to_string(),
            "boot_ms": milliseconds,
            "pid": instance.pid(),
            "switch_pid": instance.switch_pid(),
        });
        self.say("running", &text, facts);
    }

    fn console(&self, lines: &[String]) {
        for line in lines {
            match self.json {
                true => self.say("console", "", serde_json::json!({ "line": line })),
                false => {
                    let line = [&*encode(line), b"\n"].concat();
                    // The guest runs on without a reader.
                    let _ = std::io::stdout().write_all(&line);
                }
            }
        }
    }

    fn ended(&self, instance: &Instance, exit: &Exit) {
        let mut text = node::check::told(exit, &encode(instance.config()));
        let mut facts = serde_json::json!({ "exit": text });
        for (interface, guest, host) in instance.counters() {
            for (port, stats) in [("guest", guest), ("link", host)] {
                facts["traffic"][interface][port] = serde_json::json!({
                    "frames_in": stats.frames_in,
                    "bytes_in": stats.bytes_in,
                    "segmented_in": stats.segmented_in,
                    "frames_out": stats.frames_out,
                    "bytes_out": stats.bytes_out,
                    "cut": stats.cut,
                });
                for (reason, frames) in stats.drops().filter(|(_, frames)| *frames > 0) {
                    let reason = reason.name();
                    let dropped = format!(
                        "{interface}: {frames} frames to or from the {port} were dropped ({reason})"
                    );
                    text.push_str(&format!("\n  {dropped}"));
                    facts["drops"][interface][port][reason] = frames.into();
                }
            }
        }
        let lane = |lane: LaneStats| serde_json::json!({ "frames": lane.frames, "handoffs": lane.handoffs });
        facts["lanes"] = instance.lanes().into_iter().map(lane).collect();
        if instance.console_lost() > 0 {
            let lost = instance.console_lost();
            text.push_str(&format!("\n  {lost} bytes of its console were lost"));
            facts["console_lost"] = lost.into();
        }
        if let Exit::Crashed(crash) | Exit::Stopped(crash) = exit {
            if let Some(cpu) = crash.cpu {
                facts["cpu"] = cpu.into();
            }
            if let Some(place) = crash
                .element
                .and_then(|element| node::check::place(&encode(instance.config()), element))
            {
                text.push_str(&format!("; it was in {place}"));
                facts["element"] = place.into();
            }
            if !self.json {
                text.push_str(&format!("\n{}", crash.registers));
            }
            facts["registers"] = crash.registers.to_string().into();
        }
        self.say("ended", &text, facts);
    }
}

/// Readable when the user asks for the end.
fn signals() -> std::io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(read)
}

/// Says why a guest has got the process wall that could have had the other one.
fn warn_of_wall() {
    let template = vmm::Template::new(vmm::IMAGE);
    let wall = template.and_then(|template| template.wall(vmm::Isolation::Vm));
    if let Err(reason) = wall {
        eprintln!("warning: {reason}; `--isolation auto` takes the process wall");
    }
}

/// Runs a guest to its end.
pub fn run(args: &RunArgs) -> Result<ExitCode, RunError> {
    let settings = [&args.settings[..], &args.parameters].concat();
    let config = function::read(&args.file, &settings, abi::boot::CONFIG_MAX)?.whole();
    let name = match &args.name {
        Some(name) => name.clone(),
        None => args
            .file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
    };
    let interfaces: Vec<_> = args
        .links
        .iter()
        .map(|link| {
            let mac = super::links::address(&name, &link.interface);
            (link.interface.clone(), mac)
        })
        .collect();
    if let Some((one, other, interface)) = super::links::shared(&args.links) {
        let [one, other] = [one, other].map(|link| link.interface.clone());
        return Err(RunError::Shared(one, other, interface.into()));
    }
    let (cpus, pins) = cpus::choose(args.cpus, args.pin.as_ref())?;
    let file = args.file.display().to_string();
    let diagnostics = node::check::check(&config, &file, &interfaces, cpus, "tap:weir0");
    if diagnostics.errors() > 0 {
        return Err(RunError::Config(diagnostics.to_string().trim_end().into()));
    }
    chatter_all(&diagnostics);
    let signals = signals().map_err(RunError::Signals)?;
    let claim = Claim::new(&name)?;
    let reporter = Reporter {
        json: args.json,
        name: name.clone(),
    };
    let mut instance = Instance::start(&Plan {
        name,
        config,
        links: args.links.clone(),
        nsm: args.nsm.clone(),
        isolation: args.isolation.into(),
        memory: args.memory,
        ring_slots: args.ring_slots,
        settle: args.settle,
        cpus,
        pins,
        lanes: args.lanes,
    })?;
    reporter.running(&instance);
    if matches!(args.isolation, IsolationArg::Auto) && instance.wall() == Wall::Process {
        warn_of_wall();
    }
    let ended = attend(&mut instance, &claim, &signals, &reporter)?;
    let success = match ended {
        Ended::Exit(exit) => {
            reporter.ended(&instance, &exit);
            matches!(exit, Exit::Halted)
        }
        Ended::Asked => {
            let mut printed = Vec::new();
            let exit = instance.stop(&mut printed)?;
            reporter.console(&printed);
            reporter.ended(&instance, &exit);
            true
        }
        Ended::Switch => {
            let text = "its switch ended, so the guest was ended";
            reporter.say("switch-ended", text, serde_json::json!({}));
            false
        }
    };
    Ok(match success {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Why attending a guest ended.
enum Ended {
    Exit(Exit),
    Asked,
    Switch,
}

fn attend(
    instance: &mut Instance,
    claim: &Claim,
    signals: &UnixStream,
    reporter: &Reporter,
) -> Result<Ended, InstanceError> {
    let mut server = Server::default();
    let mut printed = Vec::new();
    loop {
        let mut own: Vec<BorrowedFd<'_>> = vec![signals.as_fd(), claim.listener().as_fd()];
        own.extend(server.descriptors());
        let event = instance.wait(&own, &mut printed)?;
        reporter.console(&printed);
        printed.clear();
        // A signal to the whole process group ends the others too: the user's wish goes first.
        if std::io::Read::read(&mut &*signals, &mut [0]).is_ok() {
            return Ok(Ended::Asked);
        }
        match event {
            Event::GuestEnded(exit) => return Ok(Ended::Exit(exit)),
            Event::SwitchEnded => return Ok(Ended::Switch),
            Event::Other => server.serve(claim.listener(), instance),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_binary_units() {
        assert_eq!(memory("4M"), Ok(vmm::DEFAULT_MEMORY), "the default");
        assert_eq!(memory("2048K"), Ok(2 << 20));
        assert_eq!(memory("2MiB"), Ok(2 << 20));
        assert_eq!(memory("65536"), Ok(65536));
        for wrong in ["", "M", "4X", "-1", "99999999999G"] {
            assert!(memory(wrong).unwrap_err().contains("K, M or G"), "{wrong}");
        }
    }
}
