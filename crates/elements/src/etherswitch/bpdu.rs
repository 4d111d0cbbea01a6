//! Bridge protocol data units (IEEE Std 802.1D-1998, clause 9) in their Ethernet frames.
//!
//! ```text
//!  0        6     12     14    16   17   19  20     21    22   30   34     42   44  46  48    50
//! +--------+-----+------+-----+----+----+---+------+-----+----+----+------+----+---+---+-----+-----+
//! | bridge | src | len  | LLC      | 0  | 0 | type | flg |root|cost|bridge|port|age|max|hello|delay|
//! +--------+-----+------+-----+----+----+---+------+-----+----+----+------+----+---+---+-----+-----+
//! ```

use core::fmt;

use crate::prelude::*;

/// Length of a frame with its padding.
pub const FRAME: usize = 60;
/// Where a topology change notification ends, and a configuration.
const NOTIFICATION_END: usize = 21;
const CONFIGURATION_END: usize = 52;

/// Whom frames are for: all bridges (802.1D, table 7-9).
const ALL_BRIDGES: EtherAddress = EtherAddress([0x01, 0x80, 0xc2, 0, 0, 0]);
/// LLC: both access points are the bridge protocol's, the control says unnumbered information.
const LLC: [u8; 3] = [0x42, 0x42, 3];
const CONFIGURATION: u8 = 0;
const NOTIFICATION: u8 = 0x80;
const TOPOLOGY_CHANGE: u8 = 1;
const ACKNOWLEDGMENT: u8 = 0x80;

/// The frame's fields.
mod field {
    use super::{EtherAddress, Field};
    pub const DESTINATION: Field<0, EtherAddress> = Field::NEW;
    pub const SOURCE: Field<6, EtherAddress> = Field::NEW;
    pub const LENGTH: Field<12, u16> = Field::NEW;
    pub const LLC: Field<14, [u8; 3]> = Field::NEW;
    pub const PROTOCOL: Field<17, u16> = Field::NEW;
    pub const TYPE: Field<20, u8> = Field::NEW;
    pub const FLAGS: Field<21, u8> = Field::NEW;
    pub const ROOT: Field<22, [u8; 8]> = Field::NEW;
    pub const COST: Field<30, u32> = Field::NEW;
    pub const BRIDGE: Field<34, [u8; 8]> = Field::NEW;
    pub const PORT: Field<42, u16> = Field::NEW;
    pub const AGE: Field<44, u16> = Field::NEW;
    pub const MAX_AGE: Field<46, u16> = Field::NEW;
    pub const HELLO: Field<48, u16> = Field::NEW;
    pub const DELAY: Field<50, u16> = Field::NEW;
}

/// A bridge: its priority in the upper 16 bits, its address in the lower 48. The lowest is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BridgeId(pub u64);

impl BridgeId {
    /// The bridge of an address and a priority.
    pub fn new(priority: u16, address: EtherAddress) -> BridgeId {
        BridgeId(u64::from(priority) << 48 | address.to_bits())
    }
}

/// A time as it is sent: 256ths of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub u16);

impl Ticks {
    /// The time in nanoseconds.
    pub fn nanoseconds(self) -> u64 {
        u64::from(self.0) * 1_000_000_000 / 256
    }

    /// The time nearest to `nanoseconds`; 255 seconds and a bit at most.
    pub fn of(nanoseconds: u64) -> Ticks {
        let ticks = nanoseconds.saturating_mul(256) / 1_000_000_000;
        Ticks(u16::try_from(ticks).unwrap_or(u16::MAX))
    }
}

/// The times by which all bridges of a tree go: its root's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long a configuration holds.
    pub max_age: Ticks,
    /// Between two configurations of the root.
    pub hello: Ticks,
    /// How long a port listens, and then learns.
    pub forward_delay: Ticks,
}

/// What a bridge says of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The root.
    pub root: BridgeId,
    /// What the way there costs the sender.
    pub cost: u32,
    /// The sender.
    pub bridge: BridgeId,
    /// The port it sends by.
    pub port: u16,
    /// How long ago the root sent what this follows from.
    pub age: Ticks,
    /// The root's times.
    pub times: Times,
    /// Whether the topology changes.
    pub topology_change: bool,
    /// Whether a notification of that has come.
    pub acknowledgment: bool,
}

/// A message between bridges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bpdu {
    /// A configuration.
    Configuration(Configuration),
    /// The topology changed: to be told to the root.
    Notification,
}

impl Bpdu {
    /// Reads a frame; `None` if it is no message of the protocol. Does not look at its addresses.
    pub fn parse(frame: &[u8]) -> Option<Bpdu> {
        let fixed = frame.first_chunk::<NOTIFICATION_END>()?;
        if field::LLC.get(fixed) != LLC || field::PROTOCOL.get(fixed) != 0 {
            return None;
        }
        match field::TYPE.get(fixed) {
            NOTIFICATION => return Some(Bpdu::Notification),
            CONFIGURATION => {}
            _ => return None,
        }
        let bytes = frame.first_chunk::<CONFIGURATION_END>()?;
        let flags = field::FLAGS.get(bytes);
        Some(Bpdu::Configuration(Configuration {
            root: BridgeId(u64::from_be_bytes(field::ROOT.get(bytes))),
            cost: field::COST.get(bytes),
            bridge: BridgeId(u64::from_be_bytes(field::BRIDGE.get(bytes))),
            port: field::PORT.get(bytes),
            age: Ticks(field::AGE.get(bytes)),
            times: Times {
                max_age: Ticks(field::MAX_AGE.get(bytes)),
                hello: Ticks(field::HELLO.get(bytes)),
                forward_delay: Ticks(field::DELAY.get(bytes)),
            },
            topology_change: flags & TOPOLOGY_CHANGE != 0,
            acknowledgment: flags & ACKNOWLEDGMENT != 0,
        }))
    }

    /// The frame from `source` to all bridges.
    pub fn to_frame(self, source: EtherAddress) -> [u8; FRAME] {
        let mut frame = [0; FRAME];
        let bytes = &mut frame;
        field::DESTINATION.set(bytes, ALL_BRIDGES);
        field::SOURCE.set(bytes, source);
        field::LLC.set(bytes, LLC);
        let end = match self {
            Bpdu::Notification => {
                field::TYPE.set(bytes, NOTIFICATION);
                NOTIFICATION_END
            }
            Bpdu::Configuration(configuration) => {
                configuration.write(bytes);
                CONFIGURATION_END
            }
        };
        field::LENGTH.set(bytes, (end - 14) as u16);
        frame
    }
}

impl Configuration {
    fn write(&self, bytes: &mut [u8; FRAME]) {
        let flag = |set, flag| if set { flag } else { 0 };
        let flags = flag(self.topology_change, TOPOLOGY_CHANGE);
        field::TYPE.set(bytes, CONFIGURATION);
        field::FLAGS.set(bytes, flags | flag(self.acknowledgment, ACKNOWLEDGMENT));
        field::ROOT.set(bytes, self.root.0.to_be_bytes());
        field::COST.set(bytes, self.cost);
        field::BRIDGE.set(bytes, self.bridge.0.to_be_bytes());
        field::PORT.set(bytes, self.port);
        field::AGE.set(bytes, self.age.0);
        field::MAX_AGE.set(bytes, self.times.max_age.0);
        field::HELLO.set(bytes, self.times.hello.0);
        field::DELAY.set(bytes, self.times.forward_delay.0);
    }
}

/// As Click's DebugBridge prints it; times in 256ths of a second, hexadecimal as all numbers.
impl fmt::Display for Bpdu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bpdu::Configuration(c) = self else {
            return f.write_str("TCM");
        };
        let acknowledgment = if c.acknowledgment { "TCA" } else { "tca" };
        let change = if c.topology_change { "TC" } else { "tc" };
        let Times {
            max_age,
            hello,
            forward_delay,
        } = c.times;
        write!(
            f,
            "CFG {:16x}:{:04x}: {acknowledgment} {change}  {:08x} -> {:16x}  \
             a/m/h/d: {:x}/{:x}/{:x}/{:x}",
            c.bridge.0, c.port, c.cost, c.root.0, c.age.0, max_age.0, hello.0, forward_delay.0
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn frames_say_what_was_meant(
            ids: (u64, u64), cost: u32, port: u16, times: [u16; 4], flags: (bool, bool)
        ) {
            let [age, max_age, hello, forward_delay] = times.map(Ticks);
            let sent = Bpdu::Configuration(Configuration {
                root: BridgeId(ids.0),
                cost,
                bridge: BridgeId(ids.1),
                port,
                age,
                times: Times { max_age, hello, forward_delay },
                topology_change: flags.0,
                acknowledgment: flags.1,
            });
            let frame = sent.to_frame(EtherAddress([2; 6]));
            prop_assert_eq!(Bpdu::parse(&frame), Some(sent));
            prop_assert_eq!(Bpdu::parse(&frame[..51]), None);
        }

        #[test]
        fn any_bytes_can_be_read(bytes: alloc::vec::Vec<u8>) {
            let _ = Bpdu::parse(&bytes);
        }
    }

    #[test]
    fn a_notification_is_as_the_standard_has_it() {
        let frame = Bpdu::Notification.to_frame(EtherAddress([2; 6]));
        let expected = [
            1, 0x80, 0xc2, 0, 0, 0, 2, 2, 2, 2, 2, 2, 0, 7, 0x42, 0x42, 3, 0, 0, 0, 0x80, 0,
        ];
        assert_eq!(frame[..22], expected);
        assert_eq!(Bpdu::parse(&frame), Some(Bpdu::Notification));
        let mut other = frame;
        other[14] = 0xaa;
        assert_eq!(Bpdu::parse(&other), None);
    }

    #[test]
    fn ticks_are_256ths_of_a_second() {
        assert_eq!(Ticks::of(20_000_000_000), Ticks(20 * 256));
        assert_eq!(Ticks(15 * 256).nanoseconds(), 15_000_000_000);
        assert_eq!(Ticks::of(u64::MAX), Ticks(u16::MAX));
    }
}
