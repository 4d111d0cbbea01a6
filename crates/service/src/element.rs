//! Queue elements as C has them.

use std::ffi::c_int;

use abi::nqe::Nqe;

/// `struct weir_nqe`: a queue element, with the fields of [`Nqe`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Element {
    pub operation: u8,
    pub tenant: u8,
    pub queue_set: u8,
    pub flags: u8,
    pub socket: u32,
    pub data: u64,
    pub offset: u64,
    pub len: u32,
    pub extra: u32,
}

const _: () = assert!(size_of::<Element>() == 32);

impl From<Nqe> for Element {
    fn from(nqe: Nqe) -> Element {
        Element {
            operation: nqe.operation,
            tenant: nqe.tenant,
            queue_set: nqe.queue_set,
            flags: nqe.flags,
            socket: nqe.socket,
            data: nqe.data,
            offset: nqe.offset,
            len: nqe.len,
            extra: nqe.extra,
        }
    }
}

impl From<Element> for Nqe {
    fn from(element: Element) -> Nqe {
        Nqe {
            operation: element.operation,
            tenant: element.tenant,
            queue_set: element.queue_set,
            flags: element.flags,
            socket: element.socket,
            data: element.data,
            offset: element.offset,
            len: element.len,
            extra: element.extra,
        }
    }
}

/// The error of an element.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nqe_error(element: &Element) -> c_int {
    Nqe::from(*element).error()
}

/// Sets the error of an element.
#[unsafe(no_mangle)]
pub extern "C" fn weir_nqe_set_error(element: &mut Element, error: c_int) {
    *element = Nqe::from(*element).with_error(error).into();
}
