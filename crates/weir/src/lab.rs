//! Hosts for trying networks: network namespaces that live no longer than this process.
//!
//! A namespace is held by a process that dies with this one, also if this one is killed. With the
//! namespace go its interfaces, and the other ends of its veth pairs. So nothing is left behind.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest that a namespace is kept, in seconds.
const LIFETIME: &str = "900";

/// Why a host could not be made or a command did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A program is not installed.
    #[error("{0} is missing: install it with apt-get install {1}")]
    Missing(String, &'static str),
    /// A command failed.
    #[error("{command}: {said}")]
    Failed {
        /// The command.
        command: String,
        /// Its error output.
        said: String,
    },
    /// It took too long.
    #[error("{command} did not end within {seconds} s")]
    Slow {
        /// The command.
        command: String,
        /// The limit.
        seconds: u64,
    },
    /// The user asked for the end.
    #[error("interrupted")]
    Interrupted,
}

/// The Debian package that a program comes with.
fn package(program: &str) -> &'static str {
    match program {
        "ip" => "iproute2",
        "ping" => "iputils-ping",
        "nginx" => "nginx-light",
        "iperf3" => "iperf3",
        "curl" => "curl",
        "dig" => "bind9-dnsutils",
        "busybox" => "busybox-static",
        _ => "util-linux",
    }
}

/// Runs commands, and gives up when the user asks for it.
#[derive(Clone, Default)]
pub struct Runner {
    stop: Arc<AtomicBool>,
}

impl Runner {
    /// A runner that gives up when `stop` becomes true.
    pub fn new(stop: Arc<AtomicBool>) -> Runner {
        Runner { stop }
    }

    /// Whether the user asked for the end.
    pub fn check(&self) -> Result<(), LabError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(LabError::Interrupted),
            false => Ok(()),
        }
    }

    /// Runs a command to its end, for at most `limit`, with any exit status.
    pub fn output(&self, mut command: Command, limit: Duration) -> Result<Output, LabError> {
        self.check()?;
        let shown = shown(&command);
        let start = Instant::now();
        let mut child = start_child(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        // Read while it runs: a full pipe would stop it.
        let stdout = child.stdout.take().map(read_aside);
        let stderr = child.stderr.take().map(read_aside);
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => {}
                Err(error) => return Err(failed(&shown, error)),
            }
            let late = start.elapsed() > limit;
            if late || self.stop.load(Ordering::Relaxed) {
                let _ = child.kill();
                let _ = child.wait();
                self.check()?;
                let seconds = limit.as_secs();
                return Err(LabError::Slow {
                    command: shown,
                    seconds,
                });
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let all = |reader: Option<JoinHandle<Vec<u8>>>| reader.and_then(|it| it.join().ok());
        Ok(Output {
            status,
            stdout: all(stdout).unwrap_or_default(),
            stderr: all(stderr).unwrap_or_default(),
        })
    }

    /// Runs a command that must succeed. Returns its output.
    pub fn run(&self, command: Command, limit: Duration) -> Result<String, LabError> {
        let shown = shown(&command);
        let output = self.output(command, limit)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(failed(&shown, said.trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Reads a pipe to its end, beside what goes on.
fn read_aside(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

fn failed(command: &str, said: impl ToString) -> LabError {
    LabError::Failed {
        command: command.into(),
        said: said.to_string(),
    }
}

fn start_child(command: &mut Command) -> Result<Child, LabError> {
    let program = command.get_program().to_string_lossy().into_owned();
    command
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => LabError::Missing(program.clone(), package(&program)),
            _ => failed(&shown(command), error),
        })
}

/// Whether a program can be found.
pub fn require(programs: &[&str]) -> Result<(), LabError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    for program in programs {
        let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
        if !found {
            return Err(LabError::Missing((*program).into(), package(program)));
        }
    }
    Ok(())
}

/// `ip` with arguments separated by spaces.
pub fn ip(arguments: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(arguments.split_whitespace());
    command
}

/// A process that ends when this value does, or this process.
pub struct Service(Child);

impl Service {
    /// Starts `program` so that it dies with this process.
    fn start(words: &[&str]) -> Result<Service, LabError> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).args(words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Service(start_child(&mut command)?))
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A network namespace.
pub struct Namespace {
    holder: Service,
}

impl Namespace {
    /// A new namespace with its loopback up.
    pub fn new(runner: &Runner) -> Result<Namespace, LabError> {
        let holder = Service::start(&["unshare", "--net", "sleep", LIFETIME])?;
        let namespace = Namespace { holder };
        // The holder is in its namespace once that is not ours.
        let ours = std::fs::read_link("/proc/self/ns/net").ok();
        let theirs = format!("/proc/{}/ns/net", namespace.holder.pid());
        let start = Instant::now();
        while std::fs::read_link(&theirs).ok() == ours || !namespace.sleeping() {
            runner.check()?;
            if start.elapsed() > Duration::from_secs(2) || !std::path::Path::new(&theirs).exists() {
                let said = "no namespace was made: this needs root";
                return Err(failed("unshare --net", said));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        runner.run(
            namespace.command("ip", "link set lo up"),
            Duration::from_secs(5),
        )?;
        Ok(namespace)
    }

    fn sleeping(&self) -> bool {
        std::fs::read_to_string(format!("/proc/{}/comm", self.holder.pid()))
            .is_ok_and(|name| name.trim() == "sleep")
    }

    /// The process that holds it: `ip link set … netns PID`.
    pub fn pid(&self) -> u32 {
        self.holder.pid()
    }

    /// A command inside, with arguments separated by spaces.
    pub fn command(&self, program: &str, arguments: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.pid()));
        command.arg(program).args(arguments.split_whitespace());
        command
    }

    /// Starts a server inside.
    pub fn service(&self, program: &str, arguments: &str) -> Result<Service, LabError> {
        let inside = format!("--net=/proc/{}/ns/net", self.pid());
        let mut words = vec!["nsenter", inside.as_str(), program];
        words.extend(arguments.split_whitespace());
        Service::start(&words)
    }

    /// A veth pair: `outer` stays in this process's namespace, `eth0` stands inside with `address`
    /// (and prefix length) and a default route by `gateway`, if there is one.
    pub fn connect(
        &self,
        runner: &Runner,
        outer: &str,
        address: &str,
        gateway: Option<&str>,
    ) -> Result<(), LabError> {
        let limit = Duration::from_secs(5);
        let pid = self.pid();
        let pair = format!("link add {outer} type veth peer name eth0 netns {pid}");
        runner.run(ip(&pair), limit)?;
        runner.run(ip(&format!("link set {outer} up")), limit)?;
        runner.run(
            self.command("ip", &format!("addr add {address} dev eth0")),
            limit,
        )?;
        runner.run(self.command("ip", "link set eth0 up"), limit)?;
        if let Some(gateway) = gateway {
            let route = format!("route add default via {gateway}");
            runner.run(self.command("ip", &route), limit)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_may_be_longer_than_a_pipe() {
        let long = "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2";
        let mut command = Command::new("sh");
        command.args(["-c", long]);
        let output = Runner::default().output(command, Duration::from_secs(20));
        let output = output.expect("it ends");
        assert_eq!(
            (output.stdout.len(), output.stderr.len()),
            (300_000, 300_000)
        );
    }
}
