//! Name of the credential that authenticated a request.

use std::fmt;
use std::sync::Arc;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fault::Fault;
use crate::limits;

/// Name of a credential, recorded as `by` in events. The service has authenticated it. An `identity`, in contrast, is
/// any text that the caller sends.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerName(Arc<str>);

impl CallerName {
    /// Validates a name.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if the name is empty, is longer than [`limits::CALLER_NAME_BYTES_MAX`] or contains a
    /// control character.
    pub fn new(name: &str) -> Result<Self, Fault> {
        let invalid = |problem: String| Err(Fault::Invalid { field: "name".to_owned(), problem });
        if name.trim().is_empty() {
            return invalid("is empty".to_owned());
        }
        let (found, max) = (name.len(), limits::CALLER_NAME_BYTES_MAX);
        if found > max {
            return invalid(format!("has {found} bytes, at most {max} are allowed"));
        }
        if name.chars().any(char::is_control) {
            return invalid("contains a control character".to_owned());
        }
        Ok(Self(name.into()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for CallerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for CallerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<C> Encode<C> for CallerName {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.str(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for CallerName {
    /// Decodes a stored name without validating it, so that names accepted by an earlier version stay readable.
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        d.str().map(|name| Self(name.into()))
    }
}

impl Serialize for CallerName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for CallerName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|name| Self(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_bound_and_no_control_characters() {
        let longest = "n".repeat(limits::CALLER_NAME_BYTES_MAX);
        for name in ["a", "ops@corp", "Ünal (night shift)", &longest] {
            assert_eq!(CallerName::new(name).unwrap().as_str(), name);
        }
        for (name, problem) in [
            ("", "is empty"),
            (" \t", "is empty"),
            ("a\nb", "control character"),
            ("a\u{9b}b", "control character"),
            (&*(longest.clone() + "n"), "has 129 bytes, at most 128"),
        ] {
            let fault = CallerName::new(name).unwrap_err().to_string();
            assert!(fault.contains(problem), "{name:?}: {fault}");
        }
    }

    #[test]
    fn a_name_is_stored_as_a_string() {
        let name = CallerName::new("ops").unwrap();
        assert_eq!(serde_json::to_string(&name).unwrap(), "\"ops\"");
        assert_eq!(serde_json::from_str::<CallerName>("\"ops\"").unwrap(), name);
        let stored = minicbor::to_vec(&name).unwrap();
        assert_eq!(minicbor::decode::<CallerName>(&stored).unwrap(), name);
        assert_eq!(minicbor::decode::<String>(&stored).unwrap(), "ops");
    }
}
