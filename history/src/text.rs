//! Parsing of JSON texts, and of strings in JSON with their own syntax.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// Deserializes JSON. UTF-8 is validated once for the whole input rather than for each string. All callers share one
/// instance of the string deserializer, which reduces the size of the binary.
///
/// # Errors
///
/// Fails if the input is not UTF-8, not JSON, or not of this type.
pub fn read_json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> serde_json::Result<T> {
    std::str::from_utf8(bytes).map_err(serde_json::Error::custom).and_then(serde_json::from_str)
}

/// Deserializes a string with its own syntax, such as a duration. Syntax errors are reported with the position of the
/// string in the JSON.
pub(crate) fn parsed<'de, T: FromStr<Err: fmt::Display>, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
) -> Result<T, D::Error> {
    struct Parsed<T>(&'static str, PhantomData<T>);

    impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Parsed<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(|error| E::custom(format_args!("`{text}` {error}")))
        }
    }

    deserializer.deserialize_str(Parsed(expected, PhantomData))
}
