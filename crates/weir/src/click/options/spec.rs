//! The options that `weir click` and its tools have.

/// The meaning of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `-R`, `--allow-reconfigure`.
    AllowReconfigure,
    /// `-C`, `--clickpath`.
    ClickPath,
    /// `-e`, `--expression`.
    Expression,
    /// `-f`, `--file`.
    File,
    /// `-h`, `--handler`.
    Handler,
    /// `--help`.
    Help,
    /// `-o`, `--output`.
    Output,
    /// `--socket`.
    Socket,
    /// `-p`, `--port`.
    Port,
    /// `-q`, `--quit`.
    Quit,
    /// `--simtime`.
    SimTime,
    /// `-j`, `--threads`.
    Threads,
    /// `-a`, `--affinity`.
    Affinity,
    /// `-t`, `--time`.
    Time,
    /// `-u`, `--unix-socket`.
    UnixSocket,
    /// `-v`, `--version`.
    Version,
    /// `--warnings`.
    Warnings,
    /// `-w`, `--no-warnings`.
    NoWarnings,
    /// `-x`, `--exit-handler`.
    ExitHandler,
    /// `--batch`, which Click does not have.
    Batch,
    /// `--link`, which Click does not have.
    Link,
    /// `-c`, `--classes`.
    Classes,
    /// `-n`, `--names`.
    Names,
    /// `-d`, `--declarations`.
    Declarations,
    /// `--config`.
    Config,
    /// `--expand-vars`.
    ExpandVars,
}

/// The value an option takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    Text,
    Int,
    /// It may be left out.
    OptionalInt,
    OptionalReal,
}

/// An option that a program has.
pub struct Spec {
    pub(super) long: &'static str,
    pub(super) short: u8,
    pub(super) name: Name,
    pub(super) takes: Takes,
    pub(super) negatable: bool,
}

const fn spec(long: &'static str, short: u8, name: Name, takes: Takes) -> Spec {
    Spec {
        long,
        short,
        name,
        takes,
        negatable: false,
    }
}

const fn negatable(mut spec: Spec) -> Spec {
    spec.negatable = true;
    spec
}

/// The driver's options. Ambiguities are listed in this order.
pub static DRIVER: [Spec; 23] = [
    negatable(spec(
        "allow-reconfigure",
        b'R',
        Name::AllowReconfigure,
        Takes::Nothing,
    )),
    spec("clickpath", b'C', Name::ClickPath, Takes::Text),
    spec("expression", b'e', Name::Expression, Takes::Text),
    spec("file", b'f', Name::File, Takes::Text),
    spec("handler", b'h', Name::Handler, Takes::Text),
    spec("help", 0, Name::Help, Takes::Nothing),
    spec("output", b'o', Name::Output, Takes::Text),
    spec("socket", 0, Name::Socket, Takes::Int),
    spec("port", b'p', Name::Port, Takes::Text),
    spec("quit", b'q', Name::Quit, Takes::Nothing),
    spec("simtime", 0, Name::SimTime, Takes::OptionalReal),
    spec("simulation-time", 0, Name::SimTime, Takes::OptionalReal),
    spec("threads", b'j', Name::Threads, Takes::Int),
    negatable(spec("cpu", 0, Name::Affinity, Takes::OptionalInt)),
    negatable(spec("affinity", b'a', Name::Affinity, Takes::OptionalInt)),
    spec("time", b't', Name::Time, Takes::Nothing),
    spec("unix-socket", b'u', Name::UnixSocket, Takes::Text),
    spec("version", b'v', Name::Version, Takes::Nothing),
    negatable(spec("warnings", 0, Name::Warnings, Takes::Nothing)),
    spec("exit-handler", b'x', Name::ExitHandler, Takes::Text),
    negatable(spec("", b'w', Name::NoWarnings, Takes::Nothing)),
    spec("batch", 0, Name::Batch, Takes::Int),
    spec("link", 0, Name::Link, Takes::Text),
];

/// The options of `click-flatten`.
pub static FLATTEN: [Spec; 12] = [
    spec("classes", b'c', Name::Classes, Takes::Nothing),
    spec("names", b'n', Name::Names, Takes::Nothing),
    spec("elements", 0, Name::Names, Takes::Nothing),
    spec("declarations", b'd', Name::Declarations, Takes::Nothing),
    spec("file", b'f', Name::File, Takes::Text),
    spec("expression", b'e', Name::Expression, Takes::Text),
    spec("config", 0, Name::Config, Takes::Nothing),
    negatable(spec("expand-vars", 0, Name::ExpandVars, Takes::Nothing)),
    spec("output", b'o', Name::Output, Takes::Text),
    spec("clickpath", b'C', Name::ClickPath, Takes::Text),
    spec("help", 0, Name::Help, Takes::Nothing),
    spec("version", b'v', Name::Version, Takes::Nothing),
];
