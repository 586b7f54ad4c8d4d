//! Flat JSON objects told apart by their `type` field, read without buffering so that payloads keep their bytes.
//!
//! serde's own internally tagged enums buffer the object, which loses the raw text of payloads.

use std::borrow::Cow;

use serde::de::value::MapDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Error as _};
use serde_json::value::RawValue;

/// The fields of a JSON object, in their order, as raw text.
pub(crate) struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> serde::de::Visitor<'de> for Reader {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object with a `type`")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::with_capacity(8);
                while let Some(Key(name)) = map.next_key()? {
                    if fields.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom(format_args!("field `{name}` appears twice")));
                    }
                    fields.push((name, map.next_value()?));
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

/// A key that borrows where it can.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Fields<'a> {
    /// Takes one field out.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// Takes one field out and reads it.
    pub(crate) fn read<T: Deserialize<'a>>(&mut self, name: &'static str) -> Result<T, serde_json::Error> {
        let raw = self.take(name).ok_or_else(|| serde_json::Error::missing_field(name))?;
        serde_json::from_str(raw.get()).map_err(|error| serde_json::Error::custom(format_args!("`{name}`: {error}")))
    }

    /// Reads what is left as a `T`.
    pub(crate) fn rest<T: DeserializeOwned>(self) -> Result<T, serde_json::Error> {
        T::deserialize(MapDeserializer::new(self.0.into_iter()))
    }
}
