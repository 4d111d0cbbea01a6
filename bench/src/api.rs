//! A connection to the node's API that is kept, which the project's own client does not do.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

/// A connection.
pub struct Api {
    stream: BufReader<UnixStream>,
}

impl Api {
    /// Connects to the node at a socket.
    pub fn connect(socket: &Path) -> Result<Api, String> {
        let stream = UnixStream::connect(socket);
        let stream = stream.map_err(|error| format!("{}: {error}", socket.display()))?;
        Ok(Api {
            stream: BufReader::new(stream),
        })
    }

    /// Asks for something; the answer.
    pub fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let told = |error: std::io::Error| format!("{method} {path}: {error}");
        let body = body.map_or(String::new(), Value::to_string);
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: node\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream
            .get_mut()
            .write_all(request.as_bytes())
            .map_err(told)?;
        let status = self.line().map_err(told)?;
        let mut length = None;
        loop {
            let line = self.line().map_err(told)?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok();
            }
        }
        let code = status.split(' ').nth(1).unwrap_or_default();
        if code == "204" {
            // Nothing follows.
            return Ok(Value::Null);
        }
        let answer = match length {
            Some(length) => self.bytes(length),
            None => self.chunks(),
        };
        let answer = answer.map_err(told)?;
        if !code.starts_with('2') {
            return Err(format!(
                "{method} {path}: {status}: {}",
                String::from_utf8_lossy(&answer)
            ));
        }
        serde_json::from_slice(&answer).map_err(|error| format!("{method} {path}: {error}"))
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        if line.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().into())
    }

    fn bytes(&mut self, length: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn chunks(&mut self) -> std::io::Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let line = self.line()?;
            let length = usize::from_str_radix(&line, 16).map_err(std::io::Error::other)?;
            all.extend(self.bytes(length)?);
            self.line_end()?;
            if length == 0 {
                return Ok(all);
            }
        }
    }

    fn line_end(&mut self) -> std::io::Result<()> {
        self.bytes(2).map(drop)
    }
}
