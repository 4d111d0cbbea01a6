//! Answers that are read as they grow.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::ops::ControlFlow;

use http_body_util::BodyExt;
use hyper::body::{Buf, Bytes, Incoming};
use serde::de::{DeserializeOwned, Deserializer, SeqAccess, Visitor};
use tokio::runtime::Runtime;

use super::endpoint::{Endpoint, Half};
use super::{TIMEOUT, confused, ended, late, refusal, runtime, send};
use crate::error::Result;

/// An answer's bytes, as they come.
pub struct Growing {
    runtime: Runtime,
    body: Incoming,
    part: Bytes,
    node: Endpoint,
    half: Option<Half>,
}

/// Sends a request and reads its answer's beginning.
pub fn ask(node: &Endpoint, method: &str, path: &str, body: Vec<u8>) -> Result<Growing> {
    let runtime = runtime()?;
    let begun = async {
        let response = send(node, method, path, body).await?;
        let status = response.status();
        let half = response.extensions().get::<Half>().cloned();
        let body = response.into_body();
        if status.is_success() {
            return Ok((body, half));
        }
        let why = body.collect().await;
        let why = why.map_err(|error| ended(node, &error))?;
        Err(refusal(status, &why.to_bytes()))
    };
    let (body, half) = runtime
        .block_on(async { tokio::time::timeout(TIMEOUT, begun).await })
        .map_err(|_| late(node, TIMEOUT))??;
    Ok(Growing {
        runtime,
        body,
        part: Bytes::new(),
        node: node.clone(),
        half,
    })
}

impl Growing {
    /// The next bytes; none at the end.
    fn next(&mut self) -> Result<Option<Bytes>> {
        let frame = self.body.frame();
        let frame = self
            .runtime
            .block_on(async { tokio::time::timeout(TIMEOUT, frame).await })
            .map_err(|_| late(&self.node, TIMEOUT))?;
        match frame {
            None => Ok(None),
            Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
            Some(Err(error)) => Err(ended(&self.node, &error)),
        }
    }
}

impl Read for Growing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() {
            match self.next().map_err(io::Error::other)? {
                Some(part) => self.part = part,
                None => return Ok(0),
            }
        }
        let length = into.len().min(self.part.len());
        self.part.copy_to_slice(&mut into[..length]);
        Ok(length)
    }
}

/// Reads a list of JSON, and passes each element to `told` as soon as it is there. When `told` says not to go on, the
/// node begins nothing more, and the list ends with the results of the work under way.
pub fn list<T: DeserializeOwned>(
    reader: Growing,
    told: impl FnMut(T) -> ControlFlow<()>,
) -> Result<()> {
    let half = reader.half.clone();
    let mut reader = serde_json::Deserializer::from_reader(reader);
    let list = List(told, half, std::marker::PhantomData);
    match reader.deserialize_seq(list) {
        Err(error) if error.is_io() => {
            // What went wrong with the connection, in its own words.
            let error = io::Error::from(error);
            let said = error.get_ref().and_then(|error| error.downcast_ref());
            Err(said.cloned().unwrap_or_else(|| confused(&error)))
        }
        read => read.map_err(|error| confused(&error)),
    }
}

/// Longest event in bytes.
const EVENT_MAX: u64 = 1 << 20;

/// Reads server-sent events, and gives `told` each one's data, which is JSON, until that says not to go
/// on or the node ends.
pub fn events<T: DeserializeOwned>(
    reader: Growing,
    mut told: impl FnMut(T) -> ControlFlow<()>,
) -> Result<()> {
    let mut reader = io::BufReader::new(reader);
    loop {
        let mut line = String::new();
        let read = (&mut reader).take(EVENT_MAX).read_line(&mut line);
        match read {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) => {
                let said = error.get_ref().and_then(|error| error.downcast_ref());
                return Err(said.cloned().unwrap_or_else(|| confused(&error)));
            }
        }
        // Numbers, and comments that say that the node is alive, are nothing to tell.
        let Some(data) = line.strip_prefix("data:") else {
            continue;
        };
        let value = serde_json::from_str(data).map_err(|error| confused(&error))?;
        if told(value).is_break() {
            return Ok(());
        }
    }
}

/// The callback for values, and the half of the connection to close when the callback wants no more.
struct List<T, F>(F, Option<Half>, std::marker::PhantomData<T>);

impl<'de, T: DeserializeOwned, F: FnMut(T) -> ControlFlow<()>> Visitor<'de> for List<T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element()? {
            if (self.0)(element).is_break()
                && let Some(half) = self.1.take()
            {
                half.close();
            }
        }
        Ok(())
    }
}
