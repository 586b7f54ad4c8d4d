//! Checksums of all values in redb, so that changed bytes are never read as data.
//!
//! redb verifies the checksums of its pages only when a file is repaired or checked. Therefore each value in redb is
//! followed by a CRC-32 of its key and itself. A value that was changed, or that is found under another key, is
//! rejected.

use store::Error;

use crate::keys;

/// Length of a checksum in bytes. The checksum follows the value.
const SUM: usize = 4;

/// A value as stored in redb.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SummedValue<'a> {
    Value(&'a [u8]),
    /// The value stays in the log. The table `places` contains its location.
    InLog,
}

/// Computes a checksum. The length of the key is included, so that a byte moved from the value to the key changes the
/// checksum.
fn sum(key: &[u8], value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&u64::try_from(key.len()).unwrap_or(u64::MAX).to_le_bytes());
    hasher.update(key);
    hasher.update(value);
    hasher.finalize()
}

/// Writes a value and its checksum into `to`. The old content of `to` is removed.
pub(crate) fn seal(to: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    to.clear();
    to.extend_from_slice(value);
    to.extend_from_slice(&sum(key, value).to_le_bytes());
}

/// Writes a marker into `to`, which means that the value stays in the log. The old content of `to` is removed. The
/// marker is the complement of the checksum of an empty value, so that it differs from a stored empty value.
pub(crate) fn seal_logged(to: &mut Vec<u8>, key: &[u8]) {
    to.clear();
    to.extend_from_slice(&(!sum(key, &[])).to_le_bytes());
}

/// Checks the checksum of a stored value and returns the value. Returns `None` if the stored value was changed.
pub(crate) fn unseal<'a>(key: &[u8], stored: &'a [u8]) -> Option<SummedValue<'a>> {
    let (value, found) = stored.split_last_chunk::<SUM>()?;
    let (found, expected) = (u32::from_le_bytes(*found), sum(key, value));
    if found == expected {
        return Some(SummedValue::Value(value));
    }
    (value.is_empty() && found == !expected).then_some(SummedValue::InLog)
}

/// Returns the checksum of a number that is stored under a name.
pub(crate) fn of_number(name: &str, number: u64) -> u64 {
    u64::from(sum(name.as_bytes(), &number.to_le_bytes()))
}

/// Returns whether a stored value can be the marker of a value that stays in the log. Only an entry that is as long as
/// a checksum can be a marker.
pub(crate) fn may_mean_logged(stored: &[u8]) -> bool {
    stored.len() == SUM
}

/// Returns the error for a value that was changed.
pub(crate) fn changed(key: &[u8]) -> Error {
    named(
        key,
        Error::Corrupt {
            what: "the checksum in `tree.redb` does not match. Restore the directory from a backup".to_owned(),
        },
    )
}

/// If the error reports corruption, adds a description of the data under the key.
pub(crate) fn named(key: &[u8], error: Error) -> Error {
    match error {
        Error::Corrupt { what } => Error::Corrupt { what: format!("{}: {what}", keys::describe(key)) },
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_bit_of_key_or_value_is_detected() {
        let mut stored = Vec::new();
        for (key, value) in [(&b"pkey"[..], &b"value"[..]), (b"h", b""), (b"", b"v")] {
            seal(&mut stored, key, value);
            assert_eq!(unseal(key, &stored), Some(SummedValue::Value(value)));
            for bit in 0..stored.len() * 8 {
                let mut changed = stored.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(unseal(key, &changed), None);
            }
            for bit in 0..key.len() * 8 {
                let mut changed = key.to_vec();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(unseal(&changed, &stored), None);
            }
            for length in 0..stored.len() {
                assert_eq!(unseal(key, &stored[..length]), None);
            }
        }
    }

    #[test]
    fn a_byte_moved_between_key_and_value_is_detected() {
        let mut stored = Vec::new();
        seal(&mut stored, b"pk", b"eyv");
        assert_eq!(unseal(b"pke", &stored[1..]), None);
    }

    #[test]
    fn an_empty_value_and_a_marker_entry_differ() {
        let (mut empty, mut logged) = (Vec::new(), Vec::new());
        seal(&mut empty, b"pkey", b"");
        seal_logged(&mut logged, b"pkey");
        assert_eq!(unseal(b"pkey", &empty), Some(SummedValue::Value(b"")));
        assert_eq!(unseal(b"pkey", &logged), Some(SummedValue::InLog));
        assert_eq!(unseal(b"pkex", &logged), None);
        assert!(may_mean_logged(&logged));
    }
}
