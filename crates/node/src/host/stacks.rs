//! CoreEngine's process and those of network stack modules, which outlive the node's.
//!
//! Each is this program again, in a process of its own: its memory is not a copy of the node's, and an NSM begins in
//! its network namespace. What is to be known of them after a restart of the node, CoreEngine knows: it is found at its
//! socket, and names the processes of the NSMs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::launch::LaunchPort;
use super::process::{Process, has_ended, reap, told_end};
use super::{CORE_ENGINE, Host, NSMS, TIMEOUT, namespace, network, nsm_rings};
use crate::error::{Error, Kind, Result};
use crate::model::{ApplicationRecord, NsmKind, NsmRecord, Others};
use crate::paths::clear_socket;
use netkernel::protocol::{
    self, Operator, Reply, Request, SocketStatus, Status, TOKEN_VARIABLE, TenantFiles, Token,
};

/// How long a CoreEngine has to run so that another takes its place at once.
const SETTLED: Duration = Duration::from_secs(1);
/// The pause between two looks whether one has started.
const PAUSE: Duration = Duration::from_millis(1);

/// Where programs that are not this one are looked for.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A CoreEngine that runs.
struct CoreEngine {
    operator: Operator,
    process: Process,
    start: Instant,
    /// The NSMs and the applications that it knows.
    nsms: BTreeSet<String>,
    applications: BTreeSet<String>,
}

/// CoreEngine and the NSMs that run.
#[derive(Default)]
pub(super) struct Stacks {
    core: Option<CoreEngine>,
    nsms: BTreeMap<String, Process>,
    /// The files of the applications: the next CoreEngine gets them, and their processes return to it.
    files: BTreeMap<String, TenantFiles>,
}

/// This program, to be started in a process of its own with the words of a hidden command.
pub(super) fn program(words: &[&str], paths: &[&Path], token: Option<Token>) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(words).args(paths).env_clear();
    if let Some(token) = token {
        command.env(TOKEN_VARIABLE, token.to_string());
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// The program of an NSM, which joins CoreEngine at `door`.
fn nsm_program(nsm: &NsmRecord, door: &Path) -> Command {
    let kind = match nsm.spec.kind {
        NsmKind::Kernel => "kernel",
        NsmKind::User => "user",
        NsmKind::Shm => "shm",
        NsmKind::Program => {
            let (program, words) = nsm.spec.run.0.split_first().unwrap_or((&nsm.name, &[]));
            let mut command = Command::new(program);
            command.args(words).arg(door).env_clear().env("PATH", PATH);
            command.env(TOKEN_VARIABLE, nsm.token.to_string());
            command.stdin(Stdio::null()).stdout(Stdio::null());
            // A key that ends the node does not end it.
            command.process_group(0);
            return command;
        }
    };
    let words = ["sock", "nsm", "--detached", "--kind", kind];
    let mut command = program(&words, &[door], Some(nsm.token));
    if nsm.spec.local {
        command.arg("--local");
    }
    if nsm.spec.workers() > 1 {
        command.arg("--cores").arg(nsm.spec.workers().to_string());
    }
    for address in &nsm.spec.addresses {
        command.arg("--address").arg(address.to_string());
    }
    for gateway in &nsm.spec.gateways {
        command.arg("--gateway").arg(gateway.to_string());
    }
    if nsm.spec.others == Others::Refused {
        command.args(["--others", "refused"]);
    }
    command
}

impl Host {
    /// Takes over the CoreEngine that an earlier node started, with its NSMs, and returns what it has. One that does not
    /// answer, or is of another version, is ended.
    pub fn adopt_core(&mut self) -> Option<Status> {
        let operator = Operator::connect(&self.sock_paths.operator).ok()?;
        let operator = operator.with_timeout(TIMEOUT).ok()?;
        let process = Process::of(operator.pid().ok()?).ok()?;
        let status = operator.status().ok();
        // Another one finds what is wrong, and says it.
        let _ = self.open_sock_folder();
        let status = status.filter(|status| status.version == env!("CARGO_PKG_VERSION"));
        let (Some(status), Ok(())) = (status, self.watch(process.pidfd.as_fd(), CORE_ENGINE))
        else {
            process.end();
            return None;
        };
        for nsm in &status.nsms {
            if let Some(Ok(process)) = nsm.pid.map(Process::of)
                && self.watch(process.pidfd.as_fd(), NSMS).is_ok()
            {
                self.stacks.nsms.insert(nsm.name.clone(), process);
            }
        }
        for tenant in &status.tenants {
            let name = tenant.name.clone();
            // Without them, programs do not survive this CoreEngine.
            if let Ok(files) = operator.files(&Request::Files { name: name.clone() }, None) {
                self.stacks.files.insert(name, files);
            }
        }
        self.stacks.core = Some(CoreEngine {
            operator,
            process,
            start: Instant::now(),
            nsms: status.nsms.iter().map(|nsm| nsm.name.clone()).collect(),
            applications: status.tenants.iter().map(|it| it.name.clone()).collect(),
        });
        Some(status)
    }

    /// Starts a CoreEngine. It knows nobody.
    pub fn start_core(&mut self) -> Result<()> {
        let paths = &self.sock_paths;
        let failed =
            |error: io::Error| Error::failed(format_args!("CoreEngine cannot be started: {error}"));
        self.make_sock_folder()
            .map_err(|error| Error::failed(format_args!("{}: {error}", paths.folder.display())))?;
        let words = ["sock", "core", "--detached"];
        let child = program(&words, &[&paths.door, &paths.operator], None).spawn();
        let process = Process::of(child.map_err(failed)?.id())?;
        let begin = Instant::now();
        let operator = loop {
            match Operator::connect(&paths.operator) {
                Ok(operator) => break operator.with_timeout(TIMEOUT).map_err(failed)?,
                Err(_) if has_ended(&process.pidfd) => {
                    let how = told_end(process.pid, reap(&process.pidfd));
                    return Err(failed(io::Error::other(how)));
                }
                Err(error) if begin.elapsed() > TIMEOUT => {
                    process.end();
                    return Err(failed(error));
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        };
        self.watch(process.pidfd.as_fd(), CORE_ENGINE)?;
        self.stacks.core = Some(CoreEngine {
            operator,
            process,
            start: begin,
            nsms: BTreeSet::new(),
            applications: BTreeSet::new(),
        });
        Ok(())
    }

    /// The folder that applications of all users pass through, with the library.
    fn make_sock_folder(&self) -> io::Result<()> {
        let paths = &self.sock_paths;
        fs::create_dir_all(&paths.folder)?;
        self.open_sock_folder()?;
        clear_socket(&paths.door)?;
        clear_socket(&paths.operator)?;
        // Programs that run have the one that is there mapped.
        let new = paths.folder.join("libweir_sock.so.new");
        fs::write(&new, netkernel::LIBRARY)?;
        fs::set_permissions(&new, Permissions::from_mode(0o644))?;
        fs::rename(&new, &paths.library)
    }

    /// Lets every user pass through the folder, and through the one that it is in: each file there has a mode of its
    /// own.
    fn open_sock_folder(&self) -> io::Result<()> {
        let folder = self.sock_paths.folder.as_path();
        for folder in [Some(folder), folder.parent()].into_iter().flatten() {
            let mode = fs::metadata(folder)?.permissions().mode();
            fs::set_permissions(folder, Permissions::from_mode(mode & 0o777 | 0o011))?;
        }
        Ok(())
    }

    /// How CoreEngine ended, if it has, and whether it ran for a while; it is released then.
    pub fn core_ended(&mut self) -> Option<(String, bool)> {
        let ended = |core: &mut CoreEngine| has_ended(&core.process.pidfd);
        let CoreEngine { process, start, .. } = self.stacks.core.take_if(ended)?;
        let settled = start.elapsed() >= SETTLED;
        Some((told_end(process.pid, reap(&process.pidfd)), settled))
    }

    /// CoreEngine's process.
    pub fn core_pid(&self) -> Option<u32> {
        self.stacks.core.as_ref().map(|core| core.process.pid)
    }

    /// Ends CoreEngine and the NSMs.
    pub fn stop_core(&mut self) {
        for (_, nsm) in std::mem::take(&mut self.stacks.nsms) {
            nsm.end();
        }
        if let Some(core) = self.stacks.core.take() {
            core.process.end();
        }
        self.stacks.files.clear();
        let _ = fs::remove_dir_all(&self.sock_paths.folder);
    }

    fn core(&self) -> Result<&CoreEngine> {
        let missing = || {
            let sentence = "CoreEngine is not running: try again in a second";
            Error::new(Kind::Unavailable, sentence)
        };
        self.stacks.core.as_ref().ok_or_else(missing)
    }

    /// Asks CoreEngine. One that does not answer is killed: its end is dealt with as any other.
    fn asked<T>(&self, ask: impl FnOnce(&Operator) -> io::Result<T>) -> Result<T> {
        let core = self.core()?;
        ask(&core.operator).map_err(|error| match error.kind() {
            io::ErrorKind::Other => Error::refused(error),
            _ => {
                core.process.kill();
                Error::new(
                    Kind::Unavailable,
                    format_args!("CoreEngine does not answer ({error}): try again in a second"),
                )
            }
        })
    }

    fn ask_core(&self, request: &Request) -> Result<Reply> {
        self.asked(|operator| operator.ask(request))
    }

    /// What CoreEngine has.
    pub fn core_status(&self) -> Result<Status> {
        self.asked(Operator::status)
    }

    /// The sockets of an application.
    pub fn sockets_of(&self, application: &str) -> Result<Vec<SocketStatus>> {
        self.asked(|operator| operator.sockets(application))
    }

    /// What the sockets of an application did since the record of this number.
    pub fn trace_of(&self, application: &str, after: u64) -> Result<protocol::Trace> {
        self.asked(|operator| operator.trace(application, after))
    }

    /// Has CoreEngine know an NSM.
    pub fn add_nsm(&mut self, nsm: &NsmRecord) -> Result<()> {
        let name = nsm.name.clone();
        if !self.core()?.nsms.contains(&name) {
            let (name, token) = (name.clone(), nsm.token);
            self.ask_core(&Request::AddNsm { name, token })?;
        }
        if let Some(core) = self.stacks.core.as_mut()
            && core.nsms.insert(name)
        {
            self.limit_nsm(nsm)?;
            self.ask_for_cores(nsm)?;
        }
        Ok(())
    }

    fn ask_for_cores(&self, nsm: &NsmRecord) -> Result<()> {
        let (nsm, cores) = (nsm.name.clone(), nsm.spec.workers());
        self.ask_core(&Request::SetCores { nsm, cores }).map(drop)
    }

    /// Ends an NSM's process, which is to come again with another number of workers.
    pub fn change_cores(&mut self, nsm: &NsmRecord) -> Result<()> {
        self.ask_for_cores(nsm)?;
        if let Some(process) = self.stacks.nsms.remove(&nsm.name) {
            process.end();
        }
        Ok(())
    }

    /// Has CoreEngine know an NSM, and starts its process if it does not run. Says whether it did not. `port` is that of a
    /// user NSM's VNIC, which is attached if it is not.
    pub fn start_nsm(&mut self, nsm: &NsmRecord, port: Option<&LaunchPort>) -> Result<bool> {
        self.add_nsm(nsm)?;
        let name = nsm.name.clone();
        if let Some(process) = self.stacks.nsms.get(&name) {
            if let Some(port) = port {
                let files = nsm_rings::of(&process.pidfd)?;
                self.attach_nsm(port, &files)?;
            }
            return Ok(false);
        }
        let door = self.sock_paths.door.clone();
        let failed = |error| match nsm.spec.run.0.first() {
            Some(program) => Error::refused(format_args!(
                "NSM ‘{name}’ cannot be started: {program}: {error}"
            ))
            .of_field("run"),
            None => Error::failed(format_args!("NSM ‘{name}’ cannot be started: {error}")),
        };
        let child = match (port, nsm.spec.place(&name)) {
            (Some(port), _) => {
                let mut program = nsm_program(nsm, &door);
                self.start_with_rings(&mut program, port)?
            }
            (None, Some(place)) => {
                network::set_loopback_up(&place)?;
                namespace::within(&place, || nsm_program(nsm, &door).spawn())?
            }
            (None, None) => nsm_program(nsm, &door).spawn(),
        };
        let process = Process::of(child.map_err(failed)?.id())?;
        self.watch(process.pidfd.as_fd(), NSMS)?;
        self.stacks.nsms.insert(name, process);
        Ok(true)
    }

    /// Has an NSM's limits hold.
    pub fn limit_nsm(&self, nsm: &NsmRecord) -> Result<()> {
        let limits = nsm.spec.limits();
        let nsm = nsm.name.clone();
        let set = self.ask_core(&Request::SetNsmLimits { nsm, limits });
        set.map(drop)
    }

    /// An NSM's process, if it runs.
    pub fn nsm_pid(&self, name: &str) -> Option<u32> {
        self.stacks.nsms.get(name).map(|nsm| nsm.pid)
    }

    /// The NSMs whose processes have ended, and how; they are released then.
    pub fn ended_nsms(&mut self) -> Vec<(String, String)> {
        let ended = self
            .stacks
            .nsms
            .extract_if(.., |_, it| has_ended(&it.pidfd));
        let told = ended.map(|(name, it)| (name, told_end(it.pid, reap(&it.pidfd))));
        told.collect()
    }

    /// Ends the NSMs that are in a namespace no more, since there is another of its name: they are restarted in that.
    pub fn leave_namespaces(&self, nsms: &[NsmRecord]) {
        for nsm in nsms {
            let place = nsm.spec.place(&nsm.name);
            let place = place.and_then(|place| namespace::id(&place));
            let process = self.stacks.nsms.get(&nsm.name);
            let of = |it: &Process| namespace::id(&format!("/proc/{}/ns/net", it.pid));
            if let Some(process) = process.filter(|it| place.is_some() && of(it) != place) {
                process.kill();
            }
        }
    }

    /// Ends an NSM, and has CoreEngine forget it.
    pub fn end_nsm(&mut self, name: &str) {
        if let Some(nsm) = self.stacks.nsms.remove(name) {
            nsm.end();
        }
        let name = name.to_string();
        if let Some(core) = self.stacks.core.as_mut()
            && core.nsms.remove(&name)
        {
            // Of one that does not answer, nothing is left.
            let _ = self.ask_core(&Request::RemoveNsm { name });
        }
    }

    /// Has CoreEngine know an application.
    pub fn add_application(&mut self, application: &ApplicationRecord) -> Result<()> {
        if self.core()?.applications.contains(&application.name) {
            return Ok(());
        }
        let request = Request::AddTenant {
            name: application.name.clone(),
            token: application.token,
            nsm: application.spec.nsm.clone(),
            limits: application.spec.limits(),
        };
        let before = self.stacks.files.get(&application.name);
        let files = self.asked(|operator| operator.files(&request, before))?;
        let name = application.name.clone();
        self.stacks.files.insert(name, files);
        if let Some(core) = self.stacks.core.as_mut() {
            core.applications.insert(application.name.clone());
        }
        Ok(())
    }

    /// Has a guest be the one process of an application that CoreEngine knows.
    pub fn join_guest(&self, token: Token) -> Result<netkernel::guest::Guest> {
        let joined = netkernel::guest::Guest::join(&self.sock_paths.door, token);
        joined.map_err(|error| {
            Error::failed(format_args!("CoreEngine does not take the guest: {error}"))
        })
    }

    /// Has new sockets of an application go to its NSM, and its limits hold.
    pub fn change_application(&mut self, application: &ApplicationRecord) -> Result<()> {
        self.ask_core(&Request::Move {
            tenant: application.name.clone(),
            nsm: application.spec.nsm.clone(),
        })?;
        let set = self.ask_core(&Request::SetLimits {
            tenant: application.name.clone(),
            limits: application.spec.limits(),
        });
        set.map(drop)
    }

    /// Has CoreEngine end an application, be it only an `idle` one: an error if it is not.
    pub fn end_application(&mut self, name: &str, idle: bool) -> Result<()> {
        let core = self.stacks.core.as_ref();
        if core.is_some_and(|core| core.applications.contains(name)) {
            let name = name.to_string();
            self.ask_core(&Request::RemoveTenant { name, idle })?;
        }
        self.stacks.files.remove(name);
        if let Some(core) = self.stacks.core.as_mut() {
            core.applications.remove(name);
        }
        Ok(())
    }
}
