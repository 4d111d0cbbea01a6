//! Answers that are sent as they come about.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::sse::{Event, KeepAlive, Sse};
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

/// How often a stream of events says that it is alive. A client that is gone is noticed then.
const ALIVE: Duration = Duration::from_secs(10);

/// Values as server-sent events, each with its number.
pub fn events<T: Serialize>(values: impl Stream<Item = (u64, T)> + Send + 'static) -> Response {
    let events = values.map(|(number, value)| {
        let json = serde_json::to_string(&value).unwrap_or_else(|_| "null".into());
        Ok::<_, Infallible>(Event::default().id(number.to_string()).data(json))
    });
    let alive = KeepAlive::new().interval(ALIVE);
    Sse::new(events).keep_alive(alive).into_response()
}
