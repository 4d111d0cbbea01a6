//! Handlers: named values of an element that users read and write while packets flow.

use alloc::borrow::Cow;
use core::fmt;

use crate::prelude::*;

/// What a handler can do and how it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandlerFlags(u16);

impl HandlerFlags {
    /// None.
    pub const NONE: HandlerFlags = HandlerFlags(0);
    /// Can be read.
    pub const READ: HandlerFlags = HandlerFlags(1);
    /// Can be written.
    pub const WRITE: HandlerFlags = HandlerFlags(2);
    /// Reading takes a parameter.
    pub const PARAMETER: HandlerFlags = HandlerFlags(4);
    /// The value is not text, or its white space counts.
    pub const RAW: HandlerFlags = HandlerFlags(8);
    /// The value rarely changes.
    pub const CALM: HandlerFlags = HandlerFlags(16);
    /// Reading is costly.
    pub const EXPENSIVE: HandlerFlags = HandlerFlags(32);
    /// Rarely of interest.
    pub const UNCOMMON: HandlerFlags = HandlerFlags(64);
    /// Kept for old users.
    pub const DEPRECATED: HandlerFlags = HandlerFlags(128);
    /// Writing needs no value.
    pub const BUTTON: HandlerFlags = HandlerFlags(256);
    /// The value is true or false.
    pub const CHECKBOX: HandlerFlags = HandlerFlags(512);
    /// Not to be read from outside the configuration: by a control socket, say.
    pub const PRIVATE: HandlerFlags = HandlerFlags(1024);

    /// Both sets of flags.
    pub const fn with(self, other: HandlerFlags) -> HandlerFlags {
        HandlerFlags(self.0 | other.0)
    }

    /// These flags, without the flags of `other`.
    pub const fn without(self, other: HandlerFlags) -> HandlerFlags {
        HandlerFlags(self.0 & !other.0)
    }

    /// Whether all flags of `other` are set.
    pub const fn has(self, other: HandlerFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any flag of `other` is set.
    pub const fn any(self, other: HandlerFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// As the `handlers` handler shows them.
    pub fn letters(self) -> String {
        const LETTERS: [(HandlerFlags, char); 10] = [
            (HandlerFlags::READ, 'r'),
            (HandlerFlags::WRITE, 'w'),
            (HandlerFlags::PARAMETER, '+'),
            (HandlerFlags::RAW, '%'),
            (HandlerFlags::CALM, '.'),
            (HandlerFlags::EXPENSIVE, '$'),
            (HandlerFlags::UNCOMMON, 'U'),
            (HandlerFlags::DEPRECATED, 'D'),
            (HandlerFlags::BUTTON, 'b'),
            (HandlerFlags::CHECKBOX, 'c'),
        ];
        LETTERS
            .iter()
            .filter(|(flag, _)| self.has(*flag))
            .map(|(_, letter)| *letter)
            .collect()
    }
}

/// One handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerSpec {
    /// Its name.
    pub name: Cow<'static, str>,
    /// What it can do.
    pub flags: HandlerFlags,
}

/// The name under which an element that answers to any name lists that.
const ANY: &str = "*";
/// What can be done with handlers of such an element that it does not list.
const UNLISTED: HandlerFlags = HandlerFlags::READ
    .with(HandlerFlags::PARAMETER)
    .with(HandlerFlags::WRITE);

/// The handlers of an element, as it lists them.
#[derive(Debug, Default)]
pub struct HandlerList {
    pub(crate) specs: Vec<HandlerSpec>,
    /// The element’s first input is pull.
    pub pulls: bool,
    /// Its first output is push.
    pub pushes: bool,
}

impl HandlerList {
    /// Adds a handler, or flags to the one of that name. If it is read in another way, its value
    /// rarely changes only if the new flags say so.
    pub fn add(&mut self, name: impl Into<Cow<'static, str>>, flags: HandlerFlags) -> &mut Self {
        let name = name.into();
        match self.specs.iter_mut().find(|spec| spec.name == name) {
            Some(spec) => {
                if flags.has(HandlerFlags::READ) {
                    spec.flags = spec.flags.without(HandlerFlags::CALM);
                }
                spec.flags = spec.flags.with(flags);
            }
            None => self.specs.push(HandlerSpec { name, flags }),
        }
        self
    }

    /// Any other handler. Click lists it as one that is written.
    pub fn any(&mut self) -> &mut Self {
        self.write(ANY)
    }

    /// What can be done with a handler, listed or not.
    pub fn flags(&self, name: &str) -> Option<HandlerFlags> {
        self.find(name).or_else(|| self.find(ANY).map(|_| UNLISTED))
    }

    /// Moves a handler behind the others.
    pub fn move_last(&mut self, name: &str) -> &mut Self {
        if let Some(at) = self.specs.iter().position(|spec| spec.name == name) {
            let spec = self.specs.remove(at);
            self.specs.push(spec);
        }
        self
    }

    /// What the handler of a name can do.
    pub fn find(&self, name: &str) -> Option<HandlerFlags> {
        let spec = self.specs.iter().find(|spec| spec.name == name);
        spec.map(|spec| spec.flags)
    }

    /// A handler that is read.
    pub fn read(&mut self, name: impl Into<Cow<'static, str>>) -> &mut Self {
        self.add(name, HandlerFlags::READ)
    }

    /// A handler that is read with a parameter.
    pub fn read_with(&mut self, name: impl Into<Cow<'static, str>>) -> &mut Self {
        self.add(name, HandlerFlags::READ.with(HandlerFlags::PARAMETER))
    }

    /// A handler that is written.
    pub fn write(&mut self, name: impl Into<Cow<'static, str>>) -> &mut Self {
        self.add(name, HandlerFlags::WRITE)
    }

    /// A handler that is written without a value.
    pub fn button(&mut self, name: impl Into<Cow<'static, str>>) -> &mut Self {
        self.add(name, HandlerFlags::WRITE.with(HandlerFlags::BUTTON))
    }

    /// A handler that is read and written.
    pub fn read_write(&mut self, name: impl Into<Cow<'static, str>>) -> &mut Self {
        self.add(name, HandlerFlags::READ.with(HandlerFlags::WRITE))
    }

    /// A handler that is read and written, and true or false.
    pub fn checkbox(&mut self, name: impl Into<Cow<'static, str>>) -> &mut Self {
        self.read_write(name.into())
            .flag_last(HandlerFlags::CHECKBOX)
    }

    fn flag_last(&mut self, flags: HandlerFlags) -> &mut Self {
        if let Some(spec) = self.specs.last_mut() {
            spec.flags = spec.flags.with(flags);
        }
        self
    }

    /// The handlers of the element's first task: `scheduled`, `tickets`, `home_thread`. The engine
    /// answers them.
    pub fn task(&mut self) -> &mut Self {
        self.read("scheduled");
        self.read_write("tickets");
        self.read_write("home_thread")
    }
}

/// Why a handler could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerError {
    /// The element has no such handler.
    Unknown,
    /// The handler refused.
    Failed(Failure),
}

impl HandlerError {
    /// The handler refused; the text is for users.
    pub fn failed(kind: FailureKind, text: impl Into<String>) -> HandlerError {
        let text = text.into();
        HandlerError::Failed(Failure { kind, text })
    }
}

/// What a handler that refused says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The error.
    pub text: String,
}

/// The kinds of failure that `$?` tells apart in a script, by the numbers that Click's handlers
/// return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum FailureKind {
    /// The value is not one of the handler's: EINVAL.
    Invalid = -22,
    /// The thing to add exists already: EEXIST.
    Exists = -17,
    /// There is no memory: ENOMEM.
    NoMemory = -12,
    /// The thing to remove does not exist: ENOENT.
    Missing = -2,
    /// The value cannot be read as arguments, or a script ended with an error.
    Failed = -1,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<T: Into<String>> From<T> for HandlerError {
    fn from(text: T) -> HandlerError {
        HandlerError::failed(FailureKind::Invalid, text)
    }
}
