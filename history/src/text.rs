//! Texts: those that are JSON, and those in JSON that are more than a text.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads JSON. That it is UTF-8 is looked at once, and not for each text in it; and of what is read here there is code once,
/// as of what is read from a text.
///
/// # Errors
///
/// When it is no UTF-8, no JSON or not of this type.
pub fn read_json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> serde_json::Result<T> {
    std::str::from_utf8(bytes).map_err(serde_json::Error::custom).and_then(serde_json::from_str)
}

/// Reads a text for what it says. What is wrong with it is said of its own place in the JSON: of what is read as a text and
/// looked at afterwards, a reader knows no more than what it stands in.
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
