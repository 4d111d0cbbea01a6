//! Named places in a header, and the frame that all views share.

use core::marker::PhantomData;
use core::net::{Ipv4Addr, Ipv6Addr};

/// A value of type `V` that stands `AT` bytes from the start of a header.
///
/// A constant of this type is a name without a size. That the value lies inside the header is
/// checked at compile time.
///
/// ```
/// use packet::wire::Field;
/// const LENGTH: Field<2, u16> = Field::NEW;
/// let mut header = [0x45, 0, 0x01, 0x02];
/// assert_eq!(LENGTH.get(&header), 0x0102);
/// LENGTH.set(&mut header, 0x1020);
/// assert_eq!(header, [0x45, 0, 0x10, 0x20]);
/// ```
///
/// ```compile_fail
/// use packet::wire::Field;
/// const PAST_THE_END: Field<3, u16> = Field::NEW;
/// PAST_THE_END.get(&[0; 4]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Field<const AT: usize, V>(PhantomData<V>);

impl<const AT: usize, V: Value> Field<AT, V> {
    /// The field.
    pub const NEW: Self = Field(PhantomData);

    /// The bytes that the field takes in a header.
    pub const fn range(self) -> core::ops::Range<usize> {
        AT..AT + V::SIZE
    }

    /// The field's value in `header`.
    #[inline(always)]
    pub fn get<const L: usize>(self, header: &[u8; L]) -> V {
        const { assert!(AT + V::SIZE <= L, "the field ends behind its header") };
        V::read(&header[AT..AT + V::SIZE])
    }

    /// Writes the field in `header`.
    #[inline(always)]
    pub fn set<const L: usize>(self, header: &mut [u8; L], value: V) {
        const { assert!(AT + V::SIZE <= L, "the field ends behind its header") };
        value.write(&mut header[AT..AT + V::SIZE]);
    }

    /// Writes the field if there is a header.
    #[inline(always)]
    pub(super) fn put<const L: usize>(self, header: Option<&mut [u8; L]>, value: V) {
        if let Some(header) = header {
            self.set(header, value);
        }
    }
}

/// A type with one form on the wire: big-endian, of a fixed size, every bit pattern valid.
pub trait Value: Copy {
    /// Bytes on the wire.
    const SIZE: usize;

    /// The value in the first [`Self::SIZE`] bytes. Zeros where there are fewer.
    fn read(bytes: &[u8]) -> Self;

    /// Writes the value to the first [`Self::SIZE`] bytes, or nothing where there are fewer.
    fn write(self, bytes: &mut [u8]);
}

impl<const N: usize> Value for [u8; N] {
    const SIZE: usize = N;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        *fixed(bytes)
    }

    #[inline(always)]
    fn write(self, bytes: &mut [u8]) {
        if let Some(place) = bytes.first_chunk_mut() {
            *place = self;
        }
    }
}

/// Implements [`Value`] for a type that converts from and to an array of its bytes.
macro_rules! value {
    ($($type:ty, $size:literal, $from:expr, $to:expr;)*) => {$(
        impl $crate::wire::Value for $type {
            const SIZE: usize = $size;

            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                $from(<[u8; $size] as $crate::wire::Value>::read(bytes))
            }

            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                <[u8; $size] as $crate::wire::Value>::write($to(self), bytes);
            }
        }
    )*};
}

value! {
    u8, 1, u8::from_be_bytes, u8::to_be_bytes;
    u16, 2, u16::from_be_bytes, u16::to_be_bytes;
    u32, 4, u32::from_be_bytes, u32::to_be_bytes;
    Ipv4Addr, 4, Ipv4Addr::from_octets, |address: Ipv4Addr| address.octets();
    Ipv6Addr, 16, Ipv6Addr::from_octets, |address: Ipv6Addr| address.octets();
}

/// The first `L` bytes, or zeros where there are fewer.
#[inline(always)]
pub(super) fn fixed<const L: usize>(bytes: &[u8]) -> &[u8; L] {
    match bytes.first_chunk() {
        Some(header) => header,
        None => const { &[0; L] },
    }
}

/// Defines a view: its struct, and what all views have.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident, $length:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name<T> {
            buffer: T,
        }

        impl<T> $name<T> {
            /// The length of the fixed header in bytes.
            pub const HEADER_LEN: usize = $length;

            /// A view of `buffer` as it is: for writing a header where none is yet, or over bytes
            /// checked before. Reads past the end give zeros, writes past it do nothing.
            #[inline(always)]
            pub const fn new_unchecked(buffer: T) -> Self {
                $name { buffer }
            }

            /// Gives the buffer back.
            #[inline(always)]
            pub fn into_inner(self) -> T {
                self.buffer
            }
        }

        impl<T: AsRef<[u8]>> $name<T> {
            /// The fixed header's bytes. Zeros if the buffer has fewer.
            #[inline(always)]
            pub fn header(&self) -> &[u8; $length] {
                $crate::wire::field::fixed(self.buffer.as_ref())
            }

            /// The buffer from the header's first byte to its own end.
            #[inline(always)]
            pub fn bytes(&self) -> &[u8] {
                self.buffer.as_ref()
            }
        }

        impl<T: AsMut<[u8]>> $name<T> {
            /// The fixed header's bytes. None if the buffer has fewer.
            #[inline(always)]
            pub fn header_mut(&mut self) -> Option<&mut [u8; $length]> {
                self.buffer.as_mut().first_chunk_mut()
            }
        }
    };
}

/// Defines a newtype of a number on the wire, with names for the values that have one. The list of
/// names ends in the registry that assigns them.
macro_rules! numbers {
    ($(#[$doc:meta])* $type:ident($number:ty, $size:literal) {
        $($(#[$name_doc:meta])* $name:ident = $value:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $type(pub $number);

        impl $type {
            $($(#[$name_doc])* pub const $name: $type = $type($value);)*
        }

        impl From<$number> for $type {
            #[inline(always)]
            fn from(number: $number) -> Self {
                $type(number)
            }
        }

        impl From<$type> for $number {
            #[inline(always)]
            fn from(value: $type) -> Self {
                value.0
            }
        }

        value! {
            $type, $size,
            |bytes| $type(<$number>::from_be_bytes(bytes)),
            |value: $type| value.0.to_be_bytes();
        }
    };
}
