//! Any arguments, packets, handler values and times on every element: nothing panics, reads outside
//! a buffer, goes on without end or keeps a buffer when the router is over.
//!
//! An input is text, a zero, a byte of choices and operations. The text is `Class(arguments)`,
//! around which a router is made, or if it has a connection or a declaration a whole configuration
//! with elements of the classes Inject, Collect and Puller to push and pull by. The library is a
//! guest's, built as for a guest, whose elements open nothing: classes that work on files, sockets
//! and the host's network are left out, and DiscardNoFree, whose purpose is to keep buffers.
//!
//! `make fuzz`, or with seeds made as there,
//! `cargo +nightly fuzz run --no-default-features --features guest elements corpus/elements
//! seeds/elements -- -dict=elements.dict`.
//! With ELEMENTS_REACHED set to a file's name, the classes that were in a router are added to it.

#![no_main]

#[cfg(feature = "host")]
compile_error!("the elements are to be built as for a guest: `--no-default-features`");

mod input;
mod packets;
mod play;
mod setup;

use libfuzzer_sys::{Corpus, fuzz_target};

use input::Input;

fuzz_target!(|data: &[u8]| -> Corpus {
    let end = data
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(data.len());
    let text = String::from_utf8_lossy(&data[..end]);
    let mut input = Input(data.get(end + 1..).unwrap_or_default());
    match setup::Setup::new(&text, input.byte()) {
        Some(setup) => play::play(setup, input),
        None => Corpus::Reject,
    }
});
