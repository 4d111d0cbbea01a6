//! The configurations of a guest: the main one, and others beside it in the same router.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use click::configurations::Configurations;
use click::{Diagnostics, FlatGraph, Options};
use router::Library;

/// The file of the main configuration, in messages. That of another one is its name.
const MAIN: &str = "config";

/// A text with configurations.
pub(crate) struct Text<'t> {
    all: Configurations<'t>,
    /// What is in front of the main configuration's own text.
    head: &'t [u8],
    /// The main configuration's own text.
    source: &'t [u8],
}

impl<'t> Text<'t> {
    pub(crate) fn of(text: &'t [u8]) -> Text<'t> {
        let all = click::configurations::split(text);
        let (_, source) = click::settings::split(all.main);
        let (head, source) = text.split_at(text.len() - source.len());
        Text { all, head, source }
    }

    /// What is in front of the main configuration's own text.
    pub(crate) fn head(&self) -> String {
        click::text::decode(self.head).into_owned()
    }

    /// The main configuration's own text.
    pub(crate) fn source(&self) -> Cow<'t, str> {
        click::text::decode(self.source)
    }

    /// The configurations beside the main one: a bit for each, from the second on.
    pub(crate) fn installed(&self) -> u64 {
        let count = self.all.installed.len();
        (0..count).fold(0, |bits, i| bits | 2 << i)
    }

    /// Those whose names and texts are among these: a bit for each.
    pub(crate) fn among(&self, texts: &[(String, Vec<u8>)]) -> u64 {
        let is = |(name, text): &(&str, &[u8])| {
            texts
                .iter()
                .any(|(other, others)| other == name && others == text)
        };
        let installed = self.all.installed.iter().enumerate();
        installed.fold(0, |bits, (i, one)| bits | u64::from(is(one)) << (i + 1))
    }

    /// The names and texts of the configurations with these bits.
    pub(crate) fn texts(&self, bits: u64) -> Vec<(String, Vec<u8>)> {
        let installed = self.all.installed.iter().enumerate();
        let chosen = installed.filter(|(i, _)| bits >> (i + 1) & 1 != 0);
        chosen
            .map(|(_, (name, text))| ((*name).into(), text.to_vec()))
            .collect()
    }

    /// The graph of all configurations except those whose bits are in `without`. `None` if one is
    /// invalid; the diagnostics say which.
    pub(crate) fn flat(
        &self,
        library: &Library,
        without: u64,
        diagnostics: &mut Diagnostics,
    ) -> Option<FlatGraph> {
        let mut flat = parse(self.all.main, MAIN, library, diagnostics);
        for (i, (name, text)) in self.all.installed.iter().enumerate() {
            if without >> (i + 1) & 1 != 0 {
                continue;
            }
            let other = parse(text, name, library, diagnostics);
            let Some((all, other)) = flat.as_mut().zip(other) else {
                flat = None;
                continue;
            };
            if let Err(place) = all.install(name, other) {
                let text = format!("an element here has a name of configuration ‘{name}’");
                diagnostics.error(&place, text);
                flat = None;
            }
        }
        flat
    }
}

fn parse(
    text: &[u8],
    file: &str,
    library: &Library,
    diagnostics: &mut Diagnostics,
) -> Option<FlatGraph> {
    let (variables, source) = click::settings::split(text);
    let options = Options {
        variables: &variables,
        ..Options::new(library)
    };
    click::parse(source, file, &options, diagnostics)
}
