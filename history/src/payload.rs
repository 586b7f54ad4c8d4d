//! Payloads: JSON values of callers, kept byte for byte and never interpreted.

use std::fmt;
use std::sync::Arc;

use memchr::memchr2;
use minicbor::data::Type;
use minicbor::{Decode, Decoder, Encode, Encoder};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::value::{RawValue, to_raw_value};

use crate::limits;

/// Location of a large payload or note that is stored outside its event, in a *pack*.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct PackRef {
    /// Id of the operation that wrote the pack.
    #[n(0)]
    pub op: u64,
    /// Offset of the text in the pack, in bytes.
    #[n(1)]
    pub offset: u32,
    /// Length of the text in bytes.
    #[n(2)]
    pub len: u32,
}

/// A JSON value, kept byte for byte as received.
///
/// A payload contains its text. Inside a stored event, it may instead be a *claim check*: a [`PackRef`] to a text that
/// is stored elsewhere. Code that reads events from a store replaces claim checks by their texts before it passes the
/// events on.
#[derive(Debug, Clone)]
pub struct Payload(Repr);

#[derive(Debug, Clone)]
enum Repr {
    /// Text as received. It has been validated, so that it can be serialized without parsing it again.
    Given(Arc<Box<RawValue>>),
    /// Text as read from a store. It is not validated again.
    Text(Arc<str>),
    Stored(PackRef),
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        (self.text(), self.claim()) == (other.text(), other.claim())
    }
}

impl Eq for Payload {}

impl Payload {
    /// Creates a payload from a JSON text.
    ///
    /// # Errors
    ///
    /// Fails in these cases:
    ///
    /// * `text` is not a single JSON value.
    /// * It is nested deeper than [`limits::PAYLOAD_DEPTH_MAX`].
    /// * It contains a number that not every JSON parser can represent: one outside the range of a double, or one with
    ///   more than [`limits::PAYLOAD_NUMBER_CHARS_MAX`] characters.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        Self::checked(serde_json::from_str(text)?)
    }

    /// Creates a payload by serializing `value`.
    ///
    /// # Errors
    ///
    /// Fails if `value` has no JSON form, for example a map with keys that are not strings, or is nested deeper
    /// than [`limits::PAYLOAD_DEPTH_MAX`].
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Self::checked(to_raw_value(value)?)
    }

    /// Checks the depth and the numbers of a JSON value, and creates the payload.
    fn checked<E: de::Error>(given: Box<RawValue>) -> Result<Self, E> {
        let JsonScan { depth, has_portable_numbers } = scan(given.get());
        let max = limits::PAYLOAD_DEPTH_MAX;
        if depth > max {
            return Err(E::custom(format_args!("nested {depth} levels deep, at most {max} are allowed")));
        }
        if !has_portable_numbers {
            let max = limits::PAYLOAD_NUMBER_CHARS_MAX;
            return Err(E::custom(format_args!(
                "it contains a number outside the range of a double (IEEE 754), or longer than {max} characters; \
                 send it as a string"
            )));
        }
        Ok(Self(Repr::Given(Arc::new(given))))
    }

    /// Creates a claim check.
    pub fn stored(at: PackRef) -> Self {
        Self(Repr::Stored(at))
    }

    /// Creates a payload from a text that was accepted before, for example one read from a store. The text is not
    /// validated again, so that texts accepted by an earlier version stay readable.
    pub fn from_trusted(text: &str) -> Self {
        Self(Repr::Text(Arc::from(text)))
    }

    /// Returns the JSON text, or `None` for a claim check.
    pub fn text(&self) -> Option<&str> {
        match &self.0 {
            Repr::Given(raw) => Some(raw.get()),
            Repr::Text(text) => Some(text),
            Repr::Stored(_) => None,
        }
    }

    /// Returns the claim check, or `None` if the text is present.
    pub fn claim(&self) -> Option<PackRef> {
        let Repr::Stored(at) = self.0 else { return None };
        Some(at)
    }

    /// Returns the length of the text in bytes, also for a claim check.
    pub fn len(&self) -> usize {
        self.text().map_or_else(|| self.claim().map_or(0, |at| at.len as usize), str::len)
    }

    /// Always returns `false`: the shortest JSON text has one byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Deserializes the value.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a `T`, or if the payload is a claim check (see [`Payload::claim`]).
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        let unredeemed = || de::Error::custom("the payload is a claim check that was not redeemed");
        self.text().ok_or_else(unredeemed).and_then(serde_json::from_str)
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.claim() {
            Some(at) => write!(f, "<{} bytes, stored separately>", at.len),
            None => f.write_str(self.text().unwrap_or_default()),
        }
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Repr::Given(raw) => raw.serialize(serializer),
            Repr::Text(text) => {
                let raw: &RawValue = serde_json::from_str(text).map_err(ser::Error::custom)?;
                raw.serialize(serializer)
            }
            Repr::Stored(_) => Err(ser::Error::custom("a claim check has no JSON form; redeem it first")),
        }
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::checked(Box::<RawValue>::deserialize(deserializer)?)
    }
}

/// Properties of a JSON value that decide whether it is accepted as a payload.
struct JsonScan {
    /// Nesting depth of arrays and objects.
    depth: usize,
    /// True if every JSON parser can represent all numbers.
    has_portable_numbers: bool,
}

fn scan(json: &str) -> JsonScan {
    let mut scan = JsonScan { depth: 0, has_portable_numbers: true };
    // A string contains no nesting and no numbers, so it is not scanned.
    if json.starts_with('"') {
        return scan;
    }
    let mut open = 0_usize;
    for outside in outside_strings(json) {
        for byte in outside.bytes() {
            match byte {
                b'[' | b'{' => {
                    open += 1;
                    scan.depth = scan.depth.max(open);
                }
                b']' | b'}' => open = open.saturating_sub(1),
                _ => {}
            }
        }
        scan.has_portable_numbers = scan.has_portable_numbers && numbers(outside).all(is_portable_number);
    }
    scan
}

/// Returns the numbers in a part of a JSON text, spelled as in the text. `outside` must not contain strings.
fn numbers(outside: &str) -> impl Iterator<Item = &str> {
    let is_of_number = |c: char| matches!(c, '+' | '-' | '.' | 'e' | 'E' | '0'..='9');
    let words = outside.split(move |c| !is_of_number(c));
    words.filter(|word| word.starts_with(|c| matches!(c, '-' | '0'..='9')))
}

/// Returns the parts of a JSON text that are outside strings: brackets, numbers and punctuation. Most bytes of a large
/// payload are in strings, which are skipped quickly.
fn outside_strings(json: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(json);
    std::iter::from_fn(move || {
        let (outside, text) = rest?.split_once('"').map_or((rest?, None), |(outside, text)| (outside, Some(text)));
        rest = text.map(after_string);
        Some(outside)
    })
}

/// Returns the text after the closing quote of a string. `text` begins inside that string.
fn after_string(text: &str) -> &str {
    let mut at = 0;
    while let Some(found) = text.as_bytes().get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if text.as_bytes().get(at) == Some(&b'"') {
            return text.get(at + 1..).unwrap_or_default();
        }
        // Skip the backslash and the character that it escapes.
        at += 2;
    }
    ""
}

/// Returns `true` if every JSON parser can represent the number. As a double, it must be finite, and zero only if it is
/// written as zero. For other numbers, parsers differ: some report an error, some return infinity, and some allocate
/// gigabytes of digits.
fn is_portable_number(number: &str) -> bool {
    if number.len() > limits::PAYLOAD_NUMBER_CHARS_MAX {
        return false;
    }
    // Without an exponent, a number of fewer than 300 characters cannot exceed the range of a double.
    let is_plain = number.len() < 300 && !number.contains(['e', 'E']);
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let is_zero = !mantissa.contains(|c: char| matches!(c, '1'..='9'));
    is_plain || number.parse::<f64>().is_ok_and(|double| double.is_finite() && (double == 0.0) == is_zero)
}

/// Deserializes a field that is present. `null` is then a payload, and only a missing field is `None`. Used as
/// `#[serde(default, deserialize_with = "…")]`.
///
/// # Errors
///
/// Fails if `deserializer` fails.
pub fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(deserializer).map(Some)
}

impl<C> Encode<C> for Payload {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        match self.claim() {
            Some(at) => at.encode(e, ctx),
            None => e.str(self.text().unwrap_or_default())?.ok(),
        }
    }
}

impl<'b, C> Decode<'b, C> for Payload {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, minicbor::decode::Error> {
        match d.datatype()? {
            Type::String => Ok(Self(Repr::Text(Arc::from(d.str()?)))),
            _ => PackRef::decode(d, ctx).map(Self::stored),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Holder {
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        input: Option<Payload>,
    }

    #[test]
    fn json_is_kept_byte_for_byte() {
        let text = r#"{"input":{"b": 1.50,  "a":[1e2, "\u00e9"]}}"#;
        let holder: Holder = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&holder).unwrap(), text);
    }

    #[test]
    fn a_payload_decodes_to_the_same_text() {
        let given = Payload::from_json("[1, 2]").unwrap();
        let read_back: Payload = minicbor::decode(&minicbor::to_vec(&given).unwrap()).unwrap();
        assert_eq!(given, read_back);
        assert_eq!(serde_json::to_string(&given).unwrap(), serde_json::to_string(&read_back).unwrap());
        assert_ne!(given, Payload::from_trusted("[1,2]"), "byte for byte");
        assert_ne!(given, Payload::stored(PackRef { op: 1, offset: 0, len: 6 }));
    }

    #[test]
    fn null_is_a_payload_and_absence_is_none() {
        let null: Holder = serde_json::from_str(r#"{"input":null}"#).unwrap();
        assert_eq!(null.input.as_ref().and_then(Payload::text), Some("null"));
        let absent: Holder = serde_json::from_str("{}").unwrap();
        assert_eq!(absent.input, None);
    }

    #[test]
    fn a_claim_check_survives_storage_and_refuses_to_be_json() {
        let claim = Payload::stored(PackRef { op: 7, offset: 3, len: 900 });
        let bytes = minicbor::to_vec(&claim).unwrap();
        assert_eq!(minicbor::decode::<Payload>(&bytes).unwrap(), claim);
        assert_eq!(claim.len(), 900);
        assert!(serde_json::to_string(&claim).is_err());
        assert!(claim.read::<u8>().is_err());
    }

    /// Returns a value with `levels` levels of nesting. Its strings contain brackets, which must not count.
    fn nested(levels: usize) -> String {
        let inner = r#"["[[\"[\\",{"{":[]}]"#;
        let around = levels - 3;
        format!("{}{inner}{}", r#"{"a":"#.repeat(around), "}".repeat(around))
    }

    #[test]
    fn the_nesting_depth_of_payloads_is_limited() {
        let edge = nested(limits::PAYLOAD_DEPTH_MAX);
        assert_eq!(Payload::from_json(&edge).unwrap().text(), Some(edge.as_str()));
        assert!(serde_json::from_str::<Payload>(&edge).is_ok());
        let value: serde_json::Value = serde_json::from_str(&edge).unwrap();
        assert!(Payload::of(&value).is_ok());

        let deeper = nested(limits::PAYLOAD_DEPTH_MAX + 1);
        let value: serde_json::Value = serde_json::from_str(&deeper).unwrap();
        let (parsed, read) = (Payload::from_json(&deeper), serde_json::from_str::<Payload>(&deeper));
        for refused in [parsed, read, Payload::of(&value)] {
            let error = refused.unwrap_err().to_string();
            assert!(error.starts_with("nested 65 levels deep, at most 64 are allowed"), "{error}");
        }
    }

    #[test]
    fn the_deepest_payload_is_readable_inside_a_response() {
        // In a response, the payload is nested further: inside an event, in the list of events, in a task.
        let edge = nested(limits::PAYLOAD_DEPTH_MAX);
        let answer = format!(r#"{{"next":{{"events":[{{"input":{edge}}}]}}}}"#);
        assert!(serde_json::from_str::<serde_json::Value>(&answer).is_ok());
    }

    #[test]
    fn a_stored_payload_above_the_depth_limit_stays_readable() {
        let deep = Payload::from_trusted(&nested(200));
        let bytes = minicbor::to_vec(&deep).unwrap();
        assert_eq!(minicbor::decode::<Payload>(&bytes).unwrap(), deep);
        assert_eq!(serde_json::to_string(&deep).unwrap(), nested(200));
    }

    #[test]
    fn only_numbers_that_every_reader_can_represent_are_accepted() {
        let digits = |count: usize| "9".repeat(count);
        for number in [
            "0",
            "-0.0e9999",
            "1.50",
            "1e308",
            "-1.7976931348623157e308",
            "5e-324",
            "18446744073709551616",
            &digits(308),
            &format!("0.{}1", "0".repeat(322)),
            &format!("1.{}", "0".repeat(1_098)),
        ] {
            for text in [number.to_owned(), format!(r#"{{"1e999":[true,{number}]}}"#)] {
                let payload = Payload::from_json(&text).unwrap();
                assert_eq!(payload.text(), Some(text.as_str()));
                assert!(payload.read::<serde_json::Value>().is_ok(), "{text}");
            }
        }
        for number in [
            "1e309",
            "-1e999999999",
            "1E+400",
            "1e-999999999",
            "4e-325",
            "1.7976931348623159e308",
            &digits(310),
            &format!("1.{}", "0".repeat(1_099)),
            &format!("0.{}1", "0".repeat(400)),
        ] {
            for text in [number.to_owned(), format!(r#"{{"a\"\\":["\"",{number} ]}}"#)] {
                let error = Payload::from_json(&text).unwrap_err().to_string();
                assert!(error.contains("send it as a string"), "{text}: {error}");
            }
        }
        assert!(Payload::from_json(r#"["1e999999999", "\\\"1e999"]"#).is_ok(), "a text is no number");
        assert!(
            Payload::from_json(&format!("\"1e999 {}\"", "[".repeat(1_000))).is_ok(),
            "nor has one that is all of it levels"
        );
        // Payloads accepted by an earlier version stay readable.
        assert_eq!(serde_json::to_string(&Payload::from_trusted("1e999999999")).unwrap(), "1e999999999");
    }

    #[test]
    fn text_that_is_not_json_is_refused() {
        for text in ["", "{", "nul", "1 2", "{'a':1}"] {
            assert!(Payload::from_json(text).is_err(), "{text}");
        }
    }
}
