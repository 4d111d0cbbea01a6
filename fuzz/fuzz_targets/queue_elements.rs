//! Queue elements of a hostile tenant: CoreEngine and the kernel NSM go on, and so does another tenant.
//! It needs root, for a network namespace of its own.
#![no_main]

use std::cell::RefCell;

use abi::nqe::{Nqe, operation};
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/netkernel/tests/hostile/world.rs"]
mod world;

use world::{Of, World};

thread_local! {
    static WORLD: RefCell<World> = RefCell::new({
        world::own_namespace();
        World::new(Of::Kernel)
    });
}

/// Bytes of an element here: operation, socket, flags, family, two of a port, data, length.
const LEN: usize = 16;

fn element(bytes: &[u8; LEN]) -> Nqe {
    let [kind, socket, flags, family, low, high, ref rest @ ..] = *bytes;
    let data = u64::from_le_bytes([rest[0], rest[1], rest[2], rest[3], rest[4], rest[5], 0, 0]);
    let len = u32::from_le_bytes([rest[6], rest[7], rest[8], rest[9]]);
    let port = u16::from_le_bytes([low, high]);
    let nqe = Nqe::new(kind, u32::from(socket % 8)).with_flags(flags);
    match kind {
        // No address that is not this namespace's.
        operation::BIND | operation::CONNECT => {
            nqe.with_address(([127, 0, 0, 1], 40_000 + port % 4).into())
        }
        operation::SOCKET => nqe.with_data(data % 4).with_family(u32::from(family % 8)),
        operation::SET_OPTION | operation::GET_OPTION => nqe
            .with_data(u64::from(family) << 32 | data % 128)
            .with_chunk(u64::from(port), len % 1024),
        operation::ACCEPT | operation::LISTEN | operation::SHUTDOWN => nqe.with_data(data % 64),
        _ => nqe.with_chunk(data, len),
    }
}

fuzz_target!(|data: &[u8]| {
    WORLD.with_borrow_mut(|world| {
        for socket in 0..8 {
            world.hostile.submit(Nqe::new(operation::CLOSE, socket));
        }
        world.hostile.flush();
        for (n, bytes) in data.chunks_exact(LEN).enumerate() {
            if let Ok(bytes) = bytes.try_into() {
                world.hostile.submit(element(bytes));
            }
            if n % 8 == 7 {
                world.hostile.flush();
                world.turn();
                world.hostile.take(64, |_| ());
            }
        }
        world.hostile.flush();
        world.the_other_goes_on();
    });
});
