//! The protocol of Click's control sockets, `Click::ControlSocket/1.3`: lines of commands in,
//! numbered messages and data out.
//!
//! A [`Session`] is one client's side of it, without the socket: bytes that came in are given to
//! [`Session::input`], and what is to go out is taken from [`Session::output`]. Whatever comes in,
//! a session uses memory within its limits: a line is at most [`LINE_MAX`] bytes, data at most
//! [`DATA_MAX`], and no command is taken while more than [`OUTPUT_HIGH`] bytes wait to go out.

use crate::prelude::*;
use click::text::{decode, encode};

/// What a session says first.
pub const GREETING: &str = "Click::ControlSocket/1.3\r\n";
/// Longest line of a command, in bytes.
pub const LINE_MAX: usize = 1 << 20;
/// Most bytes of data that come with a command.
pub const DATA_MAX: usize = 1 << 24;
/// Bytes waiting to go out above which no command is taken.
pub const OUTPUT_HIGH: usize = 1 << 16;

/// Response codes.
mod code {
    pub const OK: u16 = 200;
    pub const OK_WITH_WARNINGS: u16 = 220;
    pub const SYNTAX: u16 = 500;
    pub const UNIMPLEMENTED: u16 = 501;
    pub const NO_SUCH_ELEMENT: u16 = 510;
    pub const NO_SUCH_HANDLER: u16 = 511;
    pub const HANDLER_ERROR: u16 = 520;
    pub const DATA_TOO_BIG: u16 = 521;
    pub const LLRPC_ERROR: u16 = 522;
    pub const PERMISSION: u16 = 530;
    pub const UNSPECIFIED: u16 = 590;
}

/// Why there is no handler of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is no such element.
    Element(String),
    /// The element has no such handler.
    Handler,
    /// What stands in for the router's elements has no such handler.
    Proxied,
}

/// The router, as sessions see it.
pub trait Target {
    /// A handler that was found.
    type Handler;

    /// Finds the handler `ELEMENT.HANDLER`, `NUMBER.HANDLER` or `HANDLER`.
    fn find(&mut self, name: &str) -> Result<(Self::Handler, HandlerFlags), Missing>;

    /// Reads it. An error is one or more lines.
    fn read(&mut self, handler: &Self::Handler, parameter: &str) -> Result<String, String>;

    /// Writes it.
    fn write(
        &mut self,
        handler: &Self::Handler,
        value: &str,
        warnings: &mut Vec<String>,
    ) -> Result<(), String>;

    /// Makes an LLRPC of the element that has the handler. Where they cannot be made, the error
    /// says so.
    fn llrpc(
        &mut self,
        handler: &Self::Handler,
        call: Llrpc,
        data: &mut [u8],
    ) -> Result<(), String> {
        let _ = (handler, call, data);
        Err("Function not implemented".into())
    }
}

/// What is to be done with a handler.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Read,
    Write,
}

/// What became of a command.
enum Step {
    Done,
    /// It has to wait for more bytes.
    Wait,
}

/// One client's commands and answers.
pub struct Session {
    input: Vec<u8>,
    /// Bytes of `input` that were used.
    used: usize,
    output: Vec<u8>,
    /// Bytes of `output` that went out.
    sent: usize,
    /// Bytes of data that nobody wants.
    skip: usize,
    /// Bytes of data that were searched for their terminator already.
    searched: usize,
    /// The last line ended with a carriage return: a line feed behind it belongs to it.
    after_return: bool,
    /// Nothing more comes in.
    closed: bool,
    read_only: bool,
}

/// A message on a line: control characters and bytes that are no text stand as in Click's messages.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let bytes = encode(c.encode_utf8(&mut [0; 4])).into_owned();
        match c.is_control() || bytes.len() == 1 {
            true => shown += &click::config::printable(&bytes),
            false => shown.push(c),
        }
    }
    shown
}

impl Session {
    /// A session that has said its greeting. With `read_only`, no handler is written.
    pub fn new(read_only: bool) -> Session {
        Session {
            input: Vec::new(),
            used: 0,
            output: GREETING.into(),
            sent: 0,
            skip: 0,
            searched: 0,
            after_return: false,
            closed: false,
            read_only,
        }
    }

    /// Whether bytes may come in.
    pub fn wants_input(&self) -> bool {
        !self.closed && self.input.len() - self.used <= LINE_MAX + DATA_MAX
    }

    /// Takes bytes that came in.
    pub fn input(&mut self, bytes: &[u8]) {
        if self.closed {
            return;
        }
        let skipped = bytes.len().min(self.skip);
        self.skip -= skipped;
        self.input.extend_from_slice(&bytes[skipped..]);
    }

    /// Nothing more will come in.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Bytes that wait to go out.
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// The first `count` bytes of [`output`](Self::output) went out.
    pub fn sent(&mut self, count: usize) {
        self.sent = (self.sent + count).min(self.output.len());
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
    }

    /// Whether the session is over: no more commands, and all answers went out.
    pub fn over(&self) -> bool {
        self.closed && self.used == self.input.len() && self.output.is_empty()
    }

    /// Carries out the next command that is there as a whole. Returns whether there was one, and
    /// so may be another.
    pub fn step<T: Target>(&mut self, target: &mut T) -> bool {
        if core::mem::take(&mut self.after_return) {
            match self.rest().first() {
                Some(b'\n') => self.used += 1,
                Some(_) => {}
                None => self.after_return = !self.closed,
            }
        }
        if self.rest().is_empty() || self.output().len() > OUTPUT_HIGH {
            return false;
        }
        let Some((line, next)) = first_line(self.rest(), self.closed) else {
            if self.rest().len() > LINE_MAX {
                self.give_up(code::SYNTAX, "Line too long");
                return true;
            }
            return false;
        };
        let line = line.to_vec();
        let start = self.used;
        self.used += next;
        if let Step::Wait = self.command(target, &line) {
            self.used = start;
            return false;
        }
        self.searched = 0;
        if self.used == self.input.len() {
            self.after_return |= self.input.last() == Some(&b'\r') && !self.closed;
            self.input.clear();
            self.used = 0;
        } else if self.used > 8192 {
            self.input.drain(..self.used);
            self.used = 0;
        }
        true
    }

    fn rest(&self) -> &[u8] {
        &self.input[self.used..]
    }

    /// Answers, and takes no more commands.
    fn give_up(&mut self, code: u16, text: &str) {
        self.message(code, text, false);
        self.closed = true;
        self.input.clear();
        self.used = 0;
        self.skip = 0;
    }

    fn message(&mut self, code: u16, text: &str, more: bool) {
        let mark = if more { '-' } else { ' ' };
        let text = printable(text);
        self.output
            .extend_from_slice(format!("{code}{mark}{text}\r\n").as_bytes());
    }

    fn say(&mut self, code: u16, text: impl AsRef<str>) -> Step {
        self.message(code, text.as_ref(), false);
        Step::Done
    }

    /// A heading and lines below it.
    fn messages(&mut self, code: u16, heading: &str, lines: &str) -> Step {
        let mut lines = lines.lines().peekable();
        if lines.peek().is_none() {
            return self.say(code, heading);
        }
        self.message(code, &format!("{heading}:"), true);
        while let Some(line) = lines.next() {
            let more = lines.peek().is_some();
            self.message(code, line, more);
        }
        Step::Done
    }

    fn command<T: Target>(&mut self, target: &mut T, line: &[u8]) -> Step {
        let words: Vec<&[u8]> = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
            .collect();
        let Some(name) = words.first() else {
            return Step::Done;
        };
        let name = decode(name).to_ascii_uppercase();
        let handler = words.get(1).map(|word| decode(word));
        let handler = handler.as_deref().unwrap_or("");
        let verb = match name.as_bytes().first() {
            Some(b'W' | b'S') => Verb::Write,
            _ => Verb::Read,
        };
        let wrong = |this: &mut Self| this.say(code::SYNTAX, "Wrong number of arguments");
        match name.as_str() {
            "READ" | "GET" | "WRITE" | "SET" => match words.len() {
                0 | 1 => wrong(self),
                _ => self.call(target, verb, handler, third(line)),
            },
            "READDATA" | "WRITEDATA" | "SETDATA" => match words[..] {
                [_, _, length] => self.with_data(target, &name, verb, handler, length),
                _ => wrong(self),
            },
            "READUNTIL" | "WRITEUNTIL" => match words.len() {
                0 | 1 => wrong(self),
                _ => self.until(target, verb, handler, third(line)),
            },
            "CHECKREAD" => match words.len() {
                2 => self.check(target, Verb::Read, handler),
                _ => wrong(self),
            },
            "CHECKWRITE" => match words.len() {
                2 => self.check(target, Verb::Write, handler),
                _ => wrong(self),
            },
            "LLRPC" => match words[..] {
                [_, _] => self.llrpc(target, handler, b"0"),
                [_, _, length] => self.llrpc(target, handler, length),
                _ => wrong(self),
            },
            "CLOSE" | "QUIT" => {
                if words.len() != 1 {
                    self.message(code::SYNTAX, "Bad command syntax", false);
                }
                self.give_up(code::OK, "Goodbye!");
                Step::Done
            }
            "HELP" => self.help(),
            _ => self.say(
                code::UNIMPLEMENTED,
                format!("Command '{name}' unimplemented"),
            ),
        }
    }

    /// The length of the data that follows, or the answer if there is no such length.
    fn length(&mut self, command: &str, length: &[u8]) -> Result<usize, Step> {
        let length = decode(length);
        match Context::blank().parse::<i32>(&length).map(usize::try_from) {
            Ok(Ok(length)) => Ok(length),
            _ => Err(self.say(code::SYNTAX, format!("Syntax error in '{command}'"))),
        }
    }

    /// The next `length` bytes.
    fn data(&mut self, length: usize, handler: &str) -> Result<Vec<u8>, Step> {
        if length > 0 && self.after_line_return() {
            return Err(Step::Wait);
        }
        let rest = self.rest();
        if let Some(data) = rest.get(..length) {
            let data = data.to_vec();
            self.used += length;
            return Ok(data);
        }
        if length > DATA_MAX {
            self.skip = length - rest.len();
            self.used = self.input.len();
            return Err(self.say(
                code::DATA_TOO_BIG,
                format!("Data too large for handler '{handler}'"),
            ));
        }
        Err(self.insufficient())
    }

    /// Whether the line ended with a carriage return that a line feed may follow: it is not data.
    fn after_line_return(&self) -> bool {
        self.rest().is_empty() && !self.closed && self.input.last() == Some(&b'\r')
    }

    fn insufficient(&mut self) -> Step {
        if self.closed {
            self.say(code::SYNTAX, "Not enough data")
        } else {
            Step::Wait
        }
    }

    fn with_data<T: Target>(
        &mut self,
        target: &mut T,
        command: &str,
        verb: Verb,
        handler: &str,
        length: &[u8],
    ) -> Step {
        let data = self
            .length(command, length)
            .and_then(|length| self.data(length, handler));
        match data {
            Ok(data) => self.call(target, verb, handler, &data),
            Err(step) => step,
        }
    }

    /// Takes data up to the first line that is `terminator`, white space at its end aside.
    fn until<T: Target>(
        &mut self,
        target: &mut T,
        verb: Verb,
        handler: &str,
        terminator: &[u8],
    ) -> Step {
        if self.after_line_return() {
            return Step::Wait;
        }
        let mut at = self.searched;
        loop {
            let rest = &self.rest()[at..];
            let Some((line, next)) = first_line(rest, false) else {
                self.searched = at;
                if at > DATA_MAX || self.rest().len() - at > LINE_MAX {
                    self.give_up(
                        code::DATA_TOO_BIG,
                        &format!("Data too large for handler '{handler}'"),
                    );
                    return Step::Done;
                }
                return self.insufficient();
            };
            let ends = line.trim_ascii_end() == terminator;
            if !ends && rest.len() == next && rest.ends_with(b"\r") && !self.closed {
                // The line feed that may follow belongs to this line.
                self.searched = at;
                return Step::Wait;
            }
            if ends {
                let data = self.rest()[..at].to_vec();
                self.used += at + next;
                return self.call(target, verb, handler, &data);
            }
            at += next;
        }
    }

    /// Finds a handler, or says why there is none.
    fn find<T: Target>(
        &mut self,
        target: &mut T,
        name: &str,
    ) -> Option<(T::Handler, HandlerFlags)> {
        // `.x` and `0.x` are the router's own handler `x`.
        let canonical = name.strip_prefix('0').unwrap_or(name);
        let canonical = canonical.strip_prefix('.').unwrap_or(name);
        match target.find(canonical) {
            Ok(found) => return Some(found),
            Err(Missing::Element(element)) => self.message(
                code::NO_SUCH_ELEMENT,
                &format!("No element named '{element}'"),
                false,
            ),
            Err(Missing::Handler) => self.message(
                code::NO_SUCH_HANDLER,
                &format!("No handler named '{name}'"),
                false,
            ),
            Err(Missing::Proxied) => self.message(
                code::NO_SUCH_HANDLER,
                &format!("No proxied handler named '{name}'"),
                false,
            ),
        }
        None
    }

    fn call<T: Target>(&mut self, target: &mut T, verb: Verb, name: &str, data: &[u8]) -> Step {
        let Some((handler, flags)) = self.find(target, name) else {
            return Step::Done;
        };
        let data = decode(data);
        match verb {
            Verb::Read if !flags.has(HandlerFlags::READ) => {
                self.say(code::PERMISSION, format!("Handler '{name}' write-only"))
            }
            Verb::Read => match target.read(&handler, &data) {
                Ok(text) => {
                    self.message(code::OK, &format!("Read handler '{name}' OK"), false);
                    self.output_data(&encode(&text));
                    Step::Done
                }
                Err(lines) => {
                    let heading = format!("Read handler '{name}' error");
                    self.messages(code::UNSPECIFIED, &heading, &lines)
                }
            },
            Verb::Write if !flags.has(HandlerFlags::WRITE) => {
                self.say(code::PERMISSION, format!("Handler '{name}' read-only"))
            }
            Verb::Write if self.read_only => {
                self.say(code::PERMISSION, format!("Permission denied for '{name}'"))
            }
            Verb::Write => {
                let mut lines = Vec::new();
                let written = target.write(&handler, &data, &mut lines);
                let (code, end) = match &written {
                    Ok(()) if lines.is_empty() => (code::OK, "OK"),
                    Ok(()) => (code::OK_WITH_WARNINGS, "OK with warnings"),
                    Err(_) => (code::HANDLER_ERROR, "error"),
                };
                lines.extend(written.err());
                let heading = format!("Write handler '{name}' {end}");
                self.messages(code, &heading, &lines.join("\n"))
            }
        }
    }

    fn check<T: Target>(&mut self, target: &mut T, verb: Verb, name: &str) -> Step {
        let Some((_, flags)) = self.find(target, name) else {
            return Step::Done;
        };
        match verb {
            Verb::Write if flags.has(HandlerFlags::WRITE) => {
                if self.read_only {
                    self.say(code::PERMISSION, format!("Permission denied for '{name}'"))
                } else {
                    self.say(code::OK, format!("Write handler '{name}' OK"))
                }
            }
            Verb::Read if flags.has(HandlerFlags::READ) => {
                self.say(code::OK, format!("Read handler '{name}' OK"))
            }
            Verb::Write => self.say(
                code::NO_SUCH_HANDLER,
                format!("Handler '{name}' not writable"),
            ),
            Verb::Read => self.say(
                code::NO_SUCH_HANDLER,
                format!("Handler '{name}' not readable"),
            ),
        }
    }

    fn llrpc<T: Target>(&mut self, target: &mut T, name: &str, length: &[u8]) -> Step {
        let data = self
            .length("llrpc", length)
            .and_then(|length| self.data(length, name));
        let mut data = match data {
            Ok(data) => data,
            Err(step) => return step,
        };
        let (element, number) = name.split_once('#').unwrap_or((name, ""));
        let digits = number.strip_prefix("0x").or(number.strip_prefix("0X"));
        let Ok(number) = u32::from_str_radix(digits.unwrap_or(number), 16) else {
            return self.say(code::SYNTAX, format!("Syntax error in LLRPC name '{name}'"));
        };
        let Some((handler, _)) = self.find(target, &format!("{element}.name")) else {
            return Step::Done;
        };
        let call = Llrpc(number);
        if !call.is_remote() {
            let text = format!("Cannot call LLRPC '{name}' remotely");
            return self.say(code::UNIMPLEMENTED, text);
        }
        // Which ones change something cannot be told.
        if self.read_only {
            return self.say(code::PERMISSION, format!("Permission denied for '{name}'"));
        }
        if !call.takes() {
            data = vec![0; call.size()];
        } else if data.len() != call.size() {
            let text = format!("LLRPC '{name}' requires {} bytes input data", call.size());
            return self.say(code::LLRPC_ERROR, text);
        }
        if let Err(reason) = target.llrpc(&handler, call, &mut data) {
            return self.say(code::LLRPC_ERROR, format!("LLRPC '{name}' error: {reason}"));
        }
        self.message(code::OK, &format!("LLRPC '{name}' OK"), false);
        self.output_data(if call.gives() { &data } else { &[] });
        Step::Done
    }

    fn output_data(&mut self, data: &[u8]) {
        let head = format!("DATA {}\r\n", data.len());
        self.output.extend_from_slice(head.as_bytes());
        self.output.extend_from_slice(data);
    }

    fn help(&mut self) -> Step {
        const LINES: [&str; 11] = [
            "Commands supported:",
            "READ handler [arg...]   read a handler, answer with DATA",
            "READDATA handler len    the same, with len bytes as argument",
            "READUNTIL handler term  the same, with lines up to term as argument",
            "WRITE handler [arg...]  write a handler",
            "WRITEDATA handler len   the same, with len bytes as value",
            "WRITEUNTIL handler term the same, with lines up to term as value",
            "CHECKREAD handler       say whether a handler can be read",
            "CHECKWRITE handler      say whether a handler can be written",
            "LLRPC elt#number [len]  make an LLRPC, with len bytes, answer with DATA",
            "QUIT                    close the connection",
        ];
        for (i, line) in LINES.iter().enumerate() {
            self.message(code::OK, line, i + 1 < LINES.len());
        }
        Step::Done
    }
}

/// What stands in a line from its third word on, white space at its end aside.
fn third(line: &[u8]) -> &[u8] {
    let mut rest = line.trim_ascii();
    for _ in 0..2 {
        let end = rest.iter().position(u8::is_ascii_whitespace);
        rest = rest[end.unwrap_or(rest.len())..].trim_ascii_start();
    }
    rest
}

/// The first line of `bytes` without its end, and where the next one starts. `None` if it does
/// not end; with `closed`, it ends where the bytes do.
fn first_line(bytes: &[u8], closed: bool) -> Option<(&[u8], usize)> {
    match bytes.iter().position(|b| matches!(b, b'\r' | b'\n')) {
        Some(at) => {
            let pair = bytes[at..].starts_with(b"\r\n");
            Some((&bytes[..at], at + 1 + pair as usize))
        }
        None if closed && !bytes.is_empty() => Some((bytes, bytes.len())),
        None => None,
    }
}

#[cfg(test)]
mod tests;
