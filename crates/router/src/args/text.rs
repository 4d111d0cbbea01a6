//! Texts: raw, quoted, words, keywords, file names.

use super::{Argument, Context, Invalid, Parser};
use crate::prelude::*;

/// One string, unquoted. An element that takes binary data takes `Vec<u8>`.
/// Bytes that are not UTF-8 are [escaped](click::text).
impl Argument for String {
    const KIND: &'static str = "text";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        let bytes = Vec::parse(text, context)?;
        Ok(click::text::decode(&bytes).into_owned())
    }
}

/// One string, unquoted: `abc`, `"a\tb"`, `\<00 FF>`. Its spaces must be quoted.
impl Argument for Vec<u8> {
    const KIND: &'static str = "text";

    fn parse(text: &str, _: &Context<'_>) -> Result<Self, Invalid> {
        click::config::string(text).ok_or(Invalid::PARSE)
    }
}

/// The argument's text as it stands, quotes and all.
#[derive(Clone, Copy, Debug)]
pub struct Any;

impl Parser<String> for Any {
    fn parse(&self, text: &str, _: &Context<'_>) -> Result<String, Invalid> {
        Ok(text.into())
    }
}

/// One word: once unquoted, printable characters without space, comma, quotes
/// or backslash.
#[derive(Clone, Copy, Debug)]
pub struct WordArg;

impl Parser<String> for WordArg {
    fn parse(&self, text: &str, _: &Context<'_>) -> Result<String, Invalid> {
        click::config::word(text).ok_or(Invalid::PARSE)
    }
}

/// One keyword: letters, digits and `_.:?!`, not quoted.
#[derive(Clone, Copy, Debug)]
pub struct KeywordArg;

impl Parser<String> for KeywordArg {
    fn parse(&self, text: &str, _: &Context<'_>) -> Result<String, Invalid> {
        match click::config::keyword(text) {
            Some((keyword, _)) if keyword.len() == text.len() => Ok(text.into()),
            _ => Err(Invalid::PARSE),
        }
    }
}

/// The name of a file: `~` and `~user` at its start become home directories,
/// double slashes single ones.
#[derive(Clone, Copy, Debug)]
pub struct FilenameArg;

impl Parser<String> for FilenameArg {
    fn parse(&self, text: &str, context: &Context<'_>) -> Result<String, Invalid> {
        let mut name = String::parse(text, context)?;
        if name.is_empty() {
            return Err(Invalid::PARSE);
        }
        if let Some(rest) = name.strip_prefix('~') {
            let (user, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let home = context.names.home((!user.is_empty()).then_some(user));
            if let Some(home) = home {
                name = [&home, path].concat();
            }
        }
        while name.contains("//") {
            name = name.replace("//", "/");
        }
        Ok(name)
    }
}

/// The file that a name means.
#[cfg(feature = "std")]
pub fn path(name: &str) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let bytes = click::text::encode(name).into_owned();
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{EtherAddress, Host, Ipv4Prefix, NameDatabase, NoElements};
    use core::net::Ipv4Addr;

    struct Home;

    impl Host for Home {
        fn ip(&self, _: &str) -> Option<Ipv4Addr> {
            None
        }

        fn ip_prefix(&self, _: &str) -> Option<Ipv4Prefix> {
            None
        }

        fn gateway(&self, _: &str) -> Option<Ipv4Addr> {
            None
        }

        fn ether(&self, _: &str) -> Option<EtherAddress> {
            None
        }

        fn home(&self, user: Option<&str>) -> Option<String> {
            match user {
                None => Some("/root".into()),
                Some("ann") => Some("/home/ann".into()),
                Some(_) => None,
            }
        }
    }

    #[test]
    fn strings_words_and_keywords() {
        let context = Context::blank();
        let string = |text| context.parse::<String>(text).ok();
        assert_eq!(string("abc").as_deref(), Some("abc"));
        assert_eq!(string("\"a b\"c").as_deref(), Some("a bc"));
        assert_eq!(string("\"\"").as_deref(), Some(""));
        assert_eq!(string("\\<c3 a9 ff>").as_deref(), Some("é\u{efff}"));
        assert_eq!(string("a b"), None);
        assert_eq!(
            context.parse::<Vec<u8>>("\\<00 ff>"),
            Ok(alloc::vec![0, 255])
        );
        let word = |text| context.parse_with(WordArg, text).ok();
        assert_eq!(word("'ab'").as_deref(), Some("ab"));
        assert_eq!(word("'a b'"), None);
        let keyword = |text| context.parse_with(KeywordArg, text).ok();
        assert_eq!(keyword("a.b").as_deref(), Some("a.b"));
        assert_eq!(keyword("a/b"), None);
        assert_eq!(keyword("a "), None);
        let any = context.parse_with(Any, "\"x\" y");
        assert_eq!(any.as_deref(), Ok("\"x\" y"));
    }

    #[test]
    fn file_names() {
        let mut names = NameDatabase::new();
        names.set_host(Box::new(Home));
        let context = Context {
            names: &names,
            elements: &NoElements,
            element: "",
        };
        let name = |text| context.parse_with(FilenameArg, text).ok();
        assert_eq!(name("\"~/x//y///z\"").as_deref(), Some("/root/x/y/z"));
        assert_eq!(name("~").as_deref(), Some("/root"));
        assert_eq!(name("~ann/x").as_deref(), Some("/home/ann/x"));
        assert_eq!(name("~bob/x").as_deref(), Some("~bob/x"));
        assert_eq!(name("\"\""), None);
    }
}
