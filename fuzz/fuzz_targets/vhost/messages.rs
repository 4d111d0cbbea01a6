//! vhost-user messages of any kind, whole and in part, with any descriptors: the port may refuse
//! them, and goes on with the next frontend; another port is served all the while.
#![no_main]

#[path = "../../../crates/switch/tests/vhost/frontend.rs"]
mod frontend;
mod place;

use std::os::fd::{AsFd, BorrowedFd};

use frontend::{Frontend, GUEST, HEADER, USER, feature};
use libfuzzer_sys::fuzz_target;
use place::Place;

fuzz_target!(|data: &[u8]| {
    let mut place = Place::new();
    place
        .honest
        .announce(feature::VERSION_1 | feature::MRG_RXBUF);
    // The read end of an answer is never waited for.
    place
        .hostile
        .stream
        .set_nonblocking(true)
        .expect("non-blocking");
    let mut input = Input(data);
    if input.byte() & 1 == 0 {
        place
            .hostile
            .announce(feature::VERSION_1 | u64::from(input.byte()) << 28 & feature::EVENT_IDX);
    }
    place.round();
    while !input.0.is_empty() {
        say(&place.hostile, &mut input);
        if input.byte() & 3 == 0 {
            place.round();
        }
    }
    place.round();
    let [_, mut transmit] = place.honest.drivers();
    transmit.send([0; HEADER], &[0x42; 60], &[1]);
    place.round();
    place.round();
    assert_eq!(transmit.take_back(), Some((0, 0)));
});

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        byte
    }

    /// A number that often means something.
    fn word(&mut self) -> u64 {
        match self.byte() {
            n @ 0..=99 => n.into(),
            n @ 100..=149 => USER + (u64::from(n) - 100) * 0x4000,
            n @ 150..=199 => GUEST + (u64::from(n) - 150) * 0x1_0000,
            n @ 200..=219 => 1 << (n - 200),
            n @ 220..=229 => u64::from(self.byte()) | u64::from(n - 220) << 32,
            n => u64::from_le_bytes([self.byte(), n, 0, self.byte(), 0, n, 0, self.byte()]),
        }
    }
}

fn say(frontend: &Frontend, input: &mut Input<'_>) {
    let request = u32::from(input.byte()) % 48;
    let flags = match input.byte() {
        n @ 0..=15 => n.into(),
        n @ 16..=31 => u32::from(n) << 3,
        n if n % 2 == 0 => 1,
        _ => 9,
    };
    let words = usize::from(input.byte()) % 20;
    let mut body: Vec<u8> = (0..words)
        .flat_map(|_| input.word().to_le_bytes())
        .collect();
    body.truncate(body.len().saturating_sub(match input.byte() {
        n @ 1..=7 => n.into(),
        _ => 0,
    }));
    let null = std::fs::File::open("/dev/null").expect("a file");
    let kinds: [BorrowedFd<'_>; 4] = [
        frontend.memory.as_fd(),
        frontend.kicks[0].as_fd(),
        frontend.stream.as_fd(),
        null.as_fd(),
    ];
    let files = usize::from(input.byte()) % 10;
    let files: Vec<_> = (0..files)
        .map(|_| kinds[usize::from(input.byte()) % 4])
        .collect();
    if input.byte() == 255 {
        // Half a message, and perhaps the rest of it as the next.
        let mut whole = Vec::new();
        for word in [request, flags, body.len() as u32] {
            whole.extend(word.to_le_bytes());
        }
        whole.extend(body);
        whole.truncate(usize::from(input.byte()));
        frontend.send_raw(&whole, &files);
    } else {
        frontend.send(request, flags, &body, &files);
    }
}
