//! Streamed answers: each part is sent as soon as it is there.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{Stream, StreamExt, once};
use serde::Serialize;

use super::{Asked, NotedLater};
use crate::error::Error;
use crate::model::GuestOutcome;

/// The guests' results, as a list of JSON: each element is sent as soon as it is there. The request
/// is recorded after the last element, or when the client disconnects.
pub fn list(outcomes: impl Stream<Item = GuestOutcome> + Send + 'static, asked: Asked) -> Response {
    let mut recorded = Recorded {
        asked,
        guests: 0,
        refused: 0,
        first: None,
    };
    let elements = outcomes.map(move |outcome| {
        let before = match recorded.guests {
            0 => "",
            _ => ",\n",
        };
        recorded.add(&outcome);
        // All that is sent has keys that are text, which is what could go wrong.
        let json = serde_json::to_string(&outcome).unwrap_or_else(|_| "null".into());
        Bytes::from(format!("{before}{json}"))
    });
    let part = |text: &'static str| once(async move { Bytes::from_static(text.as_bytes()) });
    let all = part("[").chain(elements).chain(part("]\n"));
    let body = Body::from_stream(all.map(Ok::<_, Infallible>));
    let kind = [(CONTENT_TYPE, "application/json")];
    (Extension(NotedLater), kind, body).into_response()
}

/// A change of many guests, which is recorded when it is over.
struct Recorded {
    asked: Asked,
    guests: usize,
    refused: usize,
    first: Option<Error>,
}

impl Recorded {
    fn add(&mut self, outcome: &GuestOutcome) {
        self.guests += 1;
        if let Some(error) = &outcome.error {
            self.refused += 1;
            self.first.get_or_insert_with(|| error.clone());
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let Some((client, what)) = &self.asked.noting else {
            return;
        };
        let (guests, refused) = (self.guests, self.refused);
        let refusal = self.first.take().map(|first| {
            first.within(|why| match guests {
                1 => why.into(),
                _ => format!("refused for {refused} of {guests} guests, first: {why}"),
            })
        });
        client.note(what, refusal.as_ref().map_or(Ok(()), Err));
    }
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
