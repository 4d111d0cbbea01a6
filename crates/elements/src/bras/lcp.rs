//! The options of LCP (RFC 1661, section 6; RFC 2516, section 7).

use super::control::{Entry, Options, add_option, protocol};
use super::layer::{Env, Negotiate, Opinion};

mod option {
    pub const MRU: u8 = 1;
    pub const AUTHENTICATION: u8 = 3;
    pub const MAGIC_NUMBER: u8 = 5;
}

/// CHAP's algorithm MD5 (RFC 1994, section 3).
const MD5: u8 = 5;

/// How peers authenticate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    #[default]
    Chap,
    Pap,
}

/// The methods that are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Methods {
    /// CHAP is asked for first.
    #[default]
    Any,
    Only(Method),
}

impl Methods {
    fn first(self) -> Method {
        match self {
            Methods::Any => Method::Chap,
            Methods::Only(method) => method,
        }
    }

    fn allows(self, method: Method) -> bool {
        self == Methods::Any || self == Methods::Only(method)
    }
}

/// What LCP negotiates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lcp {
    /// Bytes of a packet that are sent and received at most.
    mru: u16,
    asks_mru: bool,
    methods: Methods,
    /// How the peer is asked to authenticate.
    pub method: Method,
    /// This side's magic number; 0 if the peer rejects the option.
    pub magic: u32,
}

impl Lcp {
    pub fn new(mru: u16, methods: Methods, env: &mut Env<'_>) -> Lcp {
        Lcp {
            mru,
            asks_mru: true,
            methods,
            method: methods.first(),
            magic: magic(env),
        }
    }
}

/// A magic number.
fn magic(env: &mut Env<'_>) -> u32 {
    u32::from_be_bytes(env.bytes()).max(1)
}

impl Negotiate for Lcp {
    const PROTOCOL: u16 = protocol::LCP;

    fn request(&self) -> Options {
        let mut options = Options::new();
        if self.asks_mru {
            add_option(&mut options, option::MRU, &self.mru.to_be_bytes());
        }
        let method: &[u8] = match self.method {
            Method::Chap => &[0xc2, 0x23, MD5],
            Method::Pap => &[0xc0, 0x23],
        };
        add_option(&mut options, option::AUTHENTICATION, method);
        if self.magic != 0 {
            let magic = self.magic.to_be_bytes();
            add_option(&mut options, option::MAGIC_NUMBER, &magic);
        }
        options
    }

    fn judge(&self, option: Entry<'_>, env: &mut Env<'_>) -> Opinion {
        match (option.kind, option.data) {
            // The peer takes packets of every length that is sent, and a frame has room for them.
            (option::MRU, &[a, b]) if u16::from_be_bytes([a, b]) >= self.mru => Opinion::Good,
            (option::MRU, _) => Opinion::better(&self.mru.to_be_bytes()),
            (option::MAGIC_NUMBER, &[a, b, c, d]) => {
                match u32::from_be_bytes([a, b, c, d]) {
                    // The peer has no number, or is this side itself.
                    0 => Opinion::better(&magic(env).to_be_bytes()),
                    number if number == self.magic => Opinion::better(&magic(env).to_be_bytes()),
                    _ => Opinion::Good,
                }
            }
            // This side does not authenticate; the other options are for other links.
            _ => Opinion::Unknown,
        }
    }

    fn suggested(&mut self, option: Entry<'_>, env: &mut Env<'_>) -> bool {
        match (option.kind, option.data) {
            // Longer packets do not fit in a frame, and shorter ones are received anyway.
            (option::MRU, _) => true,
            (option::AUTHENTICATION, data) => {
                let method = match *data {
                    [0xc2, 0x23, MD5] => Method::Chap,
                    [0xc0, 0x23] => Method::Pap,
                    _ => return false,
                };
                let allowed = self.methods.allows(method);
                if allowed {
                    self.method = method;
                }
                allowed
            }
            (option::MAGIC_NUMBER, _) => {
                self.magic = magic(env);
                true
            }
            _ => true,
        }
    }

    fn rejected(&mut self, option: Entry<'_>) -> bool {
        match option.kind {
            option::MRU => self.asks_mru = false,
            option::MAGIC_NUMBER => self.magic = 0,
            _ => {}
        }
        option.kind != option::AUTHENTICATION
    }
}
