//! LLRPCs: calls of an element with a few bytes of data instead of text. The call's number says how
//! many bytes go in each direction. Clients of a control socket make them.

use crate::handler::HandlerError;

/// The number of an LLRPC, as control sockets carry it: direction, size, and which call it is
/// (Click's `include/click/llrpc.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Llrpc(pub u32);

const OUT: u32 = 0x4000_0000;
const IN: u32 = 0x8000_0000;
/// The data is all there is: it holds no pointers.
const FLAT: u32 = 0x4000;
/// May be made beside other reads.
const SAFE: u32 = 0x8000;

impl Llrpc {
    /// A packet rate: 0 in, packets a second out.
    pub const GET_RATE: Llrpc = Llrpc::new(IN | OUT | SAFE, 4, 1);
    /// A count: 0 (packets) or 1 (bytes) in, the count out.
    pub const GET_COUNT: Llrpc = Llrpc::new(IN | OUT | SAFE, 4, 3);
    /// The port that a switch is set to.
    pub const GET_SWITCH: Llrpc = Llrpc::new(OUT | SAFE, 4, 5);
    /// Sets a switch.
    pub const SET_SWITCH: Llrpc = Llrpc::new(IN, 4, 6);

    /// Maps an IPv4 address, in network order, to another.
    pub const MAP_IP_ADDRESS: Llrpc = Llrpc::new(IN | OUT, 4, 7);

    const fn new(flags: u32, size: u32, number: u32) -> Llrpc {
        Llrpc(flags | FLAT | size << 16 | number)
    }

    /// Bytes of data.
    pub fn size(self) -> usize {
        (self.0 >> 16 & 0xfff) as usize
    }

    /// Whether data goes in.
    pub fn takes(self) -> bool {
        self.0 & IN != 0
    }

    /// Whether data comes out.
    pub fn gives(self) -> bool {
        self.0 & OUT != 0
    }

    /// Whether it can be made from another program: its data is all there is.
    pub fn is_remote(self) -> bool {
        self.size() > 0 && (self.takes() || self.gives()) && self.0 & FLAT != 0
    }
}

/// The four bytes of data of an LLRPC as a number in native order.
pub fn word(data: &[u8]) -> Result<u32, HandlerError> {
    let bytes = data.first_chunk().ok_or("Invalid argument")?;
    Ok(u32::from_ne_bytes(*bytes))
}

/// Sets the four bytes of data of an LLRPC.
pub fn set_word(data: &mut [u8], value: u32) -> Result<(), HandlerError> {
    let bytes = data.first_chunk_mut().ok_or("Invalid argument")?;
    *bytes = value.to_ne_bytes();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_protocol() {
        assert_eq!(Llrpc::GET_SWITCH, Llrpc(0x4004_c005));
        assert_eq!(Llrpc::SET_SWITCH, Llrpc(0x8004_4006));
        assert_eq!(Llrpc::GET_COUNT, Llrpc(0xc004_c003));
        assert!(Llrpc::SET_SWITCH.is_remote() && Llrpc::SET_SWITCH.size() == 4);
        // Click's GET_COUNTS passes a pointer.
        assert!(!Llrpc(0x2000_8004).is_remote());
    }
}
