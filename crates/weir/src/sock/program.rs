//! What a program's file tells of how its socket calls can come to an NSM.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{ELFCLASS32, ELFMAG, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::read::{self, ReadCache};
use rustix::fs::Access;

/// Scripts whose interpreter is a script: as many as Linux follows.
const SCRIPTS_MAX: u32 = 5;
/// Longest first line of a script (BINPRM_BUF_SIZE).
const LINE_MAX: u64 = 256;

/// How a program makes its socket calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// By glibc, before which a library can be loaded.
    WithLibrary,
    /// By itself (Go), by a C library that is a part of it, or by another C library.
    WithoutLibrary,
}

/// Why no NSM can serve a program.
#[derive(Debug, thiserror::Error)]
pub enum Unserved {
    /// It gains rights.
    #[error(
        "{0}: has the set-user-id or set-group-id bit, and a program whose sockets an NSM serves gains no rights: run it without weir sock run, or as the user that owns it"
    )]
    GainsRights(String),
    /// It does not load what GuestLib would be loaded before.
    #[error(
        "{0}: is not loaded by glibc, before which --intercept preload would load GuestLib: use --intercept syscall, or auto"
    )]
    WithoutLibrary(String),
    /// Its calls have other numbers.
    #[error("{0}: is a program of 32 bits, and an NSM serves programs of 64 bits")]
    Bits32(String),
}

impl Kind {
    /// Of a program, by its path or by its name in the folders of PATH. What cannot be read or run is for
    /// exec to complain about.
    pub fn of(program: &Path) -> Result<Kind, Unserved> {
        let mut program = program.to_owned();
        for _ in 0..SCRIPTS_MAX {
            let Some(path) = find(&program) else {
                break;
            };
            if gains_rights(&path) {
                return Err(Unserved::GainsRights(path.display().to_string()));
            }
            match examine(&path) {
                Some(Examined::Script(interpreter)) => program = interpreter,
                Some(Examined::Bits32) => {
                    return Err(Unserved::Bits32(path.display().to_string()));
                }
                Some(Examined::Program(kind)) => return Ok(kind),
                None => break,
            }
        }
        Ok(Kind::WithLibrary)
    }
}

/// The file of a program, as exec finds it.
fn find(program: &Path) -> Option<PathBuf> {
    if program.as_os_str().as_bytes().contains(&b'/') {
        return Some(program.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&folders).map(|folder| folder.join(program));
    files.find(|file| file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok())
}

/// Whether exec gives a program other rights than this process has.
fn gains_rights(path: &Path) -> bool {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2010;
    let Ok(file) = path.metadata() else {
        return false;
    };
    let has = |bits| file.mode() & bits == bits;
    (has(SET_USER) && file.uid() != rustix::process::geteuid().as_raw())
        || (has(SET_GROUP) && file.gid() != rustix::process::getegid().as_raw())
}

enum Examined {
    Script(PathBuf),
    Bits32,
    Program(Kind),
}

/// Reads the start of a file; `None`: it is neither a program nor a script, or cannot be read.
fn examine(path: &Path) -> Option<Examined> {
    let mut file = File::open(path).ok()?;
    let mut start = Vec::new();
    Read::by_ref(&mut file)
        .take(LINE_MAX)
        .read_to_end(&mut start)
        .ok()?;
    if let Some(line) = start.strip_prefix(b"#!") {
        return interpreter(line).map(Examined::Script);
    }
    if start.starts_with(&ELFMAG) && start.get(4) == Some(&ELFCLASS32.0) {
        return Some(Examined::Bits32);
    }
    let kind = if links_glibc(&ReadCache::new(file)).ok()? {
        Kind::WithLibrary
    } else {
        Kind::WithoutLibrary
    };
    Some(Examined::Program(kind))
}

/// The program that runs a script, by its first line after `#!`: what env(1) is told, too.
fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let line = line.split(|&byte| byte == b'\n').next()?;
    let mut words = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty());
    let program = Path::new(OsStr::from_bytes(words.next()?));
    if program.file_name() != Some(OsStr::new("env")) {
        return Some(program.to_owned());
    }
    let mut words = words.filter(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    let named = words
        .next()
        .map(|word| PathBuf::from(OsStr::from_bytes(word)));
    Some(named.unwrap_or_else(|| program.to_owned()))
}

/// Whether a program is loaded by glibc, and not one of Go's, which makes system calls itself even then.
fn links_glibc(file: &ReadCache<File>) -> read::Result<bool> {
    let header = FileHeader64::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let mut glibc = false;
    for segment in header.program_headers(endian, file)? {
        if let Some(loader) = segment.interpreter(endian, file)? {
            let loader = Path::new(OsStr::from_bytes(loader)).file_name();
            glibc = loader.is_some_and(|name| name.as_bytes().starts_with(b"ld-linux"));
        }
        if let Some(mut notes) = segment.notes(endian, file)? {
            while let Ok(Some(note)) = notes.next() {
                if note.name() == b"Go" {
                    return Ok(false);
                }
            }
        }
    }
    // A build without an identifier has no note.
    let sections = header.sections(endian, file)?;
    let go = sections
        .iter()
        .any(|section| sections.section_name(endian, section) == Ok(b".go.buildinfo".as_slice()));
    Ok(glibc && !go)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    fn file(name: &str, bytes: &[u8], mode: u32) -> PathBuf {
        let name = format!("weir-program-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_script_is_its_interpreter() {
        let path = |line: &[u8]| interpreter(line).map(|path| path.display().to_string());
        assert_eq!(path(b"/bin/sh\necho").as_deref(), Some("/bin/sh"));
        assert_eq!(path(b" /bin/sh -e").as_deref(), Some("/bin/sh"));
        assert_eq!(path(b"/usr/bin/env python3\n").as_deref(), Some("python3"));
        assert_eq!(path(b"/usr/bin/env -S A=1 go run\n").as_deref(), Some("go"));
        assert_eq!(path(b"\n"), None);
        let script = file("script", b"#!/usr/bin/env sh\n", 0o755);
        assert_eq!(Kind::of(&script).unwrap(), Kind::WithLibrary);
        std::fs::remove_file(script).unwrap();
        assert_eq!(Kind::of(Path::new("sh")).unwrap(), Kind::WithLibrary);
    }

    #[test]
    fn what_cannot_be_served_is_said() {
        let mut header = [0; 64];
        header[..5].copy_from_slice(b"\x7fELF\x01");
        let small = file("32", &header, 0o755);
        let said = Kind::of(&small).unwrap_err().to_string();
        assert!(said.contains("32 bits"), "{said}");
        std::fs::remove_file(small).unwrap();
        if rustix::process::geteuid().is_root() {
            let other = file("other", b"#!/bin/sh\n", 0o4755);
            std::os::unix::fs::chown(&other, Some(1), None).unwrap();
            std::fs::set_permissions(&other, PermissionsExt::from_mode(0o4755)).unwrap();
            let said = Kind::of(&other).unwrap_err().to_string();
            assert!(said.contains("set-user-id"), "{said}");
            std::fs::remove_file(other).unwrap();
        }
    }

    proptest! {
        /// Any file is examined without a panic.
        #[test]
        fn any_file_is_examined(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), elf: bool) {
            if elf && bytes.len() > 16 {
                bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
            }
            let path = file("any", &bytes, 0o600);
            let _ = examine(&path);
            std::fs::remove_file(path).unwrap();
        }
    }
}
