//! Any bytes as a request or a response of HTTP: heads are read or refused, and what is read and written
//! again is the same; bodies end within the bytes, and however they come in pieces, they are the same.
//!
//! `cargo +nightly fuzz run http_messages`

#![no_main]

use elements::cache::framing::Body;
use elements::cache::head::{self, Framing, Method};
use libfuzzer_sys::fuzz_target;

/// The body of a text in chunks, read in pieces, and how much of the text it is.
fn body(text: &[u8], piece: usize) -> Option<(Vec<u8>, usize)> {
    let mut body = Body::new(Framing::Chunked);
    let (mut out, mut at) = (Vec::new(), 0);
    while at < text.len() && !body.is_done() {
        let end = (at + piece).min(text.len());
        at += body
            .read(&text[at..end], usize::MAX, |part| out.extend(part))
            .ok()?;
    }
    body.is_done().then_some((out, at))
}

fuzz_target!(|data: &[u8]| {
    let _ = head::response(data, &Method::Get);
    if let Ok(Some((read, size))) = head::request(data) {
        assert!(size <= data.len() && size <= head::HEAD_MAX);
        let start = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\n",
            read.method.name(),
            read.target,
            read.host
        );
        let mut again = start.into_bytes();
        read.fields.write(&mut again);
        again.extend(b"\r\n");
        // Names and their spaces take a little more.
        if let Ok(Some((second, _))) = head::request(&again) {
            assert_eq!((&second.target, &second.host), (&read.target, &read.host));
            assert_eq!(second.fields, read.fields);
            assert_eq!(second.framing, Framing::Length(0));
        } else {
            assert!(again.len() > head::HEAD_MAX);
        }
    }
    assert_eq!(body(data, 1), body(data, data.len().max(1)));
});
