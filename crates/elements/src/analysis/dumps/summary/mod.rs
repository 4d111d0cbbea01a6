//! IP summary dumps: files of packets' fields, a line or a binary record for each packet.
//!
//! What can stand in a dump is one table of [`Field`]s. A field is one entry: its names, its
//! [`Format`] in text and in binary, how its value is taken from a packet ([`Seen`]) and how it is
//! put into one that is being made ([`Build`]). [`Reader`] turns a file into packets, [`Writer`]
//! packets into a file.

mod build;
mod fields;
mod format;
mod input;
mod ip_options;
mod reader;
mod scan;
mod seen;
pub mod tcp_options;
mod writer;

pub use build::{Build, Flow};
pub use format::{Format, Value};
pub use input::Lines;
pub use reader::{Defaults, Next, Note, Reader};
pub use seen::Seen;
pub use writer::{Selection, Writer};

/// Version of the format that is written; files of this major version are read.
pub const VERSION: (u32, u32) = (1, 3);

/// Most fields of one line.
pub const FIELDS_MAX: usize = 1024;

/// When a field is put into a packet that is made of a line: those of lower layers first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order(pub u16);

impl Order {
    pub const ANNO: Order = Order(100);
    pub const LINK: Order = Order(200);
    pub const NET: Order = Order(300);
    pub const TRANSPORT: Order = Order(400);
    pub const PAYLOAD: Order = Order(500);

    /// After those of this order (`n` above 0) or before them.
    pub const fn plus(self, n: i16) -> Order {
        Order(self.0.wrapping_add_signed(n))
    }
}

/// Takes a field's value from a packet; `None` if the packet does not have it.
pub type Extract = for<'p> fn(&mut Seen<'p>) -> Option<Value<'p>>;

/// Puts a field's value into a packet that is being made. Where it makes no sense, nothing happens.
pub type Inject = fn(&mut Build<'_>, &Value<'_>);

/// One field that a dump may have.
pub struct Field {
    /// Its name in files.
    pub name: &'static str,
    /// Other names that it goes by.
    pub aliases: &'static [&'static str],
    /// How its value looks.
    pub format: Format,
    /// Whether its value depends on the packet's IP header, which is checked before.
    pub of_ip: bool,
    /// `None`: cannot be written.
    pub extract: Option<Extract>,
    /// `None`: passed over when it is read.
    pub inject: Option<(Order, Inject)>,
}

impl Field {
    const fn new(name: &'static str, format: Format) -> Field {
        let (of_ip, extract, inject) = (false, None, None);
        Field {
            name,
            aliases: &[],
            format,
            of_ip,
            extract,
            inject,
        }
    }

    const fn of_ip(name: &'static str, format: Format) -> Field {
        Field {
            of_ip: true,
            ..Field::new(name, format)
        }
    }

    const fn aliases(self, aliases: &'static [&'static str]) -> Field {
        Field { aliases, ..self }
    }

    const fn extract(self, extract: Extract) -> Field {
        Field {
            extract: Some(extract),
            ..self
        }
    }

    const fn inject(self, order: Order, inject: Inject) -> Field {
        Field {
            inject: Some((order, inject)),
            ..self
        }
    }
}

/// What stands for a field that is not known.
pub static UNKNOWN: Field = Field::new("none", Format::Nothing);

/// The names of all fields.
pub fn field_names() -> impl Iterator<Item = &'static str> {
    fields::ALL
        .iter()
        .flat_map(|group| group.iter())
        .map(|field| field.name)
}

/// The field called `name`. A space counts as an underscore, and `ip_` may be left out.
pub fn find(name: &str) -> Option<&'static Field> {
    let known = |name: &str| {
        let mut fields = fields::ALL.iter().flat_map(|group| group.iter());
        fields.find(|field| field.name == name || field.aliases.contains(&name))
    };
    let plain = name.replace(' ', "_");
    known(&plain).or_else(|| {
        if plain.contains('_') {
            None
        } else {
            known(&["ip_", &plain].concat())
        }
    })
}

#[cfg(test)]
mod tests;
