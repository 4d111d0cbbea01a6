//! A node of its own for a benchmark.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::api::Api;
use crate::program::weir;

/// How long a node may take to start.
const START: Duration = Duration::from_secs(20);

/// A node, with all that it made removed when it is dropped.
pub struct Node {
    child: Child,
    /// Its folder, for its sockets and its state.
    pub folder: PathBuf,
}

impl Node {
    /// Starts the node of the program `WEIR` for the benchmark of this name.
    pub fn start(name: &str) -> Result<Node, String> {
        let folder = std::env::temp_dir().join(format!("bench-{name}-{}", std::process::id()));
        Node::start_in(folder, &[])
    }

    /// Starts a node with its own folder and further options.
    pub fn start_in(folder: PathBuf, options: &[(&str, OsString)]) -> Result<Node, String> {
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let mut command = Command::new(weir());
        command.arg("node");
        for (option, value) in options {
            command.arg(option).arg(value);
        }
        let child = command
            .env("WEIR_RUN", &folder)
            .env("WEIR_STATE", &folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = child.map_err(|error| format!("weir: {error}"))?;
        let node = Node { child, folder };
        let start = Instant::now();
        while Api::connect(&node.socket()).is_err() {
            if start.elapsed() > START {
                return Err("the node did not start".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(node)
    }

    /// Where its API is.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("node.sock")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Ok(mut api) = Api::connect(&self.socket()) {
            let _ = api.ask("DELETE", "/v1/node", Some(&json!({"confirm": true})));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
