//! Bodies of requests: so long, so slow, and so many at a time.

use std::time::Duration;

use axum::Json;
use axum::body::HttpBody;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::Semaphore;

use crate::error::{Error, Result};
use crate::operation::Payload;

/// Longest body of a request, in bytes: a configuration as JSON, every character escaped.
pub const BODY_MAX: usize = 6 * abi::boot::CONFIG_MAX + 4096;
/// How long the next part of a request's body may take.
const BODY_WAIT: Duration = Duration::from_secs(2);
/// Bodies over so many bytes, or of a length that is not told, are large.
const LARGE: u64 = 1 << 20;
/// Large bodies wait for each other, so that no number of clients takes all memory.
static LARGE_BODIES: Semaphore = Semaphore::const_new(8);

/// A request's body; without one, that of an empty object. One that cannot be parsed is an
/// [`Error`] that names the field.
pub async fn body<T: Payload>(request: Request) -> Result<T> {
    let length = request.body().size_hint().exact();
    let _turn = if length.is_some_and(|length| length <= LARGE) {
        None
    } else {
        LARGE_BODIES.acquire().await.ok()
    };
    let (parts, body) = request.into_parts();
    let body = match read(body).await? {
        body if body.is_empty() => b"{}".to_vec(),
        body => body,
    };
    // What is made of an object would be made of its values alone as well.
    if body.trim_ascii_start().starts_with(b"[") {
        return Err(Error::invalid(
            "the request's body is an array: give an object, {\"name\": …}",
        ));
    }
    let body = axum::body::Body::from(body);
    match Json::from_request(Request::from_parts(parts, body), &()).await {
        Ok(Json(body)) => T::parse(body),
        Err(rejection) => Err(Error::invalid(sentence(&rejection))),
    }
}

/// All of a body, as long as it keeps coming and is not too long.
async fn read(body: axum::body::Body) -> Result<Vec<u8>> {
    let wrong = |why: &dyn std::fmt::Display| {
        Error::invalid(format_args!("the request's body cannot be read: {why}"))
    };
    let late = format!("nothing came for {} s", BODY_WAIT.as_secs());
    let long = format!("it is longer than {BODY_MAX} bytes, the maximum");
    if body.size_hint().lower() > BODY_MAX as u64 {
        return Err(wrong(&long));
    }
    let mut body = Limited::new(body, BODY_MAX);
    let mut bytes = Vec::new();
    let next = async |body: &mut Limited<axum::body::Body>| {
        let frame = tokio::time::timeout(BODY_WAIT, body.frame()).await;
        frame.map_err(|_| wrong(&late))
    };
    while let Some(frame) = next(&mut body).await? {
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                wrong(&long)
            } else {
                wrong(&error)
            }
        })?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    Ok(bytes)
}

fn sentence(rejection: &JsonRejection) -> String {
    format!(
        "the request's body cannot be parsed: {}",
        rejection.body_text()
    )
}
