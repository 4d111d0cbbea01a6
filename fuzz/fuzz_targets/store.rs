//! Requests of a guest and of the host, as they come from a socket or a ring: the store answers each
//! within a payload, and keeps its books.
#![no_main]

use libfuzzer_sys::fuzz_target;
use store::wire::{Header, Kind};
use store::{DomainId, Store};

fuzz_target!(|data: &[u8]| {
    let mut store = Store::default();
    store.introduce(DomainId(3));
    let clients = [store.connect(DomainId::CONTROL), store.connect(DomainId(3))];
    let mut rest = data;
    while let Some(([client, kind, transaction, len], behind)) = rest.split_first_chunk::<4>() {
        let len = behind.len().min(usize::from(*len));
        let (payload, behind) = behind.split_at(len);
        let header = Header {
            kind: u32::from(*kind % 28),
            transaction: u32::from(*transaction % 3),
            ..Header::default()
        };
        let client = clients[usize::from(client % 2)];
        let (_, reply) = store.request(client, header, payload);
        assert!(reply.len() <= store::wire::PAYLOAD_MAX);
        let _ = store.next_event(client);
        rest = behind;
    }
    let header = Header {
        kind: Kind::Control as u32,
        ..Header::default()
    };
    let (_, checked) = store.request(clients[0], header, b"check\0");
    let checked = String::from_utf8_lossy(&checked);
    assert!(checked.contains(" 0 nodes without a note"), "{checked}");
    assert!(checked.contains(" 0 notes without a node"), "{checked}");
});
