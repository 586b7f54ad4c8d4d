//! The secrets of a credential in the configuration file, with their validity periods.

use std::fmt;

use history::Timestamp;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

/// Maximum number of secrets, signing keys and certificates of a credential, counted together. Our choice: rotation
/// needs two. With more, several programs can share a credential and have separate secrets.
pub const SECRETS_MAX: usize = 16;

/// Minimum length in characters of a secret that the configuration contains in clear text, such as a signing key. Our
/// choice: the smallest length at which random characters cannot be guessed offline (16 characters from an alphabet of
/// 64 have 96 bits). Secrets that the service creates have 43 characters, and AWS's have 40. Secrets that are stored as
/// a hash are not checked, because their length is unknown.
pub const SECRET_CHARS_MIN: usize = 16;

/// SHA-256 of the empty text. It is refused, because it is usually the hash of a variable that was not set. Source:
/// FIPS 180-4.
pub(super) const EMPTY_SHA256: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// Time between the first warning about a secret and its expiry. Our choice: every period of this length contains a
/// working day.
pub const EXPIRY_WARNING: history::Duration = history::Duration::from_days(7);

/// Bearer secret. A credential may have several.
#[derive(Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Secret {
    /// SHA-256 of the secret, in hexadecimal.
    pub sha256: String,
    /// Start of the validity; valid immediately if absent.
    pub not_before: Option<Moment>,
    /// End of the validity; valid forever if absent.
    pub expires: Option<Moment>,
}

/// SWF signing key. A credential may have several.
#[derive(Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AccessKey {
    /// Id of the key, which signatures contain.
    pub id: String,
    /// Key of signatures. It is stored in clear text, because verifying a signature requires it.
    pub secret: String,
    /// Start of the validity; valid immediately if absent.
    pub not_before: Option<Moment>,
    /// End of the validity; valid forever if absent.
    pub expires: Option<Moment>,
}

/// Timestamp in the configuration: a TOML date-time, or a string in the format of RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(pub Timestamp);

/// Error message for a value that is not a timestamp. It does not repeat the value, which may be a misplaced secret.
pub(crate) const NO_MOMENT: &str = "expected a time such as 2027-01-31T00:00:00Z";

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MomentVisitor;

        fn read<E: de::Error>(text: &str) -> Result<Moment, E> {
            text.parse().map(Moment).map_err(|_: String| E::custom(NO_MOMENT))
        }

        impl<'de> Visitor<'de> for MomentVisitor {
            type Value = Moment;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(NO_MOMENT)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
                read(text)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Moment, A::Error> {
                let found = toml::value::Datetime::deserialize(MapAccessDeserializer::new(map));
                read(&found.map_err(|_| de::Error::custom(NO_MOMENT))?.to_string())
            }
        }

        deserializer.deserialize_any(MomentVisitor)
    }
}

/// Validity period of a secret.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Validity {
    from: Option<Timestamp>,
    until: Option<Timestamp>,
}

/// Status of a correct secret at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecretStatus {
    Good,
    /// The secret is not valid before this time.
    NotYetValid(Timestamp),
    /// The secret expired at this time.
    Expired(Timestamp),
}

impl Validity {
    /// Creates a validity period.
    ///
    /// # Errors
    ///
    /// If the period is empty. The secret would then never be valid.
    pub(crate) fn read(not_before: Option<Moment>, expires: Option<Moment>) -> Result<Self, String> {
        let (from, until) = (not_before.map(|it| it.0), expires.map(|it| it.0));
        match (from, until) {
            (Some(from), Some(until)) if until <= from => {
                Err(format!("expires at {until}, which is not after its not-before, {from}"))
            }
            _ => Ok(Self { from, until }),
        }
    }

    /// Returns the end of the validity; `None` if it never ends.
    pub(crate) fn until(self) -> Option<Timestamp> {
        self.until
    }

    /// Returns this validity period, ending at `until` at the latest.
    pub(crate) fn and_until(self, until: Timestamp) -> Self {
        Self { until: Some(self.until.map_or(until, |own| own.min(until))), ..self }
    }

    pub(crate) fn at(self, now: Timestamp) -> SecretStatus {
        match (self.from, self.until) {
            (_, Some(until)) if until <= now => SecretStatus::Expired(until),
            (Some(from), _) if now < from => SecretStatus::NotYetValid(from),
            _ => SecretStatus::Good,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_toml_date_time_or_text_with_an_offset() {
        let read = |text: &str| toml::from_str::<Secret>(&format!("sha256 = 'x'\nexpires = {text}"));
        let expected = Some(Moment("2027-01-31T00:00:00Z".parse().unwrap()));
        for text in ["2027-01-31T00:00:00Z", "'2027-01-31T00:00:00Z'", "2027-01-31 01:00:00+01:00"] {
            assert_eq!(read(text).unwrap().expires, expected, "{text}");
        }
        for text in ["2027-01-31", "2027-01-31T00:00:00", "'tomorrow'", "12:00:00", "7", "['x']", "{ x = 'y' }"] {
            let said = read(text).err().unwrap().to_string();
            assert!(said.contains(NO_MOMENT), "{text}: {said}");
        }
    }

    #[test]
    fn the_hash_of_nothing_is_that_of_the_empty_text() {
        assert_eq!(EMPTY_SHA256, <[u8; 32]>::from(<sha2::Sha256 as sha2::Digest>::digest(b"")));
    }

    #[test]
    fn a_secret_is_valid_from_its_start_until_before_its_end() {
        let at = Timestamp::from_millis;
        let moment = |ms| Some(Moment(at(ms)));
        let between = Validity::read(moment(10), moment(20)).unwrap();
        assert_eq!(between.at(at(9)), SecretStatus::NotYetValid(at(10)));
        assert_eq!((between.at(at(10)), between.at(at(19))), (SecretStatus::Good, SecretStatus::Good));
        assert_eq!(between.at(at(20)), SecretStatus::Expired(at(20)));
        assert_eq!(Validity::default().at(at(u64::MAX)), SecretStatus::Good);
        assert!(Validity::read(moment(20), moment(20)).is_err());
    }
}
