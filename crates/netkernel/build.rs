//! Builds GuestLib, so that whatever uses this crate has it with it.
//!
//! The library is loaded into other programs and interposes their calls, so it is linked into none of
//! ours: this script runs a second cargo with a target directory of its own, as the guest image's.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let crates = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .parent()
        .expect("the crate lies in a folder of crates")
        .to_path_buf();
    for name in ["abi", "sock"] {
        for part in ["src", "Cargo.toml"] {
            println!(
                "cargo::rerun-if-changed={}",
                crates.join(name).join(part).display()
            );
        }
    }
    if !crates.join("sock/Cargo.toml").exists() {
        std::fs::write(out.join("libweir_sock.so"), []).expect("the output folder can be written");
        return;
    }
    let target = out.join("library");
    let root = crates
        .parent()
        .expect("the folder of crates lies in the workspace");
    let remap = format!("--remap-path-prefix={}=", root.join("").display());
    let status = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"))
        .current_dir(root)
        .args(["build", "--package", "sock", "--release", "--quiet"])
        .arg("--target-dir")
        .arg(&target)
        // What the outer cargo or clippy is told is not for this one.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", remap)
        .status()
        .expect("cargo starts");
    assert!(status.success(), "GuestLib cannot be built");
    let built = target.join("release/libweir_sock.so");
    std::fs::copy(&built, out.join("libweir_sock.so"))
        .unwrap_or_else(|e| panic!("{} cannot be copied: {e}", built.display()));
}
