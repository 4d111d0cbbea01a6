//! Checksums of records: CRC-32 of the table's name, the record's name and the record, in the four bytes before it
//! (little-endian). A record under another record's name is as invalid as one with a changed byte.

use redb::{ReadableTable, TableHandle, WriteTransaction};

use super::{DAMAGED, NUMBERS, RecordTable, Result, writing};

/// Bytes of a checksum.
const CHECKSUM: usize = 4;

fn checksum(table: &str, name: &str, json: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = crc32fast::Hasher::new();
    for part in [table.as_bytes(), &[0], name.as_bytes(), &[0], json] {
        hasher.update(part);
    }
    hasher.finalize().to_le_bytes()
}

/// A record with its checksum.
pub(super) fn seal(table: &str, name: &str, json: &[u8]) -> Vec<u8> {
    let mut bytes = checksum(table, name, json).to_vec();
    bytes.extend_from_slice(json);
    bytes
}

/// A record without its checksum, if that is right.
pub(super) fn open<'a>(table: &str, name: &str, bytes: &'a [u8]) -> Result<&'a [u8], String> {
    match bytes.split_at_checked(CHECKSUM) {
        Some((sum, json)) if sum == checksum(table, name, json) => Ok(json),
        _ => Err("its checksum is wrong".into()),
    }
}

/// A record in messages.
pub(super) fn place(table: &str, name: &str) -> String {
    format!("{table}/{name}")
}

/// All tables of records, and the names and contents of their records.
pub(super) fn records(write: &WriteTransaction) -> Result<Vec<(String, String, Vec<u8>)>> {
    let mut records = Vec::new();
    for handle in write.list_tables().map_err(writing)? {
        let name = handle.name().to_string();
        if name == NUMBERS.name() || name == DAMAGED.name() {
            continue;
        }
        let table = write.open_table(RecordTable::new(&name)).map_err(writing)?;
        for row in table.iter().map_err(writing)? {
            let (key, bytes) = row.map_err(writing)?;
            records.push((name.clone(), key.value().into(), bytes.value().to_vec()));
        }
    }
    Ok(records)
}

/// Moves records whose checksums are wrong to where they are out of the way.
pub(super) fn set_aside(write: &WriteTransaction) -> Result<()> {
    for (table, name, bytes) in records(write)? {
        if open(&table, &name, &bytes).is_ok() {
            continue;
        }
        let place = place(&table, &name);
        let mut aside = write.open_table(DAMAGED).map_err(writing)?;
        let moved = aside.insert(place.as_str(), bytes.as_slice());
        moved.map(drop).map_err(writing)?;
        let mut table = write
            .open_table(RecordTable::new(&table))
            .map_err(writing)?;
        table.remove(name.as_str()).map(drop).map_err(writing)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_record_with_a_changed_bit_or_another_name_is_told_apart(
            json in proptest::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), bit in 0..8u8,
        ) {
            let sealed = seal("guests", "fw", &json);
            prop_assert_eq!(open("guests", "fw", &sealed), Ok(&json[..]));
            prop_assert!(open("guests", "nat", &sealed).is_err());
            prop_assert!(open("vnics", "fw", &sealed).is_err());
            let mut wrong = sealed.clone();
            wrong[at.index(sealed.len())] ^= 1 << bit;
            prop_assert!(open("guests", "fw", &wrong).is_err());
            prop_assert!(open("guests", "fw", &sealed[..3]).is_err());
        }
    }
}
