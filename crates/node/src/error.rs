//! Errors: [`Fault`] has a sentence for each case, which the API passes on as an [`Error`] with its
//! kind.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use switch::lookup::Mac;
use utoipa::ToSchema;

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The request itself is wrong, whatever there is.
    Invalid,
    /// The client may not do that.
    Forbidden,
    /// There is nothing of that name.
    NotFound,
    /// The path has no such method.
    NotAllowed,
    /// The request came too slowly.
    Late,
    /// The name, or the address, is taken.
    Exists,
    /// Something else needs it.
    InUse,
    /// The request is too long.
    TooLarge,
    /// The request is not JSON.
    NotJson,
    /// The host, the switch or the guest refused.
    Refused,
    /// What would have to answer does not.
    Unavailable,
    /// The node itself failed.
    Failed,
}

impl Kind {
    /// All.
    pub const ALL: [Kind; 12] = [
        Kind::Invalid,
        Kind::Forbidden,
        Kind::NotFound,
        Kind::NotAllowed,
        Kind::Late,
        Kind::Exists,
        Kind::InUse,
        Kind::TooLarge,
        Kind::NotJson,
        Kind::Refused,
        Kind::Unavailable,
        Kind::Failed,
    ];

    /// The HTTP status of an error of this kind that is about what the path names.
    pub const fn status(self) -> u16 {
        match self {
            Kind::Invalid => 400,
            Kind::Forbidden => 403,
            Kind::NotFound => 404,
            Kind::NotAllowed => 405,
            Kind::Late => 408,
            Kind::Exists | Kind::InUse => 409,
            Kind::TooLarge => 413,
            Kind::NotJson => 415,
            Kind::Refused => 422,
            Kind::Unavailable => 503,
            Kind::Failed => 500,
        }
    }
}

/// The HTTP status if a field of the request names what is not there.
pub const FIELD_NOT_FOUND: u16 = 422;

/// Why the node did not do what was asked, as the API answers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Error {
    /// What kind of thing went wrong.
    pub kind: Kind,
    /// What was wrong, where, and what would be right.
    pub error: String,
    /// The field of the request that is wrong, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// The result of a request to the node.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The HTTP status that goes with it. That a *field* names what is not there says nothing about the path, so it is
    /// not 404.
    pub fn status(&self) -> u16 {
        match (self.kind, &self.field) {
            (Kind::NotFound, Some(_)) => FIELD_NOT_FOUND,
            (kind, _) => kind.status(),
        }
    }

    /// An error of a kind, in a sentence.
    pub fn new(kind: Kind, sentence: impl fmt::Display) -> Error {
        Error {
            kind,
            error: sentence.to_string(),
            field: None,
        }
    }

    /// The request itself is wrong.
    pub fn invalid(sentence: impl fmt::Display) -> Error {
        Error::new(Kind::Invalid, sentence)
    }

    /// There is nothing of that name.
    pub fn not_found(sentence: impl fmt::Display) -> Error {
        Error::new(Kind::NotFound, sentence)
    }

    /// The host, the switch or a guest refused.
    pub fn refused(sentence: impl fmt::Display) -> Error {
        Error::new(Kind::Refused, sentence)
    }

    /// A failure of the node's own.
    pub fn failed(sentence: impl fmt::Display) -> Error {
        Error::new(Kind::Failed, sentence)
    }

    /// A property of a switch is wrong, which is a field of its own.
    pub fn of_switch(error: switch::properties::PropertyError) -> Error {
        Error {
            field: error.property().map(str::to_string),
            ..Error::invalid(error)
        }
    }

    /// The same without most of each very long word: names in it may be a client's.
    pub fn shortened(mut self) -> Error {
        self.error = shortened(&self.error);
        self.field = self.field.map(|field| shortened(&field));
        self
    }

    /// The same, of this field of the request.
    pub fn of_field(self, field: &str) -> Error {
        Error {
            field: Some(field.into()),
            ..self
        }
    }

    /// The same, whose field of `outer` is one of `inner` in the request: a link calls `port` what a VNIC calls
    /// `properties`.
    pub fn renamed(self, outer: &str, inner: &str) -> Error {
        let renamed = |field: String| match field.strip_prefix(outer) {
            Some(rest) if rest.is_empty() || rest.starts_with('.') => format!("{inner}{rest}"),
            _ => field,
        };
        Error {
            field: self.field.map(renamed),
            ..self
        }
    }

    /// The same with another sentence around it.
    pub fn within(self, sentence: impl FnOnce(&str) -> String) -> Error {
        Error {
            error: sentence(&self.error),
            ..self
        }
    }
}

/// Longest word of a message, in bytes: paths and names that can be are shorter.
const WORD_MAX: usize = 512;
/// Bytes that remain of a longer one.
const WORD_CUT: usize = 64;
/// Longest message, in bytes.
const MESSAGE_MAX: usize = 64 << 10;

fn shortened(text: &str) -> String {
    let cut = |text: &str, most: usize| {
        let end = text.floor_char_boundary(most);
        format!("{}…", &text[..end])
    };
    let word = |word: &str| match word.len() {
        ..=WORD_MAX => word.to_string(),
        _ => {
            cut(word, WORD_CUT)
                + if word.ends_with(char::is_whitespace) {
                    " "
                } else {
                    ""
                }
        }
    };
    let text: String = text
        .split_inclusive(char::is_whitespace)
        .map(word)
        .collect();
    match text.len() {
        ..=MESSAGE_MAX => text,
        _ => cut(&text, MESSAGE_MAX),
    }
}

/// A result whose error is one of a field of the request.
pub(crate) trait InField<T> {
    /// The same, with the field.
    fn in_field(self, field: &str) -> Result<T>;
}

impl<T, E: Into<Error>> InField<T> for Result<T, E> {
    fn in_field(self, field: &str) -> Result<T> {
        self.map_err(|error| error.into().of_field(field))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)
    }
}

impl std::error::Error for Error {}

/// Declares the faults, each with its kind, the field that is wrong, if any, and its sentence.
macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $name:ident { $($part:ident: $type:ty),* $(,)? }
        $kind:ident $($field:expr)? => $sentence:literal $(, $argument:expr)*;)*) => {
        /// One thing that can be wrong with a request: what, where, and what would be right.
        #[derive(Debug)]
        #[expect(missing_docs, reason = "the sentence beside each says what its parts are")]
        pub enum Fault {
            $($(#[doc = $doc])+ $name { $($part: $type),* },)*
        }

        impl Fault {
            /// What kind of thing it is.
            pub fn kind(&self) -> Kind {
                match self { $(Fault::$name { .. } => Kind::$kind,)* }
            }

            /// The field of the request that is wrong.
            #[expect(unused_variables, reason = "the field of few is one of their parts")]
            pub fn field(&self) -> Option<String> {
                match self { $(Fault::$name { $($part),* } => [$($field.to_string(),)? String::new()].into_iter().next().filter(|it| !it.is_empty()),)* }
            }
        }

        impl fmt::Display for Fault {
            #[expect(unused_variables, reason = "a place in a list is in the field's name")]
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Fault::$name { $($part),* } => write!(f, $sentence $(, $argument)*),)* }
            }
        }
    };
}

faults! {
    /// A name that cannot be.
    Name { what: String, name: String, most: usize } Invalid "name" =>
        "‘{name}’ is not a valid name for {what}: use 1 to {most} letters, digits, ‘.’, ‘_’ or ‘-’, not starting with ‘.’ or ‘-’";
    /// No link.
    NoLink { name: String } NotFound =>
        "no link ‘{name}’: `weir link show` lists links, `weir link attach` and `weir stub create` add one";
    /// No link for an interface of a guest that comes from another node.
    NoLinkThere { interface: String, link: String } NotFound =>
        "it has no link ‘{link}’ for interface ‘{interface}’: `weir link show` there lists its links; `links` says which one the interface gets";
    /// A link where a stub is asked for.
    NoSuchStub { name: String } NotFound => "no stub ‘{name}’: `weir stub show` lists them";
    /// A link where a stub is asked for.
    NoStub { name: String } NotFound =>
        "‘{name}’ is an attached interface, not a stub: `weir link show {name}` shows it, `weir link detach {name}` removes it";
    /// A stub where a link is asked for.
    IsStub { name: String } NotFound =>
        "‘{name}’ is a stub, which has no interface: `weir stub show {name}` shows it, `weir stub delete {name}` removes it, `weir switch set {name}` changes it, and properties are set on its VNICs";
    /// No VNIC.
    NoVnic { name: String } NotFound => "no VNIC ‘{name}’: `weir vnic show` lists them";
    /// Neither a link nor a VNIC.
    NoLinkOrVnic { name: String } NotFound "link" =>
        "no link or VNIC ‘{name}’: `weir link show` and `weir vnic show` list them";
    /// Nothing that counts.
    NoPort { name: String } NotFound =>
        "no attached interface or VNIC ‘{name}’: `weir link show` and `weir vnic show` list them";
    /// A limit of processors that cannot be.
    CpuMax { cpus: f64 } Invalid "cpu-max" =>
        "a guest cannot be limited to {cpus} processors: give 0.01 to 1024, as in 0.5";
    /// A limit of memory that a guest cannot run with.
    MemoryMax { most: String, memory: String } Invalid "memory-max" =>
        "a guest with {memory} of private memory cannot be limited to {most}: its process needs 2M beside that";
    /// No crash report.
    NoCrash { name: String } NotFound =>
        "no crash report ‘{name}’: `weir crash ls` lists them by number and guest";
    /// No guest.
    NoGuest { name: String } NotFound => "no guest ‘{name}’: `weir ls` lists them";
    /// A pattern that nothing matches.
    NoMatch { what: &'static str, pattern: String } NotFound => "no {what} matches ‘{pattern}’";
    /// No flow.
    NoFlow { name: String } NotFound => "no flow ‘{name}’: `weir flow show` lists them";
    /// No network stack module.
    NoNsm { name: String } NotFound => "no NSM ‘{name}’: `weir nsm ls` lists them";
    /// No network stack module that an application is to use.
    NoNsmFor { nsm: String } NotFound "nsm" =>
        "no NSM ‘{nsm}’: `weir nsm ls` lists them, `weir nsm create {nsm}` makes one";
    /// No application.
    NoApplication { name: String } NotFound =>
        "no application ‘{name}’: `weir sock ls` lists them";
    /// An application that the node is to run, without a program.
    NoProgram {} Invalid "run" =>
        "an application that the node runs needs a program: run = \"PROGRAM ARGUMENT…\", or a list of words";
    /// A variable of the environment without a usable name.
    NoVariable { name: String } Invalid "environment" =>
        "‘{name}’ is not a variable's name: it has at least one character, and no ‘=’";
    /// A text for a program that no program can have.
    ZeroByte { field: &'static str } Invalid field =>
        "`{field}` has a zero byte, which no argument, variable or user's name of a program can have";
    /// A folder that depends on the node's own.
    RelativeDirectory { directory: String } Invalid "directory" =>
        "the folder ‘{directory}’ is relative: give its whole path";
    /// A namespace that an NSM is to be in.
    NoNsmNamespace { name: String } NotFound "namespace" =>
        "no network namespace ‘{name}’: `ip netns add {name}` makes one; without `namespace`, the NSM gets its own";
    /// A field of an NSM that its kind does not have.
    NsmField { field: &'static str } Invalid field =>
        "`{field}` is not for this kind of NSM: `namespace` is for `kernel` and `program`, `local` and more than one of `cores` for `kernel`; `link`, `addresses` and `gateways` are for `user`; `addresses` and `others` for `shm`; `run` is for `program`";
    /// A number of workers that no NSM has.
    NsmCores { cores: u8, most: u8 } Invalid "cores" =>
        "`cores` is {cores}: an NSM has 1 to {most} workers";
    /// An NSM that is a program, without one.
    NsmWithoutProgram {} Invalid "run" =>
        "an NSM of kind `program` needs its program, as `run`";
    /// A user NSM without a link.
    NsmWithoutLink {} Invalid "link" =>
        "a user NSM needs the link or stub that its VNIC is on, as `link`: `weir link show` and `weir stub show` list them";
    /// No wire.
    NoWire { name: String } NotFound => "no wire ‘{name}’: `weir wire show` lists them";
    /// No entry.
    NoEntry { link: String, flow: String } NotFound =>
        "the flow table of ‘{link}’ has no entry for {flow}: `weir switch flows {link}` lists them";
    /// An entry to a port that the link does not have.
    NotOnLink { port: String, link: String } NotFound "port" =>
        "‘{port}’ is not a VNIC on ‘{link}’: `weir vnic show` lists them";
    /// A guest's interface on nothing.
    StandsOnNothing { guest: String, interface: String, on: String } NotFound format!("interfaces.{interface}") =>
        "interface ‘{interface}’ of guest ‘{guest}’: no VNIC or link ‘{on}’: `weir vnic show` and `weir link show` list them";
    /// A namespace that is to exist.
    NoNamespace { name: String } NotFound "existing" =>
        "there is no network namespace ‘{name}’, which the wire says exists: `ip netns add {name}`, or remove ‘existing’";

    /// A name of a link or VNIC that is taken.
    Taken { what: &'static str, name: String } Exists "name" =>
        "there is already {what} named ‘{name}’: choose another name";
    /// A VNIC that a guest needs for an interface, whose name is taken.
    ImplicitTaken { guest: String, interface: String, vnic: String, by: String } Exists "name" =>
        "guest ‘{guest}’ needs a VNIC ‘{vnic}’ for its interface ‘{interface}’, and {by} has that name: give the guest another name";
    /// A link that is attached.
    Attached { name: String } Exists "name" =>
        "‘{name}’ is already attached: `weir link detach {name}` first to attach it in another way";
    /// A guest of that name.
    GuestExists { name: String } Exists "name" =>
        "there is already a guest named ‘{name}’: choose another name, or `weir destroy {name}` first";
    /// The name of a guest that a VNIC starts.
    NameOnDemand { name: String } Exists "name" =>
        "VNIC ‘{name}’ starts a guest of this name when it is needed: choose another name";
    /// A flow of that name.
    FlowExists { name: String } Exists "name" =>
        "there is already a flow named ‘{name}’: choose another name";
    /// An Ethernet address that another VNIC has.
    AddressTaken { mac: Mac, link: String, other: String } Exists "mac" =>
        "VNIC ‘{other}’ on ‘{link}’ already has the address {mac}: choose another, or give none for a random one";
    /// An IP address that is given twice.
    AddressTwice { vnic: String, address: IpAddr, at: usize } Invalid format!("addresses[{at}]") =>
        "VNIC ‘{vnic}’: the address {address} is given twice: give it once";
    /// An NSM of that name.
    NsmExists { name: String } Exists "name" =>
        "there is already an NSM named ‘{name}’: choose another name, or `weir nsm delete {name}` first";
    /// A namespace of the name that an NSM's own is to have.
    NsmNamespaceExists { name: String, namespace: String } Exists "namespace" =>
        "NSM ‘{name}’ would have a network namespace ‘{namespace}’ of its own, and there is one already: `ip netns delete {namespace}` first, or use it, as `namespace`";
    /// An address that a user NSM on the link has.
    NsmAddressTaken { address: String, link: String, nsm: String, at: usize } Exists format!("addresses[{at}]") =>
        "NSM ‘{nsm}’ on link ‘{link}’ has the address {address}: choose another one for `addresses`";
    /// An application of that name.
    ApplicationExists { name: String } Exists "name" =>
        "there is already an application named ‘{name}’: choose another `name`";
    /// An entry that leads elsewhere.
    EntryExists { name: String, port: String } Exists =>
        "the flow has an entry, which leads to ‘{port}’: `weir switch remove-flow {name}` first";

    /// An NSM that applications use.
    NsmInUse { name: String, applications: String } InUse =>
        "NSM ‘{name}’ is in use: end its applications, or `weir nsm move` them to another NSM first ({applications})";
    /// A guest to be copied whose sockets an NSM has.
    HasSockets { guest: String, nsm: String } InUse =>
        "guest ‘{guest}’ has sockets at NSM ‘{nsm}’, which no copy of it could have: create another guest, or take the NSM away by `weir set {guest} --no-nsm` and restart it";
    /// An NSM in whose namespace others are.
    NsmHasNsms { name: String, namespace: String, nsms: String } InUse =>
        "the network namespace ‘{namespace}’ of NSM ‘{name}’ is in use: `weir nsm delete` the NSMs in it first ({nsms})";
    /// A link with VNICs on it.
    HasVnics { name: String, vnics: String } InUse =>
        "‘{name}’ is in use: delete its VNICs first ({vnics})";
    /// A link or VNIC with flows.
    HasFlows { name: String, flows: String } InUse =>
        "‘{name}’ has flows: remove them first ({flows})";
    /// A VNIC that is the default of a flow table.
    IsDefault { vnic: String, link: String } InUse =>
        "‘{vnic}’ is in use as the default of the flow table of ‘{link}’: set `default` of that switch to normal, drop or another output:VNIC first";
    /// A VNIC of a guest.
    HasGuest { vnic: String, guest: String } InUse =>
        "VNIC ‘{vnic}’ is an interface of guest ‘{guest}’: `weir destroy {guest}` first";
    /// A VNIC of an NSM.
    HasNsm { vnic: String } InUse =>
        "VNIC ‘{vnic}’ is that of NSM ‘{vnic}’: `weir nsm delete {vnic}` removes both";
    /// A VNIC that is to be an NSM's, and was not made with it.
    VnicOfNsm { nsm: String } Invalid "nsm" =>
        "a VNIC is not given to an NSM: an NSM of kind `user` makes its own, called as itself is (here ‘{nsm}’)";
    /// An MTU that an NSM was told.
    MtuToldNsm { vnic: String } InUse "properties.mtu" =>
        "the MTU of VNIC ‘{vnic}’ cannot change while NSM ‘{vnic}’ runs with it: `weir nsm delete {vnic}` first";
    /// A VNIC that another guest has.
    GuestHas { vnic: String, guest: String } InUse "interfaces" =>
        "VNIC ‘{vnic}’ is already an interface of guest ‘{guest}’";
    /// A VNIC that serves no guest.
    ServesNoGuest { vnic: String, fields: &'static str } InUse "interfaces" =>
        "VNIC ‘{vnic}’ does not serve guests: make one without {fields}";
    /// An MTU that a guest was told.
    MtuTold { vnic: String, guest: String } InUse "properties.mtu" =>
        "the MTU of VNIC ‘{vnic}’ cannot change while guest ‘{guest}’ runs with it: `weir destroy {guest}` first";
    /// A pattern that is none.
    Pattern { pattern: String, why: String } Invalid "name" =>
        "‘{pattern}’ is not a pattern: {why}; write * for any characters, ? for one, [a-c] for one of a, b and c";
    /// A series of guests whose names would be one.
    NoNumber { name: String } Invalid "name" =>
        "‘{name}’ is one name for many guests: write {{}} where each has its number, as in fw-{{}}";
    /// A number of guests.
    Series { count: u32, most: u32 } Invalid "count" =>
        "{count} guests are invalid: a series has 1 to {most}";
    /// Numbers of guests that there are not.
    LastNumber { first: u32, count: u32 } Invalid "first" =>
        "{count} guests from number {first} on are too many: the last number is 4294967294";
    /// A guest without a configuration.
    NoConfig { guest: String } Invalid "config" =>
        "guest ‘{guest}’ has no `config`: give its configuration (lists omit it)";
    /// A variable that cannot be.
    Variable { name: String } Invalid "variables" =>
        "‘{name}’ is not the name of a variable: use letters, digits and ‘_’";
    /// A name that no configuration can have.
    Configuration { name: String, most: usize } Invalid "configurations" =>
        "‘{name}’ is not a valid name for a configuration beside the main one: use 1 to 64 letters, digits, ‘.’, ‘_’ or ‘-’, not starting with ‘.’ or ‘-’, and not ‘main’; a number is that of a router of the control store, from 1 to {most}";
    /// A configuration without a text.
    EmptyConfiguration { name: String } Invalid "config" =>
        "configuration ‘{name}’ has no `config`: give its text (lists omit it)";
    /// More configurations than a guest can run.
    Configurations { count: usize, most: usize } Invalid "configurations" =>
        "{count} configurations are too many: a guest runs up to {most} beside its main one";
    /// No configuration of that name.
    NoConfiguration { guest: String, name: String } NotFound =>
        "guest ‘{guest}’ has no configuration ‘{name}’: `weir show {guest}` lists its configurations";
    /// A domain of the control store that runs no more.
    NoDomain { domain: u16 } NotFound =>
        "domain {domain} has ended since";
    /// The guest's own configuration is to run no more.
    OwnRouter { guest: String } Refused =>
        "router 0 is the own configuration of guest ‘{guest}’, which runs as long as the guest: `weir stop {guest}` ends both";
    /// An interface that a guest does not have, and is to lose.
    NoGuestInterface { guest: String, interface: String, there: String } Invalid format!("interfaces.{interface}") =>
        "guest ‘{guest}’ has no interface ‘{interface}’ to remove: it has {there}";
    /// A variable that a guest does not have, and is to lose.
    NoGuestVariable { guest: String, variable: String } Invalid format!("variables.{variable}") =>
        "guest ‘{guest}’ has no variable ‘{variable}’ to remove: `weir show {guest}` lists its variables";
    /// A guest that others change all the time.
    Contended { guest: String } InUse =>
        "guest ‘{guest}’ is being changed by others: try again";
    /// A guest that is paused.
    Paused { guest: String } Refused =>
        "guest ‘{guest}’ is paused and answers nothing: `weir resume {guest}` first";
    /// A guest that stands still for clones.
    Template { guest: String } Refused =>
        "guest ‘{guest}’ is a template and answers nothing: `weir resume {guest}` resumes it";
    /// A guest that is being copied.
    Suspended { guest: String } Unavailable =>
        "guest ‘{guest}’ stands still while it is copied: ask again";
    /// A guest that comes from another node.
    Arrives { guest: String } InUse =>
        "guest ‘{guest}’ arrives from another node, which has not released it yet: ask again";
    /// A guest that goes to another node.
    Departs { guest: String } InUse =>
        "guest ‘{guest}’ migrates to another node: ask again when the migration has ended";
    /// A guest that a wire has.
    OfWire { guest: String, wire: String } InUse =>
        "guest ‘{guest}’ is part of the wire ‘{wire}’: change the wire instead (`weir wire apply`)";
    /// A guest that stands still.
    StandsStill { guest: String } Refused =>
        "guest ‘{guest}’ stands still: `weir resume {guest}` first";
    /// A guest that does not run.
    NotRunning { guest: String } Refused =>
        "guest ‘{guest}’ does not run: `weir start {guest}` first";
    /// Fields that cannot change in use.
    Fixed { what: &'static str, name: String, can: &'static str, field: String } InUse field =>
        "`{field}` cannot change: only {can} of {what} ‘{name}’ can change in use; remove it first, then create it with the new specification";
    /// A wire that is being changed.
    WireChanging { name: String } InUse =>
        "wire ‘{name}’ is being changed: try again later";
    /// A link of a wire that is attached in another way.
    AttachedOtherwise { name: String } InUse =>
        "‘{name}’ is already attached in another way: `weir link detach {name}` first, or give the wire the link's fields (`weir link show {name}`)";
    /// A link of a wire whose port has other properties.
    AttachedWith { name: String, has: String, said: String } InUse =>
        "‘{name}’ is already attached, and its port has {has}, not {said}: `weir link detach {name}` first, or remove that from the wire";
    /// A link of a wire that cannot be attached in another way while it is attached.
    LinkFixed { name: String, wire: String } InUse =>
        "link ‘{name}’ is attached: its mode cannot change meanwhile; `weir wire delete {wire}` first";

    /// A VNIC's guest with several interfaces, or none, or not the one that is named.
    TemplateInterface { vnic: String, template: String, there: String } Invalid "guest.interface" =>
        "it is not clear which interface of guest ‘{template}’ VNIC ‘{vnic}’ is: give its `interface`, one of these: {there}";
    /// A number of guests where there is one.
    GuestsOfOne { vnic: String } Invalid "guest.guests" =>
        "`guests` is for a VNIC whose guests start with `on` flow, one for each connection; ‘{vnic}’ has one guest";
    /// A number of guests that cannot be.
    GuestsRange { vnic: String, guests: u32, most: u32 } Invalid "guest.guests" =>
        "VNIC ‘{vnic}’ cannot have {guests} guests for connections: give `guests` from 1 to {most}";
    /// A VNIC that belongs to another.
    BehindVnic { vnic: String, front: String } InUse =>
        "VNIC ‘{vnic}’ is for connections of ‘{front}’: change or delete ‘{front}’";
    /// A VNIC for a guest, which starts another.
    StartsGuest { vnic: String, guest: String } InUse =>
        "VNIC ‘{vnic}’ starts a guest of its own: give guest ‘{guest}’ another VNIC";
    /// Several locations of a VNIC.
    Locations { vnic: String, fields: &'static str } Invalid "namespace" =>
        "VNIC ‘{vnic}’ can be in one place only: give one of {fields}";
    /// A field of an interface that there is none of.
    NoInterface { vnic: String, field: &'static str } Invalid field =>
        "‘{vnic}’ has no interface on this host: `{field}` is for a VNIC with `namespace` or `host`";
    /// An Ethernet address that cannot be a VNIC's.
    NotUnicast { mac: Mac } Invalid "mac" =>
        "{mac} cannot be a VNIC's address: it must be a unicast address other than zero";
    /// One VNIC for two interfaces.
    VnicTwice { vnic: String } Invalid "interfaces" =>
        "VNIC ‘{vnic}’ cannot be two interfaces of one guest";
    /// A number of CPUs.
    Cpus { cpus: usize, most: usize } Invalid "cpus" =>
        "{cpus} CPUs are invalid: a guest has 1 to {most}";
    /// A CPU that there is none of.
    NoCpu { cpu: usize, there: String, at: usize } Invalid format!("pin[{at}]") =>
        "there is no CPU {cpu} that the node may use: it has {there}";
    /// Settled flows of what is no guest's.
    NoGuestToSettle {} Invalid "properties.settle" =>
        "settle=on is for the VNICs of guests, which tell of settled flows";
    /// Settled flows of a link.
    LinkSettles { link: String } Invalid "port.settle" =>
        "settle=on is for the VNICs of guests, not for ‘{link}’, between whose VNICs and another link's flows are settled";
    /// An MTU of a stub.
    StubMtu { mtu: u16, least: u16, most: u16 } Invalid "mtu" =>
        "an MTU of {mtu} is invalid: a stub's is from {least} to {most} bytes";
    /// An MTU above a guest's largest.
    GuestMtu { vnic: String, asked: u16, most: u16 } Invalid "properties.mtu" =>
        "mtu={asked} for ‘{vnic}’ is invalid: a guest takes IP packets of at most {most} bytes";
    /// An MTU above the link's.
    LinkMtu { vnic: String, asked: u16, link: String, mtu: u16, tag: &'static str } Invalid "properties.mtu" =>
        "mtu={asked} for ‘{vnic}’ is invalid: its link ‘{link}’ has an MTU of {mtu} bytes{tag}, the maximum";
    /// An MTU above that of the link's own interface.
    OwnMtu { link: String, asked: u16, mtu: u16 } Invalid "port.mtu" =>
        "mtu={asked} for ‘{link}’ is invalid: it has an MTU of {mtu} bytes, the maximum";
    /// An MTU below IPv6's least.
    Ipv6Mtu { vnic: String, asked: u16, address: ipnet::IpNet, least: u16 } Invalid "properties.mtu" =>
        "mtu={asked} for ‘{vnic}’ is invalid: its interface has the address {address}, and IPv6 needs at least {least} bytes";
    /// More lanes than there are.
    Lanes { asked: u16, there: usize } Invalid "properties.lanes" =>
        "lanes={asked} is invalid: the switch has {there} {}; end the node and start `weir node --lanes {asked}` for more",
        if *there == 1 { "lane" } else { "lanes" };
    /// A device of a link without one.
    NoDevice { name: String, field: &'static str } Invalid "device" =>
        "link ‘{name}’ has `{field}`, so it has no `device` and no `mode`: remove them";
    /// A device of another name.
    OtherDevice { name: String, device: String } Invalid "device" =>
        "link ‘{name}’ has the name of its interface: `device` is ‘{name}’ or absent, not ‘{device}’";
    /// No flow table.
    NoTable { name: String, lookup: String } Invalid =>
        "the switch of ‘{name}’ has no flow table, its lookup function is {lookup}: set `lookup` to flow-table first";
    /// A default without a flow table.
    NoDefault { name: String, lookup: String } Invalid "default" =>
        "`default` is for a switch whose `lookup` is flow-table; that of ‘{name}’ is {lookup}";
    /// An action that is none.
    Action { action: String } Invalid "default" =>
        "default={action} is invalid: it is normal (by addresses), drop, or output:VNIC";
    /// A wire under another's name.
    WireName { path: String, text: String } Invalid "wire" =>
        "the wire is named ‘{text}’ in its text and ‘{path}’ in its path: both names must be the same";
    /// A body under another's name.
    OtherName { path: String, body: String } Invalid "name" =>
        "the resource is named ‘{body}’ in the body and ‘{path}’ in the path: both names must be the same";
    /// A purge without confirmation.
    Unconfirmed {} Invalid "confirm" =>
        "this removes all guests, VNICs, links and the switch, and ends the node: it needs the body {{\"confirm\": true}}";
    /// A step that is none.
    NoStep { part: String } Failed => "{part} cannot change in this way";
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error {
            kind: fault.kind(),
            field: fault.field(),
            error: fault.to_string(),
        }
    }
}

impl From<switch::client::ClientError> for Error {
    fn from(error: switch::client::ClientError) -> Error {
        use switch::client::ClientError;
        match error {
            ClientError::Refused(why) => Error::refused(format_args!("the switch refused: {why}")),
            error => Error::new(
                Kind::Unavailable,
                format_args!("{error}: try again in a second, when the node has started another"),
            ),
        }
    }
}

impl From<switch::links::LinkError> for Error {
    fn from(error: switch::links::LinkError) -> Error {
        use switch::links::Fault;
        let kind = match error.fault() {
            Fault::Missing => Kind::NotFound,
            Fault::Exists => Kind::Exists,
            Fault::Invalid => Kind::Invalid,
            Fault::Refused => Kind::Refused,
        };
        let field = error.field();
        Error {
            field: field.map(str::to_string),
            ..Error::new(kind, error)
        }
    }
}

impl From<switch::properties::PropertyError> for Error {
    fn from(error: switch::properties::PropertyError) -> Error {
        let name = error.property();
        let field = name.map_or_else(|| "properties".into(), |name| format!("properties.{name}"));
        Error {
            field: Some(field),
            ..Error::invalid(error)
        }
    }
}

impl From<vmm::Error> for Error {
    fn from(error: vmm::Error) -> Error {
        use vmm::Error as Vmm;
        let (kind, field) = match &error {
            Vmm::MemoryTooSmall { .. } | Vmm::MemoryTooLarge { .. } => {
                (Kind::Invalid, Some("memory"))
            }
            Vmm::RequestTooLong(_) => (Kind::Invalid, Some("value")),
            Vmm::Ended | Vmm::NoAnswer(_) | Vmm::Backlog(_) => (Kind::Unavailable, None),
            _ => (Kind::Refused, None),
        };
        Error {
            field: field.map(str::to_string),
            ..Error::new(kind, error)
        }
    }
}

impl From<switch::memory::MemoryError> for Error {
    fn from(error: switch::memory::MemoryError) -> Error {
        Error::refused(error)
    }
}

impl From<abi::region::GeometryError> for Error {
    fn from(error: abi::region::GeometryError) -> Error {
        use abi::region::GeometryError;
        let field = match error {
            GeometryError::Slots(_) => Some("ring-slots"),
            GeometryError::Interfaces(_) => Some("interfaces"),
            GeometryError::NotARegion => None,
        };
        Error {
            field: field.map(str::to_string),
            ..Error::invalid(error)
        }
    }
}

/// What can be down: the subject of a fault that the node tries again to mend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// There is no switch.
    Switch,
    /// There is no control store.
    ControlStore,
    /// What runs cannot be kept in the state.
    State,
    /// A link or stub.
    Link(String),
    /// A VNIC.
    Vnic(String),
    /// The end of a patch.
    Patch(String),
    /// A flow.
    Flow(String),
    /// The entries of flow tables that lead to a port.
    Entries(String),
    /// A guest.
    Guest(String),
    /// A network namespace of a wire.
    Namespace(String),
    /// There is no CoreEngine.
    CoreEngine,
    /// A network stack module.
    Nsm(String),
    /// An application that the node runs.
    Application(String),
}
