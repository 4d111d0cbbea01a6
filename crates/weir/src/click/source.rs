//! Sources of configurations: files, the command line, archives, and the libraries that they
//! require.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use click::Environment;
use click::text::decode;
use node::files;
use node::function::Function;
use router::Library;

/// A configuration's text and the name that messages give it.
#[derive(Debug)]
pub struct Source {
    /// The text.
    pub text: Vec<u8>,
    /// The file, `config` if there is none, `<stdin>` for standard input.
    pub name: String,
}

/// Most bytes of a configuration that runs on the host.
const SOURCE_MAX: usize = 256 << 20;

impl Source {
    /// A configuration given in place of a file.
    pub fn expression(text: Vec<u8>) -> Result<Source, String> {
        Source::unpack(text, "config".into())
    }

    /// Reads a file; `-` and the empty name stand for standard input. An error is a message with
    /// the file's name.
    pub fn file(path: &Path) -> Result<Source, String> {
        let standard = path.as_os_str().is_empty() || path == Path::new("-");
        let name = match standard {
            true => "<stdin>".to_string(),
            false => decode(path.as_os_str().as_bytes()).into_owned(),
        };
        let read = if standard {
            files::read_from(std::io::stdin(), SOURCE_MAX)
        } else {
            files::read(path, SOURCE_MAX)
        };
        let text = read.map_err(|error| format!("{name}: {}", reason(&error)))?;
        Source::unpack(text, name)
    }

    /// The configuration of a function.
    pub fn function(function: &Function) -> Source {
        Source {
            text: function.text.into(),
            name: function.name.into(),
        }
    }

    /// Takes the configuration out of an archive, if `text` is one.
    fn unpack(text: Vec<u8>, name: String) -> Result<Source, String> {
        if !text.starts_with(b"!<arch>\n") {
            return Ok(Source { text, name });
        }
        match member(&text[8..], b"config") {
            Some(text) => {
                let text = text.to_vec();
                Ok(Source { text, name })
            }
            None => Err(format!("{name}: archive has no ‘config’ section")),
        }
    }
}

/// The content of the member called `wanted` of an ar(5) archive, without its first line.
fn member<'a>(mut archive: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    const HEADER: usize = 60;
    loop {
        let (header, rest) = archive.split_at_checked(HEADER)?;
        let name = header[..16].trim_ascii_end();
        let name = name.strip_suffix(b"/").unwrap_or(name);
        let size = std::str::from_utf8(&header[48..58]).ok()?;
        let size: usize = size.trim_end().parse().ok()?;
        let content = rest.get(..size)?;
        if name == wanted {
            return Some(content);
        }
        archive = rest.get(size + size % 2..)?;
    }
}

/// The system's text of an error, without its number.
pub fn reason(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => nix::errno::Errno::from_raw(code).desc().to_string(),
        None => error.to_string(),
    }
}

/// What configurations may use: element classes, and libraries in a path as CLICKPATH.
pub struct ClickEnvironment {
    /// The element classes.
    pub library: Library,
    /// Directories with colons between them; an empty one stands for the directory of the file
    /// that requires a library.
    pub path: String,
}

impl ClickEnvironment {
    /// All element classes of the library, and libraries in the path in CLICKPATH.
    pub fn new() -> ClickEnvironment {
        ClickEnvironment {
            library: elements::library(),
            path: match std::env::var_os("CLICKPATH") {
                Some(path) => decode(path.as_bytes()).into_owned(),
                None => ":".to_string(),
            },
        }
    }
}

impl Default for ClickEnvironment {
    fn default() -> Self {
        Self::new()
    }
}

impl Environment for ClickEnvironment {
    fn has_class(&self, name: &str) -> bool {
        self.library.has_class(name)
    }

    fn nearest_class(&self, name: &str) -> Option<String> {
        self.library.nearest_class(name)
    }

    fn library(&self, name: &str, from: &str) -> Result<Option<click::Library>, String> {
        let Some(path) = find(name, from, &self.path) else {
            return Ok(None);
        };
        let shown = decode(path.as_os_str().as_bytes()).into_owned();
        match fs::read(&path) {
            Ok(source) => Ok(Some(click::Library {
                path: shown,
                source,
            })),
            Err(error) => Err(format!("{shown}: {}", reason(&error))),
        }
    }
}

/// Looks in each directory of `path` for `conf/click/name`, `conf/name` and `name`, and in that of
/// the file `from` for `name`.
fn find(name: &str, from: &str, path: &str) -> Option<PathBuf> {
    if name.starts_with('/') {
        return Some(router::args::path(name));
    }
    let here = match from.rfind('/') {
        Some(slash) if slash > 0 => &from[..slash],
        _ => ".",
    };
    let name = router::args::path(name);
    path.split(':').find_map(|directory| {
        let candidates = match directory {
            "" => vec![router::args::path(here).join(&name)],
            _ => {
                let directory = router::args::path(directory);
                vec![
                    directory.join("conf/click").join(&name),
                    directory.join("conf").join(&name),
                    directory.join(&name),
                ]
            }
        };
        candidates.into_iter().find(|path| path.exists())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_hold_configurations() {
        let header = |name: &str, size: usize| {
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644)
        };
        let archive = format!(
            "!<arch>\n{}abc\n{}Idle;",
            header("other/", 3),
            header("config/", 5)
        );
        let source = Source::expression(archive.into_bytes()).unwrap();
        assert_eq!(source.text, b"Idle;");
        let empty = Source::expression(b"!<arch>\n".to_vec());
        assert_eq!(
            empty.unwrap_err(),
            "config: archive has no ‘config’ section"
        );
    }

    #[test]
    fn missing_files_are_named() {
        let error = Source::file(Path::new("/no/such/file")).unwrap_err();
        assert_eq!(error, "/no/such/file: No such file or directory");
    }
}
