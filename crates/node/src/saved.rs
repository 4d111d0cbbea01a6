//! Saved guests, in files.
//!
//! ```text
//! WEIRSAVE  version (u32)  length (u32)  header (JSON)
//! part (u8: memory, control, data)  length (u32)  offset (u64)  bytes      …, the data only, without holes
//! 0 (u8)  CRC-32 of all that is before it (u32)
//! ```
//!
//! Numbers are little-endian. A file is read to its end, and its checksum compared, before any of it is used. Its
//! content of a guest's memory is trusted no more than the guest.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use abi::boot::CONFIG_MAX;
use serde::{Deserialize, Serialize};
use switch::lookup::Mac;
use switch::properties::PortProperties;

use crate::error::{Error, Result};
use crate::host::{CopiedPort, Copy, Host, Stored};
use crate::model::Guest;

const MAGIC: [u8; 8] = *b"WEIRSAVE";
/// The version of this form.
pub const VERSION: u32 = 1;
/// Longest header, in bytes: a configuration as JSON, every character escaped.
const HEADER_MAX: usize = 6 * CONFIG_MAX + (1 << 16);
/// Most bytes of a part that follow each other.
const BYTES_MAX: usize = 1 << 16;
/// Largest data region.
const DATA_MAX: u64 = 1 << 30;

/// The header of a file: its guest, without the memory.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Header {
    /// The version of the program that saved it.
    pub weir: String,
    /// The guest's name.
    pub name: String,
    /// Its specification.
    pub guest: Guest,
    /// The addresses of its interfaces.
    pub macs: BTreeMap<String, Mac>,
    /// The properties of its interfaces' ports.
    #[serde(default)]
    pub properties: BTreeMap<String, PortProperties>,
    /// Whether the frames in its rings are in the file alone.
    pub carries: bool,
    /// Bytes of its data region.
    data: u64,
    /// Its memory's layout and image.
    description: Vec<u8>,
}

impl Header {
    /// Of a copy of a guest.
    pub fn of(name: &str, guest: &Guest, copy: &Copy) -> Header {
        let ports = || copy.ports().clone().into_iter();
        Header {
            weir: env!("CARGO_PKG_VERSION").into(),
            name: name.into(),
            guest: guest.clone(),
            macs: ports()
                .filter_map(|(name, port)| Some((name, port.mac?)))
                .collect(),
            properties: ports()
                .map(|(name, port)| (name, port.properties))
                .collect(),
            carries: copy.carries(),
            data: copy.data_bytes(),
            description: copy.description(),
        }
    }
}

/// Writes a file, which only its owner can read; bytes written. If that fails, there is no file, or the former one.
pub fn write(path: &Path, header: &Header, copy: &Copy) -> Result<u64> {
    let failed = |error: io::Error| {
        Error::refused(format_args!("cannot save to {}: {error}", path.display())).of_field("file")
    };
    if fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
        let path = path.display();
        return Err(Error::invalid(format_args!(
            "cannot save to {path}: it is there and no file"
        ))
        .of_field("file"));
    }
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}", std::process::id()));
    let part = Path::new(&part);
    let written = write_to(part, header, copy).and_then(|bytes| {
        fs::rename(part, path)?;
        Ok(bytes)
    });
    written.map_err(|error| {
        let _ = fs::remove_file(part);
        failed(error)
    })
}

fn write_to(path: &Path, header: &Header, copy: &Copy) -> io::Result<u64> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    let mut to = Summed::new(BufWriter::with_capacity(BYTES_MAX, file));
    let header = serde_json::to_vec(header).map_err(io::Error::other)?;
    to.write_all(&MAGIC)?;
    to.write_all(&VERSION.to_le_bytes())?;
    to.write_all(&(header.len() as u32).to_le_bytes())?;
    to.write_all(&header)?;
    for part in Stored::ALL {
        copy.each(part, |offset, bytes| {
            for (i, bytes) in bytes.chunks(BYTES_MAX).enumerate() {
                to.write_all(&[part.tag()])?;
                to.write_all(&(bytes.len() as u32).to_le_bytes())?;
                to.write_all(&(offset + (i * BYTES_MAX) as u64).to_le_bytes())?;
                to.write_all(bytes)?;
            }
            Ok(())
        })?;
    }
    to.write_all(&[0])?;
    let sum = to.hash.clone().finalize();
    to.inner.write_all(&sum.to_le_bytes())?;
    to.inner.flush()?;
    Ok(to.bytes + 4)
}

/// Reads a file: its header, and the copy that it holds.
pub fn read(path: &Path, host: &Host) -> Result<(Header, Copy)> {
    let wrong =
        |why: String| Error::invalid(format_args!("{}: {why}", path.display())).of_field("file");
    // A pipe's other end is not waited for.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .map_err(|error| wrong(error.to_string()))?;
    if !file.metadata().is_ok_and(|file| file.is_file()) {
        return Err(wrong("it is no file".into()));
    }
    let mut from = Summed::new(BufReader::with_capacity(BYTES_MAX, file));
    let make = |header: &Header| {
        let (macs, mut properties) = (header.macs.iter(), header.properties.clone());
        let port = |(name, mac): (&String, &Mac)| {
            let port = CopiedPort {
                mac: Some(*mac),
                properties: properties.remove(name).unwrap_or_default(),
            };
            (name.clone(), port)
        };
        let ports = macs.map(port).collect();
        host.stored_copy(&header.description, header.data, ports, header.carries)
    };
    read_from(&mut from, make).map_err(|why| match why {
        Wrong::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            wrong("the file ends too early: it is not complete".into())
        }
        Wrong::Io(error) => wrong(error.to_string()),
        Wrong::Form(why) => wrong(why),
        Wrong::Guest(error) => error.within(|why| format!("{}: {why}", path.display())),
    })
}

/// Why a file cannot be read.
#[derive(Debug)]
enum Wrong {
    Io(io::Error),
    Form(String),
    Guest(Error),
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Wrong {
        Wrong::Io(error)
    }
}

fn damaged() -> Wrong {
    Wrong::Form("the file is damaged: save the guest again".into())
}

fn read_header(from: &mut impl Read) -> std::result::Result<Header, Wrong> {
    if array(from)? != MAGIC {
        return Err(Wrong::Form("it is no saved guest".into()));
    }
    let version = u32::from_le_bytes(array(from)?);
    if version > VERSION {
        return Err(Wrong::Form(format!(
            "it has version {version}, and this node reads up to {VERSION}: restore it with a newer one"
        )));
    }
    let length = u32::from_le_bytes(array(from)?) as usize;
    if version == 0 || length > HEADER_MAX {
        return Err(damaged());
    }
    let mut header = Vec::new();
    from.take(length as u64).read_to_end(&mut header)?;
    if header.len() < length {
        return Err(Wrong::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    let header: Header = serde_json::from_slice(&header).map_err(|_| damaged())?;
    if header.data > DATA_MAX {
        return Err(damaged());
    }
    Ok(header)
}

fn read_from(
    from: &mut Summed<impl Read>,
    make: impl FnOnce(&Header) -> Result<Copy>,
) -> std::result::Result<(Header, Copy), Wrong> {
    let header = read_header(from)?;
    let copy = make(&header);
    // Of a damaged file, that is told in the first place.
    let mut bytes = vec![0; BYTES_MAX];
    loop {
        let [tag] = array(from)?;
        if tag == 0 {
            break;
        }
        let length = u32::from_le_bytes(array(from)?) as usize;
        let offset = u64::from_le_bytes(array(from)?);
        let part = Stored::ALL.into_iter().find(|part| part.tag() == tag);
        let (Some(part), Some(bytes)) = (part, bytes.get_mut(..length)) else {
            return Err(damaged());
        };
        from.read_exact(bytes)?;
        if let Ok(copy) = &copy {
            copy.fill(part, offset, bytes).map_err(|_| damaged())?;
        }
    }
    let sum = from.hash.clone().finalize();
    let is_whole = u32::from_le_bytes(array(from)?) == sum;
    // Nothing follows.
    if !is_whole || from.read(&mut [0])? > 0 {
        return Err(damaged());
    }
    Ok((header, copy.map_err(Wrong::Guest)?))
}

fn array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A stream with the checksum of what passed.
struct Summed<S> {
    inner: S,
    hash: crc32fast::Hasher,
    bytes: u64,
}

impl<S> Summed<S> {
    fn new(inner: S) -> Summed<S> {
        Summed {
            inner,
            hash: crc32fast::Hasher::new(),
            bytes: 0,
        }
    }

    fn note(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }
}

impl<S: Read> Read for Summed<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.note(&into[..read]);
        Ok(read)
    }
}

impl<S: Write> Write for Summed<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.note(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A file with these parts, and its checksum.
    fn file(version: u32, header: &[u8], parts: &[(u8, u32, u64, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(version.to_le_bytes());
        bytes.extend((header.len() as u32).to_le_bytes());
        bytes.extend(header);
        for (tag, length, offset, content) in parts {
            bytes.push(*tag);
            bytes.extend(length.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
            bytes.extend(content);
        }
        bytes.push(0);
        let sum = crc32fast::hash(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    fn header() -> Vec<u8> {
        let header = Header {
            weir: "0".into(),
            name: "fw".into(),
            guest: Guest::default(),
            macs: BTreeMap::new(),
            properties: BTreeMap::new(),
            carries: true,
            data: 4096,
            description: vec![1, 2, 3],
        };
        serde_json::to_vec(&header).unwrap()
    }

    /// Of a file without fault, the guest is refused, which is told last.
    fn read(bytes: &[u8]) -> Wrong {
        let refuse = |_: &Header| Err(Error::invalid("no such guest"));
        read_from(&mut Summed::new(bytes), refuse).unwrap_err()
    }

    fn part() -> impl Strategy<Value = (u8, u32, u64, Vec<u8>)> {
        (
            1..=3u8,
            any::<u64>(),
            prop::collection::vec(any::<u8>(), 0..50),
        )
            .prop_map(|(tag, offset, bytes)| (tag, bytes.len() as u32, offset, bytes))
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told() {
        assert!(matches!(read(&file(1, &header(), &[])), Wrong::Guest(_)));
        for (bytes, why) in [
            (file(2, &header(), &[]), "has version 2"),
            (file(0, &header(), &[]), "is damaged"),
            (file(1, b"{}", &[]), "is damaged"),
            (file(1, &header(), &[(9, 0, 0, Vec::new())]), "is damaged"),
            (
                file(1, &header(), &[(1, u32::MAX, 0, Vec::new())]),
                "is damaged",
            ),
            (b"WEIRSAV3 and more".to_vec(), "no saved guest"),
        ] {
            let Wrong::Form(said) = read(&bytes) else {
                panic!("{why}");
            };
            assert!(said.contains(why), "{said}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            prop_assert!(matches!(read(&bytes), Wrong::Io(_) | Wrong::Form(_)));
            let behind = [&MAGIC[..], &1u32.to_le_bytes(), &bytes].concat();
            prop_assert!(matches!(read(&behind), Wrong::Io(_) | Wrong::Form(_)));
        }

        #[test]
        fn a_changed_file_and_one_of_another_length_are_refused(
            parts in prop::collection::vec(part(), 0..5),
            at in any::<prop::sample::Index>(),
            change in 1..=255u8,
        ) {
            let good = file(1, &header(), &parts);
            prop_assert!(matches!(read(&good), Wrong::Guest(_)));
            let at = at.index(good.len());
            let mut changed = good.clone();
            changed[at] ^= change;
            prop_assert!(!matches!(read(&changed), Wrong::Guest(_)), "byte {at}");
            prop_assert!(matches!(read(&good[..at]), Wrong::Io(_)), "{at} bytes");
            let longer = [&good[..], &[change]].concat();
            prop_assert!(matches!(read(&longer), Wrong::Form(_)), "a byte behind its end");
        }
    }
}
