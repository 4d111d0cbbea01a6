//! Files that a user names.

use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Reads a file of at most `most` bytes.
pub fn read(path: &Path, most: usize) -> Result<Vec<u8>> {
    read_from(std::fs::File::open(path)?, most)
}

/// Reads at most `most` bytes; a longer file is an error.
pub fn read_from(file: impl Read, most: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        let long = format!("longer than {most} bytes, the maximum");
        return Err(Error::new(ErrorKind::FileTooLarge, long));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_file_is_an_error() {
        assert_eq!(read_from(&b"abc"[..], 3).unwrap(), b"abc");
        let error = read(Path::new("/dev/zero"), 3).unwrap_err();
        assert_eq!(error.to_string(), "longer than 3 bytes, the maximum");
    }
}
