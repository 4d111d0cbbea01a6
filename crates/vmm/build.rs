//! Builds the guest image, which is embedded in programs that use this crate.
//!
//! The image needs flags of its own (a fixed address, no start files, its own linker script) and stable cargo
//! can't set flags for one package. So this script runs a second cargo with a target directory of its own,
//! which shares no lock with the first. That cargo finds out what to rebuild; this script runs whenever
//! something below the image's crates has changed.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that the image is made of.
const CRATES: [&str; 7] = [
    "abi", "click", "elements", "guest", "packet", "router", "simd",
];
/// The triple of the hosts that run guests; images are built for nothing else.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let crates = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .parent()
        .expect("the crate lies in a folder of crates")
        .to_path_buf();
    for name in CRATES {
        let folder = crates.join(name);
        for part in ["src", "Cargo.toml"] {
            println!("cargo::rerun-if-changed={}", folder.join(part).display());
        }
    }
    for file in ["guest/image.ld", "../Cargo.toml", "../Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", crates.join(file).display());
    }
    let built = build(&crates, &out.join("image"));
    for name in ["weir-guest", "hostile"] {
        let to = out.join(name);
        std::fs::copy(built.join(name), &to)
            .unwrap_or_else(|e| panic!("the guest image {name} can't be copied: {e}"));
    }
    // For the tests only: an image that misbehaves.
    println!(
        "cargo::rustc-env=HOSTILE_IMAGE={}",
        out.join("hostile").display()
    );
}

/// Builds the image's binaries and returns the folder they are in.
fn build(crates: &Path, target: &Path) -> PathBuf {
    let root = crates
        .parent()
        .expect("the folder of crates lies in the workspace");
    let script = crates.join("guest/image.ld");
    let remap = format!("--remap-path-prefix={}=", root.join("").display());
    let link = format!("link-arg=-T{}", script.display());
    let flags = [
        "-Ctarget-cpu=x86-64-v2",
        // Small: what has to be inlined says so itself.
        "-Cllvm-args=--inline-threshold=128",
        "-Crelocation-model=static",
        "-Clink-arg=-nostartfiles",
        "-Clink-arg=-nostdlib",
        "-Clink-arg=-static",
        "-Clink-arg=-no-pie",
        "-Clink-arg=-Wl,--build-id=none,-z,noexecstack",
        // Hosts have AES instructions; what stands in for them may be slow, but not large.
        "--cfg=aes_backend_soft=\"compact\"",
        &format!("-C{link}"),
        &remap,
    ];
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"));
    cargo
        .current_dir(root)
        .args([
            "build",
            "--package",
            "guest",
            "--bins",
            "--features",
            "image",
        ])
        .args(["--profile", "guest", "--target", TRIPLE, "--target-dir"])
        .arg(target)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        // Symbols stay, for crash reports; line tables would be most of the file.
        .env("CARGO_PROFILE_GUEST_STRIP", "debuginfo");
    if env::var("PROFILE").as_deref() == Ok("debug") {
        // Debug builds are frequent: the same image, built in a fraction of the time.
        for (setting, value) in [("LTO", "off"), ("CODEGEN_UNITS", "16"), ("OPT_LEVEL", "1")] {
            cargo.env(format!("CARGO_PROFILE_GUEST_{setting}"), value);
        }
    }
    // What was meant for the outer build only.
    for variable in [
        "RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_TARGET",
        "RUSTDOCFLAGS",
    ] {
        cargo.env_remove(variable);
    }
    let status = cargo
        .status()
        .unwrap_or_else(|e| panic!("cargo can't be run: {e}"));
    assert!(
        status.success(),
        "the guest image did not build: see the messages above"
    );
    target.join(TRIPLE).join("guest")
}
