//! Numbers with names: ports, protocols, and others of the name database.

use packet::wire::IpProtocol;

use super::{Argument, Context, Int, Integer, Invalid, Kind, Parser, tables};

/// A number of kind `.0`, or its name. The number may be anything that fits.
#[derive(Clone, Copy, Debug)]
pub struct NamedInt(pub Kind);

impl<T: Integer> Parser<T> for NamedInt {
    fn parse(&self, text: &str, context: &Context<'_>) -> Result<T, Invalid> {
        match context.names.int(self.0, text, context.element) {
            Some(value) if i128::from(value) <= T::MAX => Ok(T::from_i128(value.into())),
            Some(_) => Err(Invalid::PARSE),
            None => Int::ANY.parse(text, context),
        }
    }
}

/// A port of the IP protocol `.0`, by number or name.
#[derive(Clone, Copy, Debug)]
pub struct Port(pub u8);

impl Port {
    /// A port of TCP.
    pub const TCP: Port = Port(tables::TCP);
    /// A port of UDP.
    pub const UDP: Port = Port(tables::UDP);
}

impl Parser<u16> for Port {
    fn parse(&self, text: &str, context: &Context<'_>) -> Result<u16, Invalid> {
        let port = context
            .names
            .int_or_number(Kind::Port(self.0), text, context.element);
        u16::try_from(port.ok_or(Invalid::PARSE)?)
            .map_err(|_| Invalid::because("overflow, range 0-65535"))
    }
}

macro_rules! named {
    ($($(#[$doc:meta])* $name:ident($type:ty) = $parser:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $type);

        impl Argument for $name {
            const KIND: &'static str = "port";

            fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
                $parser.parse(text, context).map($name)
            }
        }
    )*};
}

named! {
    /// A TCP port, by number or name.
    TcpPort(u16) = Port::TCP;
    /// A UDP port, by number or name.
    UdpPort(u16) = Port::UDP;
}

/// An IP protocol number, or its name: `tcp`, `udp`, `icmp`.
impl Argument for IpProtocol {
    const KIND: &'static str = "IP protocol";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        let number = NamedInt(Kind::IpProtocol).parse(text, context);
        number.map(IpProtocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[test]
    fn ports_and_protocols() {
        let context = Context::blank();
        assert_eq!(context.parse("www"), Ok(TcpPort(80)));
        assert_eq!(context.parse("0x35"), Ok(UdpPort(53)));
        assert_eq!(context.parse("udp"), Ok(IpProtocol(17)));
        assert_eq!(context.parse("89"), Ok(IpProtocol(89)));
        assert_eq!(context.parse::<UdpPort>("fooz"), Err(Invalid::PARSE));
        assert_eq!(Port(132).parse("www", &context), Err(Invalid::PARSE));
        let error = context.parse::<TcpPort>("70000").unwrap_err();
        assert_eq!(error.to_string(), "overflow, range 0-65535");
        let error = context.parse::<IpProtocol>("nonesuch").unwrap_err();
        assert_eq!(error.to_string(), "invalid number");
        let echo: Result<i32, _> = NamedInt(Kind::IcmpType).parse("echo", &context);
        assert_eq!(echo, Ok(8));
    }
}
