//! A wire's file: TOML; unknown keys are errors, told with their line.

use std::io;
use std::path::{Path, PathBuf};

use crate::chain::ChainError;
use crate::files::read_from;
use crate::function::{self, FunctionError};
use crate::model::Wire;

/// Most bytes of a file, and of each configuration.
const FILE_MAX: usize = abi::boot::CONFIG_MAX;

/// Why a wire's file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file itself, or a configuration that it names.
    #[error("{path}: {error}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A guest's configuration.
    #[error("{path}: guest ‘{guest}’: {file}: {error}{hint}")]
    Guest {
        /// The file.
        path: PathBuf,
        /// The guest.
        guest: String,
        /// The configuration's file.
        file: PathBuf,
        /// Why it cannot be read.
        error: std::io::Error,
        /// What may be meant.
        hint: String,
    },
    /// It is no wire.
    #[error("{path}:{line}: {why}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The error.
        why: String,
    },
    /// A function does not take these values.
    #[error("{path}: guest ‘{guest}’: {why}")]
    Function {
        /// The file.
        path: PathBuf,
        /// The guest.
        guest: String,
        /// Why not.
        why: FunctionError,
    },
    /// No parts can be made of a chain.
    #[error("{path}: chain ‘{chain}’: {why}")]
    Chain {
        /// The file.
        path: PathBuf,
        /// The chain.
        chain: String,
        /// Why not.
        why: Box<ChainError>,
    },
    /// A configuration is given twice, or not at all.
    #[error("{path}: guest ‘{guest}’ needs either ‘file’ or ‘config’, the Click configuration")]
    Config {
        /// The file.
        path: PathBuf,
        /// The guest.
        guest: String,
    },
}

impl Wire {
    /// Reads a wire's file, and the configurations that it names: the result stands by itself. `-` is standard input,
    /// whose configurations are relative to the current folder.
    pub fn read(path: &Path) -> Result<Wire, FileError> {
        let is_input = path == Path::new("-");
        let path = if is_input {
            Path::new("standard input")
        } else {
            path
        };
        let text = if is_input {
            text(path, read_from(io::stdin().lock(), FILE_MAX))?
        } else {
            read(path)?
        };
        Wire::parse(&text, path)?.read_files(path)
    }

    /// Reads the configurations that a wire from the file `path` names, and makes the parts of its
    /// chains: the result stands by itself.
    pub fn read_files(mut self, path: &Path) -> Result<Wire, FileError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        self.expand_chains(folder)
            .map_err(|(chain, why)| FileError::Chain {
                path: path.into(),
                chain,
                why: why.into(),
            })?;
        for application in self.applications.values_mut() {
            if let Some(directory) = &mut application.directory {
                let there = folder.join(&*directory);
                *directory = std::path::absolute(&there).unwrap_or(there);
            }
        }
        for (name, guest) in &mut self.guests {
            let own = (&mut guest.file, &mut guest.config, &mut guest.variables);
            let installed = guest.configurations.values_mut();
            let installed = installed.map(|it| (&mut it.file, &mut it.config, &mut it.variables));
            for (file, config, variables) in std::iter::once(own).chain(installed) {
                match file.take() {
                    Some(file) if config.is_empty() => match function::find(&file) {
                        Some(function) => {
                            *config = function.text.into();
                            let given = function.beside(folder, std::mem::take(variables));
                            let settings = function.settings(&given);
                            let settings = settings.map_err(|why| FileError::Function {
                                path: path.into(),
                                guest: name.clone(),
                                why,
                            })?;
                            *variables = settings.into_iter().collect();
                        }
                        None => {
                            let there = folder.join(&file);
                            *config = read(&there).map_err(|error| match error {
                                FileError::Read { path: there, error } => FileError::Guest {
                                    hint: match error.kind() {
                                        io::ErrorKind::NotFound => function::suggest(&file),
                                        _ => String::new(),
                                    },
                                    path: path.into(),
                                    guest: name.clone(),
                                    file: there,
                                    error,
                                },
                                other => other,
                            })?;
                        }
                    },
                    None if !config.is_empty() => {}
                    _ => {
                        return Err(FileError::Config {
                            path: path.into(),
                            guest: name.clone(),
                        });
                    }
                }
            }
        }
        Ok(self)
    }

    /// The wire in a text; `path` is what errors call it.
    pub fn parse(text: &str, path: &Path) -> Result<Wire, FileError> {
        toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let why: Vec<_> = error.message().lines().map(str::trim).collect();
            FileError::Parse {
                path: path.into(),
                line: before.unwrap_or("").matches('\n').count() + 1,
                why: why.join("; "),
            }
        })
    }

    /// The wire as text, configurations in it, for [`parse`](Self::parse) to read.
    pub fn to_text(&self) -> String {
        // Every value of a wire has a form in TOML.
        toml::to_string_pretty(self).unwrap_or_default()
    }
}

fn read(path: &Path) -> Result<String, FileError> {
    text(path, crate::files::read(path, FILE_MAX))
}

fn text(path: &Path, bytes: io::Result<Vec<u8>>) -> Result<String, FileError> {
    let read = bytes.and_then(|bytes| {
        String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
    });
    read.map_err(|error| FileError::Read {
        path: path.into(),
        error,
    })
}
