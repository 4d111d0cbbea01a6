//! Any frames of a host, and any answers of a RADIUS server, to a PPPoEServer with a session of that host:
//! none panics, all that the concentrator sends is whole, and the table never has more sessions than it may.
//!
//! `cargo +nightly fuzz run bras`

#![no_main]

use elements::bras::control::{Control, options, protocol};
use elements::bras::frame::{DiscoveryTags, ETHER, HEADERS, Header, code};
use elements::bras::radius::RadiusAnswer;
use elements::testing::{Rig, SECOND, udp};
use libfuzzer_sys::fuzz_target;

const CONFIG: &str = r#"
i :: Inject -> kind :: Classifier(12/8863, 12/8864);
r :: RADIUSClient(10.0.0.1, SERVERS 10.0.0.9, SECRET sesame);
b :: PPPoEServer(2:0:0:0:0:1, 100.64.0.1, 100.64.0.0/29, USERS "ann secret", RADIUS r, CAPACITY 3,
    HOST_SESSIONS 2, IP6 true, POOL6 2001:db8::/60);
kind[0] -> [0] b -> out :: Collect;
kind[1] -> d :: PPPoEDecap(b) -> up :: Collect;
d[1] -> [1] b;
o :: Inject -> PPPoEEncap(b) -> down :: Collect;
a :: Inject -> MarkIPHeader -> r -> asked :: Collect;
"#;

/// The header of a frame from the host to the concentrator, without its type.
const ETHERNET: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];

fn frame(kind: [u8; 2], header: Header, payload: &[u8]) -> Vec<u8> {
    [&ETHERNET[..], &kind, &header.to_bytes(), payload].concat()
}

fn discovery(code: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u16;
    frame(
        [0x88, 0x63],
        Header {
            code,
            session: 0,
            length,
        },
        payload,
    )
}

fuzz_target!(|data: &[u8]| {
    if let Some(tags) = DiscoveryTags::parse(data) {
        assert!(tags.service.len() <= data.len());
    }
    if let Some(entries) = options(data) {
        let wholes: Vec<&[u8]> = entries.map(|entry| entry.whole).collect();
        assert_eq!(wholes.concat(), data);
    }
    if let Some(answer) = RadiusAnswer::parse(data) {
        answer.terms();
        answer.text();
        answer.is_authentic(&[0; 16], b"sesame");
    }
    let mut rig = Rig::new(CONFIG);
    rig.push("i", &discovery(code::PADI, &[1, 1, 0, 0]));
    let offer = rig.data("out").remove(0);
    // The cookie is the last tag.
    let cookie = &offer[offer.len() - 20..];
    rig.push(
        "i",
        &discovery(code::PADR, &[&[1, 1, 0, 0][..], cookie].concat()),
    );
    let mut rest = data;
    while let [kind, number, length, tail @ ..] = rest {
        let (payload, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = tail;
        let header = Header {
            code: if kind & 1 == 0 { 0 } else { *number },
            session: u16::from(kind >> 4),
            length: payload.len() as u16,
        };
        match kind & 7 {
            0 => rig.push("o", payload),
            1 => rig.push("i", &frame([0x88, 0x63], header, payload)),
            2 => rig.push(
                "a",
                &udp(
                    ([10, 0, 0, 9].into(), 1812),
                    ([10, 0, 0, 1].into(), 49152),
                    payload,
                ),
            ),
            3 => rig.advance(SECOND * u64::from(*number)),
            _ => {
                let protocols = [
                    protocol::LCP,
                    protocol::PAP,
                    protocol::CHAP,
                    protocol::IPCP,
                    protocol::IPV6CP,
                    protocol::IPV4,
                ];
                let protocol = protocols[usize::from(*number) % protocols.len()];
                let payload = [&protocol.to_be_bytes()[..], payload].concat();
                let header = Header {
                    code: 0,
                    length: payload.len() as u16,
                    ..header
                };
                rig.push("i", &frame([0x88, 0x64], header, &payload));
            }
        }
        for sent in rig.data("out") {
            let (header, payload) = Header::parse(&sent[ETHER..]).unwrap();
            assert_eq!(sent.len(), ETHER + 6 + payload.len());
            if header.code == 0 {
                assert!(Control::parse(&sent[HEADERS..]).is_some());
            }
        }
        assert!(rig.read("b.count").parse::<u32>().unwrap() <= 3);
    }
});
