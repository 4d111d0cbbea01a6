//! Any bytes from a client of a control socket: they end, soon, without a panic, in answers; and
//! however they are cut into pieces, the answers are the same.
//!
//! `cargo +nightly fuzz run control_socket fuzz/corpus/control_socket fuzz/seeds/control_socket`

#![no_main]

use elements::userlevel::control_socket::protocol::{Missing, Session, Target};
use libfuzzer_sys::fuzz_target;
use router::HandlerFlags;

/// A router with handlers `r` to read, `w` to write, and `f` that fails.
#[derive(Default)]
struct Fake {
    written: Vec<String>,
}

impl Target for Fake {
    type Handler = char;

    fn find(&mut self, name: &str) -> Result<(char, HandlerFlags), Missing> {
        let both = HandlerFlags::READ.with(HandlerFlags::WRITE);
        match name {
            "r" | "e.r" => Ok(('r', HandlerFlags::READ)),
            "w" | "e.w" => Ok(('w', HandlerFlags::WRITE)),
            "f" => Ok(('f', both)),
            _ if name.contains('.') => Err(Missing::Element(name.to_owned())),
            _ => Err(Missing::Handler),
        }
    }

    fn read(&mut self, handler: &char, parameter: &str) -> Result<String, String> {
        match handler {
            'f' => Err(parameter.to_owned()),
            _ => Ok(parameter.to_owned()),
        }
    }

    fn write(&mut self, handler: &char, value: &str, _: &mut Vec<String>) -> Result<(), String> {
        if *handler == 'f' {
            return Err(value.to_owned());
        }
        self.written.push(value.to_owned());
        Ok(())
    }
}

fn talk(bytes: &[u8], piece: usize) -> (Vec<u8>, Vec<String>) {
    let (mut session, mut target) = (Session::new(false), Fake::default());
    let mut heard = Vec::new();
    let mut serve = |session: &mut Session| {
        while session.step(&mut target) || !session.output().is_empty() {
            heard.extend_from_slice(session.output());
            session.sent(session.output().len());
        }
    };
    for piece in bytes.chunks(piece) {
        session.input(piece);
        serve(&mut session);
    }
    session.close();
    serve(&mut session);
    assert!(session.over());
    (heard, target.written)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let whole = talk(rest, usize::MAX);
    assert_eq!(whole, talk(rest, 1 + usize::from(*first)));
});
