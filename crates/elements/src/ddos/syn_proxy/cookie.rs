//! SYN cookies: initial sequence numbers that only their maker can make, and that say what the SYN said.
//!
//! ```text
//!  31      30        28 27                     0
//! +-------+------------+------------------------+
//! | epoch | size index | code of authentication |
//! +-------+------------+------------------------+
//! ```
//! The code is over the addresses, the ports, the client's initial sequence number, the size index and the
//! options. Two keys are valid, of this period and of the one before; the epoch's lowest bit says
//! which. Window scale and SACK come back in the lowest bits of the echoed timestamp, as from Linux
//! (`net/netfilter/nf_synproxy_core.c`), and only a client with timestamps gets them.

use core::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::flow::ip6::AnyKey;
use crate::prelude::*;

/// Maximum segment sizes that a cookie can say, in order.
pub const SIZES: [u16; 8] = [536, 1220, 1300, 1360, 1400, 1440, 1452, 1460];
const SIZE_SHIFT: u32 = 28;
const CODE: u32 = (1 << SIZE_SHIFT) - 1;

/// The window scale that stands for none.
const NO_SCALE: u8 = 15;
/// The greatest window scale (RFC 7323, section 2.3).
const SCALE_MAX: u8 = 14;
const SACK: u8 = 1 << 4;
/// Bits of a timestamp that say options.
const OPTION_BITS: u32 = 0x3f;

/// What a client can do, besides its segment size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// By how much it scales its windows.
    pub scale: Option<u8>,
    /// Whether it takes selective acknowledgments.
    pub sack: bool,
}

impl Abilities {
    /// Of a client without timestamps, of which nothing is remembered.
    pub const NONE: Abilities = Abilities {
        scale: None,
        sack: false,
    };

    fn code(self) -> u8 {
        let scale = self.scale.map_or(NO_SCALE, |scale| scale.min(SCALE_MAX));
        scale | if self.sack { SACK } else { 0 }
    }

    /// A timestamp that says them, at most `now`.
    pub fn timestamp(self, now: u32) -> u32 {
        let stamp = now & !OPTION_BITS | u32::from(self.code());
        match stamp.wrapping_sub(now) as i32 > 0 {
            true => stamp.wrapping_sub(OPTION_BITS + 1),
            false => stamp,
        }
    }

    /// Those that a timestamp says.
    pub fn of_timestamp(stamp: u32) -> Abilities {
        let code = (stamp & OPTION_BITS) as u8;
        let scale = code & 15;
        Abilities {
            scale: (scale <= SCALE_MAX).then_some(scale),
            sack: code & SACK != 0,
        }
    }
}

/// The keys of cookies.
#[derive(Clone, Copy, Default)]
pub struct Cookies {
    keys: [[u64; 2]; 2],
    epoch: u32,
}

impl Cookies {
    /// Cookies of two new keys.
    pub fn new(random: &mut Random) -> Cookies {
        let mut cookies = Cookies::default();
        cookies.rotate(random);
        cookies.rotate(random);
        cookies
    }

    /// Begins a period with a new key; cookies of the period before the last end.
    pub fn rotate(&mut self, random: &mut Random) {
        self.epoch ^= 1;
        self.keys[self.epoch as usize & 1] = [random.next_u64(), random.next_u64()];
    }

    /// The code that goes with `top`, the bits above it.
    fn code(&self, key: AnyKey, isn: u32, abilities: Option<Abilities>, top: u32) -> u32 {
        let [first, second] = self.keys[(top >> 31) as usize];
        let mut hasher = SipHasher24::new_with_keys(first, second);
        match key {
            AnyKey::V4(key) => hasher.write_u64(key.addresses),
            AnyKey::V6(key) => {
                for address in key.addresses {
                    hasher.write_u128(address.to_bits());
                }
            }
        }
        hasher.write_u64(u64::from(key.ports()) << 32 | u64::from(isn));
        let abilities = abilities.map_or(0xff, Abilities::code);
        hasher.write_u64(u64::from(top) << 8 | u64::from(abilities));
        hasher.finish() as u32 & CODE
    }

    /// The cookie for a SYN of `key` with initial sequence number `isn`, from a client that takes segments
    /// of `size`; `abilities` of one with timestamps.
    pub fn make(&self, key: AnyKey, isn: u32, size: u16, abilities: Option<Abilities>) -> u32 {
        let index = SIZES.iter().rposition(|it| *it <= size).unwrap_or(0);
        let top = self.epoch << 31 | (index as u32) << SIZE_SHIFT;
        top | self.code(key, isn, abilities, top)
    }

    /// The segment size that a cookie says; `None` if it is none of these.
    pub fn check(
        &self,
        key: AnyKey,
        isn: u32,
        cookie: u32,
        abilities: Option<Abilities>,
    ) -> Option<u16> {
        let top = cookie & !CODE;
        let is_right = self.code(key, isn, abilities, top) == cookie & CODE;
        let size = SIZES.get((top >> SIZE_SHIFT & 7) as usize).copied();
        size.filter(|_| is_right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::ip6::FlowKey6;
    use crate::rewriter::key::FlowKey;
    use crate::testing::*;

    const KEY: AnyKey = AnyKey::V4(FlowKey {
        addresses: 0x0a00_0001_0a00_0002,
        ports: 0x1234_0050,
    });
    const KEY6: AnyKey = AnyKey::V6(FlowKey6 {
        addresses: [
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
        ],
        ports: 0x1234_0050,
    });

    #[test]
    fn cookies_live_for_two_periods() {
        let mut random = Random::new(7);
        let mut cookies = Cookies::new(&mut random);
        let cookie = cookies.make(KEY, 9, 1460, None);
        assert_eq!(cookies.check(KEY, 9, cookie, None), Some(1460));
        cookies.rotate(&mut random);
        assert_ne!(cookies.make(KEY, 9, 1460, None) >> 31, cookie >> 31);
        assert_eq!(cookies.check(KEY, 9, cookie, None), Some(1460));
        cookies.rotate(&mut random);
        assert_eq!(cookies.check(KEY, 9, cookie, None), None);
    }

    proptest! {
        #[test]
        fn a_cookie_says_what_the_syn_said(
            (isn, size, now) in any::<(u32, u16, u32)>(),
            scale in prop::option::of(0u8..=14),
            sack: bool,
            other: u32,
            key in prop::sample::select(vec![KEY, KEY6]),
        ) {
            let cookies = Cookies::new(&mut Random::new(1));
            let abilities = Abilities { scale, sack };
            let stamp = abilities.timestamp(now);
            prop_assert!(now.wrapping_sub(stamp) < 128);
            prop_assert_eq!(Abilities::of_timestamp(stamp), abilities);
            let cookie = cookies.make(key, isn, size, Some(abilities));
            let said = cookies.check(key, isn, cookie, Some(abilities)).unwrap();
            prop_assert!(said <= size.max(536) && SIZES.contains(&said));
            prop_assert_eq!(cookies.check(key, isn, cookie, None), None);
            prop_assert_eq!(cookies.check(key.reverse(), isn, cookie, Some(abilities)), None);
            prop_assert_eq!(cookies.check(key, isn ^ 1, cookie, Some(abilities)), None);
            if other != 0 {
                prop_assert_eq!(cookies.check(key, isn, cookie ^ other, Some(abilities)), None);
            }
        }
    }
}
