//! How files are compressed.

/// A compression that files are read and written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    Gzip,
    Bzip2,
    /// RFC 8878.
    Zstd,
}

impl Compression {
    /// What the end of a file's name says.
    pub fn of_name(name: &str) -> Option<Compression> {
        match name.rsplit_once('.')?.1 {
            "gz" => Some(Compression::Gzip),
            "bz2" => Some(Compression::Bzip2),
            "zst" => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// What a file's first four bytes say.
    pub fn of_start(start: &[u8]) -> Option<Compression> {
        match start {
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            [b'B', b'Z', b'h', ..] => Some(Compression::Bzip2),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Compression::Zstd),
            _ => None,
        }
    }
}
