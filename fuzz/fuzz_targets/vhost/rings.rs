//! A driver's rings with anything in them: descriptors, heads, indices. The port may break with
//! the frontend; it reads and writes only what that handed over, and another port is served all
//! the while.
#![no_main]

#[path = "../../../crates/switch/tests/vhost/frontend.rs"]
mod frontend;
mod place;

use frontend::{
    BUFFERS, BYTES, GUEST, HEADER, SIZE, available_at, feature,
};
use libfuzzer_sys::fuzz_target;
use place::Place;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let mut features = feature::VERSION_1;
    for (bit, also) in [
        (1, feature::MRG_RXBUF),
        (2, feature::EVENT_IDX),
        (4, feature::GUEST_CSUM | feature::GUEST_TSO4),
    ] {
        if choice & bit != 0 {
            features |= also;
        }
    }
    let mut place = Place::new();
    place.honest.announce(feature::VERSION_1 | feature::MRG_RXBUF);
    place.hostile.announce(features);
    place.turn();
    let [mut room, mut transmit] = place.honest.drivers();
    (0..8).for_each(|i| room.give_room(i, 4096));
    let drivers = place.hostile.drivers();
    // Nothing is written before the buffers.
    let guard = [0xa5; 64];
    drivers[0].write(BUFFERS - 64, &guard);
    // Each round of input is 8 bytes an entry, and then a header and an index for each queue.
    for round in data.chunks(2 * (8 * 16 + 16 + 2)) {
        for (queue, (driver, part)) in drivers.iter().zip(round.chunks(8 * 16 + 18)).enumerate() {
            let queue = queue as u32;
            for (i, entry) in (0..).zip(part.chunks_exact(8).take(16)) {
                let address = match entry[0] {
                    0..=3 => u64::MAX - u64::from(entry[1]),
                    4..=7 => GUEST + BYTES - u64::from(entry[1]),
                    n => GUEST + BUFFERS + u64::from(n) * 4096 + u64::from(entry[1]),
                };
                let len = u32::from_le_bytes([entry[2], entry[3], entry[4] & entry[5] & 1, 0]);
                driver.set_descriptor(i, address, len, (entry[6] & 7).into(), (entry[7] % 17).into());
            }
            let rest = part.get(8 * 16..).unwrap_or_default();
            let heads: Vec<u8> = rest.iter().take(16).flat_map(|&n| [n % 20, 0]).collect();
            driver.write(available_at(queue) + 4, &heads);
            let index = rest.get(16).copied().unwrap_or(3);
            driver.set_index((index % (SIZE as u8 + 4)).into());
            driver.ring();
        }
        transmit.send(
            [choice >> 7, choice >> 6 & 1, 54, 0, 100, 0, 34, 0, 16, 0, 0, 0],
            &frame(usize::from(choice) * 40),
            &[HEADER, 1],
        );
        place.turn();
        assert_eq!(transmit.take_back(), Some((0, 0)));
        if let Some((head, _)) = room.take_back() {
            room.give_room(head, 4096);
        }
    }
    assert_eq!(drivers[0].read(BUFFERS - 64, 64), guard);
});

/// A TCP/IPv4 frame with so much payload.
fn frame(payload: usize) -> Vec<u8> {
    let mut frame = vec![0; 54 + payload];
    let total = (40 + payload) as u16;
    frame[..16].copy_from_slice(&[
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0,
    ]);
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    frame[23] = 6;
    frame[46] = 0x50;
    frame
}
