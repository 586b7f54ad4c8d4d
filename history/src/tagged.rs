//! Flat JSON objects with a `type` field. They are deserialized without buffering, so that payloads keep their bytes.
//!
//! Serde's internally tagged enums buffer the object, which loses the original text of payloads. Here, an object is
//! read in one pass if its `type` comes before the attributes, as Baton writes it. Any other object is first rewritten
//! with `type` in front.

use std::borrow::Cow;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// A field name, borrowed if possible.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

/// Fields that all variants have in common. They can be at any position in the object.
pub(crate) trait CommonFields: Default {
    /// Reads the value of the field `name` if it is a common field. Returns `false` and reads nothing otherwise.
    fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error>;
}

/// Implementation for enums without common fields.
impl CommonFields for () {
    fn read<'de, A: MapAccess<'de>>(&mut self, _: &str, _: &mut A) -> Result<bool, A::Error> {
        Ok(false)
    }
}

/// Reads a field that may occur only once.
pub(crate) fn set<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    field: &mut Option<T>,
    name: &'static str,
    map: &mut A,
) -> Result<bool, A::Error> {
    if field.is_some() {
        return Err(A::Error::duplicate_field(name));
    }
    *field = Some(map.next_value()?);
    Ok(true)
}

/// An enum whose variant is named by the field `type`.
pub(crate) trait Tagged: Sized {
    /// Reads the attributes of the variant `name`.
    fn variant<'de, A: MapAccess<'de>>(name: &str, attributes: A) -> Result<Self, A::Error>;
}

/// Reads one object: the common fields, and the variant with its attributes.
pub(crate) fn read<'de, C: CommonFields, T: Tagged, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<(C, T), D::Error> {
    deserializer.deserialize_map(TaggedVisitor(std::marker::PhantomData))
}

struct TaggedVisitor<C, T>(std::marker::PhantomData<(C, T)>);

impl<'de, C: CommonFields, T: Tagged> Visitor<'de> for TaggedVisitor<C, T> {
    type Value = (C, T);

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object with a `type`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(C, T), A::Error> {
        let mut common = C::default();
        while let Some(FieldName(name)) = map.next_key()? {
            if name == "type" {
                let FieldName(tag) = map.next_value()?;
                let variant = T::variant(&tag, Rest { map, common: &mut common })?;
                return Ok((common, variant));
            }
            if !common.read(&name, &mut map)? {
                return late(common, name.into_owned(), map);
            }
        }
        Err(A::Error::missing_field("type"))
    }
}

/// The fields of an object that follow its `type`, without the common fields.
struct Rest<'c, A, C> {
    map: A,
    common: &'c mut C,
}

impl<'de, A: MapAccess<'de>, C: CommonFields> MapAccess<'de> for Rest<'_, A, C> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(FieldName(name)) = self.map.next_key()? {
            if name == "type" {
                return Err(A::Error::duplicate_field("type"));
            }
            if !self.common.read(&name, &mut self.map)? {
                return seed.deserialize(name.into_deserializer()).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// Reads an object in which the field `first` comes before `type`, by moving `type` to the front.
fn late<'de, C: CommonFields, T: Tagged, A: MapAccess<'de>>(
    mut common: C,
    first: String,
    mut map: A,
) -> Result<(C, T), A::Error> {
    let (mut tag, mut attributes): (Option<Box<RawValue>>, _) = (None, String::new());
    let mut name = Some(first);
    while let Some(next) = name {
        if next == "type" {
            set(&mut tag, "type", &mut map)?;
        } else if !common.read(&next, &mut map)? {
            let value: Box<RawValue> = map.next_value()?;
            attributes.extend([",", &Value::from(next).to_string(), ":", value.get()]);
        }
        name = map.next_key()?.map(|FieldName(name)| name.into_owned());
    }
    let tag = tag.ok_or_else(|| A::Error::missing_field("type"))?;
    let text = format!(r#"{{"type":{tag}{attributes}}}"#);
    read(&mut serde_json::Deserializer::from_str(&text))
        .map(|(_, variant): (C, T)| (common, variant))
        .map_err(|error| A::Error::custom(without_place(&error.to_string())))
}

/// Removes the position from an error message of `serde_json`, because the position refers to the rewritten text.
fn without_place(message: &str) -> &str {
    message.rsplit_once(" at line ").map_or(message, |(message, _)| message)
}

/// Reads the attributes of a variant.
pub(crate) fn attributes<'de, T: DeserializeOwned, A: MapAccess<'de>>(map: A) -> Result<T, A::Error> {
    T::deserialize(MapAccessDeserializer::new(map))
}

#[cfg(test)]
mod tests {
    use crate::event::Event;

    /// Returns all permutations of `parts`.
    fn orders(parts: &[&str]) -> Vec<String> {
        let [part] = parts else {
            let with_first = |at: usize| {
                let mut others = parts.to_vec();
                let first = others.remove(at);
                orders(&others).into_iter().map(move |rest| format!("{first},{rest}"))
            };
            return (0..parts.len()).flat_map(with_first).collect();
        };
        vec![(*part).to_owned()]
    }

    #[test]
    fn the_order_of_an_events_fields_does_not_matter() {
        let parts = [
            r#""id":7"#,
            r#""timestamp":"2026-01-01T00:00:00.000Z""#,
            r#""type":"Signal""#,
            r#""name":"paid""#,
            r#""input":{"n": 1.0}"#,
            r#""requestKey":"000000000000ba70""#,
        ];
        let expected: Event = serde_json::from_str(&format!("{{{}}}", parts.join(","))).unwrap();
        assert_eq!(serde_json::to_string(&expected).unwrap(), format!("{{{}}}", parts.join(",")));
        for text in orders(&parts) {
            assert_eq!(Event::from_json(&format!("{{{text}}}")).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_duplicate_field_is_refused_at_any_position() {
        let parts =
            [r#""id":7"#, r#""timestamp":"2026-01-01T00:00:00.000Z""#, r#""type":"Signal""#, r#""name":"paid""#];
        for (part, name) in parts.iter().zip(["id", "timestamp", "type", "name"]) {
            for text in orders(&[&parts[..], &[part]].concat()) {
                let error = Event::from_json(&format!("{{{text}}}")).unwrap_err().to_string();
                assert!(error.contains(&format!("duplicate field `{name}`")), "{text}: {error}");
            }
        }
    }

    #[test]
    fn a_field_that_is_missing_is_named() {
        let parts =
            [r#""id":7"#, r#""timestamp":"2026-01-01T00:00:00.000Z""#, r#""type":"Signal""#, r#""name":"paid""#];
        for (at, name) in ["id", "timestamp", "type", "name"].into_iter().enumerate() {
            let mut others = parts.to_vec();
            others.remove(at);
            for text in orders(&others) {
                let error = Event::from_json(&format!("{{{text}}}")).unwrap_err().to_string();
                assert!(error.contains(&format!("missing field `{name}`")), "{text}: {error}");
            }
        }
    }
}
