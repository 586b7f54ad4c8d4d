//! Checksums of everything that is kept in redb, so that a changed byte is never read as data.
//!
//! redb has checksums of its pages and verifies them only when it repairs or checks a file. So each value carries a CRC-32 of its key and
//! itself: a value that was changed, or that is found under another key, is refused. Owns the encoding; owns no table.

use store::Error;

use crate::keys;

/// Length of a checksum, which follows the value that it covers.
const SUM: usize = 4;

/// A value as redb has it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SummedValue<'a> {
    Value(&'a [u8]),
    /// The value stays in the log; `places` says where.
    Stays,
}

/// The length of the key is covered as well: otherwise a byte could move from the value to the key unnoticed.
fn sum(key: &[u8], value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&u64::try_from(key.len()).unwrap_or(u64::MAX).to_le_bytes());
    hasher.update(key);
    hasher.update(value);
    hasher.finalize()
}

/// Writes a value and its checksum into `to`, in place of what was there.
pub(crate) fn seal(to: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    to.clear();
    to.extend_from_slice(value);
    to.extend_from_slice(&sum(key, value).to_le_bytes());
}

/// Writes the entry of a value that stays in the log into `to`, in place of what was there. Its checksum is the complement of that of an
/// empty value, so that neither is ever taken for the other.
pub(crate) fn seal_staying(to: &mut Vec<u8>, key: &[u8]) {
    to.clear();
    to.extend_from_slice(&(!sum(key, &[])).to_le_bytes());
}

/// The value that was sealed under a key; `None` if it is not what was written.
pub(crate) fn unseal<'a>(key: &[u8], stored: &'a [u8]) -> Option<SummedValue<'a>> {
    let (value, found) = stored.split_last_chunk::<SUM>()?;
    let (found, expected) = (u32::from_le_bytes(*found), sum(key, value));
    if found == expected {
        return Some(SummedValue::Value(value));
    }
    (value.is_empty() && found == !expected).then_some(SummedValue::Stays)
}

/// The checksum of a number under a name.
pub(crate) fn of_number(name: &str, number: u64) -> u64 {
    u64::from(sum(name.as_bytes(), &number.to_le_bytes()))
}

/// Whether something can stand for a value that stays: only what is as long as a checksum.
pub(crate) fn may_stand_for_staying(stored: &[u8]) -> bool {
    stored.len() == SUM
}

/// The error of a value that is not what was written.
pub(crate) fn changed(key: &[u8]) -> Error {
    named(
        key,
        Error::Corrupt {
            what: "the checksum in `tree.redb` does not match. Restore the directory from a backup".to_owned(),
        },
    )
}

/// The same error, naming what is stored under the key if the error says that it is corrupt.
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
    fn any_changed_bit_of_key_or_value_is_noticed() {
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
    fn a_byte_that_moves_between_key_and_value_is_noticed() {
        let mut stored = Vec::new();
        seal(&mut stored, b"pk", b"eyv");
        assert_eq!(unseal(b"pke", &stored[1..]), None);
    }

    #[test]
    fn an_empty_value_and_one_that_stays_in_the_log_differ() {
        let (mut empty, mut staying) = (Vec::new(), Vec::new());
        seal(&mut empty, b"pkey", b"");
        seal_staying(&mut staying, b"pkey");
        assert_eq!(unseal(b"pkey", &empty), Some(SummedValue::Value(b"")));
        assert_eq!(unseal(b"pkey", &staying), Some(SummedValue::Stays));
        assert_eq!(unseal(b"pkex", &staying), None);
        assert!(may_stand_for_staying(&staying));
    }
}
