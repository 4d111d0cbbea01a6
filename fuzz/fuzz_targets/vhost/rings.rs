//! A driver's rings, split or packed, with anything in them: descriptors, tables, heads, indices,
//! laps. The port may break with the frontend; it reads and writes only what that handed over, and
//! another port is served all the while.
#![no_main]

#[path = "../../../crates/switch/tests/vhost/frontend.rs"]
mod frontend;
mod place;

use frontend::packed::{self, PACKED_SIZE};
use frontend::{
    BUFFERS, BYTES, Driver, GUEST, HEADER, INDIRECT, SIZE, available_at, feature, table_at,
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
        (8, feature::PACKED),
        (16, feature::INDIRECT),
    ] {
        if choice & bit != 0 {
            features |= also;
        }
    }
    let mut place = Place::new();
    place
        .honest
        .announce(feature::VERSION_1 | feature::MRG_RXBUF);
    place.hostile.announce(features);
    place.round();
    let [mut room, mut transmit] = place.honest.drivers();
    (0..8).for_each(|i| room.give_room(i, 4096));
    let drivers = place.hostile.drivers();
    // Nothing is written before the buffers.
    let guard = [0xa5; 64];
    drivers[0].write(BUFFERS - 64, &guard);
    // Each round of input is 8 bytes an entry, and then 18 for each queue.
    for round in data.chunks(2 * (8 * 16 + 18)) {
        for (driver, part) in drivers.iter().zip(round.chunks(8 * 16 + 18)) {
            let (entries, rest) = part.split_at(part.len().min(8 * 16));
            let rest: [u8; 18] = std::array::from_fn(|i| rest.get(i).copied().unwrap_or(3));
            match (driver.is_packed(), choice & 32 != 0) {
                (false, _) => fill_split(driver, entries, &rest),
                (true, false) => offer_packed(driver, entries, &rest),
                (true, true) => fill_packed(driver, entries, &rest),
            }
            driver.ring();
            // It goes on from what the ring says then.
            if choice & 16 != 0 && rest[14] & 1 != 0 {
                place.hostile.restart(driver.queue);
            }
        }
        transmit.send(
            [
                choice >> 7,
                choice >> 6 & 1,
                54,
                0,
                100,
                0,
                34,
                0,
                16,
                0,
                0,
                0,
            ],
            &frame(usize::from(choice) * 40),
            &[HEADER, 1],
        );
        place.round();
        assert_eq!(transmit.take_back(), Some((0, 0)));
        if let Some((head, _)) = room.take_back() {
            room.give_room(head, 4096);
        }
    }
    assert_eq!(drivers[0].read(BUFFERS - 64, 64), guard);
});

/// A descriptor: address, length, flags.
fn describe(driver: &Driver, entry: &[u8]) -> (u64, u32, u16) {
    let flags = (entry[6] & 7).into();
    let address = match entry[0] {
        0..=3 => u64::MAX - u64::from(entry[1]),
        4..=7 => GUEST + BYTES - u64::from(entry[1]),
        200..=255 if flags & INDIRECT != 0 => GUEST + table_at(driver.queue),
        n => GUEST + BUFFERS + u64::from(n) * 4096 + u64::from(entry[1]),
    };
    let len = match flags & INDIRECT != 0 && entry[1] & 1 != 0 {
        true => u32::from(entry[2] % 18) * 16,
        false => u32::from_le_bytes([entry[2], entry[3], entry[4] & entry[5] & 1, 0]),
    };
    (address, len, flags)
}

/// Sets descriptors, in the table behind a packed ring also, and entries of the indirect table.
fn set(driver: &Driver, entries: &[u8]) {
    for (i, entry) in (0..).zip(entries.chunks_exact(8)) {
        let (address, len, flags) = describe(driver, entry);
        let next = (entry[7] % 17).into();
        driver.set_descriptor(i, address, len, flags, next);
        driver.set_entry(i, address, len, flags & u16::from(entry[5] | 3), next);
    }
}

fn fill_split(driver: &Driver, entries: &[u8], rest: &[u8; 18]) {
    set(driver, entries);
    let heads: Vec<u8> = rest.iter().take(16).flat_map(|&n| [n % 20, 0]).collect();
    driver.write(available_at(driver.queue) + 4, &heads);
    driver.set_index((rest[16] % (SIZE as u8 + 4)).into());
}

/// Makes buffers available as a driver by the book does, whatever they are.
fn offer_packed(driver: &Driver, entries: &[u8], rest: &[u8; 18]) {
    set(driver, entries);
    let mut ring = driver.packed();
    for head in &rest[..usize::from(rest[16] % 17)] {
        if ring.taken() < PACKED_SIZE {
            ring.offer((head % 20).into());
        }
    }
    driver.write(
        available_at(driver.queue),
        &[rest[15], rest[14], rest[17], 0],
    );
}

/// Writes into the ring at any place, for any lap.
fn fill_packed(driver: &Driver, entries: &[u8], rest: &[u8; 18]) {
    set(driver, entries);
    let ring = driver.packed();
    let first = packed::Position::START.after(u16::from(rest[16]) % PACKED_SIZE);
    for (i, entry) in (0..).zip(entries.chunks_exact(8)) {
        let (address, len, flags) = describe(driver, entry);
        let lap = match entry[6] >> 3 {
            0..16 => first.after(i).available(),
            16..24 => first.after(PACKED_SIZE).after(i).available(),
            n => u16::from(n & 1) << 7 | u16::from(n & 2) << 14,
        };
        ring.write(
            first.after(i).slot,
            address,
            len,
            entry[7].into(),
            flags | lap,
        );
    }
}

/// A TCP/IPv4 frame with so much payload.
fn frame(payload: usize) -> Vec<u8> {
    let mut frame = vec![0; 54 + payload];
    let total = (40 + payload) as u16;
    frame[..16].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0]);
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    frame[23] = 6;
    frame[46] = 0x50;
    frame
}
