//! What ICMP for IPv4 and for IPv6 have in common: the shape of the header, and of questions and
//! answers.

/// Defines a view of one version's messages and the header's plain values, by the type of the
/// version's message types. What only one version has (checksums over different things, pointers,
/// MTUs) stands beside it.
macro_rules! icmp {
    ($(#[$doc:meta])* $packet:ident, $(#[$header_doc:meta])* $header:ident, $kind:ident) => {
        /// The fields of both versions.
        mod common {
            use super::$kind;
            use crate::wire::Field;
            pub const TYPE: Field<0, $kind> = Field::NEW;
            pub const CODE: Field<1, u8> = Field::NEW;
            pub const CHECKSUM: Field<2, u16> = Field::NEW;
            /// Bytes whose meaning depends on the type; other fields are parts of them.
            pub const REST: Field<4, [u8; 4]> = Field::NEW;
            pub const IDENT: Field<4, u16> = Field::NEW;
            pub const SEQUENCE: Field<6, u16> = Field::NEW;
        }

        view! {
            $(#[$doc])*
            $packet, 8
        }

        impl<T: AsRef<[u8]>> $packet<T> {
            /// A view of `buffer`, one whole message. Does not look at the checksum.
            ///
            /// # Errors
            /// [`WireError::Truncated`](crate::wire::WireError::Truncated) under 8 bytes.
            #[inline(always)]
            pub fn new_checked(buffer: T) -> Result<Self, crate::wire::WireError> {
                if buffer.as_ref().len() < Self::HEADER_LEN {
                    return Err(crate::wire::WireError::Truncated);
                }
                Ok($packet { buffer })
            }

            /// The type of the message.
            #[inline(always)]
            pub fn icmp_type(&self) -> $kind {
                common::TYPE.get(self.header())
            }

            /// What in particular.
            #[inline(always)]
            pub fn code(&self) -> u8 {
                common::CODE.get(self.header())
            }

            /// The checksum.
            #[inline(always)]
            pub fn checksum(&self) -> u16 {
                common::CHECKSUM.get(self.header())
            }

            /// Bytes 4 to 8, whose meaning depends on the type.
            #[inline(always)]
            pub fn rest(&self) -> [u8; 4] {
                common::REST.get(self.header())
            }

            /// Echo and other questions and answers: whose.
            #[inline(always)]
            pub fn ident(&self) -> u16 {
                common::IDENT.get(self.header())
            }

            /// Echo and other questions and answers: which.
            #[inline(always)]
            pub fn sequence(&self) -> u16 {
                common::SEQUENCE.get(self.header())
            }

            /// The payload.
            #[inline(always)]
            pub fn payload(&self) -> &[u8] {
                self.bytes().get(Self::HEADER_LEN..).unwrap_or_default()
            }
        }

        impl<T: AsRef<[u8]> + AsMut<[u8]>> $packet<T> {
            /// Sets the type.
            #[inline(always)]
            pub fn set_icmp_type(&mut self, icmp_type: $kind) {
                common::TYPE.put(self.header_mut(), icmp_type);
            }

            /// Sets what in particular.
            #[inline(always)]
            pub fn set_code(&mut self, code: u8) {
                common::CODE.put(self.header_mut(), code);
            }

            /// Sets the checksum field to `checksum` as it is.
            #[inline(always)]
            pub fn set_checksum(&mut self, checksum: u16) {
                common::CHECKSUM.put(self.header_mut(), checksum);
            }

            /// Sets bytes 4 to 8.
            #[inline(always)]
            pub fn set_rest(&mut self, rest: [u8; 4]) {
                common::REST.put(self.header_mut(), rest);
            }

            /// Sets whose question or answer this is.
            #[inline(always)]
            pub fn set_ident(&mut self, ident: u16) {
                common::IDENT.put(self.header_mut(), ident);
            }

            /// Sets which question or answer this is.
            #[inline(always)]
            pub fn set_sequence(&mut self, sequence: u16) {
                common::SEQUENCE.put(self.header_mut(), sequence);
            }

            /// Updates the checksum for a change of the bytes that it covers.
            ///
            /// Exact unless that became all zeros (which only an IPv4 echo reply with neither
            /// identifier, number nor data is): then call [`Self::fill_checksum`].
            #[inline(always)]
            pub fn update_checksum(&mut self, delta: crate::checksum::Delta) {
                let checksum = delta.apply(self.checksum());
                self.set_checksum(checksum);
            }

            /// The payload.
            #[inline(always)]
            pub fn payload_mut(&mut self) -> &mut [u8] {
                let bytes = self.buffer.as_mut();
                bytes.get_mut(Self::HEADER_LEN..).unwrap_or_default()
            }
        }

        $(#[$header_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $header {
            /// The type of the message.
            pub icmp_type: $kind,
            /// What in particular.
            pub code: u8,
            /// Bytes 4 to 8, whose meaning depends on the type.
            pub rest: [u8; 4],
        }

        impl $header {
            /// Reads a message's header.
            #[inline]
            pub fn parse<T: AsRef<[u8]>>(packet: &$packet<T>) -> Self {
                $header {
                    icmp_type: packet.icmp_type(),
                    code: packet.code(),
                    rest: packet.rest(),
                }
            }

            /// Writes a message's header, its checksum zero: fill it once the payload is there.
            #[inline]
            pub fn emit<T: AsMut<[u8]>>(&self, packet: &mut $packet<T>) {
                if let Some(place) = packet.header_mut() {
                    *place = self.to_bytes();
                }
            }

            /// The header as it goes on the wire, its checksum zero.
            #[inline]
            pub fn to_bytes(&self) -> [u8; 8] {
                let mut bytes = [0; 8];
                common::TYPE.set(&mut bytes, self.icmp_type);
                common::CODE.set(&mut bytes, self.code);
                common::REST.set(&mut bytes, self.rest);
                bytes
            }
        }
    };
}
