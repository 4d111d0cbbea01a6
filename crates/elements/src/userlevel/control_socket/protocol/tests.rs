use proptest::prelude::*;

use super::*;

/// A router with one element `e` and handlers to read (`r`), to write (`w`) and to fail (`f`).
#[derive(Default)]
struct Fake {
    written: Vec<String>,
}

impl Target for Fake {
    type Handler = String;

    fn find(&mut self, name: &str) -> Result<(String, HandlerFlags), Missing> {
        let handler = match name.split_once('.') {
            None => name,
            Some(("e" | "1", handler)) => handler,
            Some((element, _)) => return Err(Missing::Element(element.to_string())),
        };
        let both = HandlerFlags::READ.with(HandlerFlags::WRITE);
        let flags = match handler {
            "r" | "name" => HandlerFlags::READ,
            "w" => HandlerFlags::WRITE,
            "f" => both,
            _ => return Err(Missing::Handler),
        };
        Ok((handler.to_string(), flags))
    }

    fn read(&mut self, handler: &String, parameter: &str) -> Result<String, String> {
        match handler.as_str() {
            "f" => Err("one\ntwo".to_string()),
            _ => Ok(format!("<{parameter}>")),
        }
    }

    fn write(
        &mut self,
        handler: &String,
        value: &str,
        warnings: &mut Vec<String>,
    ) -> Result<(), String> {
        if value == "much" {
            warnings.push("warning: too much".to_string());
        }
        if handler == "f" {
            return Err("no".to_string());
        }
        self.written.push(value.to_string());
        Ok(())
    }

    fn llrpc(&mut self, _: &String, call: Llrpc, data: &mut [u8]) -> Result<(), String> {
        match call {
            Llrpc::GET_SWITCH => data.copy_from_slice(b"\0\r\n\xff"),
            Llrpc::SET_SWITCH => self.written.push(format!("{data:?}")),
            _ => return Err("Invalid argument".to_string()),
        }
        Ok(())
    }
}

/// What a client hears that says `pieces` one after the other and closes.
fn talk(target: &mut Fake, read_only: bool, pieces: &[&[u8]]) -> String {
    let mut session = Session::new(read_only);
    let mut received = Vec::new();
    let mut serve = |session: &mut Session| {
        while session.step(target) || !session.output().is_empty() {
            received.extend_from_slice(session.output());
            session.sent(session.output().len());
        }
    };
    for piece in pieces {
        session.input(piece);
        serve(&mut session);
    }
    session.close();
    serve(&mut session);
    assert!(session.over());
    let answers = received.strip_prefix(GREETING.as_bytes());
    decode(answers.expect("it greets first")).into_owned()
}

fn receive(input: &[u8]) -> String {
    talk(&mut Fake::default(), false, &[input])
}

#[test]
fn reads_answer_with_data() {
    let ok = "200 Read handler 'e.r' OK\r\nDATA 5\r\n<a b>";
    assert_eq!(receive(b"READ e.r a b\r\n"), ok);
    assert_eq!(receive(b"  get   e.r  a b  \n"), ok);
    assert_eq!(receive(b"READDATA e.r 3\r\na b"), ok);
    assert_eq!(
        receive(b"READUNTIL e.r\na b\n\n"),
        ok.replace("5\r\n<a b", "6\r\n<a b\n")
    );
    assert_eq!(
        receive(b"READ 1.r\n"),
        "200 Read handler '1.r' OK\r\nDATA 2\r\n<>"
    );
    assert_eq!(
        receive(b"READ .r"),
        "200 Read handler '.r' OK\r\nDATA 2\r\n<>"
    );
    assert_eq!(
        receive(b"READ 0.r"),
        "200 Read handler '0.r' OK\r\nDATA 2\r\n<>"
    );
}

#[test]
fn writes_take_values_in_three_ways() {
    let mut target = Fake::default();
    let received = talk(
        &mut target,
        false,
        &[b"WRITE e.w 1 2\nWRITEDATA e.w 5\n\nx\r\nyWRITEUNTIL w END\na\r\nb\nEND  \nSET w 3"],
    );
    assert_eq!(
        received.matches("200 Write handler").count(),
        4,
        "{received}"
    );
    assert_eq!(target.written, ["1 2", "\nx\r\ny", "a\r\nb\n", "3"]);
}

#[test]
fn values_are_bytes() {
    let mut target = Fake::default();
    let input = b"WRITEDATA e.w 3\r\na\xff\xe9READ e.r \xe9\r\nREAD x\xe9.r";
    let received = talk(&mut target, false, &[input]);
    assert_eq!(target.written, ["a\u{efff}\u{efe9}"]);
    assert!(received.contains("DATA 3\r\n<\u{efe9}>"), "{received}");
    let error = "510 No element named 'x\\351'";
    assert!(received.contains(error), "{received}");
}

#[test]
fn errors_have_click_s_codes_and_words() {
    let cases = [
        ("READ x.r", "510 No element named 'x'"),
        ("READ e.x", "511 No handler named 'e.x'"),
        ("READ e.w", "530 Handler 'e.w' write-only"),
        ("WRITE e.r", "530 Handler 'e.r' read-only"),
        ("READ", "500 Wrong number of arguments"),
        ("WRITEDATA e.w", "500 Wrong number of arguments"),
        ("WRITEDATA e.w x", "500 Syntax error in 'WRITEDATA'"),
        ("WRITEDATA e.w -1", "500 Syntax error in 'WRITEDATA'"),
        ("WRITEDATA e.w 4", "500 Not enough data"),
        ("WRITEUNTIL e.w x", "500 Not enough data"),
        ("nonsense", "501 Command 'NONSENSE' unimplemented"),
        ("CHECKREAD e.w", "511 Handler 'e.w' not readable"),
        ("CHECKWRITE e.r", "511 Handler 'e.r' not writable"),
        ("CHECKREAD e.r", "200 Read handler 'e.r' OK"),
        ("LLRPC e#zz", "500 Syntax error in LLRPC name 'e#zz'"),
        ("LLRPC e#10", "501 Cannot call LLRPC 'e#10' remotely"),
        (
            "LLRPC e#4004C007",
            "522 LLRPC 'e#4004C007' error: Invalid argument",
        ),
        (
            "LLRPC e#80044006",
            "522 LLRPC 'e#80044006' requires 4 bytes input data",
        ),
        (
            "LLRPC e#0x80044006",
            "522 LLRPC 'e#0x80044006' requires 4 bytes input data",
        ),
        ("LLRPC x#10", "510 No element named 'x'"),
        (
            "READ e.f",
            "590-Read handler 'e.f' error:\r\n590-one\r\n590 two",
        ),
        ("WRITE e.f", "520-Write handler 'e.f' error:\r\n520 no"),
        (
            "WRITE e.w much",
            "220-Write handler 'e.w' OK with warnings:\r\n220 warning: too much",
        ),
        (
            "WRITE e.f much",
            "520-Write handler 'e.f' error:\r\n520-warning: too much\r\n520 no",
        ),
        ("QUIT", "200 Goodbye!"),
    ];
    for (said, received) in cases {
        assert_eq!(
            receive(said.as_bytes()),
            format!("{received}\r\n"),
            "{said}"
        );
    }
}

#[test]
fn llrpcs_carry_bytes_both_ways() {
    let mut target = Fake::default();
    let mut session = Session::new(false);
    session.input(b"LLRPC e#4004C005\nLLRPC e#80044006 4\n\0\n\r\x01\n");
    while session.step(&mut target) {}
    let received = [
        GREETING.as_bytes(),
        b"200 LLRPC 'e#4004C005' OK\r\nDATA 4\r\n\0\r\n\xff",
        b"200 LLRPC 'e#80044006' OK\r\nDATA 0\r\n",
    ]
    .concat();
    assert_eq!(session.output(), received);
    assert_eq!(target.written, ["[0, 10, 13, 1]"]);
    let denied = talk(&mut target, true, &[b"LLRPC e#4004C005\n"]);
    assert_eq!(denied, "530 Permission denied for 'e#4004C005'\r\n");
}

#[test]
fn a_read_only_session_writes_nothing() {
    let mut target = Fake::default();
    let received = talk(
        &mut target,
        true,
        &[b"WRITE e.w 1\nCHECKWRITE e.w\nREAD e.r\n"],
    );
    assert_eq!(
        received.matches("530 Permission denied for 'e.w'").count(),
        2
    );
    assert!(received.contains("200 Read"));
    assert!(target.written.is_empty());
}

#[test]
fn nothing_is_heard_after_quit() {
    assert_eq!(receive(b"QUIT\nREAD e.r\n"), "200 Goodbye!\r\n");
}

#[test]
fn announced_data_that_is_too_large_is_skipped() {
    let length = DATA_MAX + 10;
    let mut target = Fake::default();
    let head = format!("WRITEDATA e.w {length}\n").into_bytes();
    let chunk = alloc::vec![b'x'; 1 << 20];
    let mut pieces: Vec<&[u8]> = alloc::vec![&head];
    pieces.extend((0..16).map(|_| &chunk[..]));
    pieces.push(b"0123456789READ e.r\n");
    let received = talk(&mut target, false, &pieces);
    let expected = "521 Data too large for handler 'e.w'\r\n\
                    200 Read handler 'e.r' OK\r\nDATA 2\r\n<>";
    assert_eq!(received, expected);
    assert!(target.written.is_empty());
}

#[test]
fn a_line_without_end_ends_the_session() {
    let line = alloc::vec![b'x'; LINE_MAX + 2];
    let received = talk(&mut Fake::default(), false, &[&line, b"\nREAD e.r\n"]);
    assert_eq!(received, "500 Line too long\r\n");
}

#[test]
fn a_client_that_does_not_listen_is_not_served() {
    let mut session = Session::new(false);
    let mut target = Fake::default();
    session.input(&b"HELP\n".repeat(1000));
    while session.step(&mut target) {}
    assert!(session.output().len() < 2 * OUTPUT_HIGH);
    session.sent(session.output().len());
    assert!(session.step(&mut target));
}

/// Bytes that are commands more often than chance would have it.
fn scripts() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just(b"READ e.r x".to_vec()),
        Just(b"WRITE e.w x".to_vec()),
        Just(b"WRITEDATA e.w 3".to_vec()),
        Just(b"READUNTIL e.r z".to_vec()),
        Just(b"z".to_vec()),
        Just(b"LLRPC e#1 2".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(part, 0..20).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn how_bytes_arrive_does_not_matter(script in scripts(), cuts in prop::collection::vec(0usize..200, 0..6)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(script.len())).collect();
        cuts.extend([0, script.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &script[w[0]..w[1]]).collect();
        let (mut whole, mut cut) = (Fake::default(), Fake::default());
        let received = talk(&mut whole, false, &[&script]);
        prop_assert_eq!(received, talk(&mut cut, false, &pieces));
        prop_assert_eq!(whole.written, cut.written);
    }
}
