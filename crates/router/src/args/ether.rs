//! Ethernet addresses.

use packet::wire::EtherAddress;

use super::{Argument, Context, Invalid};

/// `00:50:BA:85:84:A9`, `0-50-ba-85-84-a9`, or the name of an address.
impl Argument for EtherAddress {
    const KIND: &'static str = "Ethernet address";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        let literal = text.parse().ok();
        literal
            .or_else(|| context.names.ether(text, context.element))
            .ok_or(Invalid::PARSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[test]
    fn literals() {
        let parse = |text| Context::blank().parse::<EtherAddress>(text).ok();
        let address = EtherAddress([0, 0x50, 0xBA, 0x85, 0x84, 0xA9]);
        assert_eq!(parse("00:50:BA:85:84:A9"), Some(address));
        assert_eq!(parse("0-50-ba-85-84-a9"), Some(address));
        assert_eq!(address.to_string(), "00-50-BA-85-84-A9");
        for bad in [
            "",
            "1:2:3:4:5",
            "1:2:3:4:5:6:7",
            "1:2-3:4:5:6",
            "001:2:3:4:5:6",
            "1:2:3:4:5:",
            "+1:2:3:4:5:6",
            "1:+2:3:4:5:6",
            "123456",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
