//! Bodies of requests, with limits on length, time and number.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::Instant;

use super::clients::{Client, Permits};
use super::json;
use crate::error::{Error, Kind, Result};
use crate::operation::Payload;

/// How long a body may take at least, however short it is.
const WAIT: Duration = Duration::from_secs(5);
/// Bytes that have to come in each further second.
const RATE: u32 = 1 << 20;

/// A request's body, of at most `most` bytes; `example` says how it looks. One that cannot be parsed is an
/// [`Error`] that names the field. With it comes the memory that it has, to be dropped after it.
pub async fn body<T: Payload>(
    client: &Client,
    request: Request,
    (most, example): (usize, &str),
) -> Result<(T, Permits)> {
    let is_json = is_json(&request);
    let body = request.into_body();
    let length = body.size_hint();
    if length.lower() > most as u64 {
        return Err(too_long(most));
    }
    let length = length
        .upper()
        .map_or(most, |upper| most.min(upper as usize));
    let none = || Error::invalid(format_args!("the request has no body: send {example}"));
    if length == 0 {
        return Err(none());
    }
    is_json?;
    let room = client.room(length).await?;
    let bytes = read(body, length, most).await?;
    if bytes.is_empty() {
        return Err(none());
    }
    client.set_busy(true);
    let value = json::parse(&bytes)?;
    drop(bytes);
    // serde would accept an array of the values in place of the object.
    if value.is_array() {
        return Err(Error::invalid(
            "the request's body is an array: give an object, {\"name\": …}",
        ));
    }
    Ok((T::parse(value)?, room))
}

fn too_long(most: usize) -> Error {
    Error::new(
        Kind::TooLarge,
        format_args!(
            "the request's body cannot be read: it is longer than {most} bytes, the maximum of this operation"
        ),
    )
}

/// Whether a request says that its body is JSON: `application/json`, or a kind of it.
fn is_json(request: &Request) -> Result<()> {
    let header = request.headers().get(CONTENT_TYPE);
    let text = header.and_then(|value| value.to_str().ok());
    let kind = text.and_then(|text| text.split(';').next()).map(str::trim);
    let kind = kind.unwrap_or_default().to_ascii_lowercase();
    let sub = kind.strip_prefix("application/");
    if sub.is_some_and(|sub| sub == "json" || sub.ends_with("+json")) {
        return Ok(());
    }
    let is = if kind.is_empty() {
        "of no type".into()
    } else {
        format!("‘{}’", kind.escape_debug())
    };
    Err(Error::new(
        Kind::NotJson,
        format_args!("the request's body is {is}: send ‘content-type: application/json’"),
    ))
}

/// All of a body that is `length` bytes long, or so it seems, as long as it keeps coming and is not too long.
async fn read(body: Body, length: usize, most: usize) -> Result<Vec<u8>> {
    let mut body = Limited::new(body, most);
    // The length may be a lie: memory is taken as it is written.
    let mut bytes = Vec::with_capacity(length.min(64 << 10));
    let start = Instant::now();
    loop {
        let limit = WAIT + Duration::from_secs(1) * (bytes.len() as u32) / RATE;
        let frame = tokio::time::timeout_at(start + limit, body.frame()).await;
        let Some(frame) = frame.map_err(|_| late(bytes.len(), limit))? else {
            return Ok(bytes);
        };
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                too_long(most)
            } else {
                Error::invalid(format_args!("the request's body cannot be read: {error}"))
            }
        })?;
        let data = frame.data_ref().map_or(&[][..], |data| data);
        if bytes.len() + data.len() > bytes.capacity() {
            // Not more than it can become, as doubling would be.
            let double = (2 * bytes.capacity()).min(length) - bytes.len().min(length);
            bytes.reserve_exact(double.max(data.len()));
        }
        bytes.extend_from_slice(data);
    }
}

fn late(came: usize, limit: Duration) -> Error {
    Error::new(
        Kind::Late,
        format_args!(
            "the request's body is too slow: {came} bytes came within {:.1} s, and it may take {} s and 1 s for each {RATE} bytes",
            limit.as_secs_f64(),
            WAIT.as_secs()
        ),
    )
}
