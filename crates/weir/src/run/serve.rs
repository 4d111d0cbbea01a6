//! The control socket of a running guest: Click's control protocol, so that its tools work.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use abi::message::{kind, status};

use super::instance::Instance;

/// Most connections at a time; further ones are closed at once.
const CONNECTIONS_MAX: usize = 32;
/// Longest line, in bytes.
const LINE_MAX: usize = 1 << 20;
/// What is said to whoever connects.
const GREETING: &str = "Click::ControlSocket/1.3\r\n";

/// One connection.
struct Connection {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    closing: bool,
}

/// Every connection to a guest's socket.
#[derive(Default)]
pub(super) struct Server {
    connections: Vec<Connection>,
}

impl Server {
    /// Descriptors that are ready when there is something to do.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.connections
            .iter()
            .map(|connection| connection.stream.as_fd())
    }

    /// Takes new connections and answers what came in on all.
    pub fn serve(&mut self, listener: &UnixListener, instance: &mut Instance) {
        while let Ok((stream, _)) = listener.accept() {
            if self.connections.len() < CONNECTIONS_MAX && stream.set_nonblocking(true).is_ok() {
                self.connections.push(Connection {
                    stream,
                    input: Vec::new(),
                    output: GREETING.into(),
                    closing: false,
                });
            }
        }
        for connection in &mut self.connections {
            connection.serve(instance);
        }
        self.connections.retain(|connection| !connection.closing);
    }
}

impl Connection {
    fn serve(&mut self, instance: &mut Instance) {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.closing = true,
                Ok(n) => self.input.extend_from_slice(&bytes[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.closing = true,
            }
            if self.closing {
                break;
            }
        }
        while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let answer = answer(line.trim_end_matches(['\r', '\n']), instance);
            self.closing |= answer.is_none();
            self.output
                .extend(answer.unwrap_or_else(|| b"200 Goodbye!\r\n".to_vec()));
        }
        if self.input.len() > LINE_MAX {
            self.closing = true;
        }
        // Whoever asks reads the answers: a peer that does not, loses its connection.
        match self.stream.write(&self.output) {
            Ok(n) => drop(self.output.drain(..n)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.closing |= self.output.len() > 16 * LINE_MAX;
            }
            Err(_) => self.closing = true,
        }
    }
}

/// The answer to one line; `None` asks for the end.
fn answer(line: &str, instance: &mut Instance) -> Option<Vec<u8>> {
    let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
    let said = |code: u32, text: &str| Some(format!("{code} {text}\r\n").into_bytes());
    match command.to_ascii_uppercase().as_str() {
        "READ" => match request(instance, kind::READ, rest) {
            Ok(value) => {
                let name = rest.split(' ').next().unwrap_or("");
                let head = format!("200 Read handler '{name}' OK\r\nDATA {}\r\n", value.len());
                Some([head.as_bytes(), &value].concat())
            }
            Err((code, text)) => said(code, &text),
        },
        "WRITE" => {
            let name = rest.split(' ').next().unwrap_or("");
            match request(instance, kind::WRITE, rest) {
                Ok(_) => said(200, &format!("Write handler '{name}' OK")),
                Err((code, text)) => said(code, &text),
            }
        }
        "QUIT" | "CLOSE" => None,
        _ => said(501, &format!("Command '{command}' unimplemented")),
    }
}

fn request(instance: &mut Instance, kind: u32, contents: &str) -> Result<Vec<u8>, (u32, String)> {
    let answer = instance
        .request(kind, contents)
        .map_err(|error| (540, error.to_string()))?;
    if answer.ok() {
        return Ok(answer.contents);
    }
    let code = match answer.status {
        status::NO_ELEMENT => 510,
        status::NO_HANDLER => 511,
        status::NOT_PERMITTED => 530,
        status::UNKNOWN => 501,
        _ => 520,
    };
    let text = String::from_utf8_lossy(&answer.contents).replace(['\r', '\n'], " ");
    Err((code, text.trim().to_string()))
}
