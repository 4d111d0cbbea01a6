//! From text to lexemes, with Click's line counting.

use crate::config::{is_word_byte, printable, unquote_text};
use crate::text::byte_of;
use crate::{Diagnostics, Location};
use alloc::borrow::{Cow, ToOwned};
use alloc::string::String;
use alloc::sync::Arc;

/// The kinds of lexemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The end of the text, or a NUL byte.
    End,
    Identifier,
    Variable,
    Arrow,
    DoubleArrow,
    DoubleColon,
    DoubleBar,
    Ellipsis,
    ElementClass,
    Require,
    Provide,
    Define,
    /// Any other byte.
    Byte(u8),
}

/// A lexeme.
#[derive(Clone, Debug)]
pub(crate) struct Lexeme {
    pub(crate) kind: Kind,
    /// The text it is printed as; a variable's is without its `$`.
    pub(crate) text: Cow<'static, str>,
}

/// A text being read.
///
/// Positions in it are byte offsets. Where the text is cut there is an ASCII
/// character on one side, so a cut never divides a character.
#[derive(Clone, Debug)]
pub(crate) struct Lexer {
    source: Arc<str>,
    at: usize,
    line: u32,
    file: Arc<str>,
    original_file: Arc<str>,
}

impl Lexer {
    pub(crate) fn new(source: &str, file: &str) -> Self {
        let file: Arc<str> = if file.is_empty() { "config" } else { file }.into();
        Lexer {
            source: source.into(),
            at: 0,
            line: 1,
            original_file: file.clone(),
            file,
        }
    }

    /// The file name in force, as line directives set it.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// The place of the last byte read.
    pub(crate) fn location(&self) -> Location {
        Location::new(self.file.clone(), self.line)
    }

    /// Makes all of the rest count as read.
    pub(crate) fn skip_to_end(&mut self) {
        self.at = self.source.len();
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.source.as_bytes().get(self.at + ahead).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        self.source.as_bytes()[self.at..].starts_with(text.as_bytes())
    }

    fn since(&self, start: usize) -> &str {
        self.source.get(start..self.at).unwrap_or_default()
    }

    /// Advances over one byte, or over a line end of any form.
    fn advance(&mut self) {
        match self.peek(0) {
            Some(b'\n') => self.line = self.line.wrapping_add(1),
            Some(b'\r') => {
                self.line = self.line.wrapping_add(1);
                self.at += usize::from(self.peek(1) == Some(b'\n'));
            }
            Some(_) => {}
            None => return,
        }
        self.at += 1;
    }

    fn advance_while(&mut self, wanted: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&wanted) {
            self.advance();
        }
    }

    /// Whether the last byte ended a line.
    fn after_line_end(&self) -> bool {
        let before = self.at.checked_sub(1).map(|i| self.source.as_bytes()[i]);
        matches!(before, Some(b'\n' | b'\r'))
    }

    fn at_comment(&self) -> bool {
        self.starts_with("//") || self.starts_with("/*")
    }

    /// Advances past the rest of the line, its end included.
    fn skip_line(&mut self) {
        self.advance_while(|b| b != b'\n' && b != b'\r');
        self.advance();
    }

    fn skip_comment(&mut self) {
        if self.peek(1) == Some(b'/') {
            return self.skip_line();
        }
        self.at += 2;
        while self.peek(0).is_some() {
            if self.starts_with("*/") {
                self.at += 2;
                return;
            }
            self.advance();
        }
    }

    /// Advances past `\<…>`.
    fn skip_data(&mut self) {
        self.at += 2;
        while let Some(byte) = self.peek(0) {
            if self.at_comment() {
                self.skip_comment();
                continue;
            }
            self.advance();
            if byte == b'>' {
                return;
            }
        }
    }

    /// Advances past a quoted string.
    fn skip_quote(&mut self, quote: u8) {
        self.at += 1;
        while let Some(byte) = self.peek(0) {
            if byte == b'\\' && quote == b'"' {
                if self.starts_with("\\<") {
                    self.skip_data();
                    continue;
                }
                // A backslash hides the byte after it, which does not count as
                // a line end even if it is one.
                self.at += usize::from(self.peek(1).is_some());
                self.at += 1;
                continue;
            }
            self.advance();
            if byte == quote {
                return;
            }
        }
    }

    /// Reads `# LINE "FILE"` or `#line LINE "FILE"`, up to its line end.
    fn line_directive(&mut self, diagnostics: &mut Diagnostics) {
        let blank = |b| b == b' ' || b == b'\t';
        self.at += 1;
        self.advance_while(blank);
        if self.starts_with("line ") || self.starts_with("line\t") {
            self.at += 5;
            self.advance_while(blank);
        }
        if !self.peek(0).is_some_and(|b| b.is_ascii_digit()) {
            diagnostics.error(&self.location(), "unknown preprocessor directive");
            return self.skip_line();
        }
        let mut line = 0u32;
        while let Some(digit) = self.peek(0).filter(u8::is_ascii_digit) {
            line = line.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'));
            self.at += 1;
        }
        // The end of this line is still to be counted.
        self.line = line.wrapping_sub(1);
        self.advance_while(blank);
        if self.peek(0) == Some(b'"') {
            self.line_directive_file();
        }
        self.advance_while(|b| b != b'\n' && b != b'\r');
        // Of `\r\n` only the second byte is left, so that it counts once.
        self.at += usize::from(self.starts_with("\r\n"));
    }

    fn line_directive_file(&mut self) {
        let line_end = |b| b == b'\n' || b == b'\r';
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.peek(0) {
            if byte == b'"' || line_end(byte) {
                break;
            }
            let hides = byte == b'\\' && self.peek(1).is_some_and(|b| !line_end(b));
            self.at += 1 + usize::from(hides);
        }
        self.at = self.at.min(self.source.len());
        let name = unquote_text(&alloc::format!("{}\"", self.since(start)));
        self.file = if name.is_empty() {
            self.original_file.clone()
        } else {
            name.into()
        };
    }

    /// Advances past white space, comments and line directives.
    fn skip_blank(&mut self, diagnostics: &mut Diagnostics) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => self.advance(),
                b'/' if self.at_comment() => self.skip_comment(),
                b'#' if self.at == 0 || self.after_line_end() => self.line_directive(diagnostics),
                _ => return,
            }
        }
    }

    /// Takes the next lexeme if it is `symbol`, which begins no longer one.
    /// Else nothing is read, not even the blank space before it.
    pub(crate) fn accept(&mut self, symbol: u8, diagnostics: &mut Diagnostics) -> bool {
        let (at, line, file) = (self.at, self.line, self.file.clone());
        self.skip_blank(diagnostics);
        if self.peek(0) == Some(symbol) {
            self.at += 1;
            return true;
        }
        (self.at, self.line, self.file) = (at, line, file);
        false
    }

    /// Reads the next lexeme. At the end it is [`Kind::End`], again and again.
    pub(crate) fn next(&mut self, diagnostics: &mut Diagnostics) -> Lexeme {
        self.skip_blank(diagnostics);
        let Some(byte) = self.peek(0) else {
            return Lexeme {
                kind: Kind::End,
                text: Cow::Borrowed(""),
            };
        };
        if is_word_byte(byte) {
            return self.word();
        }
        if byte == b'$' {
            return self.variable();
        }
        self.symbol(byte)
    }

    fn word(&mut self) -> Lexeme {
        let start = self.at;
        loop {
            self.advance_while(is_word_byte);
            if self.peek(0) != Some(b'/') || !self.peek(1).is_some_and(is_word_byte) {
                break;
            }
            self.at += 1;
        }
        let text = self.since(start);
        let kind = match text {
            "elementclass" => Kind::ElementClass,
            "require" => Kind::Require,
            "provide" => Kind::Provide,
            "define" => Kind::Define,
            _ => Kind::Identifier,
        };
        Lexeme {
            kind,
            text: Cow::Owned(text.to_owned()),
        }
    }

    fn variable(&mut self) -> Lexeme {
        self.at += 1;
        let start = self.at;
        self.advance_while(|b| b.is_ascii_alphanumeric() || b == b'_');
        Lexeme {
            kind: Kind::Variable,
            text: Cow::Owned(self.since(start).to_owned()),
        }
    }

    fn symbol(&mut self, byte: u8) -> Lexeme {
        const SYMBOLS: [(&str, Kind); 5] = [
            ("->", Kind::Arrow),
            ("=>", Kind::DoubleArrow),
            ("::", Kind::DoubleColon),
            ("||", Kind::DoubleBar),
            ("...", Kind::Ellipsis),
        ];
        for (text, kind) in SYMBOLS {
            if self.starts_with(text) {
                self.at += text.len();
                return Lexeme {
                    kind,
                    text: Cow::Borrowed(text),
                };
            }
        }
        let rest = self.source.get(self.at..).unwrap_or_default();
        let escaped = rest.chars().next();
        let escaped = escaped.and_then(|c| Some((byte_of(c)?, c.len_utf8())));
        let (byte, length) = escaped.unwrap_or((byte, 1));
        self.at += length;
        let kind = if byte == 0 {
            Kind::End
        } else {
            Kind::Byte(byte)
        };
        let text = Cow::Owned(printable(&[byte]));
        Lexeme { kind, text }
    }

    /// Reads a configuration string up to the parenthesis that closes it. Line
    /// directives are left out.
    pub(crate) fn config(&mut self, diagnostics: &mut Diagnostics) -> String {
        let mut result = String::new();
        let mut start = self.at;
        let mut depth = 1;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'(' => depth += 1,
                b')' => depth -= 1,
                b'#' if self.after_line_end() => {
                    result.push_str(self.since(start));
                    self.line_directive(diagnostics);
                    start = self.at;
                    continue;
                }
                b'/' if self.at_comment() => {
                    self.skip_comment();
                    continue;
                }
                b'\'' | b'"' => {
                    self.skip_quote(byte);
                    continue;
                }
                b'\\' if self.starts_with("\\<") => {
                    self.skip_data();
                    continue;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
            self.advance();
        }
        self.at = self.at.min(self.source.len());
        result.push_str(self.since(start));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    fn lexemes(source: &str) -> Vec<(Kind, String, String)> {
        let mut lexer = Lexer::new(source, "");
        let mut diagnostics = Diagnostics::new();
        let mut all = Vec::new();
        loop {
            let lexeme = lexer.next(&mut diagnostics);
            if lexeme.kind == Kind::End {
                return all;
            }
            all.push((
                lexeme.kind,
                lexeme.text.into_owned(),
                lexer.location().to_string(),
            ));
        }
    }

    fn texts(source: &str) -> Vec<String> {
        lexemes(source)
            .into_iter()
            .map(|(_, text, _)| text)
            .collect()
    }

    #[test]
    fn divides_text() {
        assert_eq!(
            texts("a/b@1->c=>[1]/d ::e||...$x $ - /* */ // \n\u{7f}é"),
            [
                "a/b@1", "->", "c", "=>", "[", "1", "]", "/", "d", "::", "e", "||", "...", "x", "",
                "-", "\\177", "\\303", "\\251"
            ]
        );
    }

    #[test]
    fn a_byte_that_is_not_utf8_is_one_symbol() {
        assert_eq!(texts("a\u{efe9}b"), ["a", "\\351", "b"]);
    }

    #[test]
    fn reserves_four_words() {
        let kinds: Vec<_> = lexemes("elementclass require provide define defines")
            .into_iter()
            .map(|(kind, ..)| kind)
            .collect();
        assert_eq!(
            kinds,
            [
                Kind::ElementClass,
                Kind::Require,
                Kind::Provide,
                Kind::Define,
                Kind::Identifier
            ]
        );
    }

    #[test]
    fn counts_lines() {
        let places = |source| -> Vec<String> {
            lexemes(source)
                .into_iter()
                .map(|(_, text, place)| alloc::format!("{text}@{place}"))
                .collect()
        };
        assert_eq!(
            places("a\nb\r\nc\rd/*\n\n*/e//\nf"),
            [
                "a@config:1",
                "b@config:2",
                "c@config:3",
                "d@config:4",
                "e@config:6",
                "f@config:7"
            ]
        );
        assert_eq!(
            places("# 7 \"x y\"\na\n#line 3\r\nb\n# 9 \"\"\nc"),
            ["a@x y:7", "b@x y:3", "c@config:9"]
        );
    }

    #[test]
    fn a_bad_directive_is_an_error() {
        let mut lexer = Lexer::new("#foo\na", "f");
        let mut diagnostics = Diagnostics::new();
        assert_eq!(lexer.next(&mut diagnostics).text, "a");
        assert_eq!(
            diagnostics.to_string(),
            "f:1: unknown preprocessor directive\n"
        );
    }

    #[test]
    fn reads_configuration_strings() {
        let config = |source: &str| {
            let mut lexer = Lexer::new(source, "f");
            let text = lexer.config(&mut Diagnostics::new());
            (text, lexer.since(0).len(), lexer.line)
        };
        assert_eq!(config("a(b)c)d"), ("a(b)c".into(), 5, 1));
        assert_eq!(
            config("')' \")\\\")\" /*)*/ \\<)>)"),
            ("')' \")\\\")\" /*)*/ \\<)>".into(), 21, 1)
        );
        assert_eq!(config("a\n# 9 \"x\"\nb)"), ("a\n\nb".into(), 11, 9));
        assert_eq!(config("a // )\n)"), ("a // )\n".into(), 7, 2));
        assert_eq!(config("'a"), ("'a".into(), 2, 1));
        assert_eq!(config("\"\\"), ("\"\\".into(), 2, 1));
    }
}
