//! The processes of plugins: one for each file, which stays warm between calls.
//!
//! A process that hangs, ends, or writes what is no answer is killed, and restarted later: after a second, then twice
//! as long each time, up to a minute. A file that changes is loaded again before the next call.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::message::{self, ANSWER_MAX, Class, Request, shortened};
use super::{Channel, Limits, Plugin, jail};
use crate::error::Failure;

/// The program that runs the files of plugins.
const RUNNER: &str = include_str!("runner.py");
/// The Python that runs it.
const PYTHON: &str = "/usr/bin/python3";
/// Largest file of a plugin, in bytes.
const SOURCE_MAX: u64 = 1 << 20;
/// Time to start Python and load a file.
const START: Duration = Duration::from_secs(10);
/// Time before the first restart, and the longest.
const RESTART: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// What says that a file is the one that was loaded.
type Stamp = (u64, u64, i64, i64);

/// The process of a plugin's file.
pub struct Process {
    path: PathBuf,
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    stamp: Option<Stamp>,
    classes: BTreeMap<String, Class>,
    /// Restarts since the last answer.
    restarts: u32,
    not_before: Option<Instant>,
}

impl Process {
    /// The process of this file. It starts when it is first needed.
    pub fn new(path: PathBuf, limits: Limits) -> Process {
        Process {
            path,
            limits,
            state: Mutex::default(),
        }
    }

    /// The plugins of the file as it is now.
    pub fn plugins(self: &Arc<Self>) -> Result<Vec<Plugin>, Failure> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.ready(&mut state).map_err(|why| {
            let name = self.path.file_name().unwrap_or_default();
            let plugin = name.to_string_lossy().into_owned();
            Failure { plugin, why }
        })?;
        let plugin = |class: &Class| Plugin {
            class: class.name.clone(),
            methods: class.methods.clone(),
            properties: class.properties.clone(),
            channel: self.clone(),
        };
        Ok(state.classes.values().map(plugin).collect())
    }

    /// The number of the process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.running.as_ref().map(|running| running.child.id())
    }

    fn ready<'a>(&self, state: &'a mut State) -> Result<&'a mut Running, String> {
        let stamp = stamp(&self.path)?;
        if state.stamp != Some(stamp) {
            *state = State {
                stamp: Some(stamp),
                ..State::default()
            };
        }
        if state.running.is_none() {
            let now = Instant::now();
            if let Some(wait) = state
                .not_before
                .and_then(|at| at.checked_duration_since(now))
            {
                let seconds = wait.as_secs() + 1;
                return Err(format!("failed before; it is restarted in {seconds} s"));
            }
            let started = self.start(state);
            started.inspect_err(|_| state.fail())?;
        }
        state.running.as_mut().ok_or_else(|| "does not run".into())
    }

    fn start(&self, state: &mut State) -> Result<(), String> {
        let source = source(&self.path)?;
        let mut running = Running::start(&self.limits)?;
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let load = Request::Load {
            folder: &folder.to_string_lossy(),
            file: &self.path.to_string_lossy(),
            source: &source,
        };
        let answer = running.exchange(&load.text(), START)?;
        let classes = message::classes(&answer)?;
        state.classes = classes
            .into_iter()
            .map(|class| (class.name.clone(), class))
            .collect();
        state.running = Some(running);
        Ok(())
    }
}

impl State {
    /// Ends the process, and says when it is restarted.
    fn fail(&mut self) {
        self.running = None;
        let (first, longest) = RESTART;
        let wait = first.saturating_mul(1 << self.restarts.min(6)).min(longest);
        self.restarts += 1;
        self.not_before = Some(Instant::now() + wait);
    }
}

impl Channel for Process {
    fn exchange(&self, request: &str) -> Result<String, String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = self.ready(&mut state)?.exchange(request, self.limits.time);
        match &answer {
            Ok(_) => state.restarts = 0,
            Err(_) => state.fail(),
        }
        answer
    }
}

/// A process that runs.
struct Running {
    child: Child,
    requests: ChildStdin,
    answers: ChildStdout,
    number: u64,
}

impl Running {
    fn start(limits: &Limits) -> Result<Running, String> {
        let failed = |error: io::Error| format!("cannot be started with {PYTHON}: {error}");
        // Inside the jail, nothing can be opened to be written.
        let nowhere = File::options().write(true).open("/dev/null");
        let mut command = Command::new(PYTHON);
        command
            .args(["-I", "-B", "-X", "utf8", "-c", RUNNER])
            .arg(jail::resources(limits))
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(nowhere.map_err(failed)?);
        let mut child = jail::spawn(command, limits).map_err(failed)?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("has no pipes".into());
        };
        let running = Running {
            child,
            requests,
            answers,
            number: 0,
        };
        let nonblocking = |end: &dyn AsFd| {
            let flags = fcntl_getfl(end.as_fd())?;
            fcntl_setfl(end.as_fd(), flags | OFlags::NONBLOCK)
        };
        nonblocking(&running.requests)
            .and_then(|()| nonblocking(&running.answers))
            .map_err(|error| failed(error.into()))?;
        Ok(running)
    }

    /// Sends a request, and reads the answer to it.
    fn exchange(&mut self, request: &str, time: Duration) -> Result<String, String> {
        self.number += 1;
        let request = format!("{} {request}\n", self.number);
        let deadline = Instant::now() + time;
        let (mut rest, mut answer) = (request.as_bytes(), Vec::new());
        while !answer.ends_with(b"\n") {
            self.wait(!rest.is_empty(), deadline, time)?;
            if !rest.is_empty() {
                match rustix::io::write(&self.requests, rest) {
                    Ok(sent) => rest = &rest[sent..],
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(_) => return Err(self.ended()),
                }
            }
            let mut chunk = [0; 16 << 10];
            match rustix::io::read(&self.answers, &mut chunk) {
                Ok(0) => return Err(self.ended()),
                Ok(came) => answer.extend_from_slice(&chunk[..came]),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(format!("cannot be read from: {error}")),
            }
            if answer.len() > ANSWER_MAX {
                return Err(format!("answered more than {} MiB", ANSWER_MAX >> 20));
            }
        }
        let text = String::from_utf8_lossy(&answer);
        let number = format!("{} ", self.number);
        match text.strip_prefix(&number) {
            Some(answer) if rest.is_empty() && answer.lines().count() == 1 => Ok(answer.into()),
            _ => Err(format!("wrote ‘{}’ past its answer", shortened(&text))),
        }
    }

    /// Waits until the process can be written to or read from.
    fn wait(&self, writes: bool, deadline: Instant, time: Duration) -> Result<(), String> {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut ends = vec![PollFd::new(&self.answers, PollFlags::IN)];
        if writes {
            ends.push(PollFd::new(&self.requests, PollFlags::OUT));
        }
        match poll(&mut ends, Some(&timeout)) {
            Ok(0) => Err(format!("did not answer within {time:?}")),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(format!("cannot be waited for: {error}")),
        }
    }

    fn ended(&mut self) -> String {
        let _ = self.child.kill();
        match self.child.wait() {
            Ok(status) => format!("ended its process ({status})"),
            Err(error) => format!("ended its process ({error})"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A namespace of processes ends with its first; else they are a group.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stamp(path: &Path) -> Result<Stamp, String> {
    let data = fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?;
    Ok((data.ino(), data.len(), data.mtime(), data.mtime_nsec()))
}

fn source(path: &Path) -> Result<String, String> {
    let failed = |error: io::Error| format!("cannot be read: {error}");
    let file = File::open(path).map_err(failed)?;
    let mut source = String::new();
    let read = file.take(SOURCE_MAX + 1).read_to_string(&mut source);
    read.map_err(failed)?;
    if source.len() as u64 > SOURCE_MAX {
        return Err(format!("has more than {} MiB", SOURCE_MAX >> 20));
    }
    Ok(source)
}

/// A folder of plugins: each file `*.py` that does not begin with `_`.
pub struct Folder {
    path: PathBuf,
    limits: Limits,
    files: BTreeMap<PathBuf, Arc<Process>>,
}

impl Folder {
    /// The plugins of this folder.
    pub fn new(path: PathBuf, limits: Limits) -> Folder {
        Folder {
            path,
            limits,
            files: BTreeMap::new(),
        }
    }

    /// The plugins that are there now, and what is wrong with others. Files that did not change keep their processes.
    /// Files are loaded side by side, so that one that hangs takes no time of the others.
    pub fn plugins(&mut self) -> io::Result<(Vec<Plugin>, Vec<Failure>)> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.ends_with(".py") && !name.starts_with('_') {
                paths.push(path);
            }
        }
        self.files.retain(|path, _| paths.contains(path));
        for path in paths {
            let new = || Arc::new(Process::new(path.clone(), self.limits.clone()));
            self.files.entry(path.clone()).or_insert_with(new);
        }
        let loaded: Vec<_> = thread::scope(|scope| {
            let loads = self.files.iter().map(|(path, process)| {
                let load = scope.spawn(|| process.plugins());
                (path, load)
            });
            let loads: Vec<_> = loads.collect();
            let ends = loads.into_iter().map(|(path, load)| {
                let failed = |_| {
                    let plugin = path.display().to_string();
                    let why = "cannot be loaded".into();
                    Err(Failure { plugin, why })
                };
                (path, load.join().unwrap_or_else(failed))
            });
            ends.collect()
        });
        let (mut plugins, mut failures) = (Vec::new(), Vec::new());
        for (path, found) in loaded {
            let mut found = found.unwrap_or_else(|failure| {
                failures.push(failure);
                Vec::new()
            });
            found.retain(|plugin: &Plugin| {
                let taken = plugins
                    .iter()
                    .any(|other: &Plugin| other.class == plugin.class);
                if taken {
                    let why = format!("is in {} too; the first file has it", path.display());
                    let plugin = plugin.class.clone();
                    failures.push(Failure { plugin, why });
                }
                !taken
            });
            plugins.extend(found);
        }
        Ok((plugins, failures))
    }
}
