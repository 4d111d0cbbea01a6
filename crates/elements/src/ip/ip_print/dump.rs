//! Packet bytes as IPPrint shows them.

use crate::prelude::*;

/// In which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Hexadecimal: 24 bytes a line, in groups of four.
    Hex,
    /// Text, with a dot for what cannot be shown: 48 bytes a line, in groups of eight.
    Ascii,
}

impl Form {
    /// The argument `CONTENTS`: `Some(None)` is no dump; `None`, no such value.
    pub fn contents(text: &str) -> Option<Option<Form>> {
        match text {
            "true" | "yes" | "t" | "y" | "1" => return Some(Some(Form::Hex)),
            "false" | "no" | "f" | "n" | "0" => return Some(None),
            _ => {}
        }
        match text.to_uppercase().as_str() {
            "NONE" => Some(None),
            "HEX" => Some(Some(Form::Hex)),
            "ASCII" => Some(Some(Form::Ascii)),
            _ => None,
        }
    }

    /// The argument `PAYLOAD`, in the same way.
    pub fn payload(text: &str) -> Option<Option<Form>> {
        match text.to_uppercase().as_str() {
            "NO" | "FALSE" => Some(None),
            "YES" | "TRUE" | "HEX" => Some(Some(Form::Hex)),
            "ASCII" => Some(Some(Form::Ascii)),
            _ => None,
        }
    }

    /// Writes `bytes`, each line of them begun by a new line and two spaces.
    pub fn write(self, line: &mut String, bytes: &[u8]) {
        let (a_line, a_group) = match self {
            Form::Hex => (24, 4),
            Form::Ascii => (48, 8),
        };
        for (i, &byte) in bytes.iter().enumerate() {
            if i % a_line == 0 {
                line.push_str("\n  ");
            } else if i % a_group == 0 {
                line.push(' ');
            }
            match self {
                Form::Hex => line.put_hex(byte),
                Form::Ascii if matches!(byte, b' '..=b'~') => line.push(byte.into()),
                Form::Ascii => line.push('.'),
            }
        }
    }
}
