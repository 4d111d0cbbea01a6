//! The clients in other languages, and schemathesis, which tries the API by its description, with nodes and guests of
//! their own. Each has a program `check`, which installs what it needs in a folder, in locked versions, and runs its
//! tests.

use std::path::Path;
use std::process::{Command, Stdio};

/// Longest that a client's check may take, with the time to install what it needs.
const SECONDS: &str = "600";

fn check(client: &str) {
    let folder = Path::new("clients").join(client);
    checked(&folder, client, None);
}

/// Runs `check` of a folder, which installs in the folder `name`.
fn checked(folder: &Path, name: &str, more: Option<String>) {
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root, "needs root: runs nodes");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../clients");
    let output = Command::new("timeout")
        .args(["--signal=TERM", SECONDS])
        .arg(root.join(folder).join("check"))
        .arg(env!("CARGO_BIN_EXE_weir"))
        .arg(installed.join(name))
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{failed}{name}");
}

/// Server errors, answers that are not as described, bodies that are accepted against their schema. With WEIR_EXAMPLES,
/// that many random requests for each operation.
#[test]
fn the_api_does_what_its_description_says() {
    let examples = std::env::var("WEIR_EXAMPLES").ok();
    checked(Path::new("tests/schemathesis"), "schemathesis", examples);
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
