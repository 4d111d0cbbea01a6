//! Compiles the eBPF programs of settled flows.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    let source = "src/settled/programs.c";
    println!("cargo:rerun-if-changed={source}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let compiler = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    println!("cargo:rerun-if-env-changed=CLANG");
    let compiled = Command::new(&compiler)
        .args([
            "-O2", "-Wall", "-Werror", "-target", "bpf", "-c", source, "-o",
        ])
        .arg(out.join("settled.o"))
        .status();
    match compiled {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{compiler} cannot compile {source}: {status}"),
        Err(error) => panic!(
            "{compiler} cannot be run: {error}; `make setup` installs it, and CLANG names another one"
        ),
    }
}
