//! Answers that are sent as they come about.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::stream::{Stream, StreamExt, once};
use serde::Serialize;

/// A list of JSON, each element of which is sent as soon as it is there. `turn` is kept until the last one is.
pub fn list<T: Serialize>(
    elements: impl Stream<Item = T> + Send + 'static,
    turn: impl Send + 'static,
) -> Response {
    let mut first = true;
    let elements = elements.map(move |element| {
        let _turn = &turn;
        let before = if std::mem::take(&mut first) {
            ""
        } else {
            ",\n"
        };
        // All that is sent has keys that are text, which is what could go wrong.
        let json = serde_json::to_string(&element).unwrap_or_else(|_| "null".into());
        Bytes::from(format!("{before}{json}"))
    });
    let part = |text: &'static str| once(async move { Bytes::from_static(text.as_bytes()) });
    let all = part("[").chain(elements).chain(part("]\n"));
    let body = Body::from_stream(all.map(Ok::<_, Infallible>));
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}
