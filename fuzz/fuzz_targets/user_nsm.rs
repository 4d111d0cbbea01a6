//! Segments of a hostile peer, and whatever else the network may send, at a user NSM with a tenant that listens: the NSM
//! goes on, and so does another tenant.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/netkernel/tests/hostile/peer.rs"]
mod peer;
#[path = "../../crates/netkernel/tests/hostile/world.rs"]
mod world;

use peer::{Peer, Segment};
use world::{Of, World};

thread_local! {
    static WORLD: RefCell<(World, Peer)> = RefCell::new((World::new(Of::User), Peer::default()));
}

/// Bytes of a segment here: what is said, port, flags, sequence, acknowledgement, window, length, options. An offset is
/// small, or shifted.
const LEN: usize = 16;

fn offset([low, high]: [u8; 2]) -> i32 {
    i32::from(low as i8) << (high % 32)
}

fn segment(bytes: &[u8; LEN]) -> Segment {
    let [_, port, flags, a, b, c, d, e, f, len, _, _, options @ ..] = *bytes;
    Segment {
        port,
        flags,
        sequence: offset([a, b]),
        acknowledged: offset([c, d]),
        window: u16::from_be_bytes([e, f]),
        len,
        options,
    }
}

fuzz_target!(|data: &[u8]| {
    WORLD.with_borrow_mut(|(world, peer)| {
        peer.begin(world);
        for (n, bytes) in data.chunks(LEN).enumerate() {
            match (bytes[0] % 8, <&[u8; LEN]>::try_from(bytes)) {
                (0, _) => world.send(&bytes[1..]),
                (1, _) => peer.send_ip(world, [1, 6, 17][n % 3], &bytes[1..]),
                (_, Ok(bytes)) => peer.send(world, &segment(bytes)),
                _ => {}
            }
            if n % 4 == 3 {
                world.turn();
                peer.look(world);
                peer.serve(world);
            }
        }
        world.turn();
        peer.look(world);
        world.the_other_goes_on();
        peer.end(world);
    });
});
