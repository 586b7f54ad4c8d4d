//! Idempotency keys of requests.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

/// A request's `Idempotency-Key`, hashed to 64 bits.
///
/// Its JSON form is 16 hexadecimal digits, because many programs (`jq`, browsers) round numbers beyond 2^53.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
#[cbor(transparent)]
pub struct RequestKey(#[n(0)] pub u64);

/// Number of digits in the JSON form.
const DIGITS: usize = 16;

impl Serialize for RequestKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:0DIGITS$x}", self.0))
    }
}

impl<'de> Deserialize<'de> for RequestKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl Visitor<'_> for KeyVisitor {
            type Value = RequestKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{DIGITS} hexadecimal digits")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RequestKey, E> {
                // `from_str_radix` also accepts a leading sign, which is not part of the format.
                let is_hex = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                let number = u64::from_str_radix(text, 16).ok().filter(|_| is_hex);
                number.map(RequestKey).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(KeyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_sixteen_digits() {
        for (number, text) in [(0, "0000000000000000"), (0xBA70, "000000000000ba70"), (u64::MAX, "ffffffffffffffff")] {
            let quoted = format!("\"{text}\"");
            assert_eq!(serde_json::to_string(&RequestKey(number)).unwrap(), quoted);
            assert_eq!(serde_json::from_str::<RequestKey>(&quoted).unwrap(), RequestKey(number));
        }
    }

    #[test]
    fn a_malformed_key_is_refused() {
        for text in [
            "\"\"",
            "\"7\"",
            "\"+00000000000ba70\"",
            "\"0000000000000000f\"",
            "\"000000000000000g\"",
            "7",
            "-1",
            "1.5",
            "null",
        ] {
            let error = serde_json::from_str::<RequestKey>(text).unwrap_err().to_string();
            assert!(error.contains("16 hexadecimal digits"), "{text}: {error}");
        }
    }
}
