//! Finding where spaces, comments and quoted parts end.
//!
//! Each function takes text as bytes and an index at most its length, and
//! gives an index of the same kind. Everything looked for is ASCII, so an
//! index that is not at the end of the text is never inside a character.

/// White space in the C locale.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// A byte of element and class names.
pub(crate) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'@'
}

/// A byte of variable names.
pub(crate) fn is_variable_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Past the bytes from `at` on that satisfy `wanted`.
pub(crate) fn skip_while(text: &[u8], at: usize, wanted: impl Fn(u8) -> bool) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|&&b| wanted(b)).count()
}

/// Past white space.
pub(crate) fn skip_space(text: &[u8], at: usize) -> usize {
    skip_while(text, at, is_space)
}

/// Whether a comment starts at `at`.
pub(crate) fn at_comment(text: &[u8], at: usize) -> bool {
    text.get(at) == Some(&b'/') && matches!(text.get(at + 1), Some(b'/' | b'*'))
}

/// Past the comment at `at`. A `//` comment includes its line end.
pub(crate) fn skip_comment(text: &[u8], at: usize) -> usize {
    let end = text.len();
    let mut i = at + 2;
    if text.get(at + 1) == Some(&b'*') {
        while i + 1 < end && (text[i], text[i + 1]) != (b'*', b'/') {
            i += 1;
        }
        return (i + 2).min(end);
    }
    while i < end && !matches!(text[i], b'\n' | b'\r') {
        i += 1;
    }
    (i + line_end(text, i)).min(end)
}

/// The length of the line end at `at`: 2 for `\r\n`, else 1.
pub(crate) fn line_end(text: &[u8], at: usize) -> usize {
    1 + usize::from(text[at.min(text.len())..].starts_with(b"\r\n"))
}

/// Past white space and comments.
pub(crate) fn skip_comment_space(text: &[u8], mut at: usize) -> usize {
    loop {
        at = skip_space(text, at);
        if !at_comment(text, at) {
            return at;
        }
        at = skip_comment(text, at);
    }
}

/// Whether a `\<…>` sequence starts at `at`.
pub(crate) fn at_angle(text: &[u8], at: usize) -> bool {
    text[at.min(text.len())..].starts_with(b"\\<")
}

/// Past the backslash sequence at `at`.
pub(crate) fn skip_backslash(text: &[u8], at: usize) -> usize {
    let end = text.len();
    if !at_angle(text, at) {
        return (at + 1 + line_end(text, at + 1)).min(end);
    }
    let mut i = at + 2;
    while i < end {
        match text[i] {
            b'>' => return i + 1,
            b'/' if at_comment(text, i) => i = skip_comment(text, i),
            _ => i += 1,
        }
    }
    end
}

/// Past the double-quoted string at `at`.
pub(crate) fn skip_double_quote(text: &[u8], at: usize) -> usize {
    let mut i = at + 1;
    while let Some(&byte) = text.get(i) {
        match byte {
            b'\\' => i = skip_backslash(text, i),
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    text.len()
}

/// Past the single-quoted string at `at`.
pub(crate) fn skip_single_quote(text: &[u8], at: usize) -> usize {
    let i = skip_while(text, at + 1, |b| b != b'\'');
    (i + 1).min(text.len())
}

/// Past one unit at `at`: a quoted string, a `\<…>` sequence, or a byte.
pub(crate) fn skip_unit(text: &[u8], at: usize) -> usize {
    match text[at] {
        b'\'' => skip_single_quote(text, at),
        b'"' => skip_double_quote(text, at),
        b'\\' if at_angle(text, at) => skip_backslash(text, at),
        _ => at + 1,
    }
}

/// The part of `text` between two indices that functions here gave.
pub(crate) fn slice(text: &str, from: usize, to: usize) -> &str {
    text.get(from..to).unwrap_or_default()
}
