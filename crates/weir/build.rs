//! Names the build: the version, the commit it was made from if that is known, and the profile if it is no release.

use std::process::Command;

fn main() {
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let profile = std::env::var("PROFILE").unwrap_or_default();
    let mut parts = Vec::new();
    if profile == "release" {
        // Others are built again and again: their commit would have them linked for each.
        parts.extend(commit());
    } else {
        parts.push(profile);
    }
    let parts = match parts.join(", ") {
        parts if parts.is_empty() => parts,
        parts => format!(" ({parts})"),
    };
    println!("cargo::rustc-env=WEIR_BUILD={version}{parts}");
    println!("cargo::rerun-if-changed=build.rs");
}

fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_string())
    };
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=10", "HEAD"])
}
