//! The users that a concentrator knows itself: a line each, with name, secret, and an address if it is
//! always the same.

use hashbrown::HashMap;
use md5::{Digest, Md5};
use subtle::ConstantTimeEq;

use super::ppp::{NAME_MAX, Proof};
use crate::prelude::*;

/// Most users.
pub const USERS_MAX: usize = 1 << 16;

/// A line that is wrong, and the reason.
pub type Wrong = (usize, String);

/// A user.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    secret: Vec<u8>,
    /// The address that the user always has.
    pub address: Option<Ipv4Addr>,
}

/// Users by name.
#[derive(Default)]
pub struct Users(HashMap<Vec<u8>, User>);

impl Users {
    /// Reads a text with a user on each line: `NAME SECRET [ADDRESS]`. A line that begins with `#` is a
    /// comment.
    pub fn parse(text: &str) -> Result<Users, Wrong> {
        let mut users: HashMap<Vec<u8>, User> = HashMap::new();
        let mut addresses: HashMap<Ipv4Addr, usize> = HashMap::new();
        for (line, text) in (1..).zip(text.lines()) {
            let wrong = |why: String| Err((line, why));
            let mut words = text.split_whitespace();
            let Some(name) = words.next().filter(|word| !word.starts_with('#')) else {
                continue;
            };
            let Some(secret) = words.next() else {
                return wrong(format!(
                    "the user ‘{name}’ has no secret: write NAME SECRET [ADDRESS]"
                ));
            };
            let address = match words.next().map(|word| (word, word.parse::<Ipv4Addr>())) {
                None => None,
                Some((_, Ok(address))) if is_unicast(address) => Some(address),
                Some((word, _)) => {
                    return wrong(format!(
                        "‘{word}’ is no host's address: write one, as in 100.64.0.7, or none"
                    ));
                }
            };
            if let Some(more) = words.next() {
                return wrong(format!(
                    "‘{more}’ is too much: write NAME SECRET [ADDRESS], each without spaces"
                ));
            }
            if name.len() > NAME_MAX || secret.len() > NAME_MAX {
                return wrong(format!(
                    "a name and a secret have at most {NAME_MAX} bytes each"
                ));
            }
            if users.len() == USERS_MAX {
                return wrong(format!("there are more than {USERS_MAX} users"));
            }
            if let Some(address) = address
                && let Some(other) = addresses.insert(address, line)
            {
                return wrong(format!(
                    "the address {address} is that of the user of line {other}: write another"
                ));
            }
            let user = User {
                secret: secret.into(),
                address,
            };
            if users.insert(name.into(), user).is_some() {
                return wrong(format!("the user ‘{name}’ is there twice: write one line"));
            }
        }
        Ok(Users(users))
    }

    pub fn has(&self, name: &[u8]) -> bool {
        self.0.contains_key(name)
    }

    /// The user of this name, if the proof is right.
    pub fn verify(&self, name: &[u8], proof: &Proof) -> Option<&User> {
        let user = self.0.get(name)?;
        let is_right = match proof {
            Proof::Password(password) => bool::from(user.secret.ct_eq(password)),
            Proof::Chap {
                id,
                challenge,
                response,
            } => {
                let mut digest = Md5::new();
                digest.update([*id]);
                digest.update(&user.secret);
                digest.update(challenge);
                let expected: [u8; 16] = digest.finalize().into();
                bool::from(expected.ct_eq(response))
            }
        };
        is_right.then_some(user)
    }

    /// The addresses that users always have.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.0.values().filter_map(|user| user.address)
    }
}

/// Whether a host can have this address.
pub fn is_unicast(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first != 0 && first != 127 && first < 224
}

/// What is wrong with a text of users.
pub fn check(text: &str) -> Option<Wrong> {
    Users::parse(text).err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bras::ppp::Name;

    fn password(text: &str) -> Proof {
        Proof::Password(Name::from_slice(text.as_bytes()).unwrap())
    }

    #[test]
    fn users_prove_themselves() {
        let wrong = check("# All.\nann a#1\n\n  bob@isp  secret 100.64.0.7 # x").unwrap();
        assert_eq!(wrong.0, 4);
        let users = Users::parse("# All.\nann a#1\n\n  bob@isp  secret 100.64.0.7")
            .ok()
            .unwrap();
        assert!(users.verify(b"ann", &password("a#1")).is_some());
        assert!(users.verify(b"ann", &password("a")).is_none());
        assert!(users.verify(b"", &password("")).is_none());
        let bob = users.verify(b"bob@isp", &password("secret")).unwrap();
        assert_eq!(bob.address, Some(Ipv4Addr::new(100, 64, 0, 7)));
        // RFC 1994: the hash of identifier, secret and challenge; by md5sum.
        let chap = |response| Proof::Chap {
            id: 1,
            challenge: *b"0123456789abcdef",
            response,
        };
        let right: [u8; 16] = Md5::digest(b"\x01a#10123456789abcdef").into();
        assert!(users.verify(b"ann", &chap(right)).is_some());
        assert!(users.verify(b"ann", &chap([0; 16])).is_none());
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, line, part) in [
            ("ann", 1, "no secret"),
            ("#\nann a b", 2, "‘b’ is no host's address"),
            ("ann a 224.0.0.1", 1, "no host's address"),
            ("ann a 10.0.0.1 b", 1, "‘b’ is too much"),
            ("ann a\nann b", 2, "twice"),
            ("ann a 10.0.0.1\nbob b 10.0.0.1", 2, "line 1"),
        ] {
            let (at, why) = check(text).unwrap();
            assert!(at == line && why.contains(part), "{text}: {at}: {why}");
        }
        assert!(check(&format!("a {}", "x".repeat(129))).is_some());
        assert_eq!(check(""), None);
    }
}
