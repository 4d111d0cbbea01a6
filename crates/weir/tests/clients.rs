//! The clients in other languages, with nodes and guests of their own. Each has a program `check`,
//! which installs what the client needs in a folder, in locked versions, and runs its tests.

use std::path::Path;
use std::process::{Command, Stdio};

/// Longest that a client's check may take, with the time to install what it needs.
const SECONDS: &str = "600";

fn check(client: &str) {
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root, "needs root: runs nodes");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../clients");
    let output = Command::new("timeout")
        .args(["--signal=TERM", SECONDS])
        .arg(root.join("clients").join(client).join("check"))
        .arg(env!("CARGO_BIN_EXE_weir"))
        .arg(installed.join(client))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{failed}{client}");
}

#[test]
fn the_python_client_does_what_the_api_does() {
    check("python");
}

#[test]
fn the_typescript_client_does_what_the_api_does() {
    check("typescript");
}

#[test]
fn the_ocaml_client_does_what_the_api_does() {
    check("ocaml");
}
