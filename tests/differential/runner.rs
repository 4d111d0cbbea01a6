//! Runs a program on a case.

use crate::case::{Case, Outcome};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A configuration ends by itself. A process that does not is killed after these seconds.
const LIMIT: &str = "5";

/// A program that takes Click's arguments.
#[derive(Clone)]
pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<&'static str>,
}

impl Program {
    /// The Weir of this build, with Click's order of events.
    pub fn weir() -> Program {
        Program {
            path: env!("CARGO_BIN_EXE_weir").into(),
            arguments: vec!["click", "--batch", "1"],
        }
    }

    /// The Click that the variable CLICK names.
    pub fn click() -> Option<Program> {
        let path = PathBuf::from(std::env::var_os("CLICK")?);
        let path = path.canonicalize().ok()?;
        Some(Program {
            path,
            arguments: vec![],
        })
    }
}

/// A folder in which cases run, one after the other. It is removed at the end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let name = format!("weir-differential-{}-{name}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }

    /// Runs `program` on `case` in simulated time.
    pub fn run(&self, program: &Program, case: &Case) -> Outcome {
        let folder = &self.0;
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder).expect("a folder can be made");
        case.write_files(folder).expect("the folder can be written");
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", LIMIT]).arg(&program.path);
        command.args(&program.arguments).arg("--simtime");
        command.args(case.quit.then_some("-q"));
        for handler in &case.handlers {
            command.args(["-h", handler]);
        }
        command.arg("case.click").current_dir(folder);
        command.env_clear().env("LC_ALL", "C");
        let file = |name| File::create(folder.join(name)).expect("the folder can be written");
        command.stdin(Stdio::null());
        command.stdout(file("out")).stderr(file("err"));
        let status = command.status().expect("timeout, of coreutils, is there");
        Outcome {
            output: read(&folder.join("out")),
            error: read(&folder.join("err")),
            status: status
                .code()
                .map_or("killed".into(), |code| code.to_string()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The text of a file, with escapes in place of bytes that are not ASCII.
fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).expect("it was made");
    let escape = |byte: u8| match byte {
        b'\n' | b'\t' | b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    bytes.into_iter().map(escape).collect()
}
