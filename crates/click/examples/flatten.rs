//! Prints the flat form of a configuration, or what is wrong with it.
//!
//! `flatten [--classes LIST] [NAME=VALUE]... FILE|-e TEXT`, where LIST is a
//! file that names the element classes there are, one a line. Libraries are
//! looked for beside the file that requires them, then in `conf` under each
//! folder of `CLICKPATH`.

use click::{Diagnostics, Environment, Library, Options};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

struct Host {
    classes: Option<BTreeSet<String>>,
}

impl Environment for Host {
    fn has_class(&self, name: &str) -> bool {
        match &self.classes {
            Some(classes) => classes.contains(name),
            None => ().has_class(name),
        }
    }

    fn library(&self, name: &str, from: &str) -> Result<Option<Library>, String> {
        let beside = Path::new(from).parent().unwrap_or(Path::new("."));
        let path = std::env::var_os("CLICKPATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).map(|folder| folder.join("conf"));
        let mut places = std::iter::once(beside.to_path_buf()).chain(folders);
        let Some(found) = places.find_map(|place| existing(place.join(name))) else {
            return Ok(None);
        };
        let path = found.display().to_string();
        let source = std::fs::read(&found).map_err(|error| format!("{path}: {error}"))?;
        Ok(Some(Library { path, source }))
    }
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, Box<dyn std::error::Error>> {
    let mut host = Host { classes: None };
    let mut variables = Vec::new();
    let mut text = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        if arg == "--classes" {
            let list = std::fs::read_to_string(value()?)?;
            host.classes = Some(list.lines().map(str::to_owned).collect());
        } else if arg == "-e" {
            text = Some((value()?.into_bytes(), "config".to_owned()));
        } else if let Some((name, value)) = arg.split_once('=') {
            variables.push((name.to_owned(), value.to_owned()));
        } else {
            text = Some((std::fs::read(&arg)?, arg));
        }
    }
    let (source, file) = text.ok_or("name a file, or give a text with -e")?;
    let options = Options {
        variables: &variables,
        ..Options::new(&host)
    };
    let mut diagnostics = Diagnostics::new();
    let graph = click::parse(&source, &file, &options, &mut diagnostics);
    eprint!("{diagnostics}");
    if let Some(graph) = &graph {
        print!("{graph}");
    }
    Ok(graph.is_some())
}
